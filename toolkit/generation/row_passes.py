"""Passes over a few rows of logits at a time, in place, by NumPy.

A few rows, so that every pass finds them in the processor's cache; in place, since a third array costs as
much as the arithmetic. No exponential is kept: the draw needs those of one block only. Two threads gain
nothing here: the calls are too short to share.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Tokens whose mass is summed in float32, by BLAS, which keeps dozens of partial sums. Sums over blocks are
# float64: one dot product over a whole row would lose three digits of the entropy.
BLOCK = 256
N_INTERLEAVED = 64  # logits that share a maximum in the search for the largest
CHUNK = 1 << 17  # logits handled at once: three arrays of this size fit in a second-level cache of 2 MB
FLOOR = np.float32(-200.0)  # stands in for -inf in products; its exponential is 0 in float32


class Workspace:
    """Buffers that are kept between steps, so that no step allocates megabytes.

    Owned by one engine and not shared between threads. What was computed in a buffer is valid until the next
    computation under the same name.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> NDArray[Any]:
        """An uninitialised array over the buffer `name`, which grows where it is too small."""
        size = math.prod(shape)
        held = self._buffers.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._buffers[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)


@functools.cache
def workspace() -> Workspace:
    """That of this process, for what is copied out before the next computation."""
    return Workspace()


class Moments(NamedTuple):
    """Sums over the vocabulary, each (B,) float64. y is logit - maximum."""

    total_half: NDArray[np.float64]  # sum of exp(y / 2)
    total_quarter: NDArray[np.float64]  # sum of exp(y / 4)
    first: NDArray[np.float64]  # sum of exp(y) * y
    spread: NDArray[np.float64]  # sum of exp(y) * (y - its mean)**2
    mean_logit: NDArray[np.float64]  # over the finite logits
    n_finite: NDArray[np.int32]


