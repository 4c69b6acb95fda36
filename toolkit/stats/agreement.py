"""Estimators of how far samples agree with each other, or with the answer that is judged.

From similarities between texts; a matrix is (K, K) for K samples, and the mean of both directions is taken.
NaN where there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from toolkit.errors import ToolkitError
from toolkit.stats.graphs import computable
from toolkit.stats.registry import get, register
from toolkit.stats.samples import Target
from toolkit.stats.similarity import RougeMetric, RougeTokens, nonnegative, rouge_matrix, square

_ROUNDING = 1e-6  # an entropy of 0 can come out as this far below, in float32
FOMICHEVA = "Fomicheva 2020, arXiv 2005.10608"


@register(
    "mean_similarity",
    level="samples",
    inputs=("similarity",),
    higher_is_confident=True,
    range=(-1, 1),
    source=FOMICHEVA,
)
def mean_similarity(similarity: ArrayLike) -> float:
    """Mean similarity over the pairs of samples; pairs whose similarity is NaN are left out.

    In the matrix's unit; higher is more confident; NaN where no pair has a value. Source: Fomicheva et al.
    2020, arXiv 2005.10608.

    Parameters
    ----------
    similarity : (K, K)
    """
    matrix = square(similarity)
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    defined = pairs[~np.isnan(pairs)]
    return float(defined.mean()) if defined.size else nan


@register(
    "lexical_similarity",
    level="samples",
    inputs=("texts",),
    higher_is_confident=True,
    range=(0, 1),
    source=FOMICHEVA,
)
def lexical_similarity(
    texts: Sequence[str], *, metric: RougeMetric = "rougeL", tokens: RougeTokens = "stemmed"
) -> float:
    """Mean ROUGE F-measure over the pairs of samples.

    In [0, 1]; higher is more confident. Pairs without a word (for rouge2, a pair of words) to compare are
    left out, and it is NaN where all are; two empty texts are alike. LM-Polygraph's LexicalSimilarity
    is the negative, and takes such pairs as 0. Source: Fomicheva et al. 2020, arXiv 2005.10608, who compare by
    Meteor.

    Parameters
    ----------
    texts : K texts
    metric : "rouge1", "rouge2" or "rougeL"
    tokens : "stemmed" as published, "words" for any script, "characters" for scripts without spaces
    """
    return mean_similarity(rouge_matrix(texts, metric, tokens=tokens))


@register(
    "cocoa",
    level="samples",
    inputs=("target",),
    higher_is_confident=False,
    range=(0, inf),
    source="Vashurin 2025, arXiv 2502.04964",
)
def cocoa(target: Target, *, u: str | float = "sum_logprob") -> float:
    """u · mean(1 − similarity to the target): uncertain, and unlike the other samples.

    At least 0; lower is more confident. NaN where no other sample is left or u has no value. Source: Vashurin
    et al. 2025, arXiv 2502.04964; LM-Polygraph's CocoaMSP is u="sum_logprob", CocoaPPL "mean_logprob" and
    CocoaMTE "mean_entropy".

    Parameters
    ----------
    target : with `similarity` to each sample, and `values` that hold u; where its `index` says that it is a
        sample, that one is left out
    u : a token-span estimator of the target, as an uncertainty: of a confidence, how far it is below the
        largest value that it can have, so −sum_logprob and 1 − mean_prob. Or the uncertainty itself.

    Raises
    ------
    ToolkitError
        Where the target lacks what is needed, or u can be negative as an uncertainty.
    """
    if target.similarity is None:
        raise ToolkitError("cocoa needs the target's similarity to each sample")
    uncertainty = _uncertainty(target, u) if isinstance(u, str) else float(u)
    if uncertainty < -_ROUNDING:
        raise ToolkitError(f"cocoa: u is {uncertainty:g}: it must be at least 0")
    similarity = np.asarray(target.similarity, np.float64)
    others = similarity[np.arange(len(similarity)) != target.index]
    with np.errstate(invalid="ignore"):  # a masked target that all agree with: infinity times 0 is NaN
        return float(np.maximum(0, uncertainty) * np.mean(1 - others)) if others.size else nan


def _uncertainty(target: Target, name: str) -> float:
    estimator = get(name)
    lowest, highest = estimator.range
    if (highest == inf) if estimator.higher_is_confident else (lowest < 0):
        raise ToolkitError(f"cocoa: {name} gives no uncertainty that is at least 0: choose sum_logprob")
    if estimator.label not in target.values:
        raise ToolkitError(f"cocoa needs {estimator.label} of the target, which was not given")
    value = target.values[estimator.label]
    return float(np.maximum(0, highest - value)) if estimator.higher_is_confident else value


@register(
    "sentence_sar",
    level="samples",
    inputs=("sum_logprob", "similarity"),
    higher_is_confident=False,
    range=(-inf, inf),
    source="Duan 2023, arXiv 2307.01379",
)
def sentence_sar(sum_logprob: ArrayLike, similarity: ArrayLike, *, t: float = 0.001) -> float:
    """−mean over samples of ln(p_i + Σ_{j≠i} similarity_ij p_j / t), p the samples' probabilities.

    Nats in (−∞, ∞]; lower is more confident. Source: Duan et al. 2023, arXiv 2307.01379; LM-Polygraph's
    SentenceSAR, which is infinite where all probabilities of a prompt underflow; here logarithms are added.

    Parameters
    ----------
    sum_logprob : (K,) nats
    similarity : (K, K), at least 0
    t : temperature, above 0
    """
    if not t > 0:
        raise ToolkitError(f"t={t}: the temperature must be above 0")
    sums = np.asarray(sum_logprob, np.float64)
    factors = nonnegative(similarity, len(sums)) / t
    np.fill_diagonal(factors, 1)
    if not computable(factors) or np.isnan(sums).any():
        return nan
    with np.errstate(divide="ignore"):
        relevance = logsumexp(sums + np.log(factors), axis=1)
    return float(-relevance.mean())
