"""From a score to a probability that means it: isotonic, Platt, temperature and histogram maps.

A map is fitted on graded units and applied to others. Fitted and judged on the same units, it looks better
than it is: `cross_validate` gives each unit the value of a map that saw no unit of its prompt. The map of all
units is a few plain numbers and is kept as JSON, so that another run can use it.

`isotonic`, `platt` and `histogram` take any score that rises with confidence; in their fit an infinite score
counts as the nearest finite one. `temperature` takes probabilities. NaN stays NaN.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.calibration import LOG_LOSS_CLIP, block_bins, check_bins
from toolkit.stats.ranking import prompt_codes
from toolkit.stats.tally import (
    Blocks,
    Floats,
    Judged,
    judge,
    require_binary,
    require_probability,
    vector,
)

# exp of these: temperatures outside 0.01 to 100 are as good as a step and a constant.
_LOG_TEMPERATURES = (math.log(0.01), math.log(100.0))


class Map(Protocol):
    """A fitted map: scores (n,) in, probabilities (n,) in [0, 1] out."""

    method: ClassVar[str]

    def __call__(self, confidence: ArrayLike) -> Floats: ...


@dataclass(frozen=True)
class Isotonic:
    """Straight lines between knots that rise; the end values go on outside."""

    score: tuple[float, ...]  # rising
    probability: tuple[float, ...]  # not falling, in [0, 1]
    method: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        _require(len(self.score) == len(self.probability) >= 1, "score and probability are not of one length")
        _require(_rises(self.score, strictly=True), "score does not rise")
        _require(_rises(self.probability), "probability falls")
        _require(self.probability[0] >= 0 and self.probability[-1] <= 1, "probability is outside [0, 1]")

    def __call__(self, confidence: ArrayLike) -> Floats:
        return np.interp(vector(confidence, "confidence"), self.score, self.probability)


@dataclass(frozen=True)
class Platt:
    """1 / (1 + exp(−(slope · score + intercept)))."""

    slope: float
    intercept: float
    method: ClassVar[str] = "platt"

    def __call__(self, confidence: ArrayLike) -> Floats:
        from scipy.special import expit

        score = vector(confidence, "confidence")
        if self.slope == 0:  # 0 · inf is NaN
            score = np.where(np.isinf(score), 0.0, score)
        return expit(self.slope * score + self.intercept)


@dataclass(frozen=True)
class Temperature:
    """A probability's log-odds divided by the temperature: above 1 makes it less certain."""

    temperature: float
    method: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        _require(self.temperature > 0, "temperature is not above 0")

    def __call__(self, confidence: ArrayLike) -> Floats:
        from scipy.special import expit

        p = vector(confidence, "confidence")
        outside = p[(p < 0) | (p > 1)]
        _require(not outside.size, "temperature takes probabilities in [0, 1], and confidence is not")
        return expit(_log_odds(p) / self.temperature)


@dataclass(frozen=True)
class Histogram:
    """The share of right units in the bin of the score."""

    edges: tuple[float, ...]  # rising, between the bins; a score on an edge belongs to the upper bin
    probability: tuple[float, ...]  # one more
    method: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        _require(len(self.probability) == len(self.edges) + 1, "probability is not one longer than edges")
        _require(_rises(self.edges, strictly=True), "edges do not rise")
        _require(all(0 <= p <= 1 for p in self.probability), "probability is outside [0, 1]")

    def __call__(self, confidence: ArrayLike) -> Floats:
        score = vector(confidence, "confidence")
        found = np.asarray(self.probability)[np.searchsorted(self.edges, score, side="right")]
        return np.where(np.isnan(score), np.nan, found)


MAPS: dict[str, type[Isotonic] | type[Platt] | type[Temperature] | type[Histogram]] = {
    kind.method: kind for kind in (Isotonic, Platt, Temperature, Histogram)
}
RECALIBRATIONS: tuple[str, ...] = tuple(MAPS)


def fit(method: str, confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10) -> Map:
    """Fit a map from score to the probability of being right.

    Parameters
    ----------
    method : {"isotonic", "platt", "temperature", "histogram"}
    confidence : (n,) array_like
        Scores that rise with confidence; for `temperature` probabilities in [0, 1]. NaN is left out.
    correct : (n,) array_like of 0 and 1
        NaN is left out.
    bins : int
        Of `histogram`: equal-mass bins, at most.

    Returns
    -------
    Map

    Raises
    ------
    ToolkitError
        If the method is unknown, no unit is graded and has a finite score, a score is no probability where
        one is needed, or `correct` is not binary.

    Notes
    -----
    isotonic: scikit-learn's `IsotonicRegression` (Zadrozny & Elkan 2002, doi:10.1145/775047.775151).
    platt: scikit-learn's logistic regression without penalty, on Platt's targets (n₊+1)/(n₊+2) and 1/(n₋+2),
    so that it is finite where the classes are separable (Platt 1999); the slope may come out negative.
    temperature: the least log loss over 0.01 to 100 (Guo et al. 2017, arXiv 1706.04599), here over log-odds,
    there over a classifier's logits. histogram: Zadrozny & Elkan 2001.
    """
    if method not in _FITS:
        raise ToolkitError(f"unknown recalibration {method!r}: give one of {', '.join(RECALIBRATIONS)}")
    check_bins(bins, "equal_mass")
    judged = require_binary(judge(confidence, correct))
    if not np.isfinite(judged.confidence).any():
        raise ToolkitError("nothing to fit on: no graded unit has a finite confidence")
    return _FITS[method](judged.confidence, judged.outcome, bins)


