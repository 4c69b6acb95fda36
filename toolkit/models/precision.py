"""The dtype that a model computes in: float32 on the CPU, where it fits, and as stored on a GPU.

On the CPU, MLX multiplies quantised and half-precision matrices many times slower than float32 ones, which
go to the BLAS.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.memory import free_memory_bytes
from toolkit.models import blas

DTYPES = ("float32", "float16", "bfloat16", "stored")
MEMORY_SHARE = 0.5  # of the free memory that float32 weights may take
SLOW = (
    "its weights stay as they are stored, which is slow on a CPU: in float32 they would take {:.1f} GB, over "
    "half of the free {:.1f} GB; free some memory, take a smaller model, or ask for float32"
)


def set_precision(network: Any, dtype: str | None = None) -> str | None:
    """Bring a lazily loaded network's weights into the dtype that suits the device, and evaluate them.

    Parameters
    ----------
    network : mlx.nn.Module
        Changed in place.
    dtype : str, optional
        One of `DTYPES`. "float32" dequantises; the half-precision ones cast and keep quantised weights;
        "stored" changes nothing. By default: on the CPU float32 if that takes at most half of the free
        memory, else stored; on a GPU stored.

    Returns
    -------
    str or None
        A message about weights that stay slow, if they do.

    Raises
    ------
    ToolkitError
        If `dtype` is none of `DTYPES`.
    """
    blas.preload()
    import mlx.core as mx

    if dtype is not None and dtype not in DTYPES:
        raise ToolkitError(f"dtype={dtype!r}: allowed are {', '.join(DTYPES)}")
    message = None
    if dtype is None:
        dtype, message = default_dtype(network)
    if dtype == "float32":
        dequantise(network)
    if dtype != "stored":
        network.set_dtype(getattr(mx, dtype))
    mx.eval(network.parameters())
    return message


def default_dtype(network: Any) -> tuple[str, str | None]:
    """float32 or stored, and a message where that is slow."""
    import mlx.core as mx

    if mx.default_device().type != mx.DeviceType.cpu:
        return "stored", None
    if not has_slow_weights(network):
        return "float32", None
    needed, free = float32_bytes(network), free_memory_bytes()
    if free is None or needed <= MEMORY_SHARE * free:
        return "float32", None
    return "stored", SLOW.format(needed / 1e9, free / 1e9)


def has_slow_weights(network: Any) -> bool:
    """Whether any weight is quantised or in half precision."""
    return any(is_quantised(module) for _, module in network.named_modules()) or (
        compute_dtype(network) != "float32"
    )


def is_quantised(module: Any) -> bool:
    """Whether a module holds packed weights with scales."""
    return "scales" in module and hasattr(module, "bits") and "weight" in module


def arrays(network: Any) -> list[Any]:
    """All parameters of a network."""
    from mlx.utils import tree_flatten

    flat: Any = tree_flatten(network.parameters())
    return [array for _, array in flat]


def float32_bytes(network: Any) -> int:
    """Bytes of all parameters in float32, quantised ones unpacked."""
    total = sum(array.size * 4 for array in arrays(network))
    for _, module in network.named_modules():
        if is_quantised(module):
            packed = sum(module[part].size for part in ("weight", "scales", "biases") if _has(module, part))
            total += 4 * (module.weight.size * 32 // module.bits - packed)
    return total


def _has(module: Any, part: str) -> bool:
    return module.get(part) is not None


def compute_dtype(network: Any) -> str:
    """The floating dtype of most of the parameters, scales of quantised weights among them."""
    import mlx.core as mx

    sizes: Counter[str] = Counter()
    for array in arrays(network):
        if mx.issubdtype(array.dtype, mx.floating):
            sizes[str(array.dtype).removeprefix("mlx.core.")] += array.size
    return sizes.most_common(1)[0][0] if sizes else "float32"


def dequantise(network: Any) -> None:
    """Replace quantised layers by plain ones in float32, one after another.

    Scales and biases become float32 before they are multiplied: in half precision, log-probabilities would
    be off by up to 0.04 nats.
    """
    import mlx.core as mx
    from mlx.utils import tree_unflatten

    for name, module in network.named_modules():
        plain = plain_layer(module)
        if plain is not None:
            mx.eval(plain.parameters())
            network.update_modules(tree_unflatten([(name, plain)]))


def plain_layer(module: Any) -> Any:
    """The same layer with float32 weights; None if it is not quantised, or of a kind not known here."""
    import mlx.nn as nn
    from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

    kinds: dict[type, type] = {nn.QuantizedLinear: nn.Linear, QuantizedSwitchLinear: SwitchLinear}
    linear = kinds.get(type(module))
    if linear is None and type(module) is not nn.QuantizedEmbedding:
        return None
    weight = unpacked(module)
    sizes = weight.shape[::-1]
    plain = nn.Embedding(*sizes) if linear is None else linear(*sizes, bias="bias" in module)
    plain.weight = weight
    if "bias" in module:
        plain.bias = module.bias
    return plain


def unpacked(module: Any) -> Any:
    """A quantised layer's weight in float32, shape as the plain layer's."""
    import mlx.core as mx

    affine = getattr(module, "mode", "affine") == "affine"
    scales = module.scales.astype(mx.float32) if affine else module.scales
    biases = module.biases.astype(mx.float32) if affine else None
    return mx.dequantize(
        module.weight,
        scales,
        biases,
        group_size=module.group_size,
        bits=module.bits,
        mode=getattr(module, "mode", "affine"),
        global_scale=module.get("global_scale"),
    ).astype(mx.float32)
