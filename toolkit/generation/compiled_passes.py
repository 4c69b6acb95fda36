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
def _take(value: np.float32, token: int, n: int, ids: NDArray[np.int32], values: Floats) -> int:
    """Put a token in its place among the n largest so far, if it is one; how many there are then."""
    k = values.size
    if n == k and not (value > values[k - 1] or (value == values[k - 1] and token < ids[k - 1])):
        return n
    place = n if n < k else k - 1
    while place > 0 and (
        value > values[place - 1] or (value == values[place - 1] and token < ids[place - 1])
    ):
        values[place], ids[place] = values[place - 1], ids[place - 1]
        place -= 1
    values[place], ids[place] = value, token
    return min(n + 1, k)


@compiled()
def _top(row: Floats, maxima: Floats, ids: NDArray[np.int32], values: Floats) -> None:
    """`top` of one row."""
    n_tokens, k = row.size, values.size
    stride = n_tokens // N_INTERLEAVED
    likely, places = np.empty(k, np.float32), np.empty(k, np.int32)
    ids[:], values[:] = 0, -np.inf
    n = 0
    for j in range(maxima.size):
        n = _take(maxima[j], j, n, places, likely)
    bound = likely[k - 1] if n == k else np.float32(-np.inf)
    n = 0
    if bound == -np.inf:  # too many are as likely, and the first are wanted
        for token in range(n_tokens):
            n = _take(row[token], token, n, ids, values)
        return
    for j in range(maxima.size):
        if maxima[j] < bound:
            continue
        if j >= stride:
            token = j - stride + stride * N_INTERLEAVED
            n = _take(row[token], token, n, ids, values)
            continue
        for token in range(j, stride * N_INTERLEAVED, stride):
            if row[token] >= bound:
                n = _take(row[token], token, n, ids, values)


@compiled()
def top(logits: Floats, maxima: Floats, ids: NDArray[np.int32], values: Floats) -> None:
    """Fill ids and values (n, k) with the largest logits of each row, (n, V), falling, equal ones by rising id.

    `maxima` (n, n_maxima) are those of `_maxima`. k of them are at least as large as the k-th, so that k logits are,
    and only logits whose maximum is can be among the k largest. A bad row gets what has no meaning.
    """
    for i in range(logits.shape[0]):
        _top(logits[i], maxima[i], ids[i], values[i])


@compiled()
def mass_moments_and_top(
    logits: Floats,
    maxima: Floats,
    block_sums: Floats,
    sums: NDArray[np.float64],
    ids: NDArray[np.int32],
    values: Floats,
) -> None:
    """Fill `maxima` (n, n_maxima), `block_sums` (n, n_blocks), `sums` (n, 5), ids and values (n, k) of logits (n, V).

    They are those of `row_passes.mass_and_moments` and of `top`; k may be 0. A row is visited once, while it is in
    the processor's cache. A row with NaN or +inf, or nothing but -inf, gets a maximum of NaN.
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
        if values.shape[1]:
            _top(logits[i], maxima[i], ids[i], values[i])
        if np.isnan(whole):
            maxima[i, 0] = np.nan


@compiled()
def draw(
    factor: float,
    logits: Floats,
    maximum: Floats,
    block_sums: Floats,
    uniforms: NDArray[np.float64],
    ids: NDArray[np.int32],
) -> None:
    """ids (n,): the first token of each row whose cumulative mass exceeds uniform times all mass, by rising id.

    The mass is that of `mass` with the same factor, and block_sums (n, n_blocks) what it or `mass_and_moments` gave.
    Where rounding puts the target at all mass, or over it, the last place that adds to the sum is meant.
    """
    for i in range(logits.shape[0]):
        total = np.float64(0)
        for block in range(block_sums.shape[1]):
            total += block_sums[i, block]
        target = uniforms[i] * total
        before = running = np.float64(0)
        block = 0
        for block in range(block_sums.shape[1]):  # the place is meant
            before = running
            running += block_sums[i, block]
            if running > target or running >= total:
                break
        tokens = logits[i, block * BLOCK : (block + 1) * BLOCK]
        target, total = target - before, np.float64(0)
        for j in range(tokens.size):
            total += _weight(tokens[j], maximum[i], np.float32(factor))
        running, place = np.float64(0), 0
        for place in range(tokens.size):
            running += _weight(tokens[place], maximum[i], np.float32(factor))
            if running > target or running >= total:
                break
        ids[i] = block * BLOCK + place


@compiled(fastmath=IN_ORDER)
def _weight(logit: np.float32, maximum: np.float32, factor: np.float32) -> np.float32:
    y = np.float32((logit - maximum) * factor)
    return _ZERO if y < LOWEST else exp(y)


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
