"""Whether a run holds what its model says: scores the run's own tokens again, and compares.

Goes through the run some sequences at a time and keeps counts only, so that a run of any size can be audited.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count, groupby, islice

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import quoted
from toolkit.collect.differences import Differences, Tally
from toolkit.collect.progress import Progress
from toolkit.collect.steps import make_scorer
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.generation.scoring import Scorer
from toolkit.generation.watching import NO_WATCH, Watch
from toolkit.models import Model
from toolkit.records import SequenceRecord, TokenStatistics
from toolkit.store import Manifest, Run

# Nats. Rounding moves values in proportion to the type's precision: the largest differences over 42 tokens of the
# default model were 4e-5 in float32, 0.33 in float16 and 2.3 in bfloat16. Half precision gets three times that;
# float32, where nothing but the order of sums differs, has room to spare at 1e-3.
TOLERANCES = {"float32": 1e-3, "float16": 1.0, "bfloat16": 8.0}
N_WORST = 10
N_LIKELY = 32  # scored alternatives; more than are ever stored, so that near ties at the end are found
_AT_ONCE = 256  # sequences


@dataclass(frozen=True)
class WorstToken:
    """A token whose stored and scored values differ."""

    prompt_id: str
    kind: str
    sample_index: int
    token_index: int
    measure: str  # logprob, entropy, "alternative 3", the third likely token, or "watched token 330"
    stored: float  # nats
    scored: float
    difference: float


@dataclass(frozen=True)
class AuditResult:
    """How far a run's values are from those of its model."""

    n_sequences: int
    n_tokens: int
    differences: Mapping[str, Differences]  # of logprob, entropy and, where stored, alternatives and watched
    worst: tuple[WorstToken, ...]  # those that differ most, the first by most
    tolerance: float  # nats
    stored_dtype: str  # that the run was collected in
    scored_dtype: str

    @property
    def passed(self) -> bool:
        """Whether no difference is over the tolerance."""
        return all(found.largest <= self.tolerance for found in self.differences.values())


def audit(
    run: Run,
    model: Model,
    *,
    tolerance: float | None = None,
    limit: int | None = None,
    progress: Callable[[int, int], Progress] | None = None,
) -> AuditResult:
    """Score the tokens of a run again, by teacher forcing, and compare with what is stored.

    All tokens are compared, also those past a stop string: log-probability, entropy, and the log-probability of
    every stored alternative and of every watched token.

    Parameters
    ----------
    run : Run
    model : Model
        The one that the run was collected with, best in float32: see `check_same_model`.
    tolerance : float, optional
        The largest difference that passes, in nats; by default that of `tolerance_for`.
    limit : int, optional
        Audit this many sequences, the first ones in the order of the files.
    progress : callable, optional
        Makes the progress display from (sequences in all, sequences done).

    Raises
    ------
    ToolkitError
        There are no tokens to audit.
    DataFault
        A sequence has no prompt, or a token that the model has not.
    """
    comparison = _Comparison()
    scorer = make_scorer(model, N_LIKELY, _watch(run))
    with progress(_count(run, limit), 0) if progress is not None else nullcontext() as display:
        for records in _chunks(run, limit):
            prompts = _prompt_tokens(run, records)
            for record, statistics in _score(scorer, model, records, prompts):
                comparison.add(record, statistics)
                if display is not None:
                    display.update(1, len(record.token_ids))
    if not comparison.n_tokens:
        raise ToolkitError(f"{run.path}: there are no tokens to audit; collect some first")
    return AuditResult(
        comparison.n_sequences,
        comparison.n_tokens,
        comparison.differences(),
        comparison.worst(),
        tolerance_for(run.manifest.dtype, model.dtype) if tolerance is None else tolerance,
        run.manifest.dtype,
        model.dtype,
    )


def tolerance_for(*dtypes: str) -> float:
    """The largest difference that passes by default, in nats, between values computed in these types."""
    return max(TOLERANCES.get(dtype, TOLERANCES["float32"]) for dtype in dtypes)


