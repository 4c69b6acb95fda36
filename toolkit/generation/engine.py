"""The loop: prompts as token ids in, sequences of token ids and statistics out. Knows nothing of text or files.

A prompt is prefilled once; its sequences continue it side by side in a running batch with those of other
prompts. A row that ends is replaced by a waiting sequence, so that the batch stays full.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.generation.buffer import TokenBuffer
from toolkit.generation.plans import PromptPlan
from toolkit.generation.processing import NoProcessing, Processing
from toolkit.generation.randomness import uniforms
from toolkit.generation.row_limits import FixedRows, RowLimit
from toolkit.generation.sampling import Sampler
from toolkit.generation.watching import NO_WATCH, Watch
from toolkit.records import FinishReason, Kind, TokenStatistics

NOT_FINITE = "the model's logits are not finite"
NOT_FINITE_OR_FORBIDDEN = "the model's logits are not finite, or the constraint allows no token"


class FinishedSequence(NamedTuple):
    """A sequence that has ended."""

    prompt_id: str
    kind: Kind
    sample_index: int
    token_ids: NDArray[np.int32]  # (n,), the end token included
    statistics: TokenStatistics  # of n tokens
    has_end: bool
    finish_reason: FinishReason
    stop_reason: str | None  # what the watcher or the error said
    beam_score: float | None = None


@dataclass(eq=False)
class ActiveSequence:
    """A sequence that is being generated."""

    prompt_id: str
    kind: Kind
    sample_index: int
    prompt_length: int
    uniforms: NDArray[np.float64]
    slot: int
    state: Any = None  # of the processing
    n: int = 0  # tokens so far
    last: int = -1  # the last token's id
    finish_reason: FinishReason | None = None
    stop_reason: str | None = None
    has_end: bool = False


class Step(NamedTuple):
    """One more token of some sequences."""

    sequences: list[ActiveSequence]  # m of them
    token_ids: NDArray[np.int32]  # (m,)
    statistics: TokenStatistics  # of m tokens
    finished: list[FinishedSequence]  # those of them that ended with this token


class Limits(NamedTuple):
    """When a sequence ends, besides what a watcher says."""

    max_tokens: int
    end_ids: frozenset[int]
    context_length: int | None = None


class Batch(Protocol):
    """Rows with caches: `SharedPrefixBatch` or `LibraryBatch`."""

    def __len__(self) -> int: ...
    def prefill(self, token_ids: Sequence[int]) -> tuple[Any, Any]: ...
    def admit(self, prompts: Sequence[Any]) -> None: ...
    def replace(self, rows: Sequence[int], prompts: Sequence[Any]) -> None: ...
    def select(self, rows: Sequence[int]) -> None: ...
    def step(self, token_ids: Sequence[int]) -> Any: ...
    def read(self, prompt: Any, token_ids: Sequence[int], chunk: int) -> Iterator[Any]: ...
    def repeat(self, logits: Any, n: int) -> Any: ...
    def take(self, logits: Any, rows: NDArray[np.intp]) -> Any: ...
    def logprobs(self, logits: Any, changed: Any) -> NDArray[np.float64]: ...
    def choose(self, logits: Any, chooser: Any, greedy: NDArray[np.bool_]) -> NDArray[np.int32]: ...


Drawn = tuple[NDArray[np.int32], TokenStatistics]


class Statistics(Protocol):
    """Draws a token a row and describes what the model believed; NumPy's or MLX's implementation.

    Gives token ids (rows,), -1 where a row's logits are not finite, and statistics of as many tokens.
    """

    def __call__(
        self, logits: Any, uniforms: NDArray[np.float64], greedy_rows: NDArray[np.bool_], **given: Any
    ) -> Drawn: ...


# A user's own sampler, as MLX-LM's: log-probabilities (rows, vocabulary) in, token ids (rows,) out.
Chooser = Callable[[Any], Any]
# Rows to stop, by their place in the step, and why; called once a step, in order.
Watcher = Callable[[Sequence[ActiveSequence], NDArray[np.int32]], Mapping[int, str]]


class _Waiting:
    """The sequences that have not begun, a prompt at a time; prefills a prompt when its turn comes."""

    def __init__(self, plans: Iterable[PromptPlan], batch: Batch) -> None:
        self._plans = iter(plans)
        self._batch = batch
        self._plan: PromptPlan | None = None
        self._left: deque[tuple[Kind, int]] = deque()
        self._prompt: tuple[Any, Any] | None = None

    def take(self, most: int) -> tuple[PromptPlan, list[tuple[Kind, int]], Any, Any] | None:
        """Up to `most` sequences of one prompt, with its caches and first logits; None when all have begun."""
        while not self._left:
            self._plan = next(self._plans, None)
            if self._plan is None:
                return None
            self._left = deque(self._plan.sequences)
            self._prompt = None
        assert self._plan is not None
        if self._prompt is None:
            self._prompt = self._batch.prefill(self._plan.token_ids)
        taken = [self._left.popleft() for _ in range(min(most, len(self._left)))]
        return self._plan, taken, *self._prompt


class Engine:
    """Generates the sequences of many prompts in one running batch.

    Parameters
    ----------
    batch : the caches; its `slots` rows at most run at once
    statistics : draws and describes the tokens
    sampler : how tokens are drawn in sequences that are not greedy
    limits : when a sequence ends
    seed : of the run; a sequence's numbers follow from it, the prompt's id and the sample's index alone
    slots : rows at once, or what decides it from the time that steps take
    watcher : looks at every step and may stop rows
    processing : changes logits before a token is chosen
    chooser : takes the sampler's place in sequences that are not greedy; how likely it was to choose a token
        is not known, so there is no sampling log-probability
    watch : tokens that are described however unlikely they are
    """

    def __init__(
        self,
        batch: Batch,
        statistics: Statistics,
        sampler: Sampler,
        limits: Limits,
        *,
        seed: int,
        slots: int | RowLimit,
        watcher: Watcher | None = None,
        processing: Processing | None = None,
        chooser: Chooser | None = None,
        watch: Watch = NO_WATCH,
    ) -> None:
        self._batch = batch
        self._statistics = statistics
        self._greedy = sampler.temperature == 0
        self._limits = limits
        self._seed = seed
        self._limit = FixedRows(slots) if isinstance(slots, int) else slots
        self._watcher = watcher
        self._processing = processing or NoProcessing()
        self._chooser = chooser
        self._watch = watch
        # Masked logits can be all -inf, which looks the same as a model's that are not finite.
        self._no_token = NOT_FINITE if processing is None else NOT_FINITE_OR_FORBIDDEN
        self._buffer = TokenBuffer(self._limit.most)
        self._free = list(range(self._limit.most - 1, -1, -1))
        self._rows: list[ActiveSequence] = []  # as in the batch

    def run(self, plans: Iterable[PromptPlan]) -> Iterator[Step]:
        """Generate; a step has one token of each of its sequences."""
        waiting = _Waiting(plans, self._batch)
        yield from self._fill(waiting)
        while self._rows:
            start = time.perf_counter()
            logits = self._batch.step([sequence.last for sequence in self._rows])
            step = self._advance(self._rows, logits)
            self._limit.observe(len(self._rows), time.perf_counter() - start)
            yield step
            yield from self._fill(waiting)

    def _fill(self, waiting: _Waiting) -> Iterator[Step]:
        """Let waiting sequences take the rows that have ended; close up what stays empty."""
        joined: list[tuple[ActiveSequence, Any]] = []
        running = sum(sequence.finish_reason is None for sequence in self._rows)
        while (room := self._limit.now - running - len(joined)) > 0:
            taken = waiting.take(room)
            if taken is None:
                break
            plan, members, prompt, logits = taken
            new = [self._begin(plan, kind, index) for kind, index in members]
            yield self._advance(new, self._batch.repeat(logits, len(new)))
            joined += [(sequence, prompt) for sequence in new if sequence.finish_reason is None]
        self._place(joined)

    def _begin(self, plan: PromptPlan, kind: Kind, index: int) -> ActiveSequence:
        numbers = uniforms(self._seed, plan.prompt_id, index, self._limits.max_tokens)
        state = self._processing.begin(plan.token_ids)
        return ActiveSequence(
            plan.prompt_id, kind, index, len(plan.token_ids), numbers, self._free.pop(), state
        )

    def _place(self, joined: list[tuple[ActiveSequence, Any]]) -> None:
        """Give the batch's ended rows to `joined`, then append or close up."""
        ended = [row for row, sequence in enumerate(self._rows) if sequence.finish_reason is not None]
        replaced = ended[: len(joined)]
        if replaced:
            self._batch.replace(replaced, [prompt for _, prompt in joined[: len(replaced)]])
            for row, (sequence, _) in zip(replaced, joined, strict=False):
                self._rows[row] = sequence
        if len(joined) > len(replaced):
            self._batch.admit([prompt for _, prompt in joined[len(replaced) :]])
            self._rows += [sequence for sequence, _ in joined[len(replaced) :]]
        if empty := set(ended[len(replaced) :]):
            order = _closed_up(len(self._rows), empty)
            self._batch.select(order)
            self._rows = [self._rows[row] for row in order]

    def _advance(self, sequences: list[ActiveSequence], logits: Any) -> Step:
        """Draw a token for each sequence, record it, and see which have ended."""
        numbers = np.array([sequence.uniforms[sequence.n] for sequence in sequences])
        greedy = np.array([self._greedy or sequence.kind == "greedy" for sequence in sequences])
        token_ids, statistics = self._draw(sequences, logits, numbers, greedy)
        slots = np.array([sequence.slot for sequence in sequences], np.intp)
        positions = np.array([sequence.n for sequence in sequences], np.intp)
        self._buffer.write(slots, positions, token_ids, statistics)
        for sequence, token_id in zip(sequences, token_ids.tolist(), strict=True):
            sequence.n += 1
            sequence.last = token_id
            self._finish_by_itself(sequence)
            if sequence.finish_reason is None:
                sequence.state = self._processing.follow(sequence.state, token_id)
        if self._watcher is not None:
            self._finish_by_watcher(sequences, token_ids)
        finished = [self._end(sequence) for sequence in sequences if sequence.finish_reason is not None]
        return Step(list(sequences), token_ids, statistics, finished)

    def _draw(
        self,
        sequences: list[ActiveSequence],
        logits: Any,
        numbers: NDArray[np.float64],
        greedy: NDArray[np.bool_],
    ) -> Drawn:
        # The sequences of a step are all at their first token, or none of them is.
        given = self._watch.given(sequences[0].n)
        changed = self._processing.apply([sequence.state for sequence in sequences], logits)
        if changed is not None:
            given["constrained_logits"] = changed
        if self._chooser is not None:
            given["forced_ids"] = self._batch.choose(
                logits if changed is None else changed, self._chooser, greedy
            )
        token_ids, statistics = self._statistics(logits, numbers, greedy, **given)
        return token_ids, self._watch.fill(statistics)

    def _finish_by_itself(self, sequence: ActiveSequence) -> None:
        context = self._limits.context_length
        if sequence.last < 0:
            sequence.finish_reason, sequence.stop_reason = "error", self._no_token
        elif sequence.last in self._limits.end_ids:
            sequence.has_end = True
            sequence.finish_reason = "stop"
        elif sequence.n >= self._limits.max_tokens:
            sequence.finish_reason = "length"
        elif context is not None and sequence.prompt_length + sequence.n >= context:
            sequence.finish_reason = "context"

    def _finish_by_watcher(self, sequences: list[ActiveSequence], token_ids: NDArray[np.int32]) -> None:
        assert self._watcher is not None
        for row, reason in self._watcher(sequences, token_ids).items():
            if sequences[row].finish_reason != "error":
                sequences[row].finish_reason = "stop"
                sequences[row].stop_reason = reason

    def _end(self, sequence: ActiveSequence) -> FinishedSequence:
        assert sequence.finish_reason is not None
        # From logits that are not finite no token was drawn.
        kept = sequence.n - 1 if sequence.finish_reason == "error" else sequence.n
        token_ids, statistics = self._buffer.read(sequence.slot, kept)
        self._free.append(sequence.slot)
        return FinishedSequence(
            sequence.prompt_id,
            sequence.kind,
            sequence.sample_index,
            token_ids,
            statistics,
            sequence.has_end,
            sequence.finish_reason,
            sequence.stop_reason,
        )


def _closed_up(n: int, empty: set[int]) -> list[int]:
    """Rows 0..n-1 without the empty ones, the last ones moved into the gaps."""
    kept = n - len(empty)
    movable = iter([row for row in range(kept, n) if row not in empty])
    return [next(movable) if row in empty else row for row in range(kept)]
