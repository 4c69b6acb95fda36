"""What a running sequence takes of memory, and so how many can run at once."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from toolkit.generation.row_limits import MOST_ROWS
from toolkit.memory import free_memory_bytes

SHARE = 0.5  # of the free memory that the running sequences may take
LOGITS_COPIES = 4  # of a row: those of the step, those that are changed, and scratch
TOKEN_BYTES = 256  # of a token's statistics while its sequence runs


def row_bytes(network: Any, positions: int) -> int:
    """Bytes of one sequence of at most so many positions: its keys and values, logits and statistics.

    Found from the caches of a pass over one token: what holds keys grows with the positions, other states do not.
    """
    layers = make_prompt_cache(network)
    logits = network(mx.array([[1]]), cache=layers)
    mx.eval(logits)
    cached = sum(_cache_bytes(layer, positions) for layer in layers)
    return cached + logits.shape[-1] * 4 * LOGITS_COPIES + positions * TOKEN_BYTES


def _cache_bytes(layer: Any, positions: int) -> int:
    if hasattr(layer, "caches"):
        return sum(_cache_bytes(one, positions) for one in layer.caches)
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if keys is None or values is None:
        return sum(array.nbytes for array in getattr(layer, "state", []) if hasattr(array, "nbytes"))
    most = getattr(layer, "max_size", None)
    n = min(positions, most) if most else positions
    # Our own caches keep float32 whatever the model's type.
    return sum(array.shape[1] * array.shape[-1] * max(4, array.itemsize) * n for array in (keys, values))


def most_rows(network: Any, positions: int, share: float = SHARE) -> int:
    """How many sequences of so many positions fit into a share of the free memory; at least 1."""
    free = free_device_bytes()
    if free is None:
        return MOST_ROWS
    return max(1, min(MOST_ROWS, int(share * free) // row_bytes(network, positions)))


def free_device_bytes() -> int | None:
    """Free memory where the model is: of the machine on the CPU, of the device on a GPU; None if it is not known."""
    if mx.default_device().type == mx.cpu:
        return free_memory_bytes()
    facts = mx.device_info()
    total = (
        facts.get("max_recommended_working_set_size") or facts.get("memory_size") or facts.get("total_memory")
    )
    return None if total is None else max(0, int(total) - mx.get_active_memory())
