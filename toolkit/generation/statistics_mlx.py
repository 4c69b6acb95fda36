"""The statistics of `statistics` and its draw, as MLX operations: for models on a GPU.

All of it stays on the device up to one transfer of some 230 numbers a row, from which the same functions as
on the CPU make the statistics. Imports MLX, behind the fast BLAS where that is used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models import blas
from ..records import TokenStatistics
from .distribution import Top, Watched, check_logits
from .row_passes import FLOOR, Moments
from .sampler import Sampler
from .statistics import (
    N_ALTERNATIVES,
    N_BOOST,
    NONE_WATCHED,
    Beliefs,
    assemble,
    boosted_prob,
    check_alternatives,
    check_constrained,
    check_ids,
)

blas.preload()

import mlx.core as mx  # noqa: E402

from . import sampling_mlx  # noqa: E402
from .sampling_mlx import Softmax, row_sum  # noqa: E402

BLOCK = 16  # of N_BOOST blocks with the largest maxima, all logits are sorted: the square root of V / N_BOOST
LOWEST = float(np.finfo(np.float32).min)


N_FLOATS = 14


class Numbers(NamedTuple):
    """What is transferred, each (B, 1) or (B, n): MLX arrays before, NumPy arrays after.

    The first N_FLOATS are floats, the others integers.
    """

    maximum: Any
    total: Any
    total_half: Any
    total_quarter: Any
    first: Any
    spread: Any
    mean_shifted: Any
    token_logit: Any
    source_maximum: Any
    source_total: Any
    source_logit: Any
    law_total: Any
    top_logits: Any  # (B, n)
    watched_logits: Any  # (B, w)
    token_id: Any
    rank: Any
    n_finite: Any
    is_kept: Any  # whether the sampler may draw the token
    alternative_ids: Any  # (B, k)
    watched_ranks: Any  # (B, w)


class Choice(NamedTuple):
    """A token a row and how it may be drawn, each (B, 1)."""

    token_id: mx.array
    is_kept: mx.array
    law_total: mx.array


def step(
    logits: mx.array,
    sampler: Sampler,
    uniforms: NDArray[np.float64],
    greedy_rows: NDArray[np.bool_] | None = None,
    n_alternatives: int = N_ALTERNATIVES,
    forced_ids: NDArray[np.integer] | None = None,
    constrained_logits: Any | None = None,
    score_sampling: bool = False,
    watched_ids: NDArray[np.int32] = NONE_WATCHED,
) -> tuple[NDArray[np.int32], TokenStatistics]:
    """Draw a token for each row, and describe what the model believed there: `statistics.step` on a device.

    Parameters
    ----------
    logits, constrained_logits : (B, V) mx.array
        In any floating type; the computation is in float32.
    sampler, uniforms, greedy_rows, n_alternatives, forced_ids, score_sampling, watched_ids
        As in `statistics.step`.

    Returns
    -------
    token_ids : (B,) int32
        -1 where nothing can be drawn.
    statistics : TokenStatistics
        Within 2e-4 of NumPy's.
    """
    check_logits(logits.shape)
    check_alternatives(n_alternatives)
    check_ids(watched_ids, logits.shape[1])
    raw = source = sampling_mlx.softmax(logits)
    if constrained_logits is not None:
        check_constrained(np.shape(constrained_logits), logits.shape)
        source = sampling_mlx.softmax(mx.array(constrained_logits))
    greedy = np.full(len(logits), sampler.is_greedy)
    if greedy_rows is not None and not sampler.is_greedy:
        greedy = np.asarray(greedy_rows, np.bool_)
    if forced_ids is None:
        choice = _draw(source, sampler, uniforms, greedy)
    else:
        check_ids(forced_ids, logits.shape[1])
        token = mx.array(np.asarray(forced_ids, np.int32))[:, None]
        choice = _score(source, sampler, token, greedy) if score_sampling else _given(source, token)
    numbers = _transfer(_numbers(raw, source, choice, n_alternatives, watched_ids))
    ids = numbers.token_id[:, 0].copy()
    if forced_ids is None:
        ids[~np.isfinite(numbers.maximum + numbers.source_maximum)[:, 0]] = -1
    statistics = _statistics(numbers._replace(token_id=ids[:, None]), logits.shape[1], watched_ids)
    if forced_ids is None or score_sampling:
        statistics = statistics._replace(sampling_logprob=_sampling_logprob(numbers, sampler, greedy, ids))
    if source is not raw:
        statistics = statistics._replace(constrained_logprob=_constrained_logprob(numbers, ids))
    return ids, statistics


def _draw(
    source: Softmax, sampler: Sampler, uniforms: NDArray[np.float64], greedy: NDArray[np.bool_]
) -> Choice:
    best = mx.argmax(source.logits, axis=1, keepdims=True).astype(mx.int32)
    if sampler.is_greedy:
        return Choice(best, mx.ones_like(best), mx.ones_like(source.total))
    law = sampling_mlx.law(source, sampler)
    drawn = sampling_mlx.draw(law.weights, mx.array(np.asarray(uniforms, np.float32)))
    return Choice(mx.where(mx.array(greedy)[:, None], best, drawn[:, None]), mx.ones_like(best), law.total)


def _score(source: Softmax, sampler: Sampler, token: mx.array, greedy: NDArray[np.bool_]) -> Choice:
    best = mx.argmax(source.logits, axis=1, keepdims=True).astype(mx.int32)
    if sampler.is_greedy:
        return Choice(token, token == best, mx.ones_like(source.total))
    law = sampling_mlx.law(source, sampler)
    inside = mx.take_along_axis(law.kept, mx.maximum(token, 0), axis=1)
    return Choice(token, mx.where(mx.array(greedy)[:, None], token == best, inside), law.total)


def _given(source: Softmax, token: mx.array) -> Choice:
    return Choice(token, mx.ones_like(token), mx.ones_like(source.total))


def _numbers(
    raw: Softmax,
    source: Softmax,
    choice: Choice,
    n_alternatives: int,
    watched_ids: NDArray[np.int32],
) -> Numbers:
    logits, maximum, shifted, weights, total = raw
    finite = logits > -mx.inf
    n_finite = finite.sum(axis=1, keepdims=True)
    shifted = mx.where(finite, shifted, 0.0)
    # Some mask with the lowest float32, whose square is infinite.
    bounded = mx.maximum(shifted, float(FLOOR))
    first = row_sum(weights * bounded)
    token = mx.maximum(choice.token_id, 0)
    token_logit = mx.take_along_axis(logits, token, axis=1)
    top_logits, alternative_ids = _top(logits, max(N_BOOST, n_alternatives), n_alternatives)
    watched_logits = mx.take(logits, mx.array(watched_ids), axis=1) if len(watched_ids) else logits[:, :0]
    return Numbers(
        maximum=maximum,
        total=total,
        total_half=row_sum(mx.where(finite, mx.exp(shifted / 2), 0.0)),
        total_quarter=row_sum(mx.where(finite, mx.exp(shifted / 4), 0.0)),
        first=first,
        spread=row_sum(weights * mx.square(bounded - first / total)),
        mean_shifted=row_sum(shifted / n_finite),
        token_logit=token_logit,
        source_maximum=source.maximum,
        source_total=source.total,
        source_logit=mx.take_along_axis(source.logits, token, axis=1),
        law_total=choice.law_total,
        top_logits=top_logits,
        watched_logits=watched_logits,
        token_id=choice.token_id,
        rank=1 + (logits > token_logit).sum(axis=1, keepdims=True),
        n_finite=n_finite,
        is_kept=choice.is_kept,
        alternative_ids=alternative_ids,
        watched_ranks=_ranks(logits, watched_logits),
    )


def _ranks(logits: mx.array, values: mx.array) -> mx.array:
    """1 + how many logits of each row are greater than each of its values, (B, w): a pass for each value."""
    if not values.shape[1]:
        return mx.zeros(values.shape, mx.int32)
    columns = (values[:, place : place + 1] for place in range(values.shape[1]))
    above = [(logits > column).sum(axis=1, keepdims=True) for column in columns]
    return 1 + mx.concatenate(above, axis=1)


def _top(logits: mx.array, n: int, n_ids: int) -> tuple[mx.array, mx.array]:
    """The n largest logits of each row, falling, and the ids of the first n_ids."""
    blocks = logits.reshape(len(logits), -1, BLOCK)
    # n blocks hold the n largest logits. In order, so that of equal logits the lowest id comes first.
    chosen = mx.sort(mx.argsort(-blocks.max(axis=2), axis=1)[:, :n], axis=1)[:, :, None]
    candidates = mx.take_along_axis(blocks, chosen, axis=1).reshape(len(logits), -1)
    ids = (chosen * BLOCK + mx.arange(BLOCK)).reshape(len(logits), -1).astype(mx.int32)
    falling = -mx.sort(-candidates, axis=1)[:, :n]
    left = mx.maximum(candidates, LOWEST)
    found = []
    for _ in range(min(n_ids, ids.shape[1])):
        place = mx.argmax(left, axis=1, keepdims=True)
        found.append(mx.take_along_axis(ids, place, axis=1))
        left = mx.put_along_axis(left, place, mx.array(-mx.inf), axis=1)
    return falling, mx.concatenate(found, axis=1) if found else ids[:, :0]


def _transfer(numbers: Numbers) -> Numbers:
    """The same as NumPy arrays, by one evaluation and one copy: floats travel as their bits."""
    floats = mx.concatenate(list(numbers[:N_FLOATS]), axis=1).astype(mx.float32).view(mx.int32)
    integers = mx.concatenate([part.astype(mx.int32) for part in numbers[N_FLOATS:]], axis=1)
    packed = np.array(mx.concatenate([floats, integers], axis=1))
    widths = [part.shape[1] for part in numbers]
    parts = np.split(packed, np.cumsum(widths)[:-1], axis=1)
    read = [part.copy().view(np.float32) for part in parts[:N_FLOATS]]
    return Numbers(*(part.astype(np.float64) for part in read), *parts[N_FLOATS:])


def _statistics(numbers: Numbers, n_tokens: int, watched_ids: NDArray[np.int32]) -> TokenStatistics:
    column = Numbers(*(part[:, :1].ravel() for part in numbers))
    top_logits = numbers.top_logits[:, :n_tokens]  # what the padding of a small vocabulary adds is cut off
    ids = numbers.alternative_ids[:, :n_tokens]
    with np.errstate(all="ignore"):  # bad rows
        logsumexp = column.maximum + np.log(column.total)
        beliefs = Beliefs(
            maximum=column.maximum,
            total=column.total,
            moments=Moments(
                total_half=column.total_half,
                total_quarter=column.total_quarter,
                first=column.first,
                spread=column.spread,
                mean_logit=column.maximum + column.mean_shifted,
                n_finite=column.n_finite,
            ),
            token_logit=column.token_logit,
            rank=column.rank,
            top_logits=top_logits,
            alternatives=Top(ids, top_logits[:, : ids.shape[1]]),
            boosted_prob=boosted_prob(top_logits - logsumexp[:, None], column.token_logit - logsumexp),
            watched_ids=watched_ids,
            watched=Watched(numbers.watched_logits, numbers.watched_ranks),
        )
    return assemble(beliefs, has_token=column.token_id >= 0)


def _sampling_logprob(
    numbers: Numbers, sampler: Sampler, greedy: NDArray[np.bool_], ids: NDArray[np.int32]
) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        logprob = (numbers.source_logit - numbers.source_maximum)[:, 0] / sampler.temperature
        logprob = np.where(greedy, 0, logprob - np.log(numbers.law_total[:, 0]))
    logprob[numbers.is_kept[:, 0] == 0] = -np.inf
    return _known(logprob, numbers, ids)


def _constrained_logprob(numbers: Numbers, ids: NDArray[np.int32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        logprob = numbers.source_logit - (numbers.source_maximum + np.log(numbers.source_total))
    return _known(logprob[:, 0], numbers, ids)


def _known(logprob: NDArray[np.float64], numbers: Numbers, ids: NDArray[np.int32]) -> NDArray[np.float32]:
    unknown = (ids < 0) | ~np.isfinite(numbers.source_maximum[:, 0])
    return np.where(unknown, np.nan, logprob).astype(np.float32)
