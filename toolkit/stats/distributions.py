"""Estimators over the tokens of a span, from what the model believed about the whole vocabulary.

The same form as in `tokens`: a function of (columns, ranges) that returns (n_spans,) float64, NaN where there
is no token or a value was not computed. Columns are scalars of each token's distribution p over V tokens with
finite logits z: H its entropy, lse = logsumexp(z), all float32 and in nats; and the most likely alternatives.
"""

from __future__ import annotations

from functools import partial
from math import inf, log, pi
from typing import Literal

import numpy as np
from scipy.special import xlogy

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Columns, Floats, Ranges, column
from toolkit.stats.registry import register
from toolkit.stats.tokens import Which, logprob_inputs, logprobs, lowest_share

FOMICHEVA = "Fomicheva 2020, arXiv 2005.10608"
DARRIN = "Darrin 2023, arXiv 2212.09171"
SCALENA = "Scalena 2025, arXiv 2510.11170"
_HALVES = ("lse_half", "lse_quarter", "n_finite")


def _float64(columns: Columns, name: str) -> Floats:
    return np.asarray(column(columns, name), np.float64)


@register("mean_entropy", inputs=("entropy",), higher_is_confident=False, range=(0, inf), source=FOMICHEVA)
def mean_entropy(columns: Columns, ranges: Ranges) -> Floats:
    """Mean H: the entropy of the distribution that each token came from.

    (n_spans,) nats in [0, ln V]; lower is more confident. Source: Fomicheva et al. 2020, arXiv 2005.10608.
    LM-Polygraph's MeanTokenEntropy. Entropies of a top k only, as in API-based tools, are smaller.
    """
    return ranges.mean(column(columns, "entropy"))


@register("max_entropy", inputs=("entropy",), higher_is_confident=False, range=(0, inf), source=FOMICHEVA)
def max_entropy(columns: Columns, ranges: Ranges) -> Floats:
    """Max H: the entropy where the model was least decided.

    (n_spans,) nats in [0, ln V]; lower is more confident. Source: Fomicheva et al. 2020, arXiv 2005.10608.
    """
    return ranges.max(column(columns, "entropy"))


@register(
    "mean_varentropy",
    inputs=("varentropy",),
    higher_is_confident=False,
    range=(0, inf),
    source="Kontoyiannis & Verdú 2014, doi 10.1109/TIT.2013.2291007",
)
def mean_varentropy(columns: Columns, ranges: Ranges) -> Floats:
    """Mean of Σ p (ln p)² − H²: the variance of the surprise.

    (n_spans,) nats² in [0, ∞); lower is taken as more confident: it is 0 both for a certain and for a uniform
    distribution, and language models are seldom near uniform. Source: Kontoyiannis & Verdú 2014, doi
    10.1109/TIT.2013.2291007.
    """
    return ranges.mean(column(columns, "varentropy"))


@register(
    "self_certainty",
    inputs=("logsumexp", "mean_logit", "n_finite"),
    higher_is_confident=True,
    range=(0, inf),
    source="Kang 2025, arXiv 2502.18581",
)
def self_certainty(columns: Columns, ranges: Ranges) -> Floats:
    """Mean of lse − mean(z) − ln V: the divergence KL(uniform ‖ p).

    (n_spans,) nats in [0, ∞); higher is more confident. Source: Kang et al. 2025, arXiv 2502.18581.
    LM-Polygraph's SelfCertainty is its negative.
    """
    log_size = np.log(_float64(columns, "n_finite"))
    return ranges.mean(_float64(columns, "logsumexp") - column(columns, "mean_logit") - log_size)


def _log_affinity(columns: Columns) -> Floats:
    """(n_tokens,) ln Σ √q of q = softmax(z/2), the distribution at temperature 2."""
    return _float64(columns, "lse_quarter") - 0.5 * _float64(columns, "lse_half")


