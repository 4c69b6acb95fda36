"""Does 0.8 mean right in 80 of 100: gaps between confidence and accuracy, and scores of probabilities.

Every confidence here is a probability in [0, 1]; another one is an error, since a binned gap of a
log-probability means nothing. Outcomes are 0 and 1. NaN units are left out. Lower is better for every value
of this module.

Binning is always named. `equal_width`: bins [i/b, (i+1)/b), the last one closed, so that 1.0 counts.
`equal_mass`: the sorted units in b parts; units of equal confidence stay together, in the part where the
middle of their block falls, so that parts may differ in size and be empty. Empty bins have no weight.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.tally import (
    Blocks,
    Floats,
    Judged,
    Tally,
    judge,
    of_units,
    ratio,
    require_binary,
    require_probability,
)

Binning = Literal["equal_width", "equal_mass"]
BINNINGS: tuple[Binning, ...] = get_args(Binning)
LOG_LOSS_CLIP = 1e-15


def ece(
    confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10, binning: Binning = "equal_width"
) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy, bins weighted by their units.

    Parameters
    ----------
    confidence : (n,) array_like
        Probabilities in [0, 1].
    correct : (n,) array_like of 0 and 1
    bins : int
        At least 1. The value depends on it.
    binning : {"equal_width", "equal_mass"}

    Returns
    -------
    float
        In [0, 1]; NaN without units.

    Raises
    ------
    ToolkitError
        If lengths differ, a confidence is outside [0, 1], `correct` is not binary, or the bins are not
        possible.

    Notes
    -----
    Guo et al. 2017, arXiv 1706.04599, whose bins, like scikit-learn's, are closed above: a confidence on an
    edge falls one bin lower there. Old releases of torchmetrics left 1.0 out.
    """
    return of_units(
        lambda tally: ece_rows(tally, bins, binning), _probabilities(confidence, correct, bins, binning)
    )


def mce(
    confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10, binning: Binning = "equal_width"
) -> float:
    """Maximum calibration error: the largest gap of a bin that has units.

    Parameters, range and errors are those of `ece`. Guo et al. 2017, arXiv 1706.04599.
    """
    return of_units(
        lambda tally: mce_rows(tally, bins, binning), _probabilities(confidence, correct, bins, binning)
    )


def rmsce(
    confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10, binning: Binning = "equal_width"
) -> float:
    """Root of the mean squared gap, bins weighted by their units.

    Parameters, range and errors are those of `ece`. torchmetrics' norm "l2", without its debiasing.
    Kumar et al. 2019, arXiv 1909.10155.
    """
    return of_units(
        lambda tally: rmsce_rows(tally, bins, binning), _probabilities(confidence, correct, bins, binning)
    )


def adaptive_ece(confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10) -> float:
    """`ece` over equal-mass bins. Nixon et al. 2019, arXiv 1904.01685."""
    return ece(confidence, correct, bins=bins, binning="equal_mass")


