"""Drawing a token for each row, by the inverse of the cumulative distribution.

Knows distributions and uniform numbers; nothing of models or of where the numbers come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .distribution import Distribution, Mass
from .filters import keep
from .row_passes import BLOCK, count_true, tempered_weights
from .sampler import Order, Sampler

__all__ = ["Draw", "Order", "Sampler", "draw", "sampling_logprobs"]


class Draw(NamedTuple):
    """One token a row."""

    token_ids: NDArray[np.int32]  # (B,); -1 in a bad row
    sampling_logprob: NDArray[np.float32]  # (B,), nats, filtered, renormalised and tempered; NaN in a bad row


def draw(
    distribution: Distribution,
    sampler: Sampler,
    uniforms: NDArray[np.float64],
    greedy_rows: NDArray[np.bool_] | None = None,
) -> Draw:
    """Draw one token a row by inverting the cumulative distribution over rising ids.

    The token is the first whose cumulative mass exceeds u times the total; one of zero mass is never drawn.

    Parameters
    ----------
    distribution : Distribution
        Of B rows; after masks where there are any.
    sampler : Sampler
    uniforms : (B,) float64 in [0, 1)
        One number a row; those of greedy rows are not looked at.
    greedy_rows : (B,) bool, optional
        Rows that take their most likely token, with a sampling log-probability of 0.
    """
    greedy = _greedy(distribution, sampler, greedy_rows)
    ids = np.empty(distribution.n_rows, np.int32)
    logprob = np.zeros(distribution.n_rows, np.float32)
    if not greedy.all():
        with np.errstate(all="ignore"):  # bad rows
            law = _law(distribution, sampler)
            ids[:] = law.draw(np.asarray(uniforms, np.float64))
            logprob[:] = law.log_probability(ids)
    for row in np.flatnonzero(greedy):
        ids[row] = distribution.logits[row].argmax()
    logprob[greedy] = 0
    bad = distribution.bad_rows
    ids[bad], logprob[bad] = -1, np.nan
    return Draw(ids, logprob)


def sampling_logprobs(
    distribution: Distribution,
    sampler: Sampler,
    token_ids: NDArray[np.integer],
    greedy_rows: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """The log-probability with which `draw` would give these tokens, (B,), nats.

    -inf for a token that is filtered out or, in a greedy row, is not the most likely; NaN in a bad row.
    """
    greedy = _greedy(distribution, sampler, greedy_rows)
    logprob = np.empty(distribution.n_rows, np.float32)
    if not greedy.all():
        with np.errstate(all="ignore"):
            logprob[:] = _law(distribution, sampler).log_probability(token_ids)
    for row in np.flatnonzero(greedy):
        logprob[row] = 0 if distribution.logits[row].argmax() == token_ids[row] else -np.inf
    logprob[distribution.bad_rows] = np.nan
    return logprob


@dataclass(frozen=True)
class _Whole:
    """The distribution over all tokens at a temperature."""

    distribution: Distribution
    mass: Mass

    def draw(self, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        whole, mass = self.distribution, self.mass
        compiled = kernels.draw(whole.logits, whole.maximum, mass.block_sums, mass.temperature, uniforms)
        return self._draw(uniforms) if compiled is None else compiled

    def _draw(self, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        running = self.mass.block_sums.cumsum(axis=1, dtype=np.float64)
        target = uniforms * running[:, -1]
        block, before = _invert(running, target)
        tokens = block[:, None] * BLOCK + np.arange(BLOCK)  # (B, BLOCK)
        n_tokens = self.distribution.n_tokens
        logits = np.take_along_axis(self.distribution.logits, np.minimum(tokens, n_tokens - 1), 1)
        weights = tempered_weights(logits, self.distribution.maximum, self.mass.temperature)
        weights[tokens >= n_tokens] = 0
        # The sum of a block was rounded, and may exceed the sum of its tokens: then its last token is meant.
        place, _ = _invert(weights.cumsum(axis=1, dtype=np.float64), target - before)
        return block * BLOCK + place

    def log_probability(self, token_ids: NDArray[np.integer]) -> NDArray[np.float64]:
        if self.mass.temperature == 1:
            return self.distribution.log_probability(token_ids)
        return _tempered_logit(self.distribution, token_ids, self.mass.temperature) - np.log(self.mass.total)


class _Part(NamedTuple):
    """The tokens that the filters left in n rows."""

    rows: slice
    ids: NDArray[np.int32]  # (n, m), rising
    is_kept: NDArray[np.bool_]  # (n, m)
    running: NDArray[np.float64]  # (n, m), cumulative mass


@dataclass(frozen=True)
class _Filtered:
    """The distribution over the tokens that the filters left."""

    distribution: Distribution
    temperature: float
    parts: list[_Part]

    def draw(self, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        drawn = np.empty(len(uniforms), np.int32)
        for rows, ids, _, running in self.parts:
            place, _ = _invert(running, uniforms[rows] * running[:, -1])
            drawn[rows] = ids[np.arange(len(place)), place]
        return drawn

    def log_probability(self, token_ids: NDArray[np.integer]) -> NDArray[np.float64]:
        logit = _tempered_logit(self.distribution, token_ids, self.temperature)
        for rows, ids, is_kept, running in self.parts:
            inside = ((ids == token_ids[rows, None]) & is_kept).any(axis=1)
            logit[rows] = np.where(inside, logit[rows] - np.log(running[:, -1]), -np.inf)
        return logit


def _law(distribution: Distribution, sampler: Sampler) -> _Whole | _Filtered:
    if not sampler.has_filter:
        return _Whole(distribution, distribution.tempered(sampler.temperature))
    parts = []
    for rows, ids, logits, is_kept in keep(distribution, sampler):
        mass = tempered_weights(logits, distribution.maximum[rows], sampler.temperature)
        mass[~is_kept] = 0
        parts.append(_Part(rows, ids, is_kept, mass.cumsum(axis=1, dtype=np.float64)))
    return _Filtered(distribution, sampler.temperature, parts)


def _invert(
    running: NDArray[np.float64], target: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The first place, (B,), where the running sum exceeds the target, and the sum before it.

    A target that rounding has put at the total, or over it, means the last place that adds to the sum.
    """
    target = np.minimum(target, np.nextafter(running[:, -1], 0))
    place = count_true(running <= target[:, None])
    place = np.minimum(place, running.shape[1] - 1)  # a bad row may have no mass
    before = running[np.arange(len(place)), place - 1]
    return place, np.where(place > 0, before, 0)


def _tempered_logit(
    distribution: Distribution, token_ids: NDArray[np.integer], temperature: float
) -> NDArray[np.float64]:
    return (distribution.logits_of(token_ids).astype(np.float64) - distribution.maximum) / temperature


def _greedy(
    distribution: Distribution, sampler: Sampler, greedy_rows: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    if sampler.is_greedy or greedy_rows is None:
        return np.full(distribution.n_rows, sampler.is_greedy)
    return np.asarray(greedy_rows, np.bool_)
