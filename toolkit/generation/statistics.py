"""What a model believed at a position, in a few numbers, by NumPy: for models on the CPU.

Takes logits and token ids; knows nothing of models or text. `statistics_mlx` computes the same on a GPU.
Definitions and sources: docs/formulas.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ToolkitError
from ..records import TokenStatistics
from .distribution import N_TOP, Distribution, Top, Watched
from .row_passes import Moments, Workspace
from .sampling import Sampler, draw, sampling_logprobs

__all__ = ["Distribution", "Workspace", "boosted_prob", "step", "token_statistics"]

N_ALTERNATIVES = 5
BOOST_SHARE = 0.3  # a drop ends a dominant set if it exceeds this share of the probability before it
BOOST_MINIMUM = 0.005  # and this
NONE_WATCHED = np.empty(0, np.int32)
N_BOOST = 201  # 200 tokens at most have more than BOOST_MINIMUM, and the drop after the last needs one more


class Beliefs(NamedTuple):
    """All that `assemble` needs of B rows, from wherever it was computed."""

    maximum: NDArray[np.float64]  # (B,), of the logits
    total: NDArray[np.float64]  # (B,), sum of exp(logit - maximum)
    moments: Moments
    token_logit: NDArray[np.float64]  # (B,)
    rank: NDArray[np.int32]  # (B,)
    top_logits: NDArray[np.float64]  # (B, n), falling
    alternatives: Top  # (B, k)
    boosted_prob: NDArray[np.float64]  # (B,)
    watched_ids: NDArray[np.int32]  # (w,)
    watched: Watched  # (B, w)

    @property
    def logsumexp(self) -> NDArray[np.float64]:
        """(B,), nats."""
        return self.maximum + np.log(self.total)


def step(
    logits: ArrayLike,
    sampler: Sampler,
    uniforms: NDArray[np.float64],
    greedy_rows: NDArray[np.bool_] | None = None,
    n_alternatives: int = N_ALTERNATIVES,
    workspace: Workspace | None = None,
    forced_ids: NDArray[np.integer] | None = None,
    constrained_logits: ArrayLike | None = None,
    score_sampling: bool = False,
    watched_ids: NDArray[np.int32] = NONE_WATCHED,
) -> tuple[NDArray[np.int32], TokenStatistics]:
    """Draw a token for each row, and describe what the model believed there.

    Parameters
    ----------
    logits : (B, V) float32
        The model's own, untouched.
    sampler : Sampler
    uniforms : (B,) float64 in [0, 1)
        Not looked at where nothing is drawn.
    greedy_rows : (B,) bool, optional
        Rows that take their most likely token.
    n_alternatives : int
        Likely tokens to list; all V where there are fewer.
    workspace : Workspace, optional
        Keeps the large arrays between steps.
    forced_ids : (B,) int, optional
        Tokens to describe instead of drawing: given completions, or what a user's sampler chose.
        sampling_logprob is then NaN, unless `score_sampling`.
    constrained_logits : (B, V) float32, optional
        The logits after processors and masks. The token is drawn from them, and constrained_logprob is its
        log-probability under them.
    score_sampling : bool
        Also compute the log-probability with which the sampler would draw the forced tokens.
    watched_ids : (w,) int32
        Tokens whose log-probability and rank, by the untouched logits, are wanted in every row.

    Returns
    -------
    token_ids : (B,) int32
        -1 where a row's logits, plain or constrained, hold NaN or +inf or nothing but -inf: nothing can be
        drawn, and what cannot be computed is NaN.
    statistics : TokenStatistics
    """
    space = Workspace() if workspace is None else workspace
    raw = source = Distribution.of(logits, space)
    if constrained_logits is not None:
        source = Distribution.of(constrained_logits, space, moments=False)
        check_constrained(source.logits.shape, raw.logits.shape)
    if forced_ids is None:
        ids, sampling = draw(source, sampler, uniforms, greedy_rows)
        ids[raw.bad_rows] = -1
    else:
        ids = np.asarray(forced_ids, np.int32)
    statistics = token_statistics(raw, ids, n_alternatives, watched_ids)
    unknown = (ids < 0) | source.bad_rows
    if forced_ids is None or score_sampling:
        if forced_ids is not None:
            sampling = sampling_logprobs(source, sampler, ids, greedy_rows)
        statistics = statistics._replace(sampling_logprob=_float32(sampling, unknown))
    if source is not raw:
        constrained = source.log_probability(ids)
        statistics = statistics._replace(constrained_logprob=_float32(constrained, unknown))
    return ids, statistics


def token_statistics(
    distribution: Distribution,
    token_ids: NDArray[np.integer],
    n_alternatives: int = N_ALTERNATIVES,
    watched_ids: NDArray[np.int32] = NONE_WATCHED,
) -> TokenStatistics:
    """The statistics of one token a row; constrained_logprob and sampling_logprob are left NaN.

    Parameters
    ----------
    distribution : Distribution
        Of the untouched logits, B rows, with its moments.
    token_ids : (B,) int
        -1 stands for no token: what is of the token is then NaN, and its rank 0.
    n_alternatives : int
        Likely tokens to list; all V where there are fewer.
    watched_ids : (w,) int32
        Tokens that are described in every row, however unlikely.

    Returns
    -------
    TokenStatistics
        In a bad row of the distribution everything is NaN, and ids, rank and n_finite are 0.

    Raises
    ------
    ToolkitError
        If a token id is outside the vocabulary, or `n_alternatives` is negative.
    """
    check_ids(token_ids, distribution.n_tokens)
    check_ids(watched_ids, distribution.n_tokens)
    check_alternatives(n_alternatives)
    if distribution.moments is None:
        raise ValueError("the distribution was computed without its moments")
    token_logit = distribution.logits_of(token_ids)
    with np.errstate(all="ignore"):
        top = distribution.top(max(N_TOP, n_alternatives))
        beliefs = Beliefs(
            maximum=distribution.maximum.astype(np.float64),
            total=distribution.total,
            moments=distribution.moments,
            token_logit=token_logit.astype(np.float64),
            rank=1 + distribution.count_above(token_logit),
            top_logits=top.logits.astype(np.float64),
            alternatives=Top(top.ids[:, :n_alternatives], top.logits[:, :n_alternatives]),
            boosted_prob=_boosted(distribution, top, distribution.log_probability(token_ids)),
            watched_ids=watched_ids,
            watched=distribution.watched(watched_ids),
        )
    return assemble(beliefs, has_token=np.asarray(token_ids) >= 0)


def check_constrained(shape: tuple[int, ...], logits: tuple[int, ...]) -> None:
    """Raise ToolkitError where the constrained logits are not of the same rows and tokens as the logits."""
    if tuple(shape) != tuple(logits):
        raise ToolkitError(f"constrained_logits: shape {shape}; it must be that of the logits, {logits}")


def check_ids(token_ids: ArrayLike, n_tokens: int) -> None:
    """Raise ToolkitError for an id that the vocabulary does not have; -1 stands for no token."""
    ids = np.asarray(token_ids)
    wrong = (ids < -1) | (ids >= n_tokens)
    if wrong.any():
        raise ToolkitError(
            f"token id {ids[wrong][0]} is not in the vocabulary: ids are from 0 to {n_tokens - 1}"
        )


def check_alternatives(n_alternatives: int) -> None:
    """Raise ToolkitError for a negative number."""
    if n_alternatives < 0:
        raise ToolkitError(f"n_alternatives: {n_alternatives}; it must be at least 0")


def assemble(beliefs: Beliefs, has_token: NDArray[np.bool_]) -> TokenStatistics:
    """The statistics that follow from a few numbers a row; NaN where a row is bad or has no token."""
    maximum, total, moments, token_logit, rank, top_logits, alternatives, boosted, watched_ids, watched = (
        beliefs
    )
    bad = ~np.isfinite(maximum)
    with np.errstate(all="ignore"):
        lse = beliefs.logsumexp
        logs = top_logits - lse[:, None]
        scalars = dict(
            entropy=np.log(total) - moments.first / total,
            varentropy=moments.spread / total,
            logsumexp=lse,
            mean_logit=moments.mean_logit,
            lse_half=maximum / 2 + np.log(moments.total_half),
            lse_quarter=maximum / 4 + np.log(moments.total_quarter),
            top1_logprob=logs[:, 0],
            top2_logprob=logs[:, 1] if logs.shape[1] > 1 else np.full(len(logs), -np.inf),
            top15_entropy=_renormalised_entropy(logs[:, :15]),
            top20_mean_logprob=_mean_of_finite(logs[:, :20]),
        )
        of_token = dict(logprob=token_logit - lse, boosted_prob=boosted)
        listed = alternatives.logits - lse[:, None]
        looked_at = watched.logits - lse[:, None]
    missing = np.full(len(lse), np.nan, np.float32)
    return TokenStatistics(
        constrained_logprob=missing,
        sampling_logprob=missing.copy(),
        rank=np.where(bad | ~has_token, 0, rank).astype(np.int32),
        n_finite=np.where(bad, 0, moments.n_finite).astype(np.int32),
        alternative_ids=np.where(bad[:, None], 0, alternatives.ids).astype(np.int32),
        alternative_logprobs=_float32(listed, bad),
        watched_ids=np.broadcast_to(watched_ids, looked_at.shape).astype(np.int32),
        watched_logprobs=_float32(looked_at, bad),
        watched_ranks=np.where(bad[:, None], 0, watched.ranks).astype(np.int32),
        **{name: _float32(value, bad) for name, value in scalars.items()},
        **{name: _float32(value, bad | ~has_token) for name, value in of_token.items()},
    )


def boosted_prob(
    top_logprobs: NDArray[np.float64], token_logprob: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Boosted probability: the mass of the dominant set for a token in it, else the token's own probability.

    Probabilities are sorted falling; the dominant set ends before the last drop that exceeds both 0.3 of the
    probability before it and 0.005. Without such a drop there is no dominant set. Tokens as likely as the
    last of the set are in it. In [0, 1]; higher is more confident.

    Source: Dinh and Niehues 2025, arXiv 2502.11115. The authors' `boostedprob` looks at 1,024 tokens; 201 are
    enough, since no drop after a probability of 0.005 or less counts.

    Parameters
    ----------
    top_logprobs : (B, n) float64
        Falling; all that exceed ln 0.005, and one more.
    token_logprob : (B,) float64
        Computed in the same way, as membership is decided by comparison.

    Returns
    -------
    (B,) float64
    """
    probs = np.exp(top_logprobs)
    token = np.exp(token_logprob)
    if probs.shape[1] < 2:
        return token
    drop = probs[:, :-1] - probs[:, 1:]
    ends = (drop > BOOST_SHARE * probs[:, :-1]) & (drop > BOOST_MINIMUM)
    last = drop.shape[1] - 1 - ends[:, ::-1].argmax(axis=1)
    rows = np.arange(len(probs))
    dominant = ends.any(axis=1) & (token >= probs[rows, last])
    return np.where(dominant, probs.cumsum(axis=1)[rows, last], token)


