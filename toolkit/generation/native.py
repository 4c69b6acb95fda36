"""One step of a llama-like network in compiled kernels alone: for models on the CPU.

Norms, products, rotary embedding, attention and activation work on the same few arrays, so that nothing is copied
between MLX and NumPy within a step. Whether a network is of this kind is seen from its parts, and found by trial:
whoever makes a `NativeNetwork` compares its logits with the library's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from toolkit.generation.arrays import to_numpy
from toolkit.generation.kernels import can_compile, gated_rows
from toolkit.generation.numpy_kernels import Floats, Rotary, SharedPrefix
from toolkit.generation.row_attention import Heads, RowStep, Stored
from toolkit.generation.row_passes import workspace
from toolkit.memory import free_memory_bytes

SHARE = 0.5  # of the free memory that a second copy of the weights may take


class _Product(NamedTuple):
    """Weights of one or several linear layers that read the same, one below the other."""

    panels: Any
    bias: Floats | None

    def __call__(self, inputs: Floats, name: str) -> Floats:
        """(rows, outputs), in the workspace's buffer of this name."""
        from toolkit.generation.compiled_products import multiply

        out = workspace().array(name, (len(inputs), self.panels.outputs))
        multiply(inputs, self.panels, out)
        if self.bias is not None:
            out += self.bias
        return out


class _Norm(NamedTuple):
    """Root mean square norm."""

    weight: Floats
    epsilon: float

    def __call__(self, rows: Floats) -> Floats:
        from toolkit.generation.compiled_attention import normalise

        out = workspace().array("normed", rows.shape)
        normalise(rows, self.weight, self.epsilon, out)
        return out