def check_same_model(manifest: Manifest, model: Model) -> None:
    """Refuse a model that is not the one of the run.

    Raises
    ------
    ToolkitError
        Its weights or its tokenizer are others, by their hashes.
    """
    pairs = (
        ("model", manifest.model.get("weights_hash"), model.weights_hash),
        ("tokenizer", manifest.tokenizer.get("hash"), model.tokenizer_hash),
    )
    for what, stored, own in pairs:
        if stored != own:
            raise ToolkitError(
                f"model {quoted(model.name)}: the run was collected with another {what} "
                f"({stored!s:.12}, and here {own:.12}): name the run's own as {argument('model')}, "
                f"or compare all the same with {argument('force')}"
            )


class _Comparison:
    """Differences so far, and the tokens that differ most."""

    def __init__(self) -> None:
        self.n_sequences = 0
        self.n_tokens = 0
        self._tallies = {name: Tally() for name in ("logprob", "entropy", "alternatives", "watched")}
        self._worst: list[tuple[float, int, WorstToken]] = []  # a heap, the smallest difference first
        self._order = count(0, -1)  # of equal differences the first one is kept

    def add(self, record: SequenceRecord, scored: TokenStatistics) -> None:
        stored = record.statistics
        likely = same_alternatives(stored, scored)
        here = np.column_stack([stored.logprob, stored.entropy, _listed(stored), stored.watched_logprobs])
        there = np.column_stack([scored.logprob, scored.entropy, likely, same_watched(stored, scored)])
        difference = differences_of(here, there)
        self.n_sequences += 1
        self.n_tokens += len(here)
        self._tallies["logprob"].add(difference[:, 0])
        self._tallies["entropy"].add(difference[:, 1])
        self._tallies["alternatives"].add(difference[:, 2 : 2 + likely.shape[1]])
        self._tallies["watched"].add(difference[:, 2 + likely.shape[1] :])
        self._keep_worst(record, here, there, np.nan_to_num(difference, nan=0.0, posinf=np.inf))

    def differences(self) -> dict[str, Differences]:
        found = {name: tally.differences() for name, tally in self._tallies.items()}
        return {name: some for name, some in found.items() if some is not None}

    def worst(self) -> tuple[WorstToken, ...]:
        return tuple(token for _, _, token in sorted(self._worst, reverse=True))

    def _keep_worst(
        self,
        record: SequenceRecord,
        here: NDArray[np.float32],
        there: NDArray[np.float32],
        by: NDArray[np.float32],
    ) -> None:
        largest = by.max(axis=1)
        for token in np.argsort(-largest, kind="stable")[:N_WORST].tolist():
            size = float(largest[token])
            if size == 0 or (len(self._worst) == N_WORST and size <= self._worst[0][0]):
                return
            column = int(by[token].argmax())
            measure = _measure(record.statistics, column)
            values = float(here[token, column]), float(there[token, column])
            entry = size, next(self._order), WorstToken(*record.key, token, measure, *values, size)
            (heapq.heappush if len(self._worst) < N_WORST else heapq.heappushpop)(self._worst, entry)


def _measure(stored: TokenStatistics, column: int) -> str:
    """What a column of the compared values is."""
    n_alternatives = stored.alternative_ids.shape[1]
    if column < 2:
        return ("logprob", "entropy")[column]
    if column < 2 + n_alternatives:
        return f"alternative {column - 1}"
    return f"watched token {stored.watched_ids[0, column - 2 - n_alternatives]}"


def differences_of(stored: NDArray[np.float32], scored: NDArray[np.float32]) -> NDArray[np.float32]:
    """Absolute differences: NaN where nothing is stored, infinite where one of the two is, or nothing was scored."""
    with np.errstate(invalid="ignore"):  # -inf from -inf
        difference = np.abs(stored - scored)
    difference = np.where(stored == scored, np.float32(0), difference)
    difference[np.isnan(scored)] = np.inf
    difference[np.isnan(stored)] = np.nan
    return difference