def _boosted(distribution: Distribution, top: Top, token_logprob: NDArray[np.float64]) -> NDArray[np.float64]:
    logs = top.logits - distribution.logsumexp[:, None]
    boosted = boosted_prob(logs, token_logprob)
    n_top = min(N_BOOST, distribution.n_tokens)
    # A flat row, where more tokens than were looked at have enough probability, is rare.
    flat = np.flatnonzero((np.exp(logs[:, -1]) > BOOST_MINIMUM) & (logs.shape[1] < n_top))
    if flat.size:
        logs = distribution.top(n_top, flat).logits - distribution.logsumexp[flat, None]
        boosted[flat] = boosted_prob(logs, token_logprob[flat])
    return boosted


def _renormalised_entropy(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    relative = logs - logs[:, :1]
    weights = np.exp(relative)
    total = weights.sum(axis=1)
    return np.log(total) - np.where(weights > 0, weights * relative, 0).sum(axis=1) / total


def _mean_of_finite(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.isfinite(logs)
    return np.where(finite, logs, 0).sum(axis=1) / finite.sum(axis=1)


def _float32(values: NDArray[np.floating], missing: NDArray[np.bool_]) -> NDArray[np.float32]:
    missing = missing if values.ndim == 1 else missing[:, None]
    return np.where(missing, np.nan, values).astype(np.float32)
