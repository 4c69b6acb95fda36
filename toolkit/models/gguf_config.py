"""From the metadata of a llama GGUF to the config.json and the tensor names of MLX-LM's llama."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ToolkitError
from toolkit.models.gguf_header import LONGEST_MESSAGE, GgufHeader, damaged

ARCHITECTURE = "llama"
READABLE_TYPES = ("F32", "F16", "Q8_0", "Q4_0", "Q4_1")  # the types that mlx.core.load reads
QUANTIZED_BITS = {"Q8_0": 8, "Q4_0": 4, "Q4_1": 4}
GROUP_SIZE = 32  # values that share a scale, in all three
LAYER_MODULES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ROPE_FACTORS = "rope_freqs.weight"  # divisors of the rotary frequencies, of Llama 3.1 and later
NEAR, FAR, TRAINED_LENGTH = 1.0, 4.0, 8192  # the other parameters of that scaling, the same in all of them


class Place(NamedTuple):
    """Where a tensor of the file belongs in the model."""

    name: str  # MLX-LM's
    shape: tuple[int, ...]
    rotary_heads: int | None = None  # heads whose rows are stored permuted; None where they are not


def llama_config(header: GgufHeader) -> dict[str, Any]:
    """The config.json of a llama GGUF, for MLX-LM; `quantization` has the bits of each layer.

    Raises
    ------
    ToolkitError
        If the architecture is not llama, a tensor's type is none of `READABLE_TYPES`, the file uses
        something that MLX-LM's llama does not have (each is named), or metadata is missing or at odds
        with the tensors.
    """
    refuse_foreign(header)
    heads = number(header, "attention.head_count")
    hidden = number(header, "embedding_length")
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": number(header, "block_count"),
        "intermediate_size": number(header, "feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": number(header, "attention.head_count_kv", heads),
        "head_dim": head_dimensions(header, max(hidden // heads, 1)),
        "max_position_embeddings": number(header, "context_length"),
        "rms_norm_eps": real(header, "attention.layer_norm_rms_epsilon"),
        "rope_theta": real(header, "rope.freq_base", 10_000.0),
        "rope_traditional": False,
        "vocab_size": vocabulary_size(header),
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in header.tensors,
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    config["rope_scaling"] = rope_scaling(header, config)
    places = tensor_places(header, config)
    check_tensors(header, places)
    return config | token_ids(header) | {"quantization": quantization(header, places)}


def foreign(header: GgufHeader, what: str) -> ToolkitError:
    """The error for a sound file that the import cannot do."""
    return ToolkitError(f"{header.path}: cannot import this GGUF: {what[:LONGEST_MESSAGE]}")


def refuse_foreign(header: GgufHeader) -> None:
    """A ToolkitError that names what the import cannot do."""
    architecture = header.get("general.architecture", str)
    if architecture != ARCHITECTURE:
        raise foreign(header, f"its architecture is {architecture!r}, and only {ARCHITECTURE!r} is known")
    for tensor in header.tensors.values():
        if tensor.type_name not in READABLE_TYPES:
            what = f"tensor {tensor.name!r} is of type {tensor.type_name}"
            raise foreign(header, f"{what}; take a file of this model in {', '.join(READABLE_TYPES)}")
    for key in ("expert_count", "attention.sliding_window", "attention.scale", "logit_scale"):
        value = header.metadata.get(f"{ARCHITECTURE}.{key}", 0)
        if not isinstance(value, int | float) or value != 0:
            raise foreign(header, f"it uses {ARCHITECTURE}.{key}")


def number(header: GgufHeader, key: str, default: int | None = None) -> int:
    """A positive integer of the metadata, `llama.{key}`. An array of one repeated number counts as it."""
    value = header.metadata.get(f"{ARCHITECTURE}.{key}", default)
    if isinstance(value, np.ndarray) and len(set(value.tolist())) == 1:
        value = value[0].item()
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise damaged(header.path, f"{ARCHITECTURE}.{key} is {value!r}, not a positive integer")
    return value


def real(header: GgufHeader, key: str, default: float | None = None) -> float:
    """A positive float of the metadata, as the shortest decimal of its float32."""
    value = header.metadata.get(f"{ARCHITECTURE}.{key}", default)
    if not isinstance(value, float) or not 0 < value < math.inf:
        raise damaged(header.path, f"{ARCHITECTURE}.{key} is {value!r}, not a positive number")
    return float(str(np.float32(value)))


def head_dimensions(header: GgufHeader, default: int) -> int:
    """The width of a head; a ToolkitError where not all of it rotates, or values have another."""
    width = number(header, "attention.key_length", default)
    if width % 2:
        raise damaged(header.path, f"heads are {width} wide, and rotation takes pairs")
    for key in ("rope.dimension_count", "attention.value_length"):
        other = number(header, key, width)
        if other != width:
            raise foreign(header, f"heads are {width} wide, and {ARCHITECTURE}.{key} is {other}")
    return width


def vocabulary_size(header: GgufHeader) -> int:
    """Rows of the embedding."""
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise damaged(header.path, "tensor 'token_embd.weight' is missing")
    return embedding.shape[0]


def token_ids(header: GgufHeader) -> dict[str, Any]:
    """First and end tokens. A model for chat may end with its turn's end or the text's."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    found = [header.get(f"tokenizer.ggml.{key}", int) for key in keys]
    ends = list(dict.fromkeys(token for token in found if token is not None))
    if not ends:
        raise foreign(header, "it has no tokenizer.ggml.eos_token_id, so nothing would end a text")
    return {"bos_token_id": header.get("tokenizer.ggml.bos_token_id", int), "eos_token_id": ends}


