"""Products of both kinds against float64."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.generation import (
    compiled_tile_products,
    compiled_vector_products,
    threads,
)
from toolkit.generation.compiled_vector_products import SHAPE, Shape, tile_shape
from toolkit.generation.products import kind_of_product, multiply
from toolkit.generation.weight_memory import CHUNK, LINE, WeightMemory
from toolkit.tile_unit import SWITCH, has_tile_unit

pytestmark = pytest.mark.skipif(SHAPE is None, reason="a processor without fused multiply-add")

KINDS = [
    compiled_vector_products,
    pytest.param(
        compiled_tile_products,
        marks=pytest.mark.skipif(not has_tile_unit(), reason="a processor without a tile unit"),
    ),
]
BITS = [
    8,
    11,
    16,
    24,
]  # significant bits of weights: of bfloat16, of float16, of 4 bits times float16, of float32
RANDOM = np.random.default_rng(2)


def normal(*shape: int, bits: int = 24) -> np.ndarray:
    """Numbers of so many significant bits."""
    mask = np.uint32(0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF)
    return (RANDOM.normal(0, 1, shape).astype(np.float32).view(np.uint32) & mask).view(np.float32)


def product(kind: ModuleType, inputs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    out = np.full((len(inputs), len(weight)), np.nan, np.float32)
    multiply(kind, inputs, kind.pack(weight, WeightMemory()), out)
    return out


def in_float64(inputs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return inputs.astype(np.float64) @ weight.T.astype(np.float64)


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(1, 70), st.integers(1, 145), st.integers(1, 100), st.sampled_from(BITS))
@settings(deadline=None, max_examples=60)
def test_any_shape(kind: ModuleType, rows: int, outputs: int, inputs: int, bits: int) -> None:
    x, w = normal(rows, inputs), normal(outputs, inputs, bits=bits)
    np.testing.assert_allclose(product(kind, x, w), in_float64(x, w), atol=2e-5)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_as_exact_as_a_product_in_float32(kind: ModuleType, bits: int) -> None:
    x, w = normal(64, 1536), normal(200, 1536, bits=bits)
    expected = in_float64(x, w)
    in_order = np.zeros(expected.shape, np.float32)
    for i in range(x.shape[1]):
        in_order += x[:, i : i + 1] * w[:, i]
    error, plain = (np.sqrt(np.mean((found - expected) ** 2)) for found in (product(kind, x, w), in_order))
    assert error < 1.05 * plain


@pytest.mark.skipif(not has_tile_unit(), reason="a processor without a tile unit")
@pytest.mark.parametrize(("bits", "n"), [(8, 1), (9, 2), (17, 2), (18, 3), (24, 3)])
def test_weights_have_as_many_pieces_as_their_bits_need(bits: int, n: int) -> None:
    assert compiled_tile_products.pack(normal(20, 200, bits=bits), WeightMemory()).pieces == n


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_the_rows_beside_it_nor_on_threads(
    kind: ModuleType, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = normal(50, 576), normal(500, 576)
    together = product(kind, x, w)
    monkeypatch.setattr(threads, "n_threads", lambda: n_threads)
    monkeypatch.setattr(threads, "MIN_WORK", 1)
    for rows in ([0], [49, 3], list(range(7, 31)), list(range(50))):
        np.testing.assert_array_equal(product(kind, x[rows], w), together[rows])


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, np.uint32(0xFFFFFFFF).view(np.float32)])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_stays_in_its_row(kind: ModuleType, bad: float) -> None:
    x, w = normal(5, 20), normal(30, 20)
    clean = product(kind, x, w)
    x[2, 4] = bad
    found = product(kind, x, w)
    assert not np.isfinite(found[2]).any()
    np.testing.assert_array_equal(found[[0, 1, 3, 4]], clean[[0, 1, 3, 4]])


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_and_sums_far_from_1_are_exact_too(kind: ModuleType) -> None:
    for scale in (1e-12, 1e12):
        x, w = normal(9, 64) * np.float32(scale), normal(40, 64)
        np.testing.assert_allclose(product(kind, x, w), in_float64(x, w), atol=2e-5 * scale)


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


def test_the_tile_unit_is_used_where_there_is_one_and_it_is_not_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("toolkit.tile_unit.has_tile_unit", lambda: True)
    monkeypatch.setattr(compiled_tile_products, "is_known", lambda: True)
    assert kind_of_product() is compiled_tile_products
    monkeypatch.setenv(SWITCH, "0")
    assert kind_of_product() is compiled_vector_products
    monkeypatch.delenv(SWITCH)
    monkeypatch.setattr(compiled_tile_products, "is_known", lambda: False)
    assert kind_of_product() is compiled_vector_products
    monkeypatch.setattr(compiled_tile_products, "is_known", lambda: True)
    monkeypatch.setattr("toolkit.tile_unit.has_tile_unit", lambda: False)
    assert kind_of_product() is compiled_vector_products


def test_weights_begin_at_cache_lines_and_do_not_overlap() -> None:
    memory = WeightMemory()
    arrays = [memory.array((n, 3), np.uint16) for n in (1, 100, 7, CHUNK // 4, 5)]
    for i, array in enumerate(arrays):
        array[...] = i
    assert all(array.ctypes.data % LINE == 0 for array in arrays)
    assert [np.unique(array).tolist() for array in arrays] == [[i] for i in range(5)]
