"""The draw of `sampling`, as MLX operations that stay on the device.

The same steps in float32: a uniform number is rounded to 24 bits, and a draw at the very edge of a filter or
of a token's share may differ from NumPy's.
"""

from __future__ import annotations

from typing import NamedTuple

from ..models import blas
from .filters import ROUNDING
from .sampler import Sampler

blas.preload()

import mlx.core as mx  # noqa: E402

BLOCK = 64  # summed alone, then 64 blocks, and then the rest: a plain float32 sum of a row loses two digits


class Softmax(NamedTuple):
    """Logits and what their softmax is made of, float32, W = V padded by -inf to whole blocks of blocks."""

    logits: mx.array  # (B, W)
    maximum: mx.array  # (B, 1)
    shifted: mx.array  # (B, W), logits - maximum
    weights: mx.array  # (B, W), exp(shifted)
    total: mx.array  # (B, 1)


class Law(NamedTuple):
    """The distribution that a token is drawn from, unnormalised."""

    weights: mx.array  # (B, W), 0 where filtered out
    kept: mx.array  # (B, W) bool
    total: mx.array  # (B, 1)


def softmax(logits: mx.array) -> Softmax:
    """Of (B, V) logits in any floating type."""
    tail = -logits.shape[1] % BLOCK**2
    padded = mx.pad(logits.astype(mx.float32), [(0, 0), (0, tail)], constant_values=-mx.inf)
    maximum = padded.max(axis=1, keepdims=True)
    shifted = padded - maximum
    weights = mx.exp(shifted)
    return Softmax(padded, maximum, shifted, weights, row_sum(weights))


def row_sum(values: mx.array) -> mx.array:
    """(B, W) to (B, 1)."""
    return values.reshape(len(values), -1, BLOCK, BLOCK).sum(axis=3).sum(axis=2).sum(axis=1, keepdims=True)


def law(source: Softmax, sampler: Sampler) -> Law:
    """The distribution after temperature and filters, in the sampler's order."""
    hot = sampler.temperature
    weights = source.weights if hot == 1 else mx.exp(source.shifted / hot)
    kept = source.logits > -mx.inf
    if sampler.has_filter:
        falling = -mx.sort(-source.logits, axis=1)
        first = sampler.order == "temperature_first"
        mass = mx.exp((falling - source.maximum) / (hot if first else 1.0))
        count = (_temperature_first if first else _mlx_lm)(falling, mass, sampler)
        kept = _first(source.logits, falling, count)
        weights = mx.where(kept, weights, 0.0)
    return Law(weights, kept, row_sum(weights))


def draw(weights: mx.array, uniforms: mx.array) -> mx.array:
    """Token ids (B,) int32 for (B,) uniforms in [0, 1], by the inverse of the cumulative sums."""
    blocks = weights.reshape(len(weights), -1, BLOCK)
    running = blocks.sum(axis=2).cumsum(axis=1)
    target = uniforms[:, None] * running[:, -1:]
    block, before = _invert(running, target)
    inside = mx.take_along_axis(blocks, block[:, :, None], axis=1)[:, 0]
    place, _ = _invert(inside.cumsum(axis=1), target - before)
    return (block * BLOCK + place)[:, 0].astype(mx.int32)


def _invert(running: mx.array, target: mx.array) -> tuple[mx.array, mx.array]:
    """The first place, (B, 1), where the running sum exceeds the target, and the sum before it."""
    # Rounding may put the target at the total, or the number at 1: the last place that adds to the sum is meant.
    last = (running < running[:, -1:]).sum(axis=1, keepdims=True)
    place = mx.minimum((running <= target).sum(axis=1, keepdims=True), last)
    place = mx.minimum(place, running.shape[1] - 1)
    before = mx.take_along_axis(running, mx.maximum(place - 1, 0), axis=1)
    return place, mx.where(place > 0, before, 0.0)


def _temperature_first(falling: mx.array, mass: mx.array, sampler: Sampler) -> mx.array:
    """How many of the tokens, by falling logit, are kept, (B, 1)."""
    count = _possible(falling)
    if sampler.top_k:
        count = _with_ties(falling, mx.minimum(count, sampler.top_k))
    if sampler.top_p < 1:
        whole = row_sum(mx.where(mx.arange(mass.shape[1]) < count, mass, 0.0))
        count = mx.minimum(count, _top_p(mass, sampler.top_p * whole))
    return mx.minimum(count, _min_p(mass, sampler.min_p))


def _mlx_lm(falling: mx.array, mass: mx.array, sampler: Sampler) -> mx.array:
    """The same in MLX-LM's order."""
    count = mx.minimum(_possible(falling), _min_p(mass, sampler.min_p))
    if sampler.top_p < 1:
        count = mx.minimum(count, _with_ties(falling, _top_p(mass, sampler.top_p * row_sum(mass))))
    return mx.minimum(count, sampler.top_k) if sampler.top_k else count


def _possible(falling: mx.array) -> mx.array:
    return (falling > -mx.inf).sum(axis=1, keepdims=True)


def _top_p(mass: mx.array, share: mx.array) -> mx.array:
    blocks = mass.reshape(len(mass), -1, BLOCK)
    before = blocks.sum(axis=2).cumsum(axis=1, inclusive=False)[:, :, None]
    reached = (before + blocks.cumsum(axis=2, inclusive=False)).reshape(mass.shape)
    return (reached < share * (1 - ROUNDING)).sum(axis=1, keepdims=True)


def _min_p(mass: mx.array, min_p: float) -> mx.array:
    return (mass >= min_p * (1 - ROUNDING)).sum(axis=1, keepdims=True)


def _with_ties(falling: mx.array, count: mx.array) -> mx.array:
    edge = mx.take_along_axis(falling, count - 1, axis=1)
    return (falling >= edge).sum(axis=1, keepdims=True)


def _first(logits: mx.array, falling: mx.array, count: mx.array) -> mx.array:
    """The first `count` tokens of each row by falling logit, of equals by rising id, (B, W)."""
    edge = mx.take_along_axis(falling, mx.maximum(count - 1, 0), axis=1)
    above, equal = logits > edge, logits == edge
    left = count - above.sum(axis=1, keepdims=True)
    return above | (equal & (equal.astype(mx.int32).cumsum(axis=1) <= left))
