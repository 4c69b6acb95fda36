"""Estimators over the classes of equivalent samples: how many answers there are, and how they share the mass.

Classes are (K,) integers from any equivalence (see `equivalence`), equal for samples that say the same. All
samples without an answer (-1) count as one class. One sample has nothing to agree or disagree with, so what
compares samples is NaN for fewer than two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, log, nan
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from toolkit.errors import ToolkitError
from toolkit.stats.equivalence import NO_ANSWER
from toolkit.stats.ranges import Floats
from toolkit.stats.registry import register
from toolkit.stats.samples import Target, Weights, mc_inputs, per_token, sample_weights, weighted_mean

Variant = Literal["polygraph", "farquhar", "direct"]
LIN = "Lin 2023, arXiv 2305.19187"
FARQUHAR = "Farquhar 2024, doi 10.1038/s41586-024-07421-0"
COLE = "Cole 2023, arXiv 2305.14613"


@register(
    "number_of_classes",
    level="samples",
    inputs=("classes",),
    higher_is_confident=False,
    range=(1, inf),
    source=LIN,
)
def number_of_classes(classes: ArrayLike) -> float:
    """Number of different answers among the samples.

    In [1, K]; lower is more confident; NaN for fewer than two samples. Source: Lin et al. 2023, arXiv
    2305.19187; LM-Polygraph's NumSemSets, over classes of entailment.

    Parameters
    ----------
    classes : (K,) integers
    """
    ids = np.asarray(classes)
    return float(len(np.unique(ids))) if len(ids) > 1 else nan


@register(
    "vote_share",
    level="samples",
    inputs=partial(mc_inputs, "classes"),
    higher_is_confident=True,
    range=(0, 1),
    source="Wang 2022, arXiv 2203.11171",
)
def vote_share(
    classes: ArrayLike,
    sum_logprob: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
    *,
    weights: Weights = "equal",
) -> float:
    """Share of all samples that the most frequent answer has.

    In (0, 1]; higher is more confident; NaN for fewer than two samples, or none with an answer. Source: Wang
    et al. 2022, arXiv 2203.11171 (self-consistency); Cole et al. 2023, arXiv 2305.14613.

    Parameters
    ----------
    classes : (K,) integers
    sum_logprob, sum_sampling_logprob : (K,) nats, for weights="importance"
    weights : "equal" or "importance"
    """
    ids = np.asarray(classes)
    shares = sample_weights(len(ids), weights, sum_logprob, sum_sampling_logprob)
    answered = ids != NO_ANSWER
    if len(ids) < 2 or not answered.any():
        return nan
    return float(_class_sums(shares[answered], ids[answered]).max())


@register(
    "exact_match_rate",
    level="samples",
    inputs=partial(mc_inputs, "classes", "target"),
    higher_is_confident=True,
    range=(0, 1),
    source=COLE,
)
def exact_match_rate(
    classes: ArrayLike,
    target: Target,
    sum_logprob: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
    *,
    weights: Weights = "equal",
) -> float:
    """Share of samples that equal the target; the target itself is not counted where it is one of them.

    In [0, 1]; higher is more confident; NaN where no other sample is left or the target has no answer.
    Source: Cole et al. 2023, arXiv 2305.14613 (repetition). UQLM's exact_match.

    Parameters
    ----------
    classes : (K,) integers
    target : with `class_id`, and `index` where it is one of the samples
    sum_logprob, sum_sampling_logprob : (K,) nats, for weights="importance"
    weights : "equal" or "importance"
    """
    ids = np.asarray(classes)
    shares = sample_weights(len(ids), weights, sum_logprob, sum_sampling_logprob)
    others = np.arange(len(ids)) != target.index
    total = shares[others].sum()
    if target.class_id in (None, NO_ANSWER) or not total > 0:
        return nan
    return weighted_mean(ids[others] == target.class_id, shares[others] / total)


@register(
    "discrete_semantic_entropy",
    level="samples",
    inputs=partial(mc_inputs, "classes"),
    higher_is_confident=False,
    range=(0, inf),
    source=FARQUHAR,
)
def discrete_semantic_entropy(
    classes: ArrayLike,
    sum_logprob: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
    *,
    weights: Weights = "equal",
) -> float:
    """−Σ f ln f over the frequencies f of the classes.

    Nats in [0, ln K]; lower is more confident; NaN for fewer than two samples. Source: Farquhar et al. 2024,
    doi 10.1038/s41586-024-07421-0; LM-Polygraph's SemanticEntropy with class_probability_estimation
    "frequency"; UQLM's discrete entropy.

    Parameters
    ----------
    classes : (K,) integers
    sum_logprob, sum_sampling_logprob : (K,) nats, for weights="importance"
    weights : "equal" or "importance"
    """
    ids = np.asarray(classes)
    if len(ids) < 2:
        return nan
    shares = sample_weights(len(ids), weights, sum_logprob, sum_sampling_logprob)
    return float(entr(_class_sums(shares, ids)).sum())


def _semantic_inputs(*, variant: str, unique: bool, weights: str, count_end: bool) -> tuple[str, ...]:
    lengths = ("n_tokens",) if variant == "farquhar" else ()
    texts = ("texts",) if unique else ()
    return mc_inputs("sum_logprob", "classes", *lengths, *texts, weights=weights, count_end=count_end)


@register(
    "semantic_entropy",
    level="samples",
    inputs=_semantic_inputs,
    higher_is_confident=False,
    range=(-inf, inf),
    source="Kuhn 2023, arXiv 2302.09664; Farquhar 2024, doi 10.1038/s41586-024-07421-0; arXiv 2406.04306",
)
def semantic_entropy(
    sum_logprob: ArrayLike,
    classes: ArrayLike,
    n_tokens: ArrayLike | None = None,
    texts: Sequence[str] | None = None,
    has_end: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
    *,
    variant: Variant = "polygraph",
    unique: bool = False,
    weights: Weights = "equal",
    count_end: bool = False,
) -> float:
    """Entropy over the classes, whose masses are the samples' probabilities: three published, not equal.

    Nats; lower is more confident; NaN for fewer than two samples. With m_c the logarithm of the summed
    probabilities of class c's samples:

    - "polygraph": −mean over samples of m of their class, unnormalised, in (−∞, ∞] (Kuhn et al. 2023, arXiv
      2302.09664; LM-Polygraph's SemanticEntropy);
    - "farquhar": S_i/n_i in place of S_i, P the masses normalised over classes, −Σ P ln P, in [0, ln K]
      (Farquhar et al. 2024, doi 10.1038/s41586-024-07421-0);
    - "direct": −Σ over samples of exp(m)·m of their class, in (−∞, ∞) (Aichberger et al. 2024, arXiv
      2406.04306; LM-Polygraph's SemanticEntropy with entropy_estimation "direct").

    Parameters
    ----------
    sum_logprob : (K,) nats, the end token included
    classes : (K,) integers
    n_tokens : (K,) the end token not counted, for "farquhar"
    texts : K texts, for unique
    has_end : (K,) bool, for count_end
    sum_sampling_logprob : (K,) nats, for weights="importance"
    variant : "polygraph", "farquhar" or "direct"
    unique : whether a repeated text counts once in its class, its first draw, since repeats push a class's
        mass over 1
    weights : of the mean over samples of "polygraph"; the others take no mean
    count_end : whether n of "farquhar" counts the end token

    Raises
    ------
    ToolkitError
        For an unknown variant, or an argument that it needs and was not given.
    """
    sums, ids = np.asarray(sum_logprob, np.float64), np.asarray(classes)
    if variant not in ("polygraph", "farquhar", "direct"):
        raise ToolkitError(f"variant={variant!r}: it must be polygraph, farquhar or direct")
    if weights != "equal" and variant != "polygraph":
        raise ToolkitError(f"weights={weights!r} is for the variant polygraph: {variant} takes no mean")
    if len(sums) < 2:
        return nan
    if variant == "farquhar":
        if n_tokens is None:
            raise ToolkitError("variant='farquhar' needs n_tokens, the tokens of each sample")
        return _entropy_of_masses(per_token(sums, n_tokens, has_end, count_end), ids, texts, unique)
    masses = _log_masses(sums, ids, texts, unique)[np.unique(ids, return_inverse=True)[1]]  # (K,)
    if variant == "direct":
        counted = masses[masses != -inf]  # the limit of p ln p at 0 is 0
        return float(-(np.exp(counted) * counted).sum())
    return weighted_mean(-masses, sample_weights(len(sums), weights, sums, sum_sampling_logprob))


def _negentropy_inputs(*, mass: str) -> tuple[str, ...]:
    return ("classes", "target", *(("sum_logprob", "n_tokens") if mass == "likelihood" else ()))


@register(
    "semantic_negentropy",
    level="samples",
    inputs=_negentropy_inputs,
    higher_is_confident=True,
    range=(0, 1),
    source="Bouchard & Chauhan 2025, arXiv 2504.19254",
)
def semantic_negentropy(
    classes: ArrayLike,
    target: Target | None = None,
    sum_logprob: ArrayLike | None = None,
    n_tokens: ArrayLike | None = None,
    *,
    mass: Literal["likelihood", "frequency"] = "likelihood",
) -> float:
    """1 − H/ln K, H the semantic entropy of farquhar, or the discrete one, K with the original answer.

    In [0, 1]; higher is more confident; NaN for fewer than two answers. Source: Bouchard & Chauhan 2025,
    arXiv 2504.19254 (UQLM's semantic_negentropy, in the white-box and in the black-box form).

    Parameters
    ----------
    classes : (K,) integers
    target : the original answer, added to the samples unless its `index` says that it is one of them. None
        where the arrays hold it already.
    sum_logprob, n_tokens : (K,) for "likelihood"
    mass : "likelihood", a class's mass is the sum of exp(S_i/n_i); or "frequency", its share of the answers
    """
    ids = np.asarray(classes)
    added = target is not None and target.index is None
    if added and target is not None:
        ids = np.append(ids, NO_ANSWER if target.class_id is None else target.class_id)
    if len(ids) < 2:
        return nan
    if mass == "frequency":
        return 1 - discrete_semantic_entropy(ids) / log(len(ids))
    if mass != "likelihood" or sum_logprob is None or n_tokens is None:
        raise ToolkitError(
            f"mass={mass!r}: it must be frequency, or likelihood with sum_logprob and n_tokens"
        )
    sums, n = np.asarray(sum_logprob, np.float64), np.asarray(n_tokens, np.float64)
    if added and target is not None:
        sums, n = np.append(sums, target.sum_logprob), np.append(n, target.n_tokens)
    return 1 - semantic_entropy(sums, ids, n, variant="farquhar") / log(len(ids))


def _class_sums(values: Floats, classes: NDArray[np.int64]) -> Floats:
    """(number of classes,) sums of values, classes in rising order."""
    return np.bincount(np.unique(classes, return_inverse=True)[1], values).astype(np.float64, copy=False)


def _log_masses(
    logs: Floats, classes: NDArray[np.int64], texts: Sequence[str] | None, unique: bool
) -> Floats:
    """(number of classes,) logsumexp of the class's (K,) logs, classes in rising order; all NaN for a NaN."""
    if np.isnan(logs).any():
        return np.full(len(np.unique(classes)), nan)
    if unique:
        if texts is None:
            raise ToolkitError("unique=True needs the texts")
        kept = _first_of_each(classes, texts)
        logs, classes = logs[kept], classes[kept]
    order = np.argsort(classes, kind="stable")
    starts = np.unique(classes[order], return_index=True)[1]
    return np.logaddexp.reduceat(logs[order], starts)


def _first_of_each(classes: NDArray[np.int64], texts: Sequence[str]) -> list[int]:
    seen: dict[tuple[int, str], int] = {}
    for i, key in enumerate(zip(classes.tolist(), texts, strict=True)):
        seen.setdefault(key, i)
    return list(seen.values())


def _entropy_of_masses(
    logs: Floats, classes: NDArray[np.int64], texts: Sequence[str] | None, unique: bool
) -> float:
    masses = _log_masses(logs, classes, texts, unique)
    top = masses.max()
    if not np.isfinite(top):
        return nan
    shares = np.exp(masses - top)
    return float(entr(shares / shares.sum()).sum())
