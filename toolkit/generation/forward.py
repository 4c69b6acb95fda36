"""A network as logits in float32: token ids and caches in, the logits of the last position out.

Where the output layer can be reached, only the last position goes through it, and its product is made in
float32 whatever the model's type: a half-precision model rounds its logits to 1/16 near 10. Whether it can is
found by trial, since some models scale or cap their logits afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from toolkit.generation.arrays import largest
from toolkit.generation.native import NativeNetwork

OutputLayer = Callable[[mx.array], mx.array]
Found = tuple[OutputLayer, mx.array | None]  # and its float32 weight, where it is a plain one

_EPSILON = {mx.float32: 2.0**-16, mx.float16: 2.0**-11, mx.bfloat16: 2.0**-8}


def _float32_product(layer: Any, tied: bool) -> Found | None:
    """hidden -> logits in float32, through an embedding used as output (tied) or a linear layer."""
    if "bias" in layer:
        return None
    if hasattr(layer, "bits"):
        if getattr(layer, "mode", "affine") != "affine":
            return None
        scales, biases = layer.scales.astype(mx.float32), layer.biases.astype(mx.float32)
        mx.eval(scales, biases)

        def quantised(hidden: mx.array) -> mx.array:
            return mx.quantized_matmul(
                hidden.astype(mx.float32),
                layer.weight,
                scales=scales,
                biases=biases,
                transpose=True,
                group_size=layer.group_size,
                bits=layer.bits,
            )

        return quantised, None
    if not isinstance(layer, nn.Embedding if tied else nn.Linear):
        return None
    weight = layer.weight.astype(mx.float32)  # shared where it already is; else a float32 copy, kept
    mx.eval(weight)
    return (lambda hidden: hidden.astype(mx.float32) @ weight.T), weight


def _find_output(network: Any) -> Found | None:
    """The output layer of a network whose body is `network.model`, if it is the last thing that happens."""
    body = getattr(network, "model", None)
    head = getattr(network, "lm_head", None)
    tied = head is None
    layer = getattr(body, "embed_tokens", None) if tied else head
    found = _float32_product(layer, tied) if layer is not None else None
    if body is None or found is None:
        return None
    probe = mx.array([[1, 2, 3]])
    try:
        expected, ours = network(probe)[0], found[0](body(probe))[0]
    except (TypeError, ValueError):
        return None
    tolerance = _EPSILON.get(expected.dtype, 0.0)
    expected = expected.astype(mx.float32)
    agrees = largest(expected - ours) <= 4 * tolerance * max(1.0, largest(expected))
    return found if agrees else None


class Forward:
    """Logits of a network.

    Parameters
    ----------
    network : MLX-LM model; called as network(ids, cache=layers)

    Attributes
    ----------
    network_dtype : the type of the logits that the network itself gives
    logits_dtype : "float32" where the output product is made in float32, else the type that the model's
        logits had before they were cast
    native : the network in our own kernels, after `make_native`; None where they cannot serve
    """

    def __init__(self, network: Any) -> None:
        self.network = network
        found = _find_output(network)
        self._output = None if found is None else found[0]
        self._weight = None if found is None else found[1]
        self.native: NativeNetwork | None = None
        self.network_dtype = network(mx.array([[1]])).dtype
        name = str(self.network_dtype).removeprefix("mlx.core.")
        self.logits_dtype = "float32" if self._output is not None else name

    def make_native(self) -> None:
        """Put the weights in order for our kernels, where they can serve; for the CPU."""
        self.native = NativeNetwork.of(self.network, self._weight)

    def logits(self, token_ids: mx.array, layers: Any) -> mx.array:
        """Feed (rows, n) ids; the float32 logits (rows, vocabulary) after the last of each row."""
        if self._output is not None:
            return self._output(self.network.model(token_ids, cache=layers)[:, -1])
        return self.network(token_ids, cache=layers)[:, -1].astype(mx.float32)

    def prefill(self, token_ids: Sequence[int], layers: Any, chunk: int) -> mx.array:
        """Read one prompt in chunks; evaluated logits (1, vocabulary) after its last token.

        Logits of the positions before are never computed: evaluation is lazy.
        """
        ids = mx.array(list(token_ids))[None]
        # The output layer takes the last position alone; where it cannot be reached, the last token goes alone.
        tail = 1 if self._output is None else (len(token_ids) - 1) % chunk + 1
        for start in range(0, len(token_ids) - tail, chunk):
            self._read(ids[:, start : min(start + chunk, len(token_ids) - tail)], layers)
        logits = self.logits(ids[:, len(token_ids) - tail :], layers)
        mx.eval(logits)
        return logits

    def all_logits(self, token_ids: Sequence[int], layers: Any) -> mx.array:
        """Float32 logits (n, vocabulary) after each of n tokens, not yet evaluated."""
        ids = mx.array(list(token_ids))[None]
        if self._output is not None:
            return self._output(self.network.model(ids, cache=layers)[0])
        return self.network(ids, cache=layers)[0].astype(mx.float32)

    def logits_at(self, token_ids: mx.array, positions: Sequence[int]) -> mx.array:
        """Float32 logits (rows, vocabulary) after one position of each row of (rows, n) ids, read without caches."""
        rows, at = mx.arange(len(positions)), mx.array(list(positions))
        if self._output is not None:
            return self._output(self.network.model(token_ids)[rows, at])
        return self.network(token_ids)[rows, at].astype(mx.float32)

    def _read(self, token_ids: mx.array, layers: Any) -> None:
        body = self.network.model if self._output is not None else self.network
        body(token_ids, cache=layers)
        mx.eval([getattr(layer, "state", []) for layer in layers])
