"""The gated activation and attention in NumPy, over float32 arrays.

MLX's exp on the CPU is scalar: these two operations take most of a step there. NumPy's is vectorised, and
matrix products go to BLAS either way. Knows nothing of models, caches or tokens.

A row's result must not depend on the rows beside it, or a token near a boundary would be another one in another
batch. A BLAS adds up in an order that depends on the shape of a product, so the products of `attend_rows` have
shapes that depend on the row's own text alone; zeros at the end of a sum change nothing, and totals are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

KEY_BLOCK = 64  # own positions of a row in one array, and in one product
ROW_BLOCK = 8  # rows that share a prefix in one product
LARGE_PRODUCT = (
    1_000_000  # multiplications from which OpenBLAS adds up in one order, however many rows there are
)


class Rotary(NamedTuple):
    """Rotary position embedding with plain frequencies base^(-2 i / dims), Su et al. 2021, arXiv 2104.09864."""

    dims: int  # the first of a head's dimensions that are rotated
    traditional: bool  # pairs lie side by side; else half of `dims` apart
    base: float
    scale: float  # multiplies the positions

    def angles(self, positions: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """(cos, sin) of shape (n, dims / 2) for n positions, by float64."""
        frequencies = self.base ** (-np.arange(0, self.dims, 2) / self.dims)
        angles = positions[:, None] * self.scale * frequencies
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def rotate(self, heads: Floats, cos: Floats, sin: Floats) -> Floats:
        """Rotate (..., head_dim) by angles that broadcast against (..., dims / 2)."""
        half = self.dims // 2
        pairs = (slice(0, self.dims, 2), slice(1, self.dims, 2))
        first, second = pairs if self.traditional else (slice(0, half), slice(half, self.dims))
        rotated = np.empty_like(heads)
        rotated[..., self.dims :] = heads[..., self.dims :]
        rotated[..., first] = heads[..., first] * cos - heads[..., second] * sin
        rotated[..., second] = heads[..., first] * sin + heads[..., second] * cos
        return rotated


class Angles:
    """Rotary angles of some positions, the same for all layers of a pass."""

    def __init__(self, positions: NDArray[np.intp]) -> None:
        self._positions = positions
        self._found: dict[Rotary, tuple[Floats, Floats]] = {}

    def of(self, rotary: Rotary | None) -> tuple[Floats, Floats]:
        """(cos, sin) of shape (n, dims / 2); no dims where nothing is to be rotated."""
        if rotary is None:
            none = np.empty((len(self._positions), 0), np.float32)
            return none, none
        if rotary not in self._found:
            self._found[rotary] = rotary.angles(self._positions)
        return self._found[rotary]

    def rotate(self, rotary: Rotary | None, queries: Floats, keys: Floats) -> tuple[Floats, Floats]:
        """Queries and keys (..., n, head_dim), rotated."""
        if rotary is None:
            return queries, keys
        angles = self.of(rotary)
        return rotary.rotate(queries, *angles), rotary.rotate(keys, *angles)


class SharedPrefix(NamedTuple):
    """Keys and values of one prompt, and the rows of the batch that continue it."""

    rows: NDArray[np.intp]  # (m,)
    keys: Floats  # (kv_heads, length, head_dim)
    values: Floats  # (kv_heads, length, value_dim)


def silu_product(gate: Floats, up: Floats) -> Floats:
    """silu(gate) * up, elementwise: gate / (1 + exp(-gate)) * up."""
    work = np.negative(gate)
    # exp overflows to inf below -88, where the quotient is the right limit, -0.
    with np.errstate(over="ignore"):
        np.exp(work, out=work)
    work += 1.0
    np.divide(gate, work, out=work)
    work *= up
    return work


def _exponentiate(scores: Floats, maximum: Floats) -> Floats:
    """exp(scores - maximum) in place; the sum over the last axis, which is kept."""
    scores -= maximum
    np.exp(scores, out=scores)
    return scores.sum(axis=-1, keepdims=True, dtype=np.float64).astype(np.float32)


def attend_prompt(queries: Floats, keys: Floats, values: Floats, scale: float) -> Floats:
    """Causal attention of the last positions of one prompt over all of it so far.

    Parameters
    ----------
    queries : (heads, n, head_dim)
    keys, values : (kv_heads, length, head_dim), length >= n; query i sits at position length - n + i
    scale : multiplies the scores

    Returns
    -------
    (heads, n, value_dim)
    """
    heads, n, dim = queries.shape
    kv_heads, length, _ = keys.shape
    grouped = (queries * np.float32(scale)).reshape(kv_heads, heads // kv_heads * n, dim)
    scores = np.matmul(grouped, keys.transpose(0, 2, 1))
    if n > 1:
        visible = np.arange(length) <= np.arange(length - n, length)[:, None]
        bias = np.where(visible, np.float32(0), np.float32(-np.inf))
        scores.reshape(heads, n, length)[...] += bias
    total = _exponentiate(scores, scores.max(axis=-1, keepdims=True))
    out = np.matmul(scores, values)
    out /= total
    return out.reshape(heads, n, -1)


def attend_rows(
    queries: Floats,
    keys: Sequence[Floats],
    values: Sequence[Floats],
    lengths: NDArray[np.intp],
    prefixes: Sequence[SharedPrefix],
    scale: float,
) -> Floats:
    """Attention of one new position a row, over its prompt's shared keys and its own, with one softmax.

    Parameters
    ----------
    queries : (rows, heads, head_dim)
    keys, values : equal blocks of (rows, kv_heads, positions, head_dim), each row's own; finite past its length
    lengths : (rows,), the own positions that count, the new one among them; at least 1
    prefixes : disjoint sets of rows with the keys they share; a row in none has only its own
    scale : multiplies the scores

    Returns
    -------
    (rows, heads, value_dim)
    """
    rows, heads, dim = queries.shape
    kv_heads = keys[0].shape[1]
    size = keys[0].shape[2]
    n_blocks = -(-int(lengths.max()) // size)
    scaled = (queries * np.float32(scale)).reshape(rows, kv_heads, heads // kv_heads, dim)
    own = _own_scores(scaled, keys[:n_blocks], lengths)
    maximum = own.max(axis=-1, keepdims=True)
    shared = []
    for prefix in prefixes:
        scores = _prefix_product(scaled[prefix.rows], prefix.keys.transpose(0, 2, 1))
        maximum[prefix.rows] = np.maximum(maximum[prefix.rows], scores.max(axis=-1, keepdims=True))
        shared.append(scores)
    total = _exponentiate(own, maximum)
    out = np.matmul(own[..., :size], values[0])
    for block in range(1, n_blocks):
        out += np.matmul(own[..., block * size : (block + 1) * size], values[block])
    for prefix, scores in zip(prefixes, shared, strict=True):
        total[prefix.rows] += _exponentiate(scores, maximum[prefix.rows])
        out[prefix.rows] += _prefix_product(scores, prefix.values)
    out /= total
    return out.reshape(rows, heads, -1)


def _own_scores(queries: Floats, keys: Sequence[Floats], lengths: NDArray[np.intp]) -> Floats:
    """(rows, kv_heads, group, positions of all blocks), -inf past a row's length."""
    scores = np.concatenate([np.matmul(queries, block.swapaxes(-1, -2)) for block in keys], axis=-1)
    past = np.arange(scores.shape[-1]) >= lengths[:, None]
    scores += np.where(past, np.float32(-np.inf), np.float32(0))[:, None, None]
    return scores


def _prefix_product(rows: Floats, shared: Floats) -> Floats:
    """(m, kv_heads, group, a) times (kv_heads, a, b): (m, kv_heads, group, b).

    One product a kv head and a block of rows; of all rows at once where the product is large enough for the
    block not to matter.
    """
    m, kv_heads, group, a = rows.shape
    large = ROW_BLOCK * group * a * shared.shape[-1] > LARGE_PRODUCT
    size = max(ROW_BLOCK, m) if large else ROW_BLOCK
    n_blocks = -(-m // size)
    padded = np.zeros((n_blocks * size, kv_heads, group, a), np.float32)
    padded[:m] = rows
    stacked = (
        padded.reshape(n_blocks, size, kv_heads, group, a).swapaxes(1, 2).reshape(n_blocks, kv_heads, -1, a)
    )
    product = np.matmul(stacked, shared).reshape(n_blocks, kv_heads, size, group, -1)
    return product.swapaxes(1, 2).reshape(n_blocks * size, kv_heads, group, -1)[:m]