class _Layer(NamedTuple):
    """One block: attention, then the gated activation."""

    before_attention: _Norm
    heads: _Product  # queries, keys and values
    sizes: tuple[int, int]  # heads and kv_heads
    rotary: Rotary
    scale: float
    after_attention: _Product
    before_activation: _Norm
    gate_and_up: _Product
    down: _Product

    def attend(self, x: Floats, step: RowStep, stored: Stored, shared: Sequence[SharedPrefix]) -> None:
        """Add attention to the hidden states (rows, hidden), in place."""
        found = self.heads(self.before_attention(x), "heads")
        n, (n_heads, n_kv) = len(x), self.sizes
        dim = found.shape[1] // (n_heads + 2 * n_kv)
        split = found.reshape(n, -1, dim)
        heads = Heads(split[:, :n_heads], split[:, n_heads : n_heads + n_kv], split[:, n_heads + n_kv :])
        out = step.attend(heads, self.rotary, stored, shared, self.scale)
        x += self.after_attention(out.reshape(n, -1), "added")

    def activate(self, x: Floats) -> None:
        """Add the gated activation, in place."""
        both = self.gate_and_up(self.before_activation(x), "gate_and_up")
        active = workspace().array("active", (len(x), both.shape[1] // 2))
        gated_rows(both, active)
        x += self.down(active, "added")


class NativeNetwork:
    """A network's weights in order, and its step. Make it with `NativeNetwork.of`."""

    def __init__(self, network: Any, output: Floats) -> None:
        body = network.model
        self._embedding = to_numpy(body.embed_tokens.weight)
        self._layers = [_layer(block) for block in body.layers]
        self._norm = _norm(body.norm)
        self._output = _product_of([output], [None])

    @staticmethod
    def of(network: Any, output: mx.array | None) -> NativeNetwork | None:
        """The network's weights in order; None where it has other parts, or a second copy of them does not fit.

        Parameters
        ----------
        network : MLX-LM model
        output : (vocabulary, hidden) float32 weight of the output layer, or None where it cannot be reached
        """
        if output is None or not can_compile() or not _is_plain(network):
            return None
        from toolkit.generation.compiled_products import SHAPE

        size = output.nbytes + sum(
            part.weight.nbytes for _, part in network.named_modules() if type(part) is nn.Linear
        )
        free = free_memory_bytes()
        if SHAPE is None or (free is not None and size > SHARE * free):
            return None
        return NativeNetwork(network, to_numpy(output))

    def step(
        self,
        token_ids: NDArray[np.intp],
        rows: RowStep,
        stored: Sequence[Stored],
        shared: Sequence[Sequence[SharedPrefix]],
    ) -> Floats:
        """Logits (rows, vocabulary) after one more token a row; valid until the next step.

        Parameters
        ----------
        token_ids : (rows,)
        rows : RowStep
        stored, shared : of each layer
            Rooms for the rows' own keys and values, and those of their prompts.
        """
        x = self._embedding[token_ids]
        for layer, own, prefixes in zip(self._layers, stored, shared, strict=True):
            layer.attend(x, rows, own, prefixes)
            layer.activate(x)
        return self._output(self._norm(x), "logits")

    @property
    def kv_shape(self) -> tuple[int, int]:
        """Heads of keys and values, and the numbers of each."""
        layer = self._layers[0]
        n_heads, n_kv = layer.sizes
        return n_kv, layer.heads.panels.outputs // (n_heads + 2 * n_kv)


def _is_plain(network: Any) -> bool:
    """Whether a network has the parts of a llama, and no others, with plain float32 weights."""
    body = getattr(network, "model", None)
    blocks = getattr(body, "layers", None)
    if body is None or not blocks or type(getattr(body, "embed_tokens", None)) is not nn.Embedding:
        return False
    weights = [part for _, part in network.named_modules() if hasattr(part, "weight")]
    return (
        {type(part) for part in weights} <= {nn.Linear, nn.RMSNorm, nn.Embedding}
        and all(part.weight.dtype == mx.float32 for part in weights)
        and all(_is_plain_block(block) for block in blocks)
    )


def _is_plain_block(block: Any) -> bool:
    names = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
    if set(block.children()) != names:
        return False
    attention, mlp = block.self_attn, block.mlp
    return (
        set(attention.children()) == {"q_proj", "k_proj", "v_proj", "o_proj", "rope"}
        and type(attention.rope) is nn.RoPE
        and all(hasattr(attention, name) for name in ("n_heads", "n_kv_heads", "scale"))
        and set(mlp.children()) == {"gate_proj", "up_proj", "down_proj"}
        and attention.k_proj.weight.shape == attention.v_proj.weight.shape
    )


def _layer(block: Any) -> _Layer:
    attention, mlp, rope = block.self_attn, block.mlp, block.self_attn.rope
    return _Layer(
        before_attention=_norm(block.input_layernorm),
        heads=_product(attention.q_proj, attention.k_proj, attention.v_proj),
        sizes=(attention.n_heads, attention.n_kv_heads),
        rotary=Rotary(rope.dims, rope.traditional, rope.base, rope.scale),
        scale=float(attention.scale),
        after_attention=_product(attention.o_proj),
        before_activation=_norm(block.post_attention_layernorm),
        gate_and_up=_product(mlp.gate_proj, mlp.up_proj),
        down=_product(mlp.down_proj),
    )


def _norm(norm: nn.RMSNorm) -> _Norm:
    return _Norm(np.ascontiguousarray(to_numpy(norm.weight)), float(norm.eps))


def _product(*layers: nn.Linear) -> _Product:
    biases = [to_numpy(one.bias) if "bias" in one else None for one in layers]
    return _product_of([to_numpy(one.weight) for one in layers], biases)


def _product_of(weights: list[Floats], biases: Sequence[Floats | None]) -> _Product:
    from toolkit.generation.compiled_products import pack

    bias = None
    if any(one is not None for one in biases):
        bias = np.concatenate(
            [np.zeros(len(w), np.float32) if b is None else b for w, b in zip(weights, biases, strict=True)]
        )
    return _Product(pack(weights[0] if len(weights) == 1 else np.concatenate(weights)), bias)
