"""Attention and activation in NumPy against plain float64 formulas."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.generation.numpy_kernels import KEY_BLOCK, SharedPrefix, attend_prompt, attend_rows, silu_product

RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1.5, shape).astype(np.float32)


def in_blocks(array: np.ndarray) -> list[np.ndarray]:
    """(rows, kv_heads, room, dim) as blocks of positions."""
    return np.split(array, array.shape[2] // KEY_BLOCK, axis=2)


def attend_one(query: np.ndarray, keys: np.ndarray, values: np.ndarray, scale: float) -> np.ndarray:
    """One query (dim,) over keys and values (length, dim), in float64."""
    scores = keys.astype(np.float64) @ query.astype(np.float64) * scale
    weights = np.exp(scores - scores.max())
    return weights @ values.astype(np.float64) / weights.sum()


def test_silu_product() -> None:
    gate, up = normal(7, 33), normal(7, 33)
    gate[0, :4] = [-200, -88, 0, 200]
    with np.errstate(over="ignore"):
        expected = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64))) * up
    np.testing.assert_allclose(silu_product(gate, up), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize(("n", "length"), [(1, 1), (1, 9), (5, 5), (4, 11)])
def test_attend_prompt(heads: int, kv_heads: int, n: int, length: int) -> None:
    queries, keys, values = normal(heads, n, 8), normal(kv_heads, length, 8), normal(kv_heads, length, 5)
    found = attend_prompt(queries, keys, values, 0.3)
    for head in range(heads):
        shared = head // (heads // kv_heads)
        for i in range(n):
            seen = length - n + i + 1
            expected = attend_one(queries[head, i], keys[shared, :seen], values[shared, :seen], 0.3)
            np.testing.assert_allclose(found[head, i], expected, atol=2e-5)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
def test_attend_rows(heads: int, kv_heads: int) -> None:
    rows, room, dim = 6, 2 * KEY_BLOCK, 8
    queries, keys, values = (
        normal(rows, heads, dim),
        normal(rows, kv_heads, room, dim),
        normal(rows, kv_heads, room, 5),
    )
    lengths = np.array([3, 1, 70, 64, 65, 2])
    shared = [
        SharedPrefix(np.array(members), normal(kv_heads, n, dim), normal(kv_heads, n, 5))
        for members, n in [([0, 3], 7), ([4], 1), ([5, 1], 30)]
    ]  # row 2 shares nothing
    found = attend_rows(queries, in_blocks(keys), in_blocks(values), lengths, shared, 0.25)
    for row in range(rows):
        prefix = next((one for one in shared if row in one.rows), None)
        for head in range(heads):
            kv = head // (heads // kv_heads)
            k, v = keys[row, kv, : lengths[row]], values[row, kv, : lengths[row]]
            if prefix is not None:
                k, v = np.concatenate([prefix.keys[kv], k]), np.concatenate([prefix.values[kv], v])
            np.testing.assert_allclose(
                found[row, head], attend_one(queries[row, head], k, v, 0.25), atol=2e-5
            )


def test_scores_too_large_for_exp() -> None:
    queries, keys, values = 40 * normal(2, 1, 4), 40 * normal(2, 3, 4), normal(2, 3, 4)
    assert np.isfinite(attend_prompt(queries, keys, values, 1.0)).all()
    shared = [SharedPrefix(np.array([0]), 40 * normal(1, 5, 4), normal(1, 5, 4))]
    rows = attend_rows(
        40 * normal(1, 2, 4),
        [40 * normal(1, 1, KEY_BLOCK, 4)],
        [normal(1, 1, KEY_BLOCK, 4)],
        np.array([3]),
        shared,
        1.0,
    )
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("length", [5, 300, 2000])
def test_a_row_s_result_does_not_depend_on_the_rows_beside_it(length: int) -> None:
    rows, heads, kv_heads, dim, room = 21, 9, 3, 64, 4 * KEY_BLOCK
    queries, keys, values = (
        normal(rows, heads, dim),
        normal(rows, kv_heads, room, dim),
        normal(rows, kv_heads, room, dim),
    )
    lengths = RANDOM.integers(1, room, rows)
    prompt = normal(kv_heads, length, dim), normal(kv_heads, length, dim)

    def attend(members: list[int]) -> np.ndarray:
        shared = [SharedPrefix(np.arange(len(members)), *prompt)]
        return attend_rows(
            queries[members],
            in_blocks(keys[members]),
            in_blocks(values[members]),
            lengths[members],
            shared,
            0.125,
        )

    together = attend(list(range(rows)))
    for members in ([7], [3, 20], [20, 3, 1, 0, 9, 11, 15, 2, 4, 5]):
        np.testing.assert_array_equal(attend(members), together[members])
