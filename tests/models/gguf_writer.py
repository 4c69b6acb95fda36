"""A plain GGUF writer and a tiny random llama, for tests."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TYPE_NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "BF16": 30}
ALIGNMENT = 32


class Tensor(NamedTuple):
    """What the file holds, and the values that it stands for."""

    type_name: str
    shape: tuple[int, ...]
    content: bytes
    values: NDArray[np.float64]


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(item: Any) -> bytes:
    """A metadata value with its type in front."""
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + string(item)
    if isinstance(item[0], str):
        return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(map(string, item))
    code, letter = (6, "f") if isinstance(item[0], float) else (5, "i")
    return struct.pack("<IIQ", 9, code, len(item)) + struct.pack(f"<{len(item)}{letter}", *item)


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, Tensor], version: int = 3) -> Path:
    pairs = b"".join(string(key) + value(item) for key, item in metadata.items())
    infos, data = b"", b""
    for name, tensor in tensors.items():
        dimensions = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape[::-1])
        infos += string(name) + dimensions + struct.pack("<IQ", TYPE_NUMBERS[tensor.type_name], len(data))
        data += tensor.content + bytes(-len(tensor.content) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata)) + pairs + infos
    padded = head + bytes(-len(head) % ALIGNMENT) + data
    path.write_bytes(padded[: len(padded) - (-len(tensor.content) % ALIGNMENT)])
    return path


def encode(values: NDArray[np.float64], type_name: str) -> Tensor:
    """Round values into a type's blocks, and keep what they became."""
    encoders = {"F32": plain, "F16": plain, "Q8_0": q8_0, "Q4_0": q4_0, "Q4_1": q4_1}
    content, stored = encoders[type_name](values, type_name)
    return Tensor(type_name, values.shape, content, stored.reshape(values.shape))


def plain(values: NDArray[np.float64], type_name: str) -> tuple[bytes, NDArray[np.float64]]:
    stored = values.astype({"F32": "<f4", "F16": "<f2"}[type_name])
    return stored.tobytes(), stored.astype(np.float64)


