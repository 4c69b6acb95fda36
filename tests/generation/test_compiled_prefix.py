"""Attention over shared positions against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.generation.compiled_prefix import attend_packed, packed_prompt
from toolkit.generation.compiled_vector_products import SHAPE

pytestmark = pytest.mark.skipif(SHAPE is None, reason="a processor without fused multiply-add")

RANDOM = np.random.default_rng(4)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def attention(rows: np.ndarray, queries: np.ndarray, new: np.ndarray, length: int) -> list[np.ndarray]:
    """Maximum, total and sum of values of all rows, NaN where it was not asked for."""
    _, _, kv_heads, room, dim = new.shape
    packed = packed_prompt(1, kv_heads, dim, room)
    for start in range(0, length, 50):
        packed.append(new[:, :, :, start : start + 50], start)
    shape = queries.shape[:2]
    found = [np.full(size, np.nan, np.float32) for size in (shape, shape, (*shape, dim))]
    attend_packed(rows, queries, packed.keys[0], packed.values[0], length, *found)
    return found


@given(
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 4),
    dim=st.sampled_from([1, 7, 16, 48, 64, 100]),
    length=st.integers(1, 150),
    room=st.integers(0, 60),
    n_rows=st.integers(1, 12),
)
@settings(deadline=None, max_examples=60)
def test_it_is_softmax_of_products(
    kv_heads: int, group: int, dim: int, length: int, room: int, n_rows: int
) -> None:
    queries, new = normal(n_rows, kv_heads * group, dim), normal(1, 2, kv_heads, length + room, dim)
    rows = RANDOM.permutation(n_rows)[: max(1, n_rows // 2)]
    maximum, total, out = attention(rows, queries, new, length)
    keys, values = (np.repeat(one[:, :length], group, axis=0).astype(np.float64) for one in new[0])
    scores = np.einsum("rhd,hpd->rhp", queries[rows].astype(np.float64), keys)
    np.testing.assert_allclose(maximum[rows], scores.max(axis=2), atol=1e-4)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    np.testing.assert_allclose(total[rows], weights.sum(axis=2), rtol=1e-4)
    expected = np.einsum("rhp,hpd->rhd", weights, values) / weights.sum(axis=2)[..., None]
    np.testing.assert_allclose(out[rows] / total[rows][..., None], expected, atol=1e-4)
    others = np.setdiff1d(np.arange(n_rows), rows)
    assert np.isnan(out[others]).all()


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    queries, new = normal(40, 6, 64), normal(1, 2, 2, 100, 64)
    together = attention(np.arange(40), queries, new, 100)
    for rows in ([3], [39, 0], list(range(5, 27))):
        for found, expected in zip(attention(np.array(rows), queries, new, 100), together, strict=True):
            np.testing.assert_array_equal(found[rows], expected[rows])


def test_what_is_packed_comes_back() -> None:
    new = normal(3, 2, 2, 130, 64)
    packed = packed_prompt(3, 2, 64, 130)
    packed.append(new[:, :, :, :128], 0)
    packed.append(new[:, :, :, 128:], 128)
    for layer, (keys, values) in enumerate(packed.unpacked()):
        np.testing.assert_array_equal(keys, new[layer, 0])
        np.testing.assert_array_equal(values, new[layer, 1])