def chunks(n_rows: int, n_tokens: int) -> Iterator[slice]:
    """The rows, a few at a time."""
    step = max(1, CHUNK // n_tokens)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def n_maxima(n_tokens: int) -> int:
    """How many maxima `block_maxima` finds in a row."""
    return n_tokens // N_INTERLEAVED + n_tokens % N_INTERLEAVED


def n_blocks(n_tokens: int) -> int:
    """How many blocks of BLOCK tokens a row takes."""
    return -(-n_tokens // BLOCK)


def block_maxima(rows: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Maxima of logits a stride apart, which is quick to compute; what is left over stands alone."""
    stride = rows.shape[1] // N_INTERLEAVED
    whole = stride * N_INTERLEAVED
    if stride:
        np.max(rows[:, :whole].reshape(-1, N_INTERLEAVED, stride), axis=1, out=out[:, :stride])
    out[:, stride:] = rows[:, whole:]


def shift(rows: NDArray[np.float32], maximum: NDArray[np.float32], space: Workspace) -> NDArray[np.float32]:
    """rows - maximum, padded with zeros to whole blocks: (n, n_blocks, BLOCK)."""
    n_rows, n_tokens = rows.shape
    shifted = space.array("shifted", (n_rows, n_blocks(n_tokens) * BLOCK))
    np.subtract(rows, maximum[:, None], out=shifted[:, :n_tokens])
    shifted[:, n_tokens:] = 0
    return shifted.reshape(n_rows, -1, BLOCK)


def exponentials(shifted: NDArray[np.float32], n_tokens: int, space: Workspace) -> NDArray[np.float32]:
    """exp(shifted), with zeros where it is padded."""
    weights = np.exp(shifted, out=space.array("weights", shifted.shape))
    weights.reshape(len(weights), -1)[:, n_tokens:] = 0
    return weights


def mass_and_moments(
    logits: NDArray[np.float32],
    maxima: NDArray[np.float32],
    block_sums: NDArray[np.float32],
    sums: NDArray[np.float64],
    space: Workspace,
) -> None:
    """Fill maxima (n, n_maxima), block_sums (n, n_blocks) and sums (n, 5), see `row_sums`, of logits (n, V)."""
    n_tokens = logits.shape[1]
    for part in chunks(*logits.shape):
        block_maxima(logits[part], maxima[part])
        shifted = shift(logits[part], maxima[part].max(axis=1), space)
        weights = exponentials(shifted, n_tokens, space)
        dot(weights, None, out=block_sums[part])
        sums[part] = row_sums(logits[part], shifted, weights).T


def mass(
    logits: NDArray[np.float32],
    maximum: NDArray[np.float32],
    temperature: float,
    block_sums: NDArray[np.float32],
    space: Workspace,
) -> None:
    """Fill block_sums (n, n_blocks) with the sums of exp((logits - maximum) / temperature)."""
    for part in chunks(*logits.shape):
        shifted = shift(logits[part], maximum[part], space)
        np.divide(shifted, np.float32(temperature), out=shifted)
        dot(exponentials(shifted, logits.shape[1], space), None, out=block_sums[part])


def count_above(
    logits: NDArray[np.float32], values: NDArray[np.float32], space: Workspace
) -> NDArray[np.int32]:
    """(n,) how many logits of each row are greater than the row's value."""
    above = space.array("mask", logits.shape[1:], np.bool_)
    pairs = zip(logits, values, strict=True)
    return np.array([np.count_nonzero(np.greater(row, value, out=above)) for row, value in pairs], np.int32)


def count_above_each(
    logits: NDArray[np.float32], values: NDArray[np.float32], space: Workspace
) -> NDArray[np.int32]:
    """(n, w) how many logits of each row are greater than each of the row's values, (n, w)."""
    above = space.array("mask", logits.shape[1:], np.bool_)
    counts = np.zeros(values.shape, np.int32)
    for row, own, found in zip(logits, values, counts, strict=True):
        found[:] = [np.count_nonzero(np.greater(row, value, out=above)) for value in own]
    return counts


def row_sums(
    rows: NDArray[np.float32], shifted: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float64]:
    """(5, n): the sums of y, exp(y)*y, exp(y)*y*y, exp(y/2) and exp(y/4). Both arrays are used up."""
    sums = np.empty((5, len(rows)))
    sums[0] = _row_dot(shifted, None)
    if not np.isfinite(sums[0]).all():
        np.maximum(shifted, FLOOR, out=shifted)  # 0 * -inf would be NaN
    sums[1] = _row_dot(weights, shifted)
    np.sqrt(weights, out=weights)
    sums[3] = _row_dot(weights, None)
    np.multiply(shifted, weights, out=shifted)
    sums[2] = _row_dot(shifted, shifted)
    np.sqrt(weights, out=weights)
    sums[4] = _row_dot(weights, None)
    return sums


def find_moments(
    rows: NDArray[np.float32],
    sums: NDArray[np.float64],
    maximum: NDArray[np.float32],
    total: NDArray[np.float64],
) -> Moments:
    shifted, first, second, half, quarter = sums
    n_finite = np.full(len(rows), rows.shape[1], np.int32)
    for row in np.flatnonzero(~np.isfinite(shifted)):
        finite = rows[row][np.isfinite(rows[row])].astype(np.float64)  # some mask with the lowest float32
        n_finite[row] = finite.size
        shifted[row] = (finite - maximum[row]).sum()
    spread = np.maximum(second - first * first / total, 0)
    return Moments(half, quarter, first, spread, maximum + shifted / n_finite, n_finite)


def _row_dot(left: NDArray[np.float32], right: NDArray[np.float32] | None) -> NDArray[np.float64]:
    return dot(left, right).sum(axis=1, dtype=np.float64)


def dot(
    left: NDArray[np.float32], right: NDArray[np.float32] | None, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Sums over blocks of left, or of left * right."""
    return np.vecdot(left, np.ones(BLOCK, np.float32) if right is None else right, out=out)


def tempered_weights(
    logits: NDArray[np.float32], maximum: NDArray[np.float32], temperature: float
) -> NDArray[np.float32]:
    """exp((logits - maximum) / temperature) of m logits a row, (n, m)."""
    shifted = logits - maximum[:, None]
    np.divide(shifted, np.float32(temperature), out=shifted)
    return np.exp(shifted, out=shifted)


def count_true(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    """How many of each row are true. A call a row counts bytes; a sum along an axis converts them first."""
    return np.array([np.count_nonzero(row) for row in mask], np.int32)
