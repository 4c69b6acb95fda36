"""Attention of many rows over keys and values that they share, as products of small matrices.

Keys and values of a prompt are kept in the order that tiles of `compiled_vector_products` read, so that some queries
at a time meet all of them. Each number is one sum in the order of dimensions or positions, whatever the rows beside
it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.generation.compiled_math import REORDERED, compiled, exp
from toolkit.generation.compiled_vector_products import MOST_ROWS, TILE_ROWS, WIDTH, tile_of

Floats = NDArray[np.float32]
Indices = NDArray[np.intp]

SIZE = 4  # bytes of a float32


class PackedPrompt(NamedTuple):
    """Keys and values of a text in all layers, with room for so many positions. Make it with `packed_prompt`."""

    keys: Floats  # (layers, kv_heads, panels of positions, dim, WIDTH)
    values: Floats  # (layers, kv_heads, panels of dimensions, positions, WIDTH)

    @property
    def addresses(self) -> NDArray[np.int64]:
        """(layers, 2) where keys and values are."""
        return np.array([[one.ctypes.data for one in layer] for layer in zip(*self, strict=True)], np.int64)

    def append(self, new: Floats, start: int) -> None:
        """Put keys and values, (layers, 2, kv_heads, n, dim), at positions from `start` on."""
        _append(new, start, self.keys, self.values)

    def unpacked(self) -> list[tuple[Floats, Floats]]:
        """Of each layer keys and values, (kv_heads, positions, dim)."""
        layers, heads, _, dim, _ = self.keys.shape
        n = self.values.shape[3]
        keys = self.keys.swapaxes(3, 4).reshape(layers, heads, -1, dim)[:, :, :n]
        values = self.values.swapaxes(2, 3).reshape(layers, heads, n, -1)[..., :dim]
        return [(np.ascontiguousarray(k), np.ascontiguousarray(v)) for k, v in zip(keys, values, strict=True)]


def packed_prompt(layers: int, kv_heads: int, dim: int, positions: int) -> PackedPrompt:
    """Zeros, with room for so many positions."""
    return PackedPrompt(
        np.zeros((layers, kv_heads, -(-positions // WIDTH), dim, WIDTH), np.float32),
        np.zeros((layers, kv_heads, -(-dim // WIDTH), positions, WIDTH), np.float32),
    )


@compiled()
def _append(new: Floats, start: int, keys: Floats, values: Floats) -> None:
    layers, _, heads, n, dim = new.shape
    for layer in range(layers):
        for head in range(heads):
            for i in range(n):
                panel, column = (start + i) // WIDTH, (start + i) % WIDTH
                for d in range(dim):
                    keys[layer, head, panel, d, column] = new[layer, 0, head, i, d]
                    values[layer, head, d // WIDTH, start + i, d % WIDTH] = new[layer, 1, head, i, d]


@compiled(fastmath=REORDERED)
def _softmax(scores: Floats, maximum: Floats, total: Floats) -> None:
    """scores = exp(scores - their maximum), which is told, with the sum."""
    largest = np.float32(-np.inf)
    for p in range(scores.size):
        largest = scores[p] if scores[p] > largest else largest
    added = np.float32(0)
    for p in range(scores.size):
        scores[p] = exp(scores[p] - largest)
        added += scores[p]
    maximum[0], total[0] = largest, added


@compiled()
def attend_packed(
    rows: Indices,
    queries: Floats,
    keys: Floats,
    values: Floats,
    length: int,
    maximum: Floats,
    total: Floats,
    out: Floats,
) -> None:
    """Begin attention of some rows with the first `length` positions that they share.

    Parameters
    ----------
    rows : (n,)
    queries : (rows, heads, dim)
    keys, values : of one layer, as of `PackedPrompt`
    length : 1 or more
    maximum, total : (rows, heads) set to those of the running softmax
    out : (rows, heads, dim) set to the weighed sum of values, not yet divided
    """
    kv_heads, dim = keys.shape[0], queries.shape[2]
    group = queries.shape[1] // kv_heads
    n_panels = (length + WIDTH - 1) // WIDTH
    given, found = np.empty((MOST_ROWS, dim), np.float32), np.empty((MOST_ROWS, WIDTH), np.float32)
    stride = n_panels * WIDTH
    scores = np.empty((MOST_ROWS, stride), np.float32)
    n_pairs = rows.size * group
    for kv in range(kv_heads):
        for start in range(0, n_pairs, TILE_ROWS):
            height = min(TILE_ROWS, n_pairs - start)
            for i in range(height):
                row, head = rows[(start + i) // group], kv * group + (start + i) % group
                given[i] = queries[row, head]
            for panel in range(n_panels):
                there = scores.ctypes.data + panel * WIDTH * SIZE
                tile_of(height, given.ctypes.data, dim, keys[kv, panel].ctypes.data, there, stride, dim)
            for i in range(height):
                row, head = rows[(start + i) // group], kv * group + (start + i) % group
                _softmax(scores[i, :length], maximum[row, head : head + 1], total[row, head : head + 1])
            for panel in range(values.shape[1]):
                address = values[kv, panel].ctypes.data
                tile_of(height, scores.ctypes.data, stride, address, found.ctypes.data, WIDTH, length)
                width = min(WIDTH, dim - panel * WIDTH)
                for i in range(height):
                    row, head = rows[(start + i) // group], kv * group + (start + i) % group
                    target = out[row, head, panel * WIDTH : panel * WIDTH + width]
                    for j in range(width):
                        target[j] = found[i, j]