def half(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.astype(np.float16).astype(np.float64)


def q8_0(values: NDArray[np.float64], _: str) -> tuple[bytes, NDArray[np.float64]]:
    """Blocks of 32: a half-precision scale, then 32 signed bytes."""
    blocks = values.reshape(-1, 32)
    scale = half(np.abs(blocks).max(axis=1, keepdims=True) / 127)
    codes = np.clip(np.round(blocks / scale), -127, 127)
    content = b"".join(
        np.float16(s[0]).tobytes() + c.astype(np.int8).tobytes() for s, c in zip(scale, codes, strict=True)
    )
    return content, codes * scale


def nibbles(codes: NDArray[np.float64]) -> bytes:
    """Byte i has value i in its low half and value i + 16 in its high half."""
    return (codes[:16].astype(np.uint8) | (codes[16:].astype(np.uint8) << 4)).tobytes()


def q4_0(values: NDArray[np.float64], _: str) -> tuple[bytes, NDArray[np.float64]]:
    """Blocks of 32: a half-precision scale, then codes that stand for (code - 8) times it."""
    blocks = values.reshape(-1, 32)
    scale = half(np.abs(blocks).max(axis=1, keepdims=True) / 7)
    codes = np.clip(np.round(blocks / scale) + 8, 0, 15)
    content = b"".join(np.float16(s[0]).tobytes() + nibbles(c) for s, c in zip(scale, codes, strict=True))
    return content, (codes - 8) * scale


def q4_1(values: NDArray[np.float64], _: str) -> tuple[bytes, NDArray[np.float64]]:
    """Blocks of 32: a half-precision scale and minimum, then codes for code times scale plus minimum."""
    blocks = values.reshape(-1, 32)
    low = half(blocks.min(axis=1, keepdims=True))
    scale = half((blocks.max(axis=1, keepdims=True) - low) / 15)
    codes = np.clip(np.round((blocks - low) / scale), 0, 15)
    content = b"".join(
        np.float16(s[0]).tobytes() + np.float16(m[0]).tobytes() + nibbles(c)
        for s, m, c in zip(scale, low, codes, strict=True)
    )
    return content, codes * scale + low


class Shape(NamedTuple):
    """Sizes of a tiny llama."""

    hidden: int = 64
    inner: int = 96
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    vocabulary: int = 64
    theta: float = 5000.0
    eps: float = 1e-5
    stretch: float = 1.0  # what positions are divided by

    @property
    def width(self) -> int:
        return self.hidden // self.heads


def llama_metadata(shape: Shape) -> dict[str, Any]:
    """Metadata of a tiny llama with a byte-level tokenizer of `shape.vocabulary` tokens."""
    tokens = [
        "<|end|>",
        "<|start|>",
        *(chr(code) for code in range(48, 48 + shape.vocabulary - 4)),
        "AB",
        "ABC",
    ]
    return {
        "general.architecture": "llama",
        "llama.embedding_length": shape.hidden,
        "llama.feed_forward_length": shape.inner,
        "llama.block_count": shape.layers,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": shape.eps,
        "llama.rope.freq_base": shape.theta,
        "llama.rope.dimension_count": shape.width,
        "llama.context_length": 512,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": ["A B", "AB C"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
    }


def llama_tensors(
    shape: Shape,
    *,
    kinds: tuple[str, str] = ("F32", "F32"),
    tied: bool = True,
    biases: bool = False,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Random tensors; `kinds` are the types of the embedding and of the layers' matrices."""
    generator = np.random.default_rng(seed)
    embedding, matrix = kinds

    def draw(kind: str, *sizes: int) -> Tensor:
        scale = 1.0 if len(sizes) == 1 else 1.5 / math.sqrt(sizes[-1])
        return encode(generator.normal(size=sizes) * scale, kind)

    tensors = {"token_embd.weight": draw(embedding, shape.vocabulary, shape.hidden)}
    for layer in range(shape.layers):
        kv_rows = shape.kv_heads * shape.width
        rows = {"attn_q": shape.hidden, "attn_k": kv_rows, "attn_v": kv_rows, "attn_output": shape.hidden}
        for name, n_rows in rows.items():
            tensors[f"blk.{layer}.{name}.weight"] = draw(matrix, n_rows, shape.hidden)
            if biases:
                tensors[f"blk.{layer}.{name}.bias"] = draw("F32", n_rows)
        tensors[f"blk.{layer}.ffn_gate.weight"] = draw(matrix, shape.inner, shape.hidden)
        tensors[f"blk.{layer}.ffn_up.weight"] = draw(matrix, shape.inner, shape.hidden)
        tensors[f"blk.{layer}.ffn_down.weight"] = draw(matrix, shape.hidden, shape.inner)
        tensors[f"blk.{layer}.attn_norm.weight"] = draw("F32", shape.hidden)
        tensors[f"blk.{layer}.ffn_norm.weight"] = draw("F32", shape.hidden)
    tensors["output_norm.weight"] = draw("F32", shape.hidden)
    if not tied:
        tensors["output.weight"] = draw(matrix, shape.vocabulary, shape.hidden)
    return tensors


def forward(shape: Shape, tensors: dict[str, Tensor], ids: list[int]) -> NDArray[np.float64]:
    """Logits (n, V) of the file's tensors in plain NumPy, in GGUF's own convention.

    There, rotation takes neighbouring rows of q and k, so nothing is permuted.
    """

    def weight(name: str) -> NDArray[np.float64]:
        return tensors[f"{name}.weight"].values

    def linear(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        bias = tensors.get(f"{name}.bias")
        return x @ weight(name).T + (0 if bias is None else bias.values)

    def norm(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + shape.eps) * weight(name)

    def heads_of(name: str, x: NDArray[np.float64], n_heads: int) -> NDArray[np.float64]:
        return linear(name, x).reshape(len(ids), n_heads, shape.width)

    def rotate(x: NDArray[np.float64]) -> NDArray[np.float64]:
        positions = np.arange(len(ids)) / shape.stretch
        rates = shape.theta ** (-np.arange(0, shape.width, 2) / shape.width)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * positions[:, None] * rates)[:, None]
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)

    x = weight("token_embd")[ids]
    future = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        h = norm(f"{block}.attn_norm", x)
        q = rotate(heads_of(f"{block}.attn_q", h, shape.heads))
        k = rotate(heads_of(f"{block}.attn_k", h, shape.kv_heads))
        v = heads_of(f"{block}.attn_v", h, shape.kv_heads)
        out = np.zeros_like(q)
        for head in range(shape.heads):
            shared = head // (shape.heads // shape.kv_heads)
            scores = q[:, head] @ k[:, shared].T / math.sqrt(shape.width) + future
            share = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[:, head] = share / share.sum(axis=1, keepdims=True) @ v[:, shared]
        x = x + linear(f"{block}.attn_output", out.reshape(len(ids), -1))
        h = norm(f"{block}.ffn_norm", x)
        gate = linear(f"{block}.ffn_gate", h)
        x = x + linear(f"{block}.ffn_down", gate / (1 + np.exp(-gate)) * linear(f"{block}.ffn_up", h))
    last = norm("output_norm", x)
    return last @ (weight("output") if "output.weight" in tensors else weight("token_embd")).T
