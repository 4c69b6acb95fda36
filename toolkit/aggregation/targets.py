"""What is judged of each prompt, with the value of every estimator for it: the units of an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.selection import KEY
from toolkit.aggregation.units import Values
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.scale.engines import LOCAL, Engine
from toolkit.stats import Estimator, Samples, Target, get
from toolkit.stats.ranges import Floats
from toolkit.stats.samples import estimate
from toolkit.stats.votes import majority_vote
from toolkit.store.keys import Key

TargetName = Literal["greedy", "first", "each", "vote", "mean"]
TARGETS: tuple[TargetName, ...] = get_args(TargetName)
SAMPLE_KINDS = ("sample", "scored", "beam")  # what the samples of a prompt are: the first that a run has
VOTE_CONFIDENCE = "geometric_mean_prob"  # of an answer's samples, where two answers have as many votes

PROMPTS_A_TASK = 32
"""Prompts whose samples a worker compares at a time: about a tenth of a second of work."""

_NOT_DRAWN = "beam"  # the most likely sequences say nothing of how samples spread


class Units(NamedTuple):
    """n judged things with the values of estimators."""

    keys: list[Key]  # n times (prompt_id, kind, sample_index); of a mean over samples, (prompt_id, "mean", 0)
    prompts: NDArray[np.str_]  # (n,) prompt_id
    outcome: Floats  # (n,) 0 to 1; NaN where nobody can say
    values: dict[str, Floats]  # (n,) by the estimator's label, as the name says; NaN where undefined
    effective_samples: dict[str, float]  # of estimators that weigh samples: their mean effective number


def check_target(name: str | None, kinds: Sequence[str]) -> TargetName:
    """The target asked for, else greedy where a run has it, else each.

    Raises
    ------
    ToolkitError
        There is no such target, or the run has no sequence of that kind.
    """
    if name is not None and name not in TARGETS:
        raise ToolkitError(f"target: there is no {quoted(name)}: give one of {', '.join(TARGETS)}")
    if name == "greedy" and "greedy" not in kinds:
        raise ToolkitError("target: the run has no greedy sequences: give first, each, vote or mean")
    if name not in (None, "greedy") and not set(kinds) & set(SAMPLE_KINDS):
        raise ToolkitError(f"target: the run has no samples for {name}: give greedy")
    if name is None:
        return "greedy" if "greedy" in kinds else "each"
    return name


def sample_kind(kinds: Sequence[str]) -> str | None:
    """Which kind of the sequences that a run has are its samples."""
    return next((kind for kind in SAMPLE_KINDS if kind in kinds), None)


def token_estimators(estimators: Sequence[Estimator]) -> list[Estimator]:
    """The token-span estimators among these, and those that others of them or a vote need."""
    needed = [get(VOTE_CONFIDENCE)]
    for one in estimators:
        if one.level == "token-span":
            needed.append(one)
        elif isinstance(one.parameters.get("u"), str):
            needed.append(get(one.parameters["u"]))
    return list({one.label: one for one in needed if one.name != "random"}.values())


def make_units(
    values: Values,
    outcomes: Mapping[Key, float],
    estimators: Sequence[Estimator],
    target: str,
    *,
    comparison: Comparison,
    sampler: str = "",
    engine: Engine = LOCAL,
) -> Units:
    """The units of a target.

    Parameters
    ----------
    values : Values
        Of all sequences, with `token_estimators(estimators)`.
    outcomes : mapping of (prompt_id, kind, sample_index) to float
        The grades.
    estimators : sequence of Estimator
        Those of samples get all samples of the prompt; what is judged is their target.
    target : {"greedy", "first", "each", "vote", "mean"}
        The greedy sequence; the first sample; every sample; the sample that a majority of equivalent ones
        elects; or the mean of all samples, of their grades and of each value.
    comparison : Comparison
        What samples say the same, and how alike they are.
    sampler : str
        How the samples were drawn.
    engine : Engine
        What compares the samples of the prompts, some prompts at a time.

    Notes
    -----
    A majority's tie goes to the answer whose samples have the larger sum of geometric_mean_prob, then to the
    first drawn.
    """
    columns, kind = _Columns.of(values), sample_kind(list(values.rows["kind"].unique()))
    places = values.rows.groupby("prompt_id", sort=True).indices
    rows = [np.asarray(places[prompt], np.intp) for prompt in sorted(map(str, places))]
    asked = _Asked(kind, target, tuple(estimators), comparison, sampler)
    if engine.splits:
        tasks = (
            columns.part(rows[i : i + PROMPTS_A_TASK], outcomes) for i in range(0, len(rows), PROMPTS_A_TASK)
        )
        judged = list(chain.from_iterable(engine.map(asked, tasks)))
    else:
        judged = asked(_Prompts(columns, rows, outcomes))
    labels = [one.label for one in estimators if one.name != "random"]
    return Units(
        keys=[unit.key for unit in judged],
        prompts=np.array([unit.key[0] for unit in judged], dtype=np.str_),
        outcome=np.array([unit.outcome for unit in judged], dtype=np.float64),
        values={label: np.array([unit.values[label] for unit in judged], np.float64) for label in labels},
        effective_samples=_mean_sizes(judged),
    )


class _Unit(NamedTuple):
    key: Key
    outcome: float
    values: dict[str, float]
    sizes: dict[str, float]


def _mean_sizes(units: Sequence[_Unit]) -> dict[str, float]:
    labels = dict.fromkeys(label for unit in units for label in unit.sizes)
    return {label: float(np.mean([unit.sizes[label] for unit in units])) for label in labels}


class _Columns(NamedTuple):
    """The rows of all prompts as arrays: a frame takes a millisecond to be cut, and there are many prompts."""

    keys: list[Key]
    texts: list[str | None]
    kinds: NDArray[np.object_]
    numbers: dict[str, Floats]
    estimates: dict[str, Floats]

    @staticmethod
    def of(values: Values) -> _Columns:
        rows = values.rows
        return _Columns(
            list(rows[KEY].itertuples(index=False, name=None)),
            rows["text"].tolist(),
            rows["kind"].to_numpy(object),
            {
                name: rows[name].to_numpy(np.float64)
                for name in ("n_tokens", "has_end", "sum_logprob", "sum_sampling_logprob")
            },
            {str(name): column.to_numpy(np.float64) for name, column in values.estimates.items()},
        )

    def part(self, rows: Sequence[NDArray[np.intp]], outcomes: Mapping[Key, float]) -> _Prompts:
        """What a worker needs of the prompts at these rows."""
        taken = np.concatenate(rows)
        keys = [self.keys[i] for i in taken]
        columns = _Columns(
            keys,
            [self.texts[i] for i in taken],
            self.kinds[taken],
            {name: column[taken] for name, column in self.numbers.items()},
            {name: column[taken] for name, column in self.estimates.items()},
        )
        ends = np.cumsum([len(one) for one in rows])
        places = [np.arange(end - len(one), end) for one, end in zip(rows, ends, strict=True)]
        return _Prompts(columns, places, {key: outcomes[key] for key in keys if key in outcomes})


class _Prompts(NamedTuple):
    """Some prompts: their rows among the columns."""

    columns: _Columns
    rows: Sequence[NDArray[np.intp]]
    outcomes: Mapping[Key, float]


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What is asked of every prompt; called with some, it gives their units."""

    kind: str | None  # of the samples
    target: str
    estimators: Sequence[Estimator]
    comparison: Comparison
    sampler: str

    def __call__(self, prompts: _Prompts) -> list[_Unit]:
        parts = [
            _PromptUnits(prompts.columns, rows, self.kind, self.comparison, self.sampler)
            for rows in prompts.rows
        ]
        return [unit for part in parts for unit in part.units(self.target, prompts.outcomes, self.estimators)]


