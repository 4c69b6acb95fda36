"""A collection: prompts in, a run out. Goes on where an earlier one ended, and keeps what was finished.

Sequences are committed in parts as they finish. Whatever ends the loop, finished sequences are on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from toolkit.collect.continuations import TextStep
from toolkit.collect.describe import make_manifest
from toolkit.collect.interrupts import deferred
from toolkit.collect.plan import in_shard, missing_sequences, wanted_sequences
from toolkit.collect.progress import Progress
from toolkit.collect.settings import Settings
from toolkit.collect.steps import Generator, make_scorer
from toolkit.generation.plans import PromptPlan
from toolkit.generation.row_memory import SHARE
from toolkit.generation.scoring import Scorer
from toolkit.models import Model
from toolkit.records import PromptRecord, SequenceRecord
from toolkit.store import Manifest, PromptTokens, RunWriter
from toolkit.store.lock import Shard

COMMIT_SEQUENCES = 512
COMMIT_SECONDS = 30.0
COMMIT_PROMPT_TOKENS = 1 << 16


@dataclass(frozen=True)
class Work:
    """A collection that is about to begin."""

    model: Model
    settings: Settings
    prompts: Sequence[PromptRecord]  # all of the file, also those of other shards
    batch_size: int | None = None  # sequences at once; chosen if None
    shard: Shard | None = None
    prompt_file_hash: str | None = None
    prompt_logprobs: bool = False  # also store the prompts' own tokens
    processes: int = 1  # that collect on this machine, and share its memory

    def mine(self) -> list[PromptRecord]:
        """The prompts of this shard."""
        return [prompt for prompt in self.prompts if in_shard(prompt.prompt_id, self.shard)]


class Part(NamedTuple):
    """What one process collects of a work, and the part of the run's lock that it holds."""

    plans: Sequence[PromptPlan]
    lock: Shard | None


class Display(Protocol):
    """Shows how far a collection is: `Progress`, or what stands for it in another process."""

    def update(self, sequences: int = 0, tokens: int = 0) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """What a collection did."""

    n_sequences: int  # that it collected
    n_tokens: int
    n_before: int  # sequences of this work that were there already
    n_errors: int  # sequences that ended by an error
    interrupted: bool
    seconds: float


def collect(
    work: Work,
    output: str | Path,
    *,
    resume: bool = True,
    overwrite: bool = False,
    progress: Callable[[int, int], Progress] | None = None,
    on_step: Callable[[TextStep], Any] | None = None,
) -> Outcome:
    """Collect what is missing of `work` into the run at `output`.

    Parameters
    ----------
    work : what is wanted
    output : the run's folder; made if it is not there
    resume : go on with a run that is there; else it is refused
    overwrite : replace a run that is there
    progress : makes the progress display from (sequences in all, sequences done); none by default
    on_step : sees every step, to print text as it comes

    Raises
    ------
    ToolkitError
        The folder holds something else, or a run with other settings, or another process collects there.
    """
    generator = _generator(work)
    manifest = _manifest(work, generator.forward.logits_dtype)
    with open_writer(output, manifest, work.shard, resume=resume, overwrite=overwrite) as writer:
        lacking, n_before = _lacking(work, writer)
        missing = sum(len(plan.sequences) for plan in lacking)
        display = progress(n_before + missing, n_before) if progress is not None and missing else None
        _add_prompt_tokens(work, writer)
        loop = CommitLoop(generator.model, writer, display)
        return loop.collect(generator.run(lacking), n_before, on_step)


def prepare(work: Work, output: str | Path, *, resume: bool, overwrite: bool) -> tuple[list[PromptPlan], int]:
    """Make the run at `output`, with its prompts; what is missing of `work`, and how many sequences are there.

    The run's lock is given back: parts of it go to the processes that collect.
    """
    manifest = _manifest(work, _generator(work).forward.logits_dtype)
    with open_writer(output, manifest, work.shard, resume=resume, overwrite=overwrite) as writer:
        found = _lacking(work, writer)
        _add_prompt_tokens(work, writer)
    return found


def collect_part(
    work: Work,
    output: str | Path,
    part: Part,
    *,
    display: Display | None = None,
    on_step: Callable[[TextStep], Any] | None = None,
) -> Outcome:
    """Collect one part into a run that `prepare` made."""
    generator = _generator(work)
    manifest = _manifest(work, generator.forward.logits_dtype)
    with open_writer(output, manifest, part.lock, resume=True, overwrite=False) as writer:
        loop = CommitLoop(generator.model, writer, display)
        return loop.collect(generator.run(part.plans), 0, on_step)


def _generator(work: Work) -> Generator:
    return Generator(work.model, work.settings, work.batch_size, share=SHARE / work.processes)


def _lacking(work: Work, writer: RunWriter) -> tuple[list[PromptPlan], int]:
    """What is missing, and how many sequences of this work are there."""
    writer.add_prompts(work.mine())
    lacking = list(missing_sequences(work.mine(), work.settings, writer.keys))
    total = len(work.mine()) * len(wanted_sequences(work.settings))
    return lacking, total - sum(len(plan.sequences) for plan in lacking)


def _add_prompt_tokens(work: Work, writer: RunWriter) -> None:
    if work.prompt_logprobs:
        scorer = make_scorer(work.model, work.settings.top_logprobs)
        add_prompt_tokens(work.model, scorer, work.mine(), writer)


