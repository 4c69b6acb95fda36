"""Compiled products against float64, and a network that computes with them against MLX's own."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.generation import compiled_products, products
from toolkit.generation.compiled_products import SHAPE, WIDTH, Shape, multiply, pack, tile_shape
from toolkit.generation.forward import Forward
from toolkit.generation.products import make_products
from toolkit.generation.shared_prefix import SharedPrefixBatch

from .networks import make_network

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


def test_a_network_s_logits_are_the_same_with_our_products() -> None:
    network = make_network("llama")
    forward = Forward(network)

    def logits() -> list[np.ndarray]:
        batch = SharedPrefixBatch(forward, 3)
        prompt, first = batch.prefill([3, 1, 4, 1, 5])
        batch.admit([prompt] * 3)
        return [np.array(first), np.array(batch.step([9, 2, 6])), np.array(batch.step([5, 3, 5]))]

    expected = logits()
    forward.use_own_products()
    assert forward.products is not None
    for ours, theirs in zip(logits(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
    layer = nn.Linear(4, 4)
    np.testing.assert_array_equal(
        np.array(layer(mx.ones((1, 4)))), np.array(mx.ones((1, 4)) @ layer.weight.T + layer.bias)
    )  # MLX's product is back


def test_a_bias_is_added_and_other_types_are_left_to_mlx() -> None:
    layer, other = nn.Linear(12, 7), nn.Linear(5, 3, bias=False)
    network = nn.Sequential(layer, other)
    other.weight = other.weight.astype(mx.bfloat16)
    made = make_products(network, None)
    assert made is not None
    x = mx.array(normal(4, 12))
    np.testing.assert_allclose(np.array(made.linear(layer, x)), np.array(layer(x)), atol=1e-5)
    y = mx.array(normal(2, 5)).astype(mx.bfloat16)
    np.testing.assert_array_equal(
        np.array(made.linear(other, y).astype(mx.float32)), np.array(other(y).astype(mx.float32))
    )
    assert made.logits(x) is None


def test_a_copy_that_does_not_fit_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network("llama")
    monkeypatch.setattr(products, "free_memory_bytes", lambda: 1000)
    assert make_products(network, None) is None
    monkeypatch.setattr(products, "free_memory_bytes", lambda: None)
    assert make_products(network, None) is not None
    monkeypatch.setattr(products, "can_compile", lambda: False)
    assert make_products(network, None) is None