class CrossValidated(NamedTuple):
    """Recalibrated confidences that did not see their own prompt, and the map to keep."""

    calibrated: Floats  # (n,), NaN where the confidence is NaN or nothing was left to fit on
    fold: NDArray[np.intp]  # (n,) the part that each unit was left out with
    final: Map  # fitted on all units


def cross_validate(
    method: str,
    confidence: ArrayLike,
    correct: ArrayLike,
    prompts: ArrayLike,
    *,
    folds: int = 5,
    bins: int = 10,
    seed: int = 0,
) -> CrossValidated:
    """Recalibrate each unit by a map fitted on the units of other prompts.

    Parameters
    ----------
    method, confidence, correct, bins
        As in `fit`. A unit that is not graded gets a value, and takes no part in a fit.
    prompts : (n,) array_like
        The prompt of each unit. No prompt is both fitted on and recalibrated by one map.
    folds : int
        At least 2; no more than there are prompts are made.
    seed : int
        Of the division of prompts.

    Returns
    -------
    CrossValidated

    Raises
    ------
    ToolkitError
        As in `fit`, or with fewer than two prompts or folds.
    """
    score, judgement = vector(confidence, "confidence"), vector(correct, "correct")
    final = fit(method, score, judgement, bins=bins)
    fold = prompt_folds(prompts, len(score), folds, seed)
    calibrated = np.full(len(score), np.nan)
    for part in range(int(fold.max()) + 1):
        inside = fold == part
        rest = np.isfinite(score) & ~np.isnan(judgement) & ~inside
        if rest.any():
            others = fit(method, score[~inside], judgement[~inside], bins=bins)
            calibrated[inside] = others(score[inside])
    return CrossValidated(calibrated, fold, final)


def prompt_folds(prompts: ArrayLike, n: int, folds: int, seed: int = 0) -> NDArray[np.intp]:
    """The part, from 0, of each of n units: whole prompts, as many in each part or one more.

    Raises
    ------
    ToolkitError
        With fewer than two prompts or folds, or if there are not n prompts.
    """
    unique, codes = prompt_codes(prompts, n)
    if folds < 2:
        raise ToolkitError(f"folds is {folds}: give at least 2")
    if len(unique) < 2:
        raise ToolkitError(
            f"cross-validation over prompts takes at least 2 of them, and there is {len(unique)}"
        )
    shuffled = np.random.default_rng(seed).permutation(len(unique))
    part = np.empty(len(unique), np.intp)
    part[shuffled] = np.arange(len(unique)) % folds
    return part[codes]


def _fit_isotonic(score: Floats, right: Floats, bins: int) -> Map:
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(out_of_bounds="clip").fit(_finite(score), right)
    probability = np.clip(fitted.y_thresholds_, 0, 1)
    return Isotonic(_plain(fitted.X_thresholds_), _plain(probability))


def _fit_platt(score: Floats, right: Floats, bins: int) -> Map:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    finite, n_right = _finite(score), right.sum()
    target = np.where(right == 1, (n_right + 1) / (n_right + 2), 1 / (len(right) - n_right + 2))
    centre, scale = finite.mean(), finite.std()
    if scale <= 1e-12 * max(1.0, abs(centre)):
        return Platt(0.0, float(np.log(target.mean() / (1 - target.mean()))))
    # A target between 0 and 1 is a unit of each class, weighted.
    x = np.tile((finite - centre) / scale, 2)[:, None]
    y = np.repeat([1, 0], len(finite))
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    with warnings.catch_warnings():
        # Where the best slope is 0, rounding can stop Newton's line search; L-BFGS then ends it, with a warning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y, sample_weight=np.r_[target, 1 - target])
    slope = float(model.coef_[0, 0] / scale)
    return Platt(slope, float(model.intercept_[0] - slope * centre))


def _fit_temperature(p: Floats, right: Floats, bins: int) -> Map:
    from scipy.optimize import minimize_scalar

    require_probability(Judged(p, right, np.ones(len(p), bool), 0, 0))
    margin = np.where(right == 1, 1.0, -1.0) * _log_odds(p)

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0, -margin / math.exp(log_temperature)).mean())

    found = minimize_scalar(loss, bounds=_LOG_TEMPERATURES, method="bounded", options={"xatol": 1e-9})
    return Temperature(math.exp(found.x))


def _fit_histogram(score: Floats, right: Floats, bins: int) -> Map:
    tally = Blocks.of(_finite(score), right).tally()
    at = block_bins(tally, bins, "equal_mass")[0][::-1]  # lowest first
    starts = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
    values, taken, good = tally.blocks.confidence[::-1], tally.taken[0][::-1], tally.good[0][::-1]
    share = np.add.reduceat(good, starts) / np.add.reduceat(taken, starts)
    # Halfway between two bins; where rounding makes that the lower value, the upper one.
    below, above = values[starts[1:] - 1], values[starts[1:]]
    middle = below + (above - below) / 2
    return Histogram(_plain(np.where(middle > below, middle, above)), _plain(share))


_FITS: dict[str, Callable[[Floats, Floats, int], Map]] = {
    "isotonic": _fit_isotonic,
    "platt": _fit_platt,
    "temperature": _fit_temperature,
    "histogram": _fit_histogram,
}


def _finite(score: Floats) -> Floats:
    finite = score[np.isfinite(score)]
    return np.clip(score, finite.min(), finite.max())


def _log_odds(p: Floats) -> Floats:
    inside = np.clip(p, LOG_LOSS_CLIP, 1 - LOG_LOSS_CLIP)
    return np.log(inside) - np.log1p(-inside)


def _plain(values: NDArray[np.floating]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _rises(values: tuple[float, ...], *, strictly: bool = False) -> bool:
    return all(a < b if strictly else a <= b for a, b in pairwise(values))


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise ToolkitError(f"recalibration: {fault}")
