"""Attention of a running batch and the gated activation, compiled: for models on the CPU.

One pass over a row's keys and values instead of the dozen of `numpy_kernels`, which is the reference and serves where
Numba is not installed. Every row is computed by itself, in an order that its own text alone decides, so that the
rows beside it never change it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from toolkit.generation.compiled_math import IN_ORDER, REORDERED, compiled, exp
from toolkit.generation.numpy_kernels import Floats

Indices = NDArray[np.intp]

BLOCK = 64  # positions whose scores are held at once
_ONE = np.float32(1.0)


@compiled(fastmath=IN_ORDER)
def silu_product(gate: Floats, up: Floats, out: Floats) -> None:
    """out = gate / (1 + exp(-gate)) * up, elementwise over flat arrays; within 1e-36 of 0 for gate below -88."""
    for i in range(gate.size):
        out[i] = gate[i] / (_ONE + exp(-gate[i])) * up[i]


@compiled(fastmath=IN_ORDER)
def gated_rows(both: Floats, out: Floats) -> None:
    """The same of rows that hold gate and up side by side: both (rows, 2 n), out (rows, n)."""
    n = out.shape[1]
    for row in range(out.shape[0]):
        for i in range(n):
            gate = both[row, i]
            out[row, i] = gate / (_ONE + exp(-gate)) * both[row, n + i]


@compiled(fastmath=REORDERED)
def normalise(rows: Floats, weight: Floats, epsilon: float, out: Floats) -> None:
    """out = rows / sqrt(mean of squares + epsilon) * weight: rows and out (rows, n), weight (n,)."""
    n = rows.shape[1]
    for row in range(rows.shape[0]):
        total = np.float32(0)
        for i in range(n):
            total += rows[row, i] * rows[row, i]
        factor = np.float32(1 / math.sqrt(total / n + epsilon))
        for i in range(n):
            out[row, i] = rows[row, i] * factor * weight[i]


@compiled(fastmath=IN_ORDER)
def rotate(head: Floats, cos: Floats, sin: Floats, traditional: bool, out: Floats) -> None:
    """One head by its position's angles; dimensions past them are copied."""
    half = cos.size
    if traditional:
        for i in range(half):
            first, second = head[2 * i], head[2 * i + 1]
            out[2 * i] = first * cos[i] - second * sin[i]
            out[2 * i + 1] = first * sin[i] + second * cos[i]
    else:
        lower, upper = head[:half], head[half : 2 * half]
        left, right = out[:half], out[half : 2 * half]
        for i in range(half):
            left[i] = lower[i] * cos[i] - upper[i] * sin[i]
            right[i] = lower[i] * sin[i] + upper[i] * cos[i]
    for i in range(2 * half, head.size):
        out[i] = head[i]


@compiled(fastmath=IN_ORDER)
def rotate_rows(
    rows: Indices, heads: Floats, cos: Floats, sin: Floats, traditional: bool, scale: float, out: Floats
) -> None:
    """Rotary embedding of some rows, times `scale`: heads and out (rows, n, dim), cos and sin (rows, dims / 2)."""
    factor = np.float32(scale)
    for row in rows:
        for head in range(heads.shape[1]):
            rotate(heads[row, head], cos[row], sin[row], traditional, out[row, head])
            for i in range(heads.shape[2]):
                out[row, head, i] *= factor


@compiled()
def write_rows(rows: Indices, places: Indices, new: Floats, stored: Floats) -> None:
    """stored[row, :, place] = new[row], for each row and its place: (slots, n, positions, dim) and (rows, n, dim)."""
    for j in range(rows.size):
        for head in range(new.shape[1]):
            for i in range(new.shape[2]):
                stored[rows[j], head, places[j], i] = new[rows[j], head, i]


