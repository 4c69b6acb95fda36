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
_MAMBA = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": VOCABULARY,
    "state_size": 8,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_rank": "auto",
}
# Windows are shorter than the texts of the tests, so that caches rotate.
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
    "gemma3": {
        **_COMMON,
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "sliding_window": 8,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 8,
    },
    "mamba": {**_MAMBA, "model_type": "mamba"},
    "mamba2": {
        **_MAMBA,
        "model_type": "mamba2",
        "num_heads": 4,
        "head_dim": 16,
        "n_groups": 1,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
        "time_step_limit": [0.0, 100.0],
    },
    "lfm2": {
        **_COMMON,
        "model_type": "lfm2",
        "num_hidden_layers": 3,
        "layer_types": ["conv", "full_attention", "conv"],
        "max_position_embeddings": 512,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 32,
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
    },
    "falcon_h1": {
        **_COMMON,
        "model_type": "falcon_h1",
        "mamba_d_head": 16,
        "mamba_d_ssm": 64,
        "mamba_d_state": 8,
        "mamba_n_heads": 4,
        "mamba_chunk_size": 16,
        # The defaults are for large layers, and would make all logits of a small one alike.
        "lm_head_multiplier": 1.0,
        "key_multiplier": 1.0,
        "ssm_out_multiplier": 1.0,
        "attention_out_multiplier": 1.0,
        "ssm_multipliers": [1.0] * 5,
    },
    "recurrent_gemma": {
        **_COMMON,
        "model_type": "recurrent_gemma",
        "num_hidden_layers": 3,
        "block_types": ["recurrent", "recurrent", "attention"],
        "num_key_value_heads": 1,
        "attention_bias": False,
        "attention_window_size": 8,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "rope_theta": 10000.0,
    },
    "qwen3_next": {
        **_COMMON,
        "model_type": "qwen3_next",
        "num_hidden_layers": 4,
        "full_attention_interval": 2,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 16,
        "mlp_only_layers": [],
        "moe_intermediate_size": 16,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "max_position_embeddings": 512,
    },
}
# Of logits, against reading a text at once. Rounding grows in a gated recurrence.
TOLERANCE = {name: 1e-3 if name == "qwen3_next" else 2e-4 for name in CONFIGS}


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


def believed(network: Any, prompt: list[int], generated: list[int]) -> np.ndarray:
    """Log-probabilities of all tokens before each generated one, in float64: (n, vocabulary)."""
    logits = read_at_once(network, [*prompt, *generated])[len(prompt) - 1 : -1].astype(np.float64)
    return log_softmax(logits)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis; -inf where a logit is."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
