"""Puts our attention, rotary embedding and activation in place of a model's, for one forward pass.

MLX-LM's models call `scaled_dot_product_attention` and `swiglu` as names of their own module. Only a cache of
ours is answered by our attention; any other cache goes to MLX-LM's, so nothing else changes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.activations import swiglu as library_swiglu
from mlx_lm.models.base import scaled_dot_product_attention as library_attention

from toolkit.generation.arrays import to_numpy
from toolkit.generation.kernels import gated
from toolkit.generation.numpy_kernels import Rotary
from toolkit.generation.row_passes import workspace


class Unsupported(Exception):
    """The model asks for something that our attention does not do; the library's caches must serve."""


def _attention(
    queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, sinks: Any = None
) -> mx.array:
    attend = getattr(cache, "attend", None)
    if attend is None:
        return library_attention(queries, keys, values, cache, scale, mask, sinks)
    if sinks is not None or not (mask is None or isinstance(mask, str)):
        raise Unsupported("attention sinks or an explicit mask")
    return attend(queries, scale)


class Position:
    """Stands for a cache's offset: says which rotary embedding to apply later, in NumPy, with the attention."""

    rotary: Rotary | None = None


_CALL = "__call__"
_library_rope = getattr(nn.RoPE, _CALL)


def _rope(self: nn.RoPE, x: mx.array, offset: Any = 0) -> mx.array:
    if not isinstance(offset, Position):
        return _library_rope(self, x, offset)
    offset.rotary = Rotary(self.dims, self.traditional, self.base, self.scale)
    return x


def has_plain_rotary(network: Any) -> bool:
    """Whether every rotary embedding of a network is MLX's own, with plain frequencies."""
    kinds = {type(part) for _, part in network.named_modules() if "rope" in type(part).__name__.lower()}
    return kinds == {nn.RoPE}


def _swiglu(gate: mx.array, up: mx.array) -> mx.array:
    mx.eval(gate, up)
    out = workspace().array("gated", gate.shape)
    gated(to_numpy(gate), to_numpy(up), out)
    return mx.array(out).astype(gate.dtype)


_REPLACEMENTS: dict[str, tuple[Any, Callable[..., mx.array]]] = {
    "scaled_dot_product_attention": (library_attention, _attention),
    "swiglu": (library_swiglu, _swiglu),
}


def imported_names(network: Any) -> list[tuple[Any, str]]:
    """(module, name) of every replaceable function that the network's own modules imported."""
    modules = {type(part).__module__ for _, part in network.named_modules()} | {type(network).__module__}
    return [
        (sys.modules[module], name)
        for module in sorted(modules)
        for name, (original, _) in _REPLACEMENTS.items()
        if getattr(sys.modules[module], name, None) is original
    ]


@contextlib.contextmanager
def patched(names: list[tuple[Any, str]]) -> Iterator[None]:
    """Replace these names while the block runs."""
    try:
        setattr(nn.RoPE, _CALL, _rope)
        for module, name in names:
            setattr(module, name, _REPLACEMENTS[name][1])
        yield
    finally:
        setattr(nn.RoPE, _CALL, _library_rope)
        for module, name in names:
            setattr(module, name, _REPLACEMENTS[name][0])
