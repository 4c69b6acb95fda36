"""Which tokens a sampler's filters keep, row by row, without sorting the vocabulary.

Only the tokens that can matter are sorted: a cutoff below them comes from the maxima of blocks of logits, or
from the filter. The order of the filters, and what is done with ties: `sampler`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .distribution import Candidates, Distribution
from .row_passes import CHUNK, count_true, tempered_weights
from .sampler import Sampler

ROUNDING = 1e-6  # relative; float32 exponentials and their sums are good to some 1e-7
SLACK = 1e-3  # nats under a cutoff that only selects candidates, so that its rounding does not matter


class Kept(NamedTuple):
    """Tokens of n rows, by rising id, and which of them the filters keep."""

    rows: slice
    ids: NDArray[np.int32]  # (n, m)
    logits: NDArray[np.float32]  # (n, m)
    is_kept: NDArray[np.bool_]  # (n, m)


def keep(distribution: Distribution, sampler: Sampler) -> Iterator[Kept]:
    """The tokens that are left by the filters of `sampler`, at least one in a row that is not bad.

    All rows at once, or fewer at a time where many tokens are left, so that arrays stay in the cache.
    """
    first = sampler.order == "temperature_first"
    temperature = sampler.temperature if first else 1.0  # of the probabilities that are filtered
    whole = _whole_mass(distribution, sampler, temperature)
    tokens = distribution.at_least(_cutoff(distribution, sampler, temperature, whole))
    for rows in _groups([len(found) for found in tokens]):
        found = distribution.candidates(rows, tokens[rows])
        falling = -np.sort(-found.logits, axis=1)
        mass = tempered_weights(falling, distribution.maximum[rows], temperature)
        share = None if whole is None else whole[rows]
        count = (_temperature_first if first else _mlx_lm)(falling, mass, sampler, share)
        yield Kept(rows, *found, _first(found, falling, count))


def _groups(widths: list[int]) -> Iterator[slice]:
    """Neighbouring rows whose padded arrays hold at most CHUNK tokens."""
    start, widest = 0, 1
    for row, width in enumerate(widths):
        widest = max(widest, width)
        if row > start and (row + 1 - start) * widest > CHUNK:
            yield slice(start, row)
            start, widest = row, width
    yield slice(start, len(widths))


def _whole_mass(
    distribution: Distribution, sampler: Sampler, temperature: float
) -> NDArray[np.float64] | None:
    """The mass that top-p is a share of, (B,), where that is the mass of all tokens."""
    if sampler.top_p == 1 or (sampler.top_k and sampler.order == "temperature_first"):
        return None
    return distribution.tempered(temperature).total


def _cutoff(
    distribution: Distribution, sampler: Sampler, temperature: float, whole: NDArray[np.float64] | None
) -> NDArray[np.float32]:
    """A logit, (B,), such that no filter keeps a token below it, nor needs one below it to decide."""
    below = np.full(distribution.n_rows, -np.inf)  # relative to the maximum
    if sampler.top_k:
        below = distribution.lower_bound(sampler.top_k) - distribution.maximum.astype(np.float64)
    if whole is not None:
        below = np.maximum(below, _top_p_bound(distribution, sampler.top_p, temperature, whole))
    # Where top-p takes its share of the mass of the k most likely, all of these are needed.
    if sampler.min_p and (whole is not None or sampler.top_p == 1):
        below = np.maximum(below, temperature * math.log(sampler.min_p))
    cutoff = (distribution.maximum + below - SLACK).astype(np.float32)
    return np.nextafter(cutoff, np.float32(-np.inf))  # the conversion may have rounded up


def _top_p_bound(
    distribution: Distribution, top_p: float, temperature: float, whole: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A logit relative to the maximum, (B,), such that the tokens from it on hold top_p of the mass."""
    maxima = -np.sort(-distribution.block_maxima, axis=1)
    # They are different tokens: where the largest of them have the mass, all tokens from the last on have it.
    running = tempered_weights(maxima, distribution.maximum, temperature).cumsum(axis=1, dtype=np.float64)
    enough = running >= (top_p * whole)[:, None]
    last = maxima[np.arange(len(maxima)), enough.argmax(axis=1)] - distribution.maximum.astype(np.float64)
    # Else: V tokens under (1 - p) / V of the mass have less than 1 - p of it, so all others hold the rest.
    tail = temperature * np.log((1 - top_p) * whole / distribution.n_tokens)
    return np.where(enough.any(axis=1), last, tail)


def _temperature_first(
    falling: NDArray[np.float32],
    mass: NDArray[np.float32],
    sampler: Sampler,
    whole: NDArray[np.float64] | None,
) -> NDArray[np.integer]:
    """How many of the tokens, by falling logit, are kept, (n,)."""
    count = _possible(falling)
    if sampler.top_k:
        count = _with_ties(falling, np.minimum(count, sampler.top_k))
    if sampler.top_p < 1:
        if whole is None:
            whole = np.where(_places(mass) < count[:, None], mass, 0).sum(axis=1, dtype=np.float64)
        count = np.minimum(count, _top_p(mass, sampler.top_p * whole))
    return np.minimum(count, _min_p(mass, sampler.min_p))


def _mlx_lm(
    falling: NDArray[np.float32],
    mass: NDArray[np.float32],
    sampler: Sampler,
    whole: NDArray[np.float64] | None,
) -> NDArray[np.integer]:
    """The same in MLX-LM's order."""
    count = np.minimum(_possible(falling), _min_p(mass, sampler.min_p))
    if whole is not None:
        count = np.minimum(count, _with_ties(falling, _top_p(mass, sampler.top_p * whole)))
    return np.minimum(count, sampler.top_k) if sampler.top_k else count


def _possible(falling: NDArray[np.float32]) -> NDArray[np.integer]:
    """Neither masked tokens nor padding."""
    return count_true(falling > -np.inf)


def _top_p(mass: NDArray[np.float32], share: NDArray[np.float64]) -> NDArray[np.integer]:
    """A token is in the smallest set where the mass before it falls short of the share."""
    reached = mass.cumsum(axis=1, dtype=np.float64)[:, :-1]
    return 1 + count_true(reached < (share * (1 - ROUNDING))[:, None])


def _min_p(mass: NDArray[np.float32], min_p: float) -> NDArray[np.integer]:
    return count_true(mass >= min_p * (1 - ROUNDING))  # the largest is exp(0)


def _with_ties(falling: NDArray[np.float32], count: NDArray[np.integer]) -> NDArray[np.integer]:
    edge = np.take_along_axis(falling, count[:, None] - 1, 1)
    return count_true(falling >= edge)


def _first(found: Candidates, falling: NDArray[np.float32], count: NDArray[np.integer]) -> NDArray[np.bool_]:
    """The first `count` candidates of each row by falling logit, of equals by rising id, (n, m)."""
    edge = np.take_along_axis(falling, count[:, None] - 1, 1)
    kept = found.logits >= edge
    surplus = count_true(kept) - count
    for row in np.flatnonzero(surplus):
        kept[row, np.flatnonzero(found.logits[row] == edge[row])[-surplus[row] :]] = False
    return kept


def _places(values: NDArray[np.float32]) -> NDArray[np.integer]:
    return np.arange(values.shape[1])[None, :]