@register("renyi_divergence", inputs=_HALVES, higher_is_confident=True, range=(0, inf), source=DARRIN)
def renyi_divergence(columns: Columns, ranges: Ranges) -> Floats:
    """Mean Rényi divergence, α = ½, from the uniform of p at temperature 2.

    ln V − 2·(lse(z/4) − ½·lse(z/2)). (n_spans,) nats in [0, ln V]; rises with confidence. Source: Darrin et
    al. 2023, arXiv 2212.09171. LM-Polygraph's RenyiNeg is this − 2 ln V, so that it is negative and depends
    on the vocabulary.
    """
    return ranges.mean(np.log(_float64(columns, "n_finite")) - 2 * _log_affinity(columns))


@register("fisher_rao", inputs=_HALVES, higher_is_confident=True, range=(0, 1), source=DARRIN)
def fisher_rao(columns: Columns, ranges: Ranges) -> Floats:
    """Mean Fisher-Rao distance from the uniform of p at temperature 2, as a share of the largest.

    (2/π)·arccos(exp(lse(z/4) − ½·lse(z/2)) / √V), the argument clipped to 1, which rounding can pass.
    (n_spans,) in [0, 1]; rises with confidence. Source: Darrin et al. 2023, arXiv 2212.09171; LM-Polygraph's
    FisherRao.
    """
    cosine = np.exp(_log_affinity(columns)) / np.sqrt(_float64(columns, "n_finite"))
    return ranges.mean(2 / pi * np.arccos(np.minimum(cosine, 1)))


@register(
    "min_k_plus",
    inputs=partial(logprob_inputs, "entropy", "varentropy"),
    higher_is_confident=True,
    range=(-inf, inf),
    source="Zhang 2024, arXiv 2404.02936",
)
def min_k_plus(columns: Columns, ranges: Ranges, *, k: float = 0.2, which: Which = "logprob") -> Floats:
    """Mean of the ⌊k·n⌋ lowest (l + H)/√varentropy; NaN where ⌊k·n⌋ is 0.

    (n_spans,) standard deviations in (−∞, ∞); higher is more confident. Source: Zhang et al. 2024, arXiv
    2404.02936 (Min-K%++). A token whose distribution has no variance has no such value, so its span is NaN;
    in the published code such values sort last and drop out.

    Parameters
    ----------
    k : share of the tokens, above 0 and at most 1
    """
    variance = _float64(columns, "varentropy")
    deviation = np.sqrt(np.where(variance > 0, variance, np.nan))
    standardised = (logprobs(columns, which) + _float64(columns, "entropy")) / deviation
    return ranges.lowest_mean(standardised, lowest_share(ranges.lengths, k))


