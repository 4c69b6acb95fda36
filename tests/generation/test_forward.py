"""Whether the output layer is reached, and that its product is made in float32."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.generation.networks import make_network
from toolkit.generation.forward import Forward

IDS = [3, 14, 15, 92, 6]


def logits_of(network: Any) -> np.ndarray:
    return np.array(Forward(network).logits(mx.array([IDS]), make_prompt_cache(network)))


@pytest.mark.parametrize("name", ["llama", "llama_untied", "qwen2"])
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_a_half_precision_model_s_logits_are_not_rounded(name: str, dtype: mx.Dtype) -> None:
    network = make_network(name)
    network.set_dtype(dtype)
    forward = Forward(network)
    assert forward.logits_dtype == "float32"
    rounded = np.array(network(mx.array([IDS]))[:, -1].astype(mx.float32))
    found = np.array(forward.logits(mx.array([IDS]), make_prompt_cache(network)))
    assert found.dtype == np.float32
    # As fine as float32: not one of the logits lies on the model's own grid by chance alone.
    on_grid = np.array(mx.array(found).astype(dtype).astype(mx.float32)) == found
    assert on_grid.mean() < 0.2
    np.testing.assert_allclose(
        found, rounded, atol=2 ** (-6 if dtype == mx.bfloat16 else -9) * np.abs(found).max()
    )


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantised_output_layer_is_reached(bits: int) -> None:
    network = make_network("llama")
    nn.quantize(network, 32, bits, class_predicate=lambda _, part: isinstance(part, nn.Embedding))
    assert Forward(network).logits_dtype == "float32"
    np.testing.assert_allclose(logits_of(network), np.array(network(mx.array([IDS])))[:, -1], atol=1e-4)


def test_logits_that_are_capped_afterwards_are_the_network_s_own() -> None:
    network = make_network("llama")
    plain = type(network).__call__

    class Capped(type(network)):
        def __call__(self, *args: Any, **kwargs: Any) -> mx.array:
            return 5 * mx.tanh(plain(self, *args, **kwargs) / 5)

    network.__class__ = Capped
    found = logits_of(network)
    assert np.abs(found).max() <= 5
    np.testing.assert_allclose(found, np.array(network(mx.array([IDS])))[:, -1], atol=1e-5)
    network.set_dtype(mx.bfloat16)
    assert Forward(network).logits_dtype == "bfloat16"


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 20])
@pytest.mark.parametrize("name", ["llama", "llama_sliding"])
def test_prefill_in_chunks_of_any_remainder(name: str, length: int) -> None:
    network = make_network(name)
    ids = np.random.default_rng(length).integers(1, 97, length).tolist()
    layers = make_prompt_cache(network)
    logits = Forward(network).prefill(ids, layers, 8)
    np.testing.assert_allclose(np.array(logits), np.array(network(mx.array([ids])))[:, -1], atol=1e-4)
    assert layers[0].offset == length