def _manifest(work: Work, logits_dtype: str) -> Manifest:
    return make_manifest(
        work.model,
        work.settings,
        {
            "n_prompts": len(work.prompts),
            "batch_size": work.batch_size,
            "processes": work.processes,
            "shard": None if work.shard is None else str(work.shard),
        },
        logits_dtype=logits_dtype,
        prompt_file_hash=work.prompt_file_hash,
        seed=work.settings.seed,
    )


@contextmanager
def open_writer(
    output: str | Path, manifest: Manifest, shard: Shard | None, *, resume: bool, overwrite: bool
) -> Iterator[RunWriter]:
    """A writer of the run at `output`: a new one, one that goes on, or one in place of what is there."""
    if resume and not overwrite:
        writer = RunWriter.resume(output, manifest, shard=shard)
    else:
        writer = RunWriter.create(output, manifest, shard=shard, overwrite=overwrite)
    with writer:
        yield writer


def add_prompt_tokens(
    model: Model, scorer: Scorer, prompts: Iterable[PromptRecord], writer: RunWriter
) -> None:
    """Store the prompts' own tokens with what the model believed of them; those of the first are null."""
    pending: list[PromptTokens] = []
    for prompt in prompts:
        if prompt.prompt_id in writer.with_prompt_tokens:
            continue
        ids = prompt.token_ids.tolist()
        pieces = model.token_bytes.pieces(ids)
        pending.append(PromptTokens(prompt.prompt_id, prompt.token_ids, pieces, scorer.prompt_tokens(ids)))
        if sum(len(tokens.pieces) for tokens in pending) >= COMMIT_PROMPT_TOKENS:
            writer.add_prompt_tokens(pending)
            pending = []
    writer.add_prompt_tokens(pending)


class Finished(Protocol):
    """What a loop hands over at a time: sequences that ended, and how many tokens are new."""

    @property
    def records(self) -> list[SequenceRecord]: ...
    @property
    def n_tokens(self) -> int: ...


class CommitLoop:
    """The loop, and what it has not committed yet.

    A thread of its own writes, one commit at a time, so that the loop does not wait for the disk.
    """

    def __init__(self, model: Model, writer: RunWriter, display: Display | None) -> None:
        self._vocabulary = _Vocabulary(model)
        self._writer = writer
        self._display = display
        self._pending: list[SequenceRecord] = []
        self._given: list[SequenceRecord] = []  # to the commit that is on its way
        self._writing: Future[Any] | None = None
        self._committed_at = time.monotonic()
        self._n_errors = 0

    def collect(
        self, steps: Iterable[Finished], n_before: int, on_step: Callable[[Any], Any] | None = None
    ) -> Outcome:
        """Go through the steps and commit what they end, whatever ends the loop."""
        began = time.monotonic()
        interrupted = False
        self._writer.restore_vocabulary(self._vocabulary)
        with ThreadPoolExecutor(1, thread_name_prefix="toolkit-commit") as thread:
            try:
                for step in steps:
                    self._take(step, thread)
                    if on_step is not None:
                        on_step(step)
            except (KeyboardInterrupt, BrokenPipeError):  # the latter: who read the streamed text has gone
                interrupted = True
            finally:
                try:
                    self._commit_the_rest()
                except KeyboardInterrupt:  # it waited for the commit
                    interrupted = True
                if self._display is not None:
                    self._display.close()
        counts = self._writer.counts
        return Outcome(
            n_sequences=counts.get("sequences", 0),
            n_tokens=counts.get("tokens", 0),
            n_before=n_before,
            n_errors=self._n_errors,
            interrupted=interrupted,
            seconds=time.monotonic() - began,
        )

    def _take(self, step: Finished, thread: ThreadPoolExecutor) -> None:
        self._pending += step.records
        self._n_errors += sum(record.finish_reason == "error" for record in step.records)
        if self._display is not None:
            self._display.update(len(step.records), step.n_tokens)
        if self._writing is not None:
            if not self._writing.done():
                return
            self._settle()
        waited = time.monotonic() - self._committed_at
        if len(self._pending) >= COMMIT_SEQUENCES or (self._pending and waited >= COMMIT_SECONDS):
            with deferred():
                self._given, self._pending = self._pending, []
                self._writing = thread.submit(self._writer.commit, self._given, self._vocabulary)
            self._committed_at = time.monotonic()

    def _settle(self) -> None:
        """Wait for the commit that is on its way, and raise what it raised: its sequences are pending again."""
        if self._writing is None:
            return
        try:
            self._writing.result()
        except BaseException:
            self._pending = self._given + self._pending
            raise
        finally:
            self._writing = None
            self._given = []

    def _commit_the_rest(self) -> None:
        with deferred():
            with suppress(Exception):  # it is tried again, and raises again if it has to
                self._settle()
            self._writer.commit(self._pending, self._vocabulary)
            self._pending = []


class _Vocabulary(dict[int, tuple[bytes | None, str, bool]]):
    """What a token id stands for, looked up when it is asked for."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._token_bytes = model.token_bytes

    def __missing__(self, token_id: int) -> tuple[bytes | None, str, bool]:
        table = self._token_bytes
        return table.piece(token_id), table.literal(token_id), table.is_special(token_id)
