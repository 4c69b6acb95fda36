"""The products of a network's own weights by our kernels, in place of MLX's, where that can be done.

It can where Numba is installed and the processor's vector registers are known, for layers with plain float32 weights
(`nn.Linear`, and the output layer), if a second copy of the weights fits into memory.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from toolkit.generation.arrays import to_numpy
from toolkit.generation.kernels import can_compile
from toolkit.generation.row_passes import workspace
from toolkit.memory import free_memory_bytes

SHARE = 0.5  # of the free memory that the copy may take

_CALL = "__call__"
LIBRARY_LINEAR = getattr(nn.Linear, _CALL)


class Products:
    """Weights in order, by the layer that they are of.

    Parameters
    ----------
    network : MLX-LM model
    output : (vocabulary, hidden) float32 weight of the output layer, or None where it cannot be reached
    """

    def __init__(self, network: Any, output: mx.array | None) -> None:
        from toolkit.generation.compiled_products import pack

        self._panels = {id(part): pack(to_numpy(part.weight)) for part in _layers(network)}
        self._output = None if output is None else pack(to_numpy(output))

    def linear(self, layer: nn.Linear, x: mx.array) -> mx.array:
        """What the layer gives; MLX's own product where its weight is not in order."""
        panels = self._panels.get(id(layer))
        if panels is None or x.dtype != mx.float32:
            return LIBRARY_LINEAR(layer, x)
        found = _multiply(x, panels)
        return found + layer.bias if "bias" in layer else found

    def logits(self, hidden: mx.array) -> mx.array | None:
        """Logits (..., vocabulary) of hidden states; None where the output layer is not in order."""
        return None if self._output is None else _multiply(hidden.astype(mx.float32), self._output)


def make_products(network: Any, output: mx.array | None) -> Products | None:
    """The network's weights in order; None where our kernels cannot serve."""
    if not can_compile():
        return None
    from toolkit.generation.compiled_products import SHAPE

    weights = [part.weight for part in _layers(network)] + ([] if output is None else [output])
    free = free_memory_bytes()
    if SHAPE is None or not weights or (free is not None and sum(w.nbytes for w in weights) > SHARE * free):
        return None
    return Products(network, output)


def _layers(network: Any) -> list[Any]:
    """Layers with a plain float32 weight, each once."""
    found = {id(part): part for _, part in network.named_modules() if type(part) is nn.Linear}
    return [part for part in found.values() if part.weight.dtype == mx.float32]


def _multiply(x: mx.array, panels: Any) -> mx.array:
    from toolkit.generation.compiled_products import multiply

    mx.eval(x)
    rows = np.ascontiguousarray(to_numpy(x).reshape(-1, x.shape[-1]))
    out = workspace().array("product", (len(rows), panels.outputs))
    multiply(rows, panels, out)
    return mx.array(out.reshape(*x.shape[:-1], panels.outputs))
