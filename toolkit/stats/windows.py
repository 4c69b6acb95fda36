"""DeepConf's estimators: where in a long span the model was least sure.

A token's confidence is −mean of ln p over its k most likely tokens. It is averaged over sliding windows of
neighbouring tokens. A span shorter than the window has one value, its plain mean. Weights of ranges are not
used. Source of all: Fu et al. 2025, arXiv 2508.15260, with k 20 and a window of 2,048 tokens; short answers
never fill such a window, so it is an argument. DeepConf's code rounds tokens and windows to three digits.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.distributions import token_topk_nll, top_inputs
from toolkit.stats.ranges import Columns, Floats, Ranges, sliding_sums
from toolkit.stats.registry import register

FU = "Fu 2025, arXiv 2508.15260"
_INPUTS = partial(top_inputs, "top20_mean_logprob", 20)


class Windows(NamedTuple):
    """Means over the sliding windows of those spans that fill one."""

    full: NDArray[np.int64]  # (m,) the spans with at least a window of tokens
    means: Floats  # (n_rows,) of the window that begins at each row of these spans
    ranges: Ranges  # m ranges of `means`: a span's windows


def window_means(values: Floats, ranges: Ranges, window: int) -> Windows:
    """The mean of every full window of `window` tokens inside each span.

    Parameters
    ----------
    values : (n_tokens,)
    window : at least 1

    Raises
    ------
    ToolkitError
        Where the window is below 1.
    """
    if window < 1:
        raise ToolkitError(f"window={window}: a window has at least one token")
    full = np.flatnonzero(ranges.lengths >= window)
    long = ranges.take(full)
    means = sliding_sums(long.gather(values), window) / window
    return Windows(full, means, Ranges(long.offsets, long.offsets + long.lengths - window + 1))


def lowest_window_mean(values: Floats, ranges: Ranges, window: int) -> Floats:
    """(n_spans,) smallest mean of `values` over a full window; a shorter span's plain mean."""
    windows = window_means(values, ranges, window)
    result = _plain(ranges).mean(values)
    result[windows.full] = windows.ranges.min(windows.means)
    return result


@register("lowest_window", inputs=_INPUTS, higher_is_confident=True, range=(0, inf), source=FU)
def lowest_window(columns: Columns, ranges: Ranges, *, window: int = 2048, k: int = 20) -> Floats:
    """Smallest mean of the token confidence over a sliding window: DeepConf's lowest group confidence.

    (n_spans,) nats in [ln k, ∞]; higher is more confident. Source: Fu et al. 2025, arXiv 2508.15260.

    Parameters
    ----------
    window : tokens in a window
    k : most likely tokens in a token's confidence: 20, or at most the number of stored alternatives
    """
    return lowest_window_mean(token_topk_nll(columns, k), ranges, window)


@register("bottom_windows", inputs=_INPUTS, higher_is_confident=True, range=(0, inf), source=FU)
def bottom_windows(
    columns: Columns, ranges: Ranges, *, fraction: float = 0.1, window: int = 2048, k: int = 20
) -> Floats:
    """Mean over the lowest tenth of the sliding windows, at least one: bottom-10 % group confidence.

    (n_spans,) nats in [ln k, ∞]; higher is more confident. Source: Fu et al. 2025, arXiv 2508.15260.

    Parameters
    ----------
    fraction : share of the windows, above 0 and at most 1, rounded down
    window : tokens in a window
    k : most likely tokens in a token's confidence: 20, or at most the number of stored alternatives
    """
    if not 0 < fraction <= 1:
        raise ToolkitError(f"fraction={fraction}: it is a share of the windows, above 0 and at most 1")
    values = token_topk_nll(columns, k)
    windows = window_means(values, ranges, window)
    counts = np.maximum(1, np.floor(fraction * windows.ranges.lengths + 1e-9).astype(np.int64))
    result = _plain(ranges).mean(values)
    result[windows.full] = windows.ranges.lowest_mean(windows.means, counts)
    return result


@register("tail", inputs=_INPUTS, higher_is_confident=True, range=(0, inf), source=FU)
def tail(columns: Columns, ranges: Ranges, *, length: int = 2048, k: int = 20) -> Floats:
    """Mean of the token confidence over the last tokens: DeepConf's tail confidence.

    (n_spans,) nats in [ln k, ∞]; higher is more confident. Source: Fu et al. 2025, arXiv 2508.15260.

    Parameters
    ----------
    length : number of tokens from the end; a shorter span counts whole
    k : most likely tokens in a token's confidence: 20, or at most the number of stored alternatives
    """
    if length < 1:
        raise ToolkitError(f"length={length}: a tail has at least one token")
    return ranges.last(length).mean(token_topk_nll(columns, k))


def _plain(ranges: Ranges) -> Ranges:
    return ranges if ranges.weights is None else ranges.take(np.arange(len(ranges)))
