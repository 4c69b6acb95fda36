"""How far a metric may be off: bootstrap over prompts.

Units of one prompt are not independent, so whole prompts are drawn, with replacement, as many as there are;
a unit then counts as often as its prompt was drawn. A statistic is a function from such counts, (b, n), to
its value in each of the b resamples, (b,) or (b, k) for k values at once: nothing is copied and sorted again
a resample.

Two kinds of interval. `bca` (the default; Efron 1987, doi:10.1080/01621459.1987.10478410) corrects the
quantiles of the resamples for bias and for a spread that depends on the value; `percentile` takes them as
they are. In 300 simulations with a true AUROC of 0.9, nominal 95 % intervals held the truth, of AUROC and of
prr, in 97 and 96 % of cases (bca) and 92 and 90 % (percentile) for 50 prompts, in 95 and 95 % against 94 and
92 % for 150. Binned calibration errors are biased upwards themselves, and more so in resamples: no interval
of theirs holds the truth as often as it says, and a percentile interval can lie wholly above the value.

A resample where the statistic is undefined (all right, say) is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.metrics import Metric, find_metrics
from toolkit.stats.ranking import prompt_codes
from toolkit.stats.tally import Blocks, Floats, Judged, judge, ratio, vector

Counts = NDArray[np.int64]  # (b, n): how often each unit is taken in each resample
Statistic = Callable[[Counts], Floats]  # (b, n) -> (b,) or (b, k)
Method = Literal["bca", "percentile"]
METHODS: tuple[Method, ...] = get_args(Method)

# Resamples are made and measured in blocks of so many counts, which stay in the processor's cache.
_BLOCK = 1 << 16

# The acceleration is a skewness, which leaving out 200 groups of prompts gives as well as each of thousands.
_MOST_LEFT_OUT = 200


class Interval(NamedTuple):
    """A value and its bootstrap interval; NaN where it cannot be had."""

    value: float
    low: float
    high: float
    n_resamples: int  # those where the statistic was defined
    n_undefined: int  # those where it was not


def intervals(
    statistic: Statistic,
    prompts: ArrayLike,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    method: Method = "bca",
    seed: int = 0,
) -> list[Interval]:
    """Bootstrap intervals of a statistic's k values.

    Parameters
    ----------
    statistic : function
        Counts (b, n) to values (b,) or (b, k). `of_indices`, `mean_of` and `of_metrics` make one.
    prompts : (n,) array_like
        The prompt of each unit.
    n_resamples : int
        At least 1; 1000 gives the ends of a 95 % interval to about a tenth of its width.
    level : float
        In (0, 1).
    method : {"bca", "percentile"}
    seed : int
        The same seed and the same prompts give the same resamples, whatever the statistic.

    Returns
    -------
    list of Interval
        One for each of the k values. The ends are NaN with fewer than two prompts.

    Raises
    ------
    ToolkitError
        If an argument is not as above.
    """
    _check(n_resamples, level, method, seed)
    codes = prompt_codes(prompts, np.size(np.asarray(prompts)))[1]
    n_prompts = int(codes.max()) + 1 if len(codes) else 0
    value = _columns(statistic(np.ones((1, len(codes)), np.int64)))[0]
    if n_prompts < 2:
        return [Interval(float(v), np.nan, np.nan, 0, 0) for v in value]
    draws = np.concatenate([_columns(statistic(c)) for c in resamples(codes, n_resamples, seed)])
    left_out = None
    if method == "bca":
        left_out = np.concatenate([_columns(statistic(c)) for c in _leave_out(codes)])
    return [
        _interval(value[k], draws[:, k], level, None if left_out is None else left_out[:, k])
        for k in range(len(value))
    ]


def resamples(codes: NDArray[np.intp], n_resamples: int, seed: int) -> Iterator[Counts]:
    """Counts of n units in bootstrap resamples of their prompts, in blocks of rows.

    Parameters
    ----------
    codes : (n,) int
        The prompt of each unit, from 0, none missing.
    n_resamples, seed : int

    Yields
    ------
    (b, n) int64
        Together `n_resamples` rows. Units of a prompt have the same count.
    """
    n_prompts = int(codes.max()) + 1
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // max(len(codes), n_prompts))
    for start in range(0, n_resamples, rows):
        b = min(rows, n_resamples - start)
        drawn = rng.integers(n_prompts, size=(b, n_prompts)) + n_prompts * np.arange(b)[:, None]
        yield np.bincount(drawn.ravel(), minlength=b * n_prompts).reshape(b, n_prompts)[:, codes]


def of_indices(function: Callable[[NDArray[np.intp]], float]) -> Statistic:
    """A statistic from any function of unit indices: an index is there as often as its unit was drawn.

    The slow way, one call a resample, for what has no form over counts.
    """

    def statistic(counts: Counts) -> Floats:
        units = np.arange(counts.shape[1])
        return np.array([function(np.repeat(units, row)) for row in counts], dtype=np.float64)

    return statistic


def mean_of(values: ArrayLike) -> Statistic:
    """The mean of (n,) values, those that are NaN left out: accuracy, or the AUROC within prompts."""
    given = vector(values, "values")
    defined = (~np.isnan(given)).astype(np.float64)
    filled = np.where(np.isfinite(given), given, 0.0)
    infinite = [(value, (given == value).astype(np.float64)) for value in (-np.inf, np.inf)]

    def statistic(counts: Counts) -> Floats:
        sums = np.asarray(counts @ filled, np.float64)
        with np.errstate(invalid="ignore"):  # both infinities: no mean
            for value, places in infinite:  # a count of 0 times infinity would be NaN
                sums = sums + np.where(counts @ places > 0, value, 0.0)
        return ratio(sums, np.asarray(counts @ defined))

    return statistic


def of_metrics(judged: Judged, metrics: Sequence[Metric]) -> Statistic:
    """Metrics of judged units, (b, k): sorted once, then counted in each resample.

    Raises
    ------
    ToolkitError
        If a metric does not take these units.
    """
    for metric in metrics:
        metric.check(judged)
    blocks = Blocks.of(judged.confidence, judged.outcome)

    def statistic(counts: Counts) -> Floats:
        tally = blocks.tally(counts)
        return np.stack([metric.rows(tally) for metric in metrics], axis=1)

    return statistic


def metric_intervals(
    confidence: ArrayLike,
    outcome: ArrayLike,
    prompts: ArrayLike,
    metrics: Iterable[str],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    method: Method = "bca",
    seed: int = 0,
) -> dict[str, Interval]:
    """Several metrics of one confidence, each with its interval.

    Parameters
    ----------
    confidence, outcome : (n,) array_like
        Higher means more confident. Units where either is NaN are left out.
    prompts : (n,) array_like
        The prompt of each unit.
    metrics : iterable of str
        Names of `toolkit.stats.metrics.METRICS`.
    n_resamples, level, method, seed
        As in `intervals`.

    Returns
    -------
    dict of str to Interval
        All NaN without units.

    Raises
    ------
    ToolkitError
        If a name is unknown, a metric does not take these units, or an argument is not as above.
    """
    _check(n_resamples, level, method, seed)
    chosen, judged = find_metrics(metrics), judge(confidence, outcome, name="outcome")
    kept = _kept_prompts(prompts, judged)
    names = [metric.name for metric in chosen]
    if judged.n == 0 or not names:
        return {name: Interval(np.nan, np.nan, np.nan, 0, 0) for name in names}
    found = intervals(
        of_metrics(judged, chosen), kept, n_resamples=n_resamples, level=level, method=method, seed=seed
    )
    return dict(zip(names, found, strict=True))


def paired_differences(
    first: ArrayLike,
    second: ArrayLike,
    outcome: ArrayLike,
    prompts: ArrayLike,
    metrics: Iterable[str],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    method: Method = "bca",
    seed: int = 0,
) -> dict[str, Interval]:
    """Metrics of the first confidence less those of the second, on the units where both are defined.

    The same prompts are drawn for both, so what makes a resample easy for both cancels. An interval without 0
    tells them apart; whether two intervals overlap does not.

    Parameters
    ----------
    first, second : (n,) array_like
        Confidences of two estimators; higher means more confident in both.
    outcome, prompts, metrics, n_resamples, level, method, seed
        As in `metric_intervals`.

    Returns
    -------
    dict of str to Interval

    Raises
    ------
    ToolkitError
        As in `metric_intervals`.
    """
    _check(n_resamples, level, method, seed)
    chosen = find_metrics(metrics)
    names = [metric.name for metric in chosen]
    a, b = vector(first, "first"), vector(second, "second")
    if len(a) != len(b):
        raise ToolkitError(f"first has {len(a)} values and second {len(b)}: give one of each a unit")
    judged_a = judge(np.where(np.isnan(b), np.nan, a), outcome, name="outcome")
    judged_b = judge(np.where(np.isnan(a), np.nan, b), outcome, name="outcome")
    kept = _kept_prompts(prompts, judged_a)
    if judged_a.n == 0 or not names:
        return {name: Interval(np.nan, np.nan, np.nan, 0, 0) for name in names}
    of_a, of_b = of_metrics(judged_a, chosen), of_metrics(judged_b, chosen)
    found = intervals(
        lambda counts: of_a(counts) - of_b(counts),
        kept,
        n_resamples=n_resamples,
        level=level,
        method=method,
        seed=seed,
    )
    return dict(zip(names, found, strict=True))


def _kept_prompts(prompts: ArrayLike, judged: Judged) -> NDArray[np.generic]:
    unique, codes = prompt_codes(prompts, len(judged.kept))
    return unique[codes[judged.kept]]


def _columns(values: Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _leave_out(codes: NDArray[np.intp]) -> Iterator[Counts]:
    """Counts of the units with each prompt, or each of 200 groups of prompts, left out; blocks of rows."""
    groups = min(int(codes.max()) + 1, _MOST_LEFT_OUT)
    rows = max(1, _BLOCK // len(codes))
    for start in range(0, groups, rows):
        out = np.arange(start, min(start + rows, groups))
        yield (codes[None, :] % groups != out[:, None]).astype(np.int64)


def _interval(value: float, draws: Floats, level: float, left_out: Floats | None) -> Interval:
    defined = draws[~np.isnan(draws)]
    undefined = len(draws) - len(defined)
    if np.isnan(value) or not len(defined):
        return Interval(float(value), np.nan, np.nan, len(defined), undefined)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if left_out is not None:
        tails = _bca_tails(value, defined, left_out[~np.isnan(left_out)], tails)
    low, high = _quantiles(defined, tails)
    return Interval(float(value), float(low), float(high), len(defined), undefined)


def _quantiles(draws: Floats, tails: Floats) -> Floats:
    if np.isfinite(draws).all():
        return np.quantile(draws, tails)
    # Between a number and an infinity is no place: the nearest draw.
    return np.sort(draws)[np.rint(tails * (len(draws) - 1)).astype(np.int64)]


def _bca_tails(value: float, draws: Floats, left_out: Floats, tails: Floats) -> Floats:
    """Where in the sorted draws the ends lie, after correction for bias and acceleration."""
    normal = NormalDist()
    below = (np.sum(draws < value) + 0.5 * np.sum(draws == value)) / len(draws)
    edge = 1 / (2 * len(draws))  # a value outside all draws has no finite bias
    bias = normal.inv_cdf(float(np.clip(below, edge, 1 - edge)))
    bounded = len(left_out) > 0 and bool(np.isfinite(left_out).all())
    lead = left_out.mean() - left_out if bounded else np.zeros(1)
    spread = np.sum(lead**2) ** 1.5
    acceleration = np.sum(lead**3) / (6 * spread) if spread > 0 else 0.0
    shifted = bias + np.array([normal.inv_cdf(float(t)) for t in tails])
    damped = np.maximum(1 - acceleration * shifted, 1e-3)  # past 0 the ends would change sides
    return np.array([normal.cdf(float(end)) for end in bias + shifted / damped])


def _check(n_resamples: int, level: float, method: str, seed: int) -> None:
    if n_resamples < 1:
        raise ToolkitError(f"n_resamples is {n_resamples}: give at least 1, as 1000")
    if not 0 < level < 1:
        raise ToolkitError(f"level is {level}: give a share between 0 and 1, as 0.95")
    if method not in METHODS:
        raise ToolkitError(f"method is {method!r}: give one of {', '.join(METHODS)}")
    if seed < 0:
        raise ToolkitError(f"seed is {seed}: give 0 or more")