def same_alternatives(stored: TokenStatistics, scored: TokenStatistics) -> NDArray[np.float32]:
    """The scored log-probability of each stored alternative, shape (n, k).

    One that is not among the scored ones is less likely than all of them: what is stored is right if it is, too,
    and else at least so far off as the last of them.
    """
    same = stored.alternative_ids[:, :, None] == scored.alternative_ids[:, None, :]
    found = np.take_along_axis(scored.alternative_logprobs, same.argmax(axis=2), axis=1)
    last = np.minimum(stored.alternative_logprobs, scored.alternative_logprobs[:, -1:])
    return np.where(same.any(axis=2), found, last)


def same_watched(stored: TokenStatistics, scored: TokenStatistics) -> NDArray[np.float32]:
    """The scored log-probability of each stored watched token, shape (n, w); NaN where it was not scored."""
    same = stored.watched_ids[:, :, None] == scored.watched_ids[:, None, :]
    if not scored.watched_ids.shape[1]:
        return np.full(stored.watched_ids.shape, np.nan, np.float32)
    found = np.take_along_axis(scored.watched_logprobs, same.argmax(axis=2), axis=1)
    return np.where(same.any(axis=2), found, np.float32(np.nan))


def _listed(stored: TokenStatistics) -> NDArray[np.float32]:
    """Stored alternatives; NaN where a position has fewer than others of its sequence."""
    return np.where(stored.alternative_ids < 0, np.float32(np.nan), stored.alternative_logprobs)


def _watch(run: Run) -> Watch:
    """The tokens that the run watched, at every position: what was not looked at is not compared."""
    for rows in run.iter_row_groups("watched", "token_id"):
        if rows.num_rows:
            return Watch(np.unique(rows["token_id"].to_numpy()), "every")
    return NO_WATCH


def _count(run: Run, limit: int | None) -> int:
    n = sum(rows.num_rows for rows in run.iter_row_groups("sequences", "sample_index"))
    return n if limit is None else min(n, limit)


def _chunks(run: Run, limit: int | None) -> Iterator[list[SequenceRecord]]:
    records = islice(run.iter_sequences(), limit)
    while chunk := list(islice(records, _AT_ONCE)):
        yield chunk


def _prompt_tokens(run: Run, records: Sequence[SequenceRecord]) -> dict[str, list[int]]:
    """Token ids of the prompts of some sequences."""
    wanted = sorted({record.prompt_id for record in records})
    found: dict[str, list[int]] = {}
    for rows in run.iter_row_groups("prompts", ["prompt_id", "token_ids"], prompts=wanted):
        found.update(zip(rows["prompt_id"].to_pylist(), rows["token_ids"].to_pylist(), strict=True))
    for prompt_id in wanted:
        if prompt_id not in found:
            raise DataFault(
                f"{run.path}: prompt {quoted(prompt_id)} of a sequence is not stored: run toolkit validate"
            )
    return found


def _score(
    scorer: Scorer, model: Model, records: Iterable[SequenceRecord], prompts: Mapping[str, list[int]]
) -> Iterator[tuple[SequenceRecord, TokenStatistics]]:
    """Each sequence that has tokens, with its tokens scored again; those of a prompt together."""
    with_tokens = (record for record in records if len(record.token_ids))
    for prompt_id, group in groupby(with_tokens, lambda record: record.prompt_id):
        own = list(group)
        ids = [record.token_ids.tolist() for record in own]
        for name, some in (
            (f"prompt {quoted(prompt_id)}", prompts[prompt_id]),
            *zip(map(_named, own), ids, strict=True),
        ):
            _check_ids(model, name, some)
        yield from zip(own, scorer.continuations(prompts[prompt_id], ids), strict=True)


def _named(record: SequenceRecord) -> str:
    prompt_id, kind, index = record.key
    return f"{kind} {index} of prompt {quoted(prompt_id)}"


def _check_ids(model: Model, name: str, token_ids: Sequence[int]) -> None:
    wrong = next((i for i in token_ids if not 0 <= i < model.vocabulary_size), None)
    if wrong is not None:
        raise DataFault(f"{name} has token id {wrong}; the model's are 0 to {model.vocabulary_size - 1}")
