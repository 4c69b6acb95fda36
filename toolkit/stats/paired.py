"""Two sides on the same prompts: how far apart they are, with intervals by paired bootstrap.

Each side has units of its own, with its own values and its own right and wrong: two models' answers to the
same questions, say. A resample draws prompts, and takes from both sides the units of the prompts drawn, so
that what makes a prompt easy for both cancels in the difference. A prompt takes part where both sides have a
unit that is defined.

Where a prompt has one answer on each side, and each is right or wrong, the difference of accuracy has Tango's score
interval instead (1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<891::AID-SIM780>3.0.CO;2-B). A bootstrap of few
flips that all go one way never goes the other, and would take three of them for a difference; this interval lacks
0 exactly where McNemar's test rejects.

Of 600 simulated pairs that do not differ, of 60 and of 185 prompts, 95 % intervals (BCa, 500 resamples) held 0
in 95 and 96 % (mean confidence), 93 and 94 % (AUROC), 93 % (Brier score). A binned calibration error
is biased in resamples: for ECE it was 89 % by BCa, and over 99 % by percentiles, which are the safe side.

DeLong's test of two AUROCs has no place here: it is of two confidences in the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.bootstrap import Counts, Interval, Method, Statistic, intervals, mean_of, of_metrics
from toolkit.stats.metrics import find_metrics
from toolkit.stats.tally import Floats, Judged, judge, vector

_UNKNOWN = Interval(np.nan, np.nan, np.nan, 0, 0)


class Paired(NamedTuple):
    """A quantity on both sides, and what the second has more than the first."""

    first: Interval
    second: Interval
    difference: Interval  # second less first
    n_prompts: int  # that both sides have
    n_first: int  # units of these prompts
    n_second: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval of the difference does not hold 0."""
        return bool(self.difference.low > 0 or self.difference.high < 0)


class Side(NamedTuple):
    """The units of one side.

    Attributes
    ----------
    prompts : (n,) array_like
        The prompt of each unit.
    values : (n,) array_like
        Of an estimator; NaN where it is undefined.
    outcome : (n,) array_like, optional
        0 to 1; NaN where nobody can say. Needed by metrics alone.
    """

    prompts: ArrayLike
    values: ArrayLike
    outcome: ArrayLike | None = None


def paired_means(
    first: Side,
    second: Side,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    method: Method = "bca",
    seed: int = 0,
) -> Paired:
    """The mean of the units' values on both sides, and the difference.

    Parameters
    ----------
    first, second : Side
        Units whose value is NaN are left out.
    n_resamples : int
        0 is none: the ends are NaN.
    level, method, seed
        As of `toolkit.stats.bootstrap.intervals`.

    Raises
    ------
    ToolkitError
        Lengths differ, or an argument is not as above.
    """
    values = [_checked(side.values, side.prompts, "values") for side in (first, second)]
    shared = _share(first, second, *(~np.isnan(one) for one in values))
    a, b = (mean_of(one[kept]) for one, kept in zip(values, shared.kept, strict=True))
    (found,) = _paired(a, b, shared, 1, n_resamples=n_resamples, level=level, method=method, seed=seed)
    return found


