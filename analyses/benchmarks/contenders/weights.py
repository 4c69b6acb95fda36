"""Writes the files of a job: one model in float32 for every contender, its prompts, and reference logits.

The model ends at no token, so that every sample has the same length.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from contenders.job import Job

QUESTIONS = (
    "What is the capital of France?",
    "How many legs does a spider have?",
    "Who wrote the play Hamlet?",
    "Why is the sky blue during the day?",
    "Name three fruits that grow on trees.",
    "What does a thermometer measure?",
    "Which planet is the largest?",
    "What is seven times eight?",
)
END_KEYS = ("eos_token", "eos_token_id", "pad_token")
GGUF_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GGUF_REST = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}


def write_job(folder: Path, prompts: int, samples: int, max_tokens: int) -> Job:
    """Load the default model in float32, and write all that the contenders need."""
    from toolkit.collect.prompts import Prompt
    from toolkit.collect.render import render_prompts
    from toolkit.collect.settings import RenderSettings
    from toolkit.generation.forward import Forward
    from toolkit.models import load

    model = load(quiet=True, dtype="float32")
    texts = [QUESTIONS[i % len(QUESTIONS)] for i in range(prompts)]
    asked = [Prompt(i, i + 1, prompt=text) for i, text in enumerate(texts)]
    ids = [record.token_ids.tolist() for record in render_prompts(model.tokenizer, asked, RenderSettings())]
    job = Job(str(folder), ids, samples, max_tokens)
    job.prompt_file.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    weights = _flat(model.network)
    _write_folder(job.model, model.path, model.config, weights)
    _write_gguf(job.gguf, model.config, weights)
    import mlx.core as mx

    logits = Forward(model.network).logits(mx.array([ids[0]]), None)
    np.save(job.reference, np.array(logits.astype(mx.float32))[0])
    return job


def _flat(network: Any) -> dict[str, Any]:
    from mlx.utils import tree_flatten

    return dict(tree_flatten(network.parameters()))


def _write_folder(target: Path, source: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    import mlx.core as mx

    target.mkdir()
    shutil.copy(source / "tokenizer.json", target)
    tokenizer = json.loads((source / "tokenizer_config.json").read_text())
    (target / "tokenizer_config.json").write_text(json.dumps(_endless(tokenizer)))
    plain = {key: value for key, value in config.items() if not key.startswith("quantization")}
    (target / "config.json").write_text(json.dumps({**_endless(plain), "torch_dtype": "float32"}))
    mx.save_safetensors(str(target / "model.safetensors"), weights, metadata={"format": "pt"})


def _endless(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in END_KEYS}


def _write_gguf(path: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    """A GGUF without a vocabulary: prompts come as token ids."""
    import mlx.core as mx

    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    whole = {
        "llama.vocab_size": config["vocab_size"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.block_count": config["num_hidden_layers"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.rope.dimension_count": config["hidden_size"] // heads,
        "general.file_type": 0,  # all in float32
    }
    real = {
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "llama.rope.freq_base": config["rope_theta"],
    }
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "no_vocab",
        **{key: mx.array(value, mx.uint32) for key, value in whole.items()},
        **{key: mx.array(value, mx.float32) for key, value in real.items()},
    }
    tensors = {gguf_name(name): gguf_rows(name, array, heads, kv_heads) for name, array in weights.items()}
    mx.save_gguf(str(path), tensors, metadata)


def gguf_name(name: str) -> str:
    """What llama.cpp calls a weight of MLX-LM's llama."""
    if name in GGUF_REST:
        return GGUF_REST[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_LAYER[rest.removesuffix('.weight')]}.weight"


def gguf_rows(name: str, array: Any, heads: int, kv_heads: int) -> Any:
    """llama.cpp rotates neighbouring rows of a head, so the halves of q and k are interleaved."""
    n = heads if "q_proj" in name else kv_heads if "k_proj" in name else None
    if n is None:
        return array
    halves = array.reshape(n, 2, array.shape[0] // n // 2, -1)
    return halves.swapaxes(1, 2).reshape(array.shape)
