"""Small random networks, one of each kind of cache, and what they say when they read a text at once."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import numpy as np

VOCABULARY = 97
_COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "head_dim": 8,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_COMMON, "model_type": "llama", "rope_theta": 10000.0},
    "llama_untied": {**_COMMON, "model_type": "llama", "tie_word_embeddings": False},
    "llama_sliding": {
        **_COMMON,
        "model_type": "llama",
        "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 8,
    },
    "qwen2": {**_COMMON, "model_type": "qwen2", "rope_theta": 10000.0, "tie_word_embeddings": True},
}


def make_network(name: str) -> Any:
    """A network with random weights, large enough that its logits differ from each other."""
    config = CONFIGS[name]
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(5)
    network = module.Model(module.ModelArgs.from_dict(config))
    network.update(_scaled(network.parameters()))
    mx.eval(network.parameters())
    return network


def _scaled(parameters: Any) -> Any:
    from mlx.utils import tree_map

    return tree_map(lambda value: 3 * value if value.ndim > 1 else value, parameters)


def read_at_once(network: Any, token_ids: list[int]) -> np.ndarray:
    """Logits after every token of a text that is read in one go, without a cache: (n, vocabulary)."""
    return np.array(network(mx.array([token_ids])).astype(mx.float32))[0]