class _PromptUnits:
    """The sequences of one prompt, at these rows of the columns."""

    def __init__(
        self,
        columns: _Columns,
        rows: NDArray[np.intp],
        kind: str | None,
        comparison: Comparison,
        sampler: str,
    ) -> None:
        self.keys = [columns.keys[i] for i in rows]
        self.prompt = self.keys[0][0]
        self.texts = [columns.texts[i] for i in rows]
        self.estimates = {name: column[rows] for name, column in columns.estimates.items()}
        self.numbers = {name: column[rows] for name, column in columns.numbers.items()}
        self.samples = np.flatnonzero(columns.kinds[rows] == kind)
        self.greedy = np.flatnonzero(columns.kinds[rows] == "greedy")
        self.drawn = kind != _NOT_DRAWN
        self._comparison, self._sampler = comparison, sampler
        self._shared: dict[str, tuple[float, float]] = {}

    def units(
        self,
        target: str,
        outcomes: Mapping[Key, float],
        estimators: Sequence[Estimator],
    ) -> list[_Unit]:
        if target == "mean":
            return self._mean([self._unit(row, outcomes, estimators) for row in self.samples])
        return [self._unit(row, outcomes, estimators) for row in self._judged(target)]

    def _judged(self, target: str) -> NDArray[np.intp]:
        """Rows of the sequences that are judged."""
        if target == "greedy":
            return self.greedy
        if target == "each":
            return self.samples
        if target == "first":
            return self.samples[:1]
        vote = majority_vote(
            self._classes[: len(self.samples)], self.estimates[VOTE_CONFIDENCE][self.samples]
        )
        # Where no sample has an answer, the first is as wrong as any.
        return self.samples[max(vote.sample, 0) :][:1]

    def _unit(
        self,
        row: int | np.intp,
        outcomes: Mapping[Key, float],
        estimators: Sequence[Estimator],
    ) -> _Unit:
        found, sizes = {}, {}
        samples: Samples | None = None
        for one in estimators:
            if one.level == "token-span":
                if one.name != "random":
                    found[one.label] = self.estimates[one.label][row]
                continue
            samples = samples or self._with_target(row)
            found[one.label], size = self._estimate(one, samples)
            if one.parameters.get("weights") == "importance":
                sizes[one.label] = size
        return _Unit(self.keys[row], outcomes.get(self.keys[row], np.nan), found, sizes)

    def _estimate(self, one: Estimator, samples: Samples) -> tuple[float, float]:
        if len(self.samples) == 0 or not self.drawn:
            return np.nan, 0.0
        if "target" in one.inputs:
            return self._value(one, samples)
        if one.label not in self._shared:
            self._shared[one.label] = self._value(one, samples)
        return self._shared[one.label]

    def _value(self, one: Estimator, samples: Samples) -> tuple[float, float]:
        found = estimate(one, samples)
        return found.value, found.effective_sample_size

    def _mean(self, units: Sequence[_Unit]) -> list[_Unit]:
        """One unit: means over the samples where each is defined."""
        if not units:
            return []
        labels = units[0].values
        values = {label: _mean_of([unit.values[label] for unit in units]) for label in labels}
        return [
            _Unit(
                (self.prompt, "mean", 0), _mean_of([unit.outcome for unit in units]), values, units[0].sizes
            )
        ]

    def _with_target(self, row: int | np.intp) -> Samples:
        """The samples, and the sequence at a row as what is judged: one of them, or another."""
        place = np.flatnonzero(self.samples == row)
        index = int(place[0]) if place.size else None
        at = index if index is not None else len(self.samples)
        target = Target(
            class_id=int(self._classes[at]),
            similarity=self._matrix[at, : len(self.samples)],
            sum_logprob=float(self.numbers["sum_logprob"][row]),
            n_tokens=float(self.numbers["n_tokens"][row]),
            values={label: float(column[row]) for label, column in self.estimates.items()},
            index=index,
        )
        return dataclasses.replace(self._all, target=target)

    @cached_property
    def _compared(self) -> tuple[list[str | None], list[Key]]:
        """Texts and keys of the samples, then of the greedy sequence."""
        rows = [*self.samples, *self.greedy]
        return [self.texts[i] for i in rows], [self.keys[i] for i in rows]

    @cached_property
    def _classes(self) -> NDArray[np.int64]:
        return self._comparison.classes(*self._compared)

    @cached_property
    def _matrix(self) -> Floats:
        return self._comparison.matrix(*self._compared)

    @cached_property
    def _all(self) -> Samples:
        k = len(self.samples)
        numbers = {name: column[self.samples] for name, column in self.numbers.items()}
        return Samples(
            texts=[self.texts[i] or "" for i in self.samples],
            sum_logprob=numbers["sum_logprob"],
            n_tokens=numbers["n_tokens"],
            has_end=numbers["has_end"].astype(bool),
            sum_sampling_logprob=numbers["sum_sampling_logprob"],
            classes=self._classes[:k],
            similarity=self._matrix[:k, :k],
            sampler=self._sampler,
        )


def _mean_of(values: Sequence[float]) -> float:
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else np.nan
