"""Numbers with their bootstrap intervals over prompts, as `toolkit.stats.bootstrap` makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from support.options import Options
from toolkit.stats.bootstrap import (
    Interval,
    Statistic,
    intervals,
    mean_of,
    metric_intervals,
    paired_differences,
)
from toolkit.stats.tally import ratio

Floats = NDArray[np.float64]


def mean(values: ArrayLike, prompts: ArrayLike, options: Options) -> Interval:
    """The mean of the values that are not NaN, over units of prompts."""
    return interval(mean_of(values), prompts, options)


def interval(statistic: Statistic, prompts: ArrayLike, options: Options) -> Interval:
    """The first value of a statistic of counts, with its interval."""
    return intervals(statistic, prompts, n_resamples=options.resamples)[0]


def ratio_of(total: ArrayLike, size: ArrayLike) -> Statistic:
    """A statistic: the sum of the units' totals over the sum of their sizes, NaN where these are 0."""
    a, n = np.asarray(total, np.float64), np.asarray(size, np.float64)
    return lambda counts: ratio(np.asarray(counts @ a), np.asarray(counts @ n))


def difference(first: Statistic, second: Statistic) -> Statistic:
    """A statistic: one less another, of the same units, so that each resample has the same prompts in both."""
    return lambda counts: first(counts) - second(counts)


def metric_of(
    metric: str, values: ArrayLike, outcome: ArrayLike, prompts: ArrayLike, options: Options
) -> Interval:
    """A metric of `toolkit.stats.metrics` of a confidence."""
    found = metric_intervals(values, outcome, prompts, [metric], n_resamples=options.resamples)
    return found[metric]


def metric_difference(
    metric: str,
    first: ArrayLike,
    second: ArrayLike,
    outcome: ArrayLike,
    prompts: ArrayLike,
    options: Options,
) -> Interval:
    """A metric of `toolkit.stats.metrics` of one confidence less that of another."""
    found = paired_differences(first, second, outcome, prompts, [metric], n_resamples=options.resamples)
    return found[metric]


def per_prompt(
    prompts: Sequence[str], function: Callable[[NDArray[np.intp]], float]
) -> tuple[NDArray[Any], Floats]:
    """The prompts, sorted, and the value of a function of the rows of each."""
    names, codes = np.unique(np.asarray(prompts, np.str_), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return names, np.array([function(own) for own in rows], np.float64)
