"""Units that were judged, gathered by equal confidence: what every metric of evaluation is computed from.

A unit is whatever was judged right or wrong: an answer, a sample, a span. Metrics of ranking, of selective
prediction and of calibration need nothing but how many units have each confidence, and how many of them are
right. Here these counts have a leading axis of resamples, so that one call gives a metric of the units
themselves (one row) or of a thousand bootstrap resamples (a thousand rows).

Units of equal confidence form one block. No metric depends on the order of units inside a block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """The units that can be evaluated, and how many could not be.

    Attributes
    ----------
    confidence, outcome : (n,) float64
        Of the units where both are there. Higher confidence means more confident. -inf and inf are kept.
    kept : (N,) bool
        Which of the N units given these are.
    n_undefined : int
        Graded units whose confidence is NaN: the estimator had nothing to compute from.
    n_ungraded : int
        Units whose outcome is NaN: nobody can say whether they are right.
    """

    confidence: Floats
    outcome: Floats
    kept: NDArray[np.bool_]
    n_undefined: int
    n_ungraded: int

    @property
    def n(self) -> int:
        return len(self.confidence)


def judge(confidence: ArrayLike, outcome: ArrayLike, *, name: str = "correct") -> Judged:
    """Pair confidences with outcomes; units where either is NaN (or None) are dropped and counted.

    Parameters
    ----------
    confidence : (N,) array_like
    outcome : (N,) array_like
        0 and 1 or booleans, or a graded quality.
    name : str
        What messages call `outcome`.

    Raises
    ------
    ToolkitError
        If the two are not one-dimensional and of one length, or an outcome is infinite.
    """
    values, judgements = vector(confidence, "confidence"), vector(outcome, name)
    if len(values) != len(judgements):
        raise ToolkitError(
            f"confidence has {len(values)} values and {name} has {len(judgements)}: give one of each a unit"
        )
    if np.isinf(judgements).any():
        raise ToolkitError(f"{name} holds {judgements[np.isinf(judgements)][0]}: only finite values and NaN")
    graded = ~np.isnan(judgements)
    kept = graded & ~np.isnan(values)
    return Judged(
        confidence=values[kept],
        outcome=judgements[kept],
        kept=kept,
        n_undefined=int(graded.sum() - kept.sum()),
        n_ungraded=int((~graded).sum()),
    )


def vector(values: ArrayLike, name: str) -> Floats:
    """`values` as a one-dimensional float64 array, None as NaN.

    Raises
    ------
    ToolkitError
        If they are not numbers, or not one-dimensional.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ToolkitError(f"{name} holds something that is not a number: {error}") from None
    if array.ndim != 1:
        raise ToolkitError(f"{name} has shape {array.shape}: give one value a unit, shape (n,)")
    return array


def require_binary(judged: Judged, name: str = "correct") -> Judged:
    """The same units, if each outcome is 0 or 1.

    Raises
    ------
    ToolkitError
        If one is not.
    """
    other = judged.outcome[(judged.outcome != 0) & (judged.outcome != 1)]
    if other.size:
        raise ToolkitError(
            f"{name} holds {other[0]:g}: give 0 or 1; cut a graded quality at a threshold first"
        )
    return judged


def require_quality(judged: Judged, name: str = "quality") -> Judged:
    """The same units, if each outcome is in [0, 1], so that 1 − outcome is a risk.

    Raises
    ------
    ToolkitError
        If one is not.
    """
    outside = judged.outcome[(judged.outcome < 0) | (judged.outcome > 1)]
    if outside.size:
        raise ToolkitError(f"{name} holds {outside[0]:g}: risk is 1 − {name}, so give values in [0, 1]")
    return judged


def require_probability(judged: Judged) -> Judged:
    """The same units, if each confidence is in [0, 1].

    Raises
    ------
    ToolkitError
        If one is not.
    """
    outside = judged.confidence[(judged.confidence < 0) | (judged.confidence > 1)]
    if outside.size:
        raise ToolkitError(
            f"confidence holds {outside[0]:g}: give probabilities in [0, 1], or recalibrate first"
        )
    return judged


@dataclass(frozen=True)
class Blocks:
    """n units, most confident first, with the m blocks of equal confidence that they form."""

    order: NDArray[np.intp]  # (n,) unit at each place
    starts: NDArray[np.intp]  # (m,) place where each block begins
    confidence: Floats  # (m,) falling
    outcome: Floats  # (n,) of the units as they were given

    @staticmethod
    def of(confidence: Floats, outcome: Floats) -> Blocks:
        """Sort (n,) units by falling confidence; infinities take part, NaN must be gone."""
        order = np.argsort(-confidence, kind="stable")
        ranked = confidence[order]
        starts = (
            np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.empty(0, np.intp)
        )
        return Blocks(order, starts, ranked[starts], outcome)

    @cached_property
    def ranked_outcome(self) -> Floats:
        return self.outcome[self.order]

    @cached_property
    def oracle(self) -> Blocks:
        """The same units ranked by their outcomes: no confidence can do better."""
        return Blocks.of(self.outcome, self.outcome)

    def tally(self, counts: NDArray[np.integer] | Floats | None = None) -> Tally:
        """Count the units of each block.

        Parameters
        ----------
        counts : (b, n) array, optional
            How often each unit is taken in each of b resamples; once each by default (b = 1).
        """
        if counts is None:
            counts = np.ones((1, len(self.order)))
        return Tally(self, np.asarray(counts))