@compiled(fastmath=REORDERED)
def _scores(query: Floats, keys: Floats, n: int, scores: Floats) -> np.float32:
    """Products of a query with n keys; the largest. Four keys at a time, so that the query is read once for them."""
    dim, whole = query.size, n - n % 4
    largest = np.float32(-np.inf)
    for p in range(0, whole, 4):
        s0 = s1 = s2 = s3 = np.float32(0)
        for d in range(dim):
            x = query[d]
            s0 += x * keys[p, d]
            s1 += x * keys[p + 1, d]
            s2 += x * keys[p + 2, d]
            s3 += x * keys[p + 3, d]
        scores[p], scores[p + 1], scores[p + 2], scores[p + 3] = s0, s1, s2, s3
    for p in range(whole, n):
        s0 = np.float32(0)
        for d in range(dim):
            s0 += query[d] * keys[p, d]
        scores[p] = s0
    for p in range(n):
        if scores[p] > largest:
            largest = scores[p]
    return largest


@compiled(fastmath=REORDERED)
def _add_values(weights: Floats, values: Floats, n: int, out: Floats) -> None:
    """out += the weighted sum of n values, four at a time, so that `out` is read and written once for them."""
    dim, whole = out.size, n - n % 4
    for p in range(0, whole, 4):
        w0, w1, w2, w3 = weights[p], weights[p + 1], weights[p + 2], weights[p + 3]
        for d in range(dim):
            out[d] += (
                w0 * values[p, d] + w1 * values[p + 1, d] + (w2 * values[p + 2, d] + w3 * values[p + 3, d])
            )
    for p in range(whole, n):
        for d in range(dim):
            out[d] += weights[p] * values[p, d]


@compiled(fastmath=REORDERED)
def attend_some(
    query: Floats,
    keys: Floats,
    values: Floats,
    n: int,
    scores: Floats,
    maximum: Floats,
    total: Floats,
    out: Floats,
) -> None:
    """Take n more positions into one head's running softmax: its maximum (1,), total (1,) and sum of values."""
    largest = _scores(query, keys, n, scores)
    if largest > maximum[0]:
        factor = np.float32(math.exp(maximum[0] - largest))
        total[0] *= factor
        for d in range(out.size):
            out[d] *= factor
        maximum[0] = largest
    added = np.float32(0)
    for p in range(n):
        scores[p] = exp(scores[p] - maximum[0])
        added += scores[p]
    total[0] += added
    _add_values(scores, values, n, out)


@compiled()
def attend_prefix(
    rows: Indices, queries: Floats, keys: Floats, values: Floats, maximum: Floats, total: Floats, out: Floats
) -> None:
    """Attention of some rows over keys (kv_heads, length, dim) that they share, a block for all of them at a time.

    Updates the running softmax of rows and heads: maximum and total (rows, heads), out (rows, heads, value_dim).
    """
    scores = np.empty(BLOCK, np.float32)
    group = queries.shape[1] // keys.shape[0]
    for kv in range(keys.shape[0]):
        for start in range(0, keys.shape[1], BLOCK):
            n = min(BLOCK, keys.shape[1] - start)
            block, weighed = keys[kv, start : start + n], values[kv, start : start + n]
            for row in rows:
                for h in range(kv * group, (kv + 1) * group):
                    state = maximum[row, h : h + 1], total[row, h : h + 1], out[row, h]
                    attend_some(queries[row, h], block, weighed, n, scores, *state)


@compiled()
def attend_own(
    rows: Indices,
    counts: Indices,
    queries: Floats,
    keys: Floats,
    values: Floats,
    maximum: Floats,
    total: Floats,
    out: Floats,
) -> None:
    """The same over the first `counts` positions of each row's own keys, (slots, kv_heads, block, dim)."""
    scores = np.empty(keys.shape[2], np.float32)
    group = queries.shape[1] // keys.shape[1]
    for j in range(rows.size):
        row = rows[j]
        for h in range(queries.shape[1]):
            state = maximum[row, h : h + 1], total[row, h : h + 1], out[row, h]
            attend_some(
                queries[row, h], keys[row, h // group], values[row, h // group], counts[j], scores, *state
            )


@compiled()
def divide_rows(rows: Indices, total: Floats, out: Floats) -> None:
    """End the running softmax of some rows: out (rows, heads, value_dim) by total (rows, heads)."""
    for row in rows:
        for head in range(out.shape[1]):
            for d in range(out.shape[2]):
                out[row, head, d] /= total[row, head]
