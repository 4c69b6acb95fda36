"""Compiled products against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.generation import compiled_products
from toolkit.generation.compiled_products import SHAPE, WIDTH, Shape, multiply, pack, tile_shape

pytestmark = pytest.mark.skipif(SHAPE is None, reason="a processor without fused multiply-add")

RANDOM = np.random.default_rng(2)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def product(inputs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    out = np.full((len(inputs), len(weight)), np.nan, np.float32)
    multiply(inputs, pack(weight), out)
    return out


@given(st.integers(1, 40), st.integers(1, 3 * WIDTH + 1), st.integers(1, 70))
@settings(deadline=None, max_examples=60)
def test_any_shape(rows: int, outputs: int, inputs: int) -> None:
    x, w = normal(rows, inputs), normal(outputs, inputs)
    expected = x.astype(np.float64) @ w.T.astype(np.float64)
    np.testing.assert_allclose(product(x, w), expected, atol=2e-5)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_row_does_not_depend_on_the_rows_beside_it_nor_on_threads(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = normal(50, 576), normal(500, 576)
    together = product(x, w)
    monkeypatch.setattr(compiled_products, "n_threads", lambda: n_threads)
    monkeypatch.setattr(compiled_products, "MIN_WORK", 1)
    for rows in ([0], [49, 3], list(range(7, 31)), list(range(50))):
        np.testing.assert_array_equal(product(x[rows], w), together[rows])


def test_what_is_not_finite_stays_in_its_row() -> None:
    x, w = normal(5, 20), normal(30, 20)
    clean = product(x, w)
    x[2, 4] = np.nan
    found = product(x, w)
    assert np.isnan(found[2]).all()
    np.testing.assert_array_equal(found[[0, 1, 3, 4]], clean[[0, 1, 3, 4]])


@pytest.mark.parametrize(
    ("features", "machine", "expected"),
    [
        ({"avx512f": True, "avx2": True, "fma": True}, "x86_64-linux", Shape(9, 3, 16)),
        ({"avx512f": False, "avx2": True, "fma": True}, "x86_64-linux", Shape(6, 2, 8)),
        ({"avx2": True, "fma": False}, "x86_64-linux", None),
        ({}, "aarch64-linux-gnu", Shape(8, 3, 4)),
    ],
)
def test_the_tile_follows_from_the_processor(features, machine: str, expected: Shape | None) -> None:
    assert tile_shape(features, machine) == expected