def paired_shares(
    first: Side,
    second: Side,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Paired:
    """The share of the units that are right on both sides: `paired_means` of outcomes.

    Parameters
    ----------
    first, second : Side
        Their values are outcomes, 0 to 1. Where all are 0 or 1, and a prompt has one unit on each side, the
        interval of the difference is `score_interval`, else that of `paired_means`.
    n_resamples, level, seed
        As in `paired_means`.
    """
    found = paired_means(first, second, n_resamples=n_resamples, level=level, seed=seed)
    if n_resamples == 0 or not 0 < found.n_prompts == found.n_first == found.n_second:
        return found
    before, after = (_by_prompt(side) for side in (first, second))
    pairs = [(before[name], after[name]) for name in sorted(set(before) & set(after))]
    if not {value for pair in pairs for value in pair} <= {0.0, 1.0}:
        return found
    low, high = score_interval(pairs.count((0.0, 1.0)), pairs.count((1.0, 0.0)), len(pairs), level)
    return found._replace(difference=found.difference._replace(low=low, high=high))


def score_interval(gained: int, lost: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Tango's score interval of the difference of two shares of the same n things.

    Parameters
    ----------
    gained, lost : int
        How many are right on the second side alone, and on the first alone.
    n : int
        All of them, 1 at least.
    level : float
        In (0, 1).

    Returns
    -------
    low, high : float
        In [-1, 1]: the differences whose score test is not rejected.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    value = (gained - lost) / n
    low = _crossing(lambda d: _score(gained, lost, n, d) - z, -1.0, value)
    high = _crossing(lambda d: -z - _score(gained, lost, n, d), 1.0, value)
    return low, high


def _score(gained: int, lost: int, n: int, difference: float) -> float:
    """How far the counts are from a difference, in standard errors; infinite where it is impossible."""
    b = -gained - lost + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share_lost = (np.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)  # most likely under the difference
    variance = n * (2 * share_lost + difference * (1 - difference))
    distance = gained - lost - n * difference
    if variance <= 0:
        return 0.0 if distance == 0 else float(np.copysign(np.inf, distance))
    return float(distance / np.sqrt(variance))


def _crossing(beyond: Callable[[float], float], outside: float, inside: float) -> float:
    """Where a test begins to reject, between a difference that it rejects and one that it does not."""
    if beyond(outside) <= 0:
        return outside
    for _ in range(60):
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if beyond(middle) > 0 else (outside, middle)
    return inside


def paired_metrics(
    first: Side,
    second: Side,
    metrics: Iterable[str],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    method: Method = "bca",
    seed: int = 0,
) -> dict[str, Paired]:
    """Metrics of a confidence on both sides, each against its own right and wrong, and their differences.

    Parameters
    ----------
    first, second : Side
        Higher values are more confident. Units where the value or the outcome is NaN are left out.
    metrics : iterable of str
        Names of `toolkit.stats.metrics.METRICS`.
    n_resamples, level, method, seed
        As in `paired_means`.

    Returns
    -------
    dict of str to Paired
        NaN where a side has no metric: all of its units are right, say.

    Raises
    ------
    ToolkitError
        A name is unknown, a metric does not take these units, or as in `paired_means`.
    """
    chosen = find_metrics(metrics)
    judged = [_judged(side) for side in (first, second)]
    shared = _share(first, second, *(one.kept for one in judged))
    a, b = (of_metrics(_only(one, kept), chosen) for one, kept in zip(judged, shared.kept, strict=True))
    found = _paired(a, b, shared, len(chosen), n_resamples=n_resamples, level=level, method=method, seed=seed)
    return {metric.name: paired for metric, paired in zip(chosen, found, strict=True)}


class _Shared(NamedTuple):
    """The prompts that both sides have, numbered from 0."""

    n_prompts: int
    kept: tuple[NDArray[np.bool_], NDArray[np.bool_]]  # which units of each side are of them
    codes: tuple[NDArray[np.intp], NDArray[np.intp]]  # and of which


def _share(first: Side, second: Side, defined: NDArray[np.bool_], also: NDArray[np.bool_]) -> _Shared:
    prompts = (np.asarray(first.prompts), np.asarray(second.prompts))
    common = np.intersect1d(prompts[0][defined], prompts[1][also])
    a, b = (known & np.isin(names, common) for names, known in zip(prompts, (defined, also), strict=True))
    codes = (np.searchsorted(common, prompts[0][a]), np.searchsorted(common, prompts[1][b]))
    return _Shared(len(common), (a, b), codes)


def _paired(
    first: Statistic,
    second: Statistic,
    shared: _Shared,
    k: int,
    *,
    n_resamples: int,
    level: float,
    method: Method,
    seed: int,
) -> list[Paired]:
    """The k values of statistics of each side's units."""
    sizes = (shared.n_prompts, len(shared.codes[0]), len(shared.codes[1]))
    if shared.n_prompts == 0:
        return [Paired(_UNKNOWN, _UNKNOWN, _UNKNOWN, *sizes)] * k

    def both(counts: Counts) -> Floats:  # (b, n_prompts) to (b, 3k)
        a, b = (
            np.reshape(statistic(counts[:, codes]), (len(counts), k))
            for statistic, codes in zip((first, second), shared.codes, strict=True)
        )
        with np.errstate(invalid="ignore"):  # of two infinities there is no difference
            return np.concatenate([a, b, b - a], axis=1)

    if n_resamples == 0:
        values = both(np.ones((1, shared.n_prompts), np.int64))[0]
        found = [Interval(float(value), np.nan, np.nan, 0, 0) for value in values]
    else:
        prompts = np.arange(shared.n_prompts)
        found = intervals(both, prompts, n_resamples=n_resamples, level=level, method=method, seed=seed)
    return [Paired(found[i], found[k + i], found[2 * k + i], *sizes) for i in range(k)]


def _by_prompt(side: Side) -> dict[Any, float]:
    """The one value of each prompt that has one that is not NaN."""
    values = vector(side.values, "values")
    known = ~np.isnan(values)
    return dict(zip(np.asarray(side.prompts)[known].tolist(), values[known].tolist(), strict=True))


def _judged(side: Side) -> Judged:
    values = _checked(side.values, side.prompts, "values")
    if side.outcome is None:
        raise ToolkitError("outcome is None: a metric needs to know what is right and what is wrong")
    return judge(values, _checked(side.outcome, side.prompts, "outcome"), name="outcome")


def _only(judged: Judged, kept: NDArray[np.bool_]) -> Judged:
    """Those of the judged units that are kept; `kept` is of all units, the judged ones and the others."""
    among = kept[judged.kept]
    return Judged(judged.confidence[among], judged.outcome[among], kept, 0, 0)


def _checked(values: ArrayLike, prompts: ArrayLike, name: str) -> Floats:
    array, n = vector(values, name), np.size(np.asarray(prompts))
    if len(array) != n:
        raise ToolkitError(f"{name} has {len(array)} and prompts has {n}: give one of each a unit")
    return array