def rope_scaling(header: GgufHeader, config: dict[str, Any]) -> dict[str, Any] | None:
    """Linear and Llama 3 scaling of the rotary positions; a ToolkitError for any other."""
    kind = header.get(f"{ARCHITECTURE}.rope.scaling.type", str, "none")
    if kind == "linear":
        return {"type": "linear", "factor": real(header, "rope.scaling.factor")}
    if kind != "none":
        raise foreign(header, f"{ARCHITECTURE}.rope.scaling.type is {kind!r}; known are none and linear")
    factors = header.tensors.get(ROPE_FACTORS)
    if factors is None:
        return None
    if factors.type_name != "F32" or factors.shape != (config["head_dim"] // 2,):
        raise damaged(header.path, f"{ROPE_FACTORS!r} is {factors.type_name} {factors.shape}")
    stored = np.fromfile(header.path, "<f4", math.prod(factors.shape), offset=factors.offset)
    largest = float(stored.max())
    same = 1 <= largest < math.inf and np.allclose(
        stored, llama3_factors(config["head_dim"], config["rope_theta"], largest), rtol=1e-4
    )
    if not same:
        raise foreign(header, f"{ROPE_FACTORS!r} is not the scaling of Llama 3, the only one known")
    return {
        "rope_type": "llama3",
        "factor": largest,
        "low_freq_factor": NEAR,
        "high_freq_factor": FAR,
        "original_max_position_embeddings": TRAINED_LENGTH,
    }


def llama3_factors(head_dim: int, theta: float, factor: float) -> NDArray[np.float64]:
    """What Llama 3.1 divides each rotary frequency by, shape (head_dim / 2,).

    Wavelengths under a quarter of the trained length keep their frequency, those over it are divided by
    `factor`, and between them the frequency is interpolated.
    """
    wavelength = 2 * math.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    share = np.clip((TRAINED_LENGTH / wavelength - NEAR) / (FAR - NEAR), 0, 1)
    return 1 / ((1 - share) / factor + share)


def tensor_places(header: GgufHeader, config: dict[str, Any]) -> dict[str, Place]:
    """For every tensor that the config asks for: its name in the file, its name in the model, its shape."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    places = {
        "token_embd.weight": Place("model.embed_tokens.weight", (vocabulary, hidden)),
        "output_norm.weight": Place("model.norm.weight", (hidden,)),
    }
    if not config["tie_word_embeddings"]:
        places["output.weight"] = Place("lm_head.weight", (vocabulary, hidden))
    if config["num_hidden_layers"] > len(header.tensors):
        raise damaged(header.path, f"{ARCHITECTURE}.block_count is more than there are tensors")
    for layer in range(config["num_hidden_layers"]):
        places |= layer_places(layer, config)
    return places


def layer_places(layer: int, config: dict[str, Any]) -> dict[str, Place]:
    """The part of `tensor_places` of one layer."""
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    shapes = {
        "attn_norm": (hidden,),
        "attn_q": (heads * width, hidden),
        "attn_k": (kv_heads * width, hidden),
        "attn_v": (kv_heads * width, hidden),
        "attn_output": (hidden, heads * width),
        "ffn_norm": (hidden,),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
    }
    rotary = {"attn_q": heads, "attn_k": kv_heads}
    places = {}
    for short, shape in shapes.items():
        module = f"model.layers.{layer}.{LAYER_MODULES[short]}"
        places[f"blk.{layer}.{short}.weight"] = Place(f"{module}.weight", shape, rotary.get(short))
        if len(shape) == 2 and config["attention_bias" if short.startswith("attn") else "mlp_bias"]:
            places[f"blk.{layer}.{short}.bias"] = Place(f"{module}.bias", shape[:1], rotary.get(short))
    return places


def check_tensors(header: GgufHeader, places: dict[str, Place]) -> None:
    """The file has exactly the tensors of `places`, in their shapes, and norms and biases as floats."""
    missing = places.keys() - header.tensors.keys()
    extra = header.tensors.keys() - places.keys() - {ROPE_FACTORS}
    for names, what in ((missing, "is missing"), (extra, "is none of this architecture")):
        if names:
            raise foreign(header, f"tensor {min(names)!r} {what}")
    for name, place in places.items():
        tensor = header.tensors[name]
        if tensor.shape != place.shape:
            raise damaged(header.path, f"{name!r} has the shape {tensor.shape}, not {place.shape}")
        if len(place.shape) == 1 and tensor.type_name in QUANTIZED_BITS:
            raise foreign(header, f"{name!r} is a quantised vector ({tensor.type_name})")


def quantization(header: GgufHeader, places: dict[str, Place]) -> dict[str, Any] | None:
    """MLX-LM's `quantization`: bits of each layer that is quantised, since they differ in one file."""
    layers = {
        place.name.removesuffix(".weight"): {"group_size": GROUP_SIZE, "bits": QUANTIZED_BITS[kind]}
        for name, place in places.items()
        if (kind := header.tensors[name].type_name) in QUANTIZED_BITS
    }
    if not layers:
        return None
    return {"group_size": GROUP_SIZE, "bits": min(layer["bits"] for layer in layers.values()), **layers}
