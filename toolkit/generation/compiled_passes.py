"""Passes over rows of logits, compiled: what `row_passes` does with a dozen of them is done in two.

Each row is computed by itself; sums over `BLOCK` neighbouring tokens are float32, sums of blocks float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolkit.generation.compiled_math import IN_ORDER, LOWEST, REORDERED, compiled, exp
from toolkit.generation.row_passes import BLOCK, FLOOR, N_INTERLEAVED

Floats = NDArray[np.float32]

COUNTED = 2048  # logits that are compared with several values before the next ones

_HALF, _QUARTER, _ZERO = np.float32(0.5), np.float32(0.25), np.float32(0)


@compiled(fastmath=IN_ORDER)
def _maxima(row: Floats, out: Floats) -> np.float32:
    """Maxima of logits a stride apart, what is left over alone, as `row_passes.block_maxima`; the largest."""
    stride = row.size // N_INTERLEAVED
    whole = stride * N_INTERLEAVED
    for j in range(stride):
        out[j] = row[j]
    for i in range(1, N_INTERLEAVED):
        for j in range(stride):
            value = row[i * stride + j]
            out[j] = value if value > out[j] else out[j]
    for j in range(whole, row.size):
        out[stride + j - whole] = row[j]
    largest = np.float32(-np.inf)
    for j in range(out.size):
        largest = out[j] if out[j] > largest else largest
    return largest


@compiled(fastmath=REORDERED)
def _block(tokens: Floats, maximum: np.float32, factor: np.float32) -> np.float32:
    """The sum of exp((logit - maximum) * factor)."""
    total = _ZERO
    for i in range(tokens.size):
        y = (tokens[i] - maximum) * factor
        total += _ZERO if y < LOWEST else exp(y)
    return total


@compiled(fastmath=REORDERED)
def _block_sums(tokens: Floats, maximum: np.float32) -> tuple[np.float32, ...]:
    """The sums of exp(y), y, exp(y) y, exp(y) y y, exp(y / 2) and exp(y / 4), of y = logit - maximum."""
    total = plain = first = second = half = quarter = _ZERO
    for i in range(tokens.size):
        y = tokens[i] - maximum
        weight = _ZERO if y < LOWEST else exp(y)
        root = exp(y * _QUARTER)
        plain += y
        y = FLOOR if y < FLOOR else y  # 0 * -inf would be NaN
        total += weight
        first += weight * y
        second += weight * y * y
        half += root * root
        quarter += root
    return total, plain, first, second, half, quarter


@compiled()
def mass(factor: float, logits: Floats, maximum: Floats, block_sums: Floats) -> None:
    """block_sums (n, n_blocks): sums of exp((logits - maximum) * factor) over `BLOCK` tokens; logits (n, V)."""
    for i in range(logits.shape[0]):
        for block in range(block_sums.shape[1]):
            tokens = logits[i, block * BLOCK : (block + 1) * BLOCK]
            block_sums[i, block] = _block(tokens, maximum[i], np.float32(factor))


@compiled()
def mass_and_moments(logits: Floats, maxima: Floats, block_sums: Floats, sums: NDArray[np.float64]) -> None:
    """Fill `maxima` (n, n_maxima), `block_sums` (n, n_blocks) and `sums` (n, 5) of logits (n, V).

    They are those of `row_passes.mass_and_moments`. A row with NaN or +inf, or nothing but -inf,
    gets a maximum of NaN.
    """
    for i in range(logits.shape[0]):
        maximum = _maxima(logits[i], maxima[i])
        sums[i] = 0
        whole = np.float64(0)
        for block in range(block_sums.shape[1]):
            tokens = logits[i, block * BLOCK : (block + 1) * BLOCK]
            total, plain, first, second, half, quarter = _block_sums(tokens, maximum)
            block_sums[i, block] = total
            whole += total
            sums[i, 0] += plain
            sums[i, 1] += first
            sums[i, 2] += second
            sums[i, 3] += half
            sums[i, 4] += quarter
        if np.isnan(whole):
            maxima[i, 0] = np.nan


@compiled()
def count_above(logits: Floats, values: Floats, counts: NDArray[np.int32]) -> None:
    """counts (n,): how many logits of each row, (n, V), are greater than the row's value."""
    for i in range(logits.shape[0]):
        n = np.int32(0)
        for token in range(logits.shape[1]):
            n += np.int32(logits[i, token] > values[i])
        counts[i] = n


@compiled()
def count_above_each(logits: Floats, values: Floats, counts: NDArray[np.int32]) -> None:
    """counts (n, w): how many logits of each row, (n, V), are greater than each of the row's values, (n, w).

    Goes through a row once, a block at a time that stays in the processor's cache while it is compared with
    every value.
    """
    size = logits.shape[1]
    for i in range(logits.shape[0]):
        counts[i] = 0
        for start in range(0, size, COUNTED):
            tokens = logits[i, start : min(start + COUNTED, size)]
            for place in range(values.shape[1]):
                n, value = np.int32(0), values[i, place]
                for j in range(tokens.size):
                    n += np.int32(tokens[j] > value)
                counts[i, place] += n