def brier(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Brier score: the mean squared difference between confidence and outcome.

    Parameters and errors are those of `ece`.

    Returns
    -------
    float
        In [0, 1]; 0.25 for a constant 0.5. NaN without units.

    Notes
    -----
    The binary form, scikit-learn's `brier_score_loss`; the sum over both classes is twice this. Brier 1950.
    """
    return of_units(brier_rows, _probabilities(confidence, correct))


class LogLoss(NamedTuple):
    """The log loss, and how many probabilities had to be clipped for it to be finite."""

    value: float
    n_clipped: int


def log_loss(confidence: ArrayLike, correct: ArrayLike) -> LogLoss:
    """Mean of −ln of the probability given to what happened, in nats.

    Parameters and errors are those of `ece`.

    Returns
    -------
    LogLoss
        value in [0, 34.54]; NaN without units. Probabilities are clipped to [1e-15, 1 − 1e-15], and those
        that this changed are counted: one wrong unit of confidence 1 adds 34.5 / n.

    Notes
    -----
    scikit-learn's `log_loss` now clips at the float's epsilon, 2.2e-16; earlier at 1e-15.
    """
    judged = _probabilities(confidence, correct)
    clipped = np.clip(judged.confidence, LOG_LOSS_CLIP, 1 - LOG_LOSS_CLIP) != judged.confidence
    return LogLoss(of_units(log_loss_rows, judged), int(clipped.sum()))


class ReliabilityCurve(NamedTuple):
    """The k bins that have units, lowest confidence first; arrays of shape (k,)."""

    lower: Floats  # equal_width: the bin's edges; equal_mass: the least and the largest confidence in it
    upper: Floats
    n: NDArray[np.int64]
    mean_confidence: Floats
    accuracy: Floats
    low: Floats  # Wilson's interval of the accuracy
    high: Floats


def reliability_curve(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    bins: int = 10,
    binning: Binning = "equal_width",
    level: float = 0.95,
) -> ReliabilityCurve:
    """Accuracy against mean confidence in bins, with intervals.

    Parameters
    ----------
    confidence, correct, bins, binning
        As in `ece`.
    level : float
        Of the intervals, in (0, 1). They take units for independent: too narrow where several samples of a
        prompt are judged.

    Returns
    -------
    ReliabilityCurve
        Empty arrays without units.

    Raises
    ------
    ToolkitError
        As `ece` does, or if `level` is outside (0, 1).

    Notes
    -----
    scikit-learn's `calibration_curve` gives means only, and its bins are closed above. Wilson 1927; Brown,
    Cai & DasGupta 2001, doi:10.1214/ss/1009213286.
    """
    judged = _probabilities(confidence, correct, bins, binning)
    if judged.n == 0:
        return ReliabilityCurve(
            *(np.empty(0, np.int64 if f == "n" else None) for f in ReliabilityCurve._fields)
        )
    tally = Blocks.of(judged.confidence, judged.outcome).tally()
    units, right, certainty = (sums[0] for sums in _bin_sums(tally, bins, binning))
    some = units > 0
    lower, upper = _bin_edges(tally, bins, binning)
    low, high = wilson_interval(right[some], units[some], level)
    return ReliabilityCurve(
        lower[some],
        upper[some],
        units[some].astype(np.int64),
        certainty[some] / units[some],
        right[some] / units[some],
        low,
        high,
    )


def wilson_interval(right: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Wilson's score interval of a share, for `right` out of `n` (at least 1) independent units.

    Raises
    ------
    ToolkitError
        If `level` is outside (0, 1).
    """
    if not 0 < level < 1:
        raise ToolkitError(f"level is {level}: give a share between 0 and 1, as 0.95")
    hits, units = np.asarray(right, dtype=np.float64), np.asarray(n, dtype=np.float64)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (hits + z**2 / 2) / (units + z**2)
    half = z / (units + z**2) * np.sqrt(hits * (units - hits) / units + z**2 / 4)
    return np.maximum(middle - half, 0), np.minimum(middle + half, 1)


def ece_rows(tally: Tally, bins: int = 10, binning: Binning = "equal_width") -> Floats:
    """`ece` of each resample of a tally of binary outcomes: (b,). Equal-mass bins are made anew in each."""
    _, right, certainty = _bin_sums(tally, bins, binning)
    return ratio(np.abs(certainty - right).sum(axis=1), tally.n)


def adaptive_ece_rows(tally: Tally, bins: int = 10) -> Floats:
    """`adaptive_ece` of each resample: (b,)."""
    return ece_rows(tally, bins, "equal_mass")


def mce_rows(tally: Tally, bins: int = 10, binning: Binning = "equal_width") -> Floats:
    """`mce` of each resample: (b,)."""
    units, right, certainty = _bin_sums(tally, bins, binning)
    gaps = np.abs(certainty - right) / np.maximum(units, 1)
    return np.where(tally.n > 0, gaps.max(axis=1), np.nan)


def rmsce_rows(tally: Tally, bins: int = 10, binning: Binning = "equal_width") -> Floats:
    """`rmsce` of each resample: (b,)."""
    units, right, certainty = _bin_sums(tally, bins, binning)
    return np.sqrt(ratio(((certainty - right) ** 2 / np.maximum(units, 1)).sum(axis=1), tally.n))


def brier_rows(tally: Tally) -> Floats:
    """`brier` of each resample: (b,)."""
    p = tally.blocks.confidence
    return ratio(tally.good @ (1 - p) ** 2 + (tally.taken - tally.good) @ p**2, tally.n)


def log_loss_rows(tally: Tally) -> Floats:
    """The value of `log_loss` of each resample: (b,)."""
    p = np.clip(tally.blocks.confidence, LOG_LOSS_CLIP, 1 - LOG_LOSS_CLIP)
    return -ratio(tally.good @ np.log(p) + (tally.taken - tally.good) @ np.log1p(-p), tally.n)


def width_bins(confidence: Floats, bins: int) -> NDArray[np.intp]:
    """The equal-width bin, from 0, of each confidence in [0, 1]."""
    # Looked up among the edges: 0.29 · 100 is below 29, but 0.29 is not below the edge 29/100.
    inner = np.arange(1, bins) / bins
    return np.searchsorted(inner, confidence, side="right")


def block_bins(tally: Tally, bins: int, binning: Binning) -> NDArray[np.intp]:
    """The bin, from 0, of each block: (1, m) for equal width; (b, m) for equal mass, made anew a resample."""
    if binning == "equal_width":
        return width_bins(tally.blocks.confidence, bins)[None, :]
    below = tally.n[:, None] - tally.taken_to
    middle = 2 * below + tally.taken  # twice the place of the block's middle, so that all stays whole
    return np.minimum(bins * middle // np.maximum(2 * tally.n, 1)[:, None], bins - 1).astype(np.intp)


def check_bins(bins: int, binning: str) -> None:
    """Raise ToolkitError if the bins are not possible."""
    if bins < 1:
        raise ToolkitError(f"bins is {bins}: give at least 1")
    if binning not in BINNINGS:
        raise ToolkitError(f"binning is {binning!r}: give one of {', '.join(BINNINGS)}")


def _probabilities(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 1, binning: str = "equal_width"
) -> Judged:
    check_bins(bins, binning)
    return require_probability(require_binary(judge(confidence, correct)))


def _bin_sums(tally: Tally, bins: int, binning: Binning) -> tuple[Floats, Floats, Floats]:
    """Units, right ones and the sum of confidence of each bin, each (b, bins)."""
    b, m = tally.taken.shape
    at = np.broadcast_to(block_bins(tally, bins, binning), (b, m))
    flat = (at + bins * np.arange(b)[:, None]).ravel()

    def sums(values: Floats) -> Floats:
        total = np.bincount(flat, weights=values.ravel(), minlength=b * bins)
        return total.reshape(b, bins).astype(np.float64)

    return sums(tally.taken), sums(tally.good), sums(tally.taken * tally.blocks.confidence)


def _bin_edges(tally: Tally, bins: int, binning: Binning) -> tuple[Floats, Floats]:
    """Edges of equal-width bins; least and largest confidence in equal-mass ones (0 and 1 where empty)."""
    if binning == "equal_width":
        edges = np.arange(bins + 1) / bins
        return edges[:-1], edges[1:]
    at = block_bins(tally, bins, binning)[0]
    lower, upper = np.ones(bins), np.zeros(bins)
    np.minimum.at(lower, at, tally.blocks.confidence)
    np.maximum.at(upper, at, tally.blocks.confidence)
    return lower, upper
