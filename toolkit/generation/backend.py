"""Chooses the caches and the statistics for a network and a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, make_prompt_cache

from toolkit.generation import statistics as numpy_statistics
from toolkit.generation.arrays import largest, to_numpy
from toolkit.generation.engine import Batch, Drawn, Statistics
from toolkit.generation.forward import Forward
from toolkit.generation.library_batch import LibraryBatch
from toolkit.generation.patches import Unsupported
from toolkit.generation.sampling import Sampler
from toolkit.generation.shared_prefix import SharedPrefixBatch

_PROBE = [1, 2, 3, 4, 5]


def on_cpu() -> bool:
    """Whether MLX computes on the CPU."""
    return mx.default_device().type == mx.cpu


def choose_batch(forward: Forward) -> Callable[[int], Batch]:
    """The batch class to use: a function of the number of slots.

    On the CPU, the one whose rows share their prompt's keys in attention, if its logits equal the
    library's on a probe; otherwise MLX-LM's own caches.
    """
    if on_cpu() and _shares_prefixes(forward):
        forward.make_native()
        if forward.native is not None and not _shares_prefixes(forward):
            forward.native = None  # it has the parts of a llama, and computes something else with them
        return lambda slots: SharedPrefixBatch(forward, slots)
    return lambda slots: LibraryBatch(forward, slots)


def _shares_prefixes(forward: Forward) -> bool:
    layers = make_prompt_cache(forward.network)
    if not all(type(layer) is KVCache for layer in layers):
        return False
    expected = forward.logits(mx.array([_PROBE]), layers)
    try:
        batch = SharedPrefixBatch(forward, 2)
        prompt, _ = batch.prefill(_PROBE[:-1])
        batch.admit([prompt, prompt])
        found = batch.step([_PROBE[-1]] * 2)
    except (Unsupported, TypeError, AttributeError, ValueError, IndexError):
        # The model's attention is not called as MLX-LM's models call it; its own caches serve any model.
        return False
    tolerance = 1e-3 if forward.network_dtype == mx.float32 else 0.05
    return largest(expected - found) <= tolerance * max(1.0, largest(expected))


def choose_statistics(sampler: Sampler, n_alternatives: int) -> Statistics:
    """NumPy over MLX's memory for models on the CPU, MLX where the model is on a GPU."""
    if on_cpu():
        workspace = numpy_statistics.Workspace()

        def describe(logits: Any, uniforms: Any, greedy_rows: Any, **given: Any) -> Drawn:
            mx.eval(logits)
            return numpy_statistics.step(
                to_numpy(logits), sampler, uniforms, greedy_rows, n_alternatives, workspace, **given
            )

        return describe

    from toolkit.generation import statistics_mlx

    def describe_on_device(logits: Any, uniforms: Any, greedy_rows: Any, **given: Any) -> Drawn:
        return statistics_mlx.step(logits, sampler, uniforms, greedy_rows, n_alternatives, **given)

    return describe_on_device