@dataclass(frozen=True)
class Tally:
    """How often each block is taken in each of b resamples, and what of it is good.

    Columns are the m blocks, most confident first; float64, whole numbers where they count.
    """

    blocks: Blocks
    counts: NDArray[np.integer] | Floats  # (b, n)

    @cached_property
    def _ranked_counts(self) -> Floats:
        return np.take(self.counts, self.blocks.order, axis=1).astype(np.float64, copy=False)

    @cached_property
    def taken(self) -> Floats:
        """(b, m) units of a block."""
        return self._by_block(self._ranked_counts)

    @cached_property
    def good(self) -> Floats:
        """(b, m) sum of the outcomes of a block: its right ones, where outcomes are 0 and 1."""
        return self._by_block(self._ranked_counts * self.blocks.ranked_outcome)

    @cached_property
    def taken_to(self) -> Floats:
        """(b, m) units up to and with a block."""
        return np.cumsum(self.taken, axis=1)

    @cached_property
    def good_to(self) -> Floats:
        """(b, m) sum of the outcomes up to and with a block."""
        return np.cumsum(self.good, axis=1)

    @cached_property
    def n(self) -> Floats:
        """(b,) units."""
        return self.taken.sum(axis=1)

    @cached_property
    def total(self) -> Floats:
        """(b,) sum of all outcomes."""
        return self.good.sum(axis=1)

    @cached_property
    def mean(self) -> Floats:
        """(b,) mean outcome; NaN without units."""
        return ratio(self.total, self.n)

    @cached_property
    def oracle(self) -> Tally:
        """The same resamples, ranked by outcome."""
        return self.blocks.oracle.tally(self.counts)

    def prefix_mean_sum(self, last: Floats | None = None) -> Floats:
        """Sum of the mean outcomes of the k most confident units, over all k or the `last` (b,) ones: (b,).

        A tied unit has the mean outcome of its block. A block of mean outcome q that takes the places c+1..d
        adds q + (Q − c·q)/k for each k of them, with Q the sum before it; sums of 1/k are differences of
        harmonic numbers.
        """
        if last is None:
            return self._prefix_mean_sum
        start = np.minimum(self._place, (self.n - last).astype(np.intp)[:, None])
        return self._prefix_mean_sum - self._prefixes_until(start)

    @cached_property
    def _place(self) -> NDArray[np.intp]:
        return self.taken_to.astype(np.intp)

    @cached_property
    def _prefix_mean_sum(self) -> Floats:
        return self._prefixes_until(self._place)

    @cached_property
    def _prefix_parts(self) -> tuple[NDArray[np.intp], Floats, Floats, Floats]:
        """Of each block: units before, mean outcome, what those before have above that mean. And 1/1 + .. 1/k."""
        before = self._place - self.taken.astype(np.intp)
        quality = self.good / np.maximum(self.taken, 1)
        surplus = self.good_to - self.good - before * quality
        harmonic = np.r_[0.0, np.cumsum(1 / np.arange(1, int(self.n.max()) + 1))]
        return before, quality, surplus, harmonic

    def _prefixes_until(self, stop: NDArray[np.intp]) -> Floats:
        """Sum of the prefix means of each block up to place `stop` (b, m) inside it: (b,)."""
        before, quality, surplus, harmonic = self._prefix_parts
        stop = np.maximum(stop, before)
        places = np.einsum("ij,ij->i", stop - before, quality)
        return places + np.einsum("ij,ij->i", surplus, harmonic[stop] - harmonic[before])

    def _by_block(self, ranked: Floats) -> Floats:
        if len(self.blocks.starts) == ranked.shape[1]:
            return ranked
        return np.add.reduceat(ranked, self.blocks.starts, axis=1)


RowMetric = Callable[[Tally], Floats]  # a metric of each resample, (b,)


def ratio(above: Floats, below: Floats) -> Floats:
    """above / below, NaN where below is 0."""
    out = np.full(np.broadcast(above, below).shape, np.nan)
    return np.divide(above, below, out=out, where=below != 0)


def of_units(metric: RowMetric, judged: Judged) -> float:
    """A metric of the units themselves; NaN where there are none."""
    if judged.n == 0:
        return float("nan")
    return float(metric(Blocks.of(judged.confidence, judged.outcome).tally())[0])