@register(
    "mean_surprise",
    inputs=partial(logprob_inputs, "entropy"),
    higher_is_confident=False,
    range=(-inf, inf),
    source="Meister 2023, arXiv 2202.00666",
)
def mean_surprise(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """Mean of −l − H: how much more surprising the tokens were than the model expected.

    (n_spans,) nats in (−∞, ∞], 0 on average over tokens drawn from the model; lower is more confident.
    Source: Meister et al. 2023, arXiv 2202.00666, who call a text typical where its absolute value is small.
    """
    return ranges.mean(-logprobs(columns, which) - _float64(columns, "entropy"))


@register(
    "mean_margin",
    inputs=("top1_logprob", "top2_logprob"),
    higher_is_confident=True,
    range=(0, 1),
    source="Farr 2024, arXiv 2408.08217",
)
def mean_margin(columns: Columns, ranges: Ranges) -> Floats:
    """Mean of p(1st) − p(2nd), the probabilities of the two most likely tokens.

    (n_spans,) in [0, 1]; higher is more confident. Source: Farr et al. 2024, arXiv 2408.08217; UQLM's
    probability_margin, which takes the drawn token as the first.
    """
    first, second = _float64(columns, "top1_logprob"), _float64(columns, "top2_logprob")
    return ranges.mean(np.exp(first) - np.exp(second))


def _top(columns: Columns, k: int) -> Floats:
    """(n_tokens, k) log-probabilities of the k most likely tokens; NaN where k are not stored."""
    alternatives = _float64(columns, "alternative_logprobs")
    if k <= alternatives.shape[1]:
        return alternatives[:, :k]
    return np.full((len(alternatives), 1), np.nan)


def top_inputs(scalar: str, scalar_k: int, *, k: int, **_: object) -> tuple[str, ...]:
    return (scalar,) if k == scalar_k else ("alternative_logprobs",)


def token_negentropy(columns: Columns, k: int = 15) -> Floats:
    """(n_tokens,) 1 − H(top k renormalised)/ln k: 0 where the k are equally likely, 1 where one has it all.

    k = 15 comes from the column `top15_entropy`; another k from `alternative_logprobs`, NaN where fewer are
    stored.

    Raises
    ------
    ToolkitError
        Where k is below 2.
    """
    if k < 2:
        raise ToolkitError(f"k={k}: an entropy of the most likely tokens needs at least 2")
    if k == 15:
        return 1 - _float64(columns, "top15_entropy") / log(15)
    top = _top(columns, k)
    p = np.exp(top - top.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return 1 + xlogy(p, p).sum(axis=1) / log(k)


@register(
    "topk_negentropy",
    inputs=partial(top_inputs, "top15_entropy", 15),
    higher_is_confident=True,
    range=(0, 1),
    source=SCALENA,
)
def topk_negentropy(
    columns: Columns, ranges: Ranges, *, k: int = 15, aggregate: Literal["mean", "min"] = "mean"
) -> Floats:
    """Mean, or min, of 1 − H(top k renormalised)/ln k.

    (n_spans,) in [0, 1]; higher is more confident. Source: Scalena et al. 2025, arXiv 2510.11170 (entropy of
    the top k); UQLM's mean_token_negentropy and min_token_negentropy, with k 15. UQLM divides by the
    logarithm of the number of alternatives that it was given.

    Parameters
    ----------
    k : 15, which is stored for each token, or at most the number of stored alternatives; else NaN
    aggregate : "mean" over the tokens, or "min", the least decided token
    """
    if aggregate not in ("mean", "min"):
        raise ToolkitError(f"aggregate={aggregate!r}: it must be mean or min")
    values = token_negentropy(columns, k)
    return ranges.mean(values) if aggregate == "mean" else ranges.min(values)


@register(
    "min_topk_negentropy",
    inputs=partial(top_inputs, "top15_entropy", 15),
    higher_is_confident=True,
    range=(0, 1),
    source=SCALENA,
)
def min_topk_negentropy(columns: Columns, ranges: Ranges, *, k: int = 15) -> Floats:
    """Min of 1 − H(top k renormalised)/ln k: `topk_negentropy` with the aggregate "min".

    (n_spans,) in [0, 1]; higher is more confident. Source: Scalena et al. 2025, arXiv 2510.11170; UQLM's
    min_token_negentropy.

    Parameters
    ----------
    k : 15, which is stored for each token, or at most the number of stored alternatives; else NaN
    """
    return ranges.min(token_negentropy(columns, k))


def token_topk_nll(columns: Columns, k: int = 20) -> Floats:
    """(n_tokens,) −mean of ln p over the k most likely tokens, in nats: DeepConf's token confidence.

    k = 20 comes from the column `top20_mean_logprob`; another k from `alternative_logprobs`, NaN where fewer
    are stored.

    Raises
    ------
    ToolkitError
        Where k is below 1.
    """
    if k < 1:
        raise ToolkitError(f"k={k}: at least one token is needed")
    if k == 20:
        return -_float64(columns, "top20_mean_logprob")
    return -_top(columns, k).mean(axis=1)


@register(
    "mean_topk_nll",
    inputs=partial(top_inputs, "top20_mean_logprob", 20),
    higher_is_confident=True,
    range=(0, inf),
    source="Fu 2025, arXiv 2508.15260",
)
def mean_topk_nll(columns: Columns, ranges: Ranges, *, k: int = 20) -> Floats:
    """Mean of −mean of ln p over the k most likely tokens: DeepConf's average trace confidence.

    (n_spans,) nats in [ln k, ∞]; higher is more confident, since a certain model leaves little for the
    others. Source: Fu et al. 2025, arXiv 2508.15260. DeepConf rounds each token to three digits first.

    Parameters
    ----------
    k : 20, which is stored for each token, or at most the number of stored alternatives; else NaN
    """
    return ranges.mean(token_topk_nll(columns, k))
