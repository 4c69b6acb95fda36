"""The samples of one prompt, and the Monte-Carlo estimators over them.

Estimators here take arrays with one value for each of K samples and return a float: NaN where there is
nothing to compute from, or where a sample's value is NaN. A `Samples` record holds such arrays under the
names that the estimators' arguments have, so that any of them can be called with the record.

Samples are draws of the model itself only at temperature 1 without filters. Otherwise a plain mean over them
is a cross-entropy of the sampler and the model; `weights="importance"` weighs sample i by
exp(sum_logprob − sum_sampling_logprob), normalised to 1, which estimates what the model's own samples would
give. `estimate` says how many samples' worth of weight there is, and names the sampler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, nan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Floats
from toolkit.stats.registry import Estimator, get, register
from toolkit.stats.similarity import jaccard_matrix

Weights = Literal["equal", "importance"]
KUHN = "Kuhn 2023, arXiv 2302.09664"


@dataclass(frozen=True, eq=False)
class Target:
    """The answer that is judged: one of the samples, or another sequence such as the greedy one."""

    class_id: int | None = None  # its class among the samples' classes
    similarity: NDArray[np.float64] | None = None  # (K,) to each sample
    sum_logprob: float = nan  # nats, the end token included
    n_tokens: float = nan  # the end token not counted
    values: Mapping[str, float] = field(default_factory=dict)  # token-span estimators of it, by label
    index: int | None = None  # which sample it is; None where it is none of them


_OF_EACH = ("texts", "sum_logprob", "n_tokens", "has_end", "sum_sampling_logprob", "classes", "similarity")
"""The fields of `Samples` that have an element for each."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What is known of the K samples of a prompt, in the order drawn; None for what was not given.

    Raises
    ------
    ToolkitError
        Where the fields are of different numbers of samples.
    """

    texts: Sequence[str] | None = None
    sum_logprob: NDArray[np.float64] | None = None  # (K,) nats, the end token included
    n_tokens: NDArray[np.float64] | None = None  # (K,) the end token not counted
    has_end: NDArray[np.bool_] | None = None  # (K,)
    sum_sampling_logprob: NDArray[np.float64] | None = None  # (K,) nats, the end token included
    classes: NDArray[np.int64] | None = None  # (K,) equal for equivalent samples
    similarity: NDArray[np.float64] | None = None  # (K, K)
    target: Target | None = None
    sampler: str = ""  # how the samples were drawn: "temperature 0.8, top_p 0.95"
    _size: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = ((name, getattr(self, name)) for name in _OF_EACH)
        sizes = {name: len(values) for name, values in given if values is not None}
        if len(set(sizes.values())) > 1:
            raise ToolkitError(f"samples differ in number: {', '.join(f'{k} {n}' for k, n in sizes.items())}")
        object.__setattr__(self, "_size", next(iter(sizes.values()), 0))

    def __len__(self) -> int:
        return self._size

    @cached_property
    def jaccard(self) -> Floats | None:
        """(K, K) Jaccard matrix of the texts."""
        return None if self.texts is None else jaccard_matrix(self.texts)


class Estimate(NamedTuple):
    """An estimator's value over samples, and what it rests on."""

    label: str
    value: float
    n_samples: int
    effective_sample_size: float  # n_samples where all weigh the same
    sampler: str


def estimate(estimator: str | Estimator, samples: Samples) -> Estimate:
    """Evaluate a samples estimator, with the number of samples and their effective number.

    Raises
    ------
    ToolkitError
        For an unknown estimator, one of another level, or a missing field.
    """
    chosen = get(estimator) if isinstance(estimator, str) else estimator
    if chosen.level != "samples":
        raise ToolkitError(f"{chosen.label} is an estimator of token spans, not of samples")
    value = chosen(samples)
    size = float(len(samples))
    if chosen.parameters.get("weights") == "importance":
        size = effective_sample_size(sample_weights(len(samples), "importance", *_log_sums(samples)))
    return Estimate(chosen.label, value, len(samples), size, samples.sampler)


def _log_sums(samples: Samples) -> tuple[Any, Any]:
    return samples.sum_logprob, samples.sum_sampling_logprob


def sample_weights(
    n_samples: int,
    weights: Weights = "equal",
    sum_logprob: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
) -> Floats:
    """The weight of each sample, summing to 1; all NaN where they cannot be told.

    Parameters
    ----------
    n_samples : K
    weights : "equal", or "importance": exp(sum_logprob − sum_sampling_logprob), normalised
    sum_logprob, sum_sampling_logprob : (K,) nats, for "importance"

    Raises
    ------
    ToolkitError
        For another word, or "importance" without both sums.
    """
    if weights == "equal":
        return np.full(n_samples, 1 / max(1, n_samples))
    if weights != "importance":
        raise ToolkitError(f"weights={weights!r}: it must be equal or importance")
    if sum_logprob is None or sum_sampling_logprob is None:
        raise ToolkitError("weights='importance' needs sum_logprob and sum_sampling_logprob")
    with np.errstate(invalid="ignore"):
        logs = np.asarray(sum_logprob, np.float64) - np.asarray(sum_sampling_logprob, np.float64)
    top = logs.max(initial=-inf)
    if not np.isfinite(top):
        return np.full(n_samples, nan)
    raw = np.exp(logs - top)
    return raw / raw.sum()


def effective_sample_size(weights: ArrayLike) -> float:
    """1/Σw² of weights that sum to 1: as many equally weighted samples would be as good. In [1, K].

    Source: Kong 1992; Liu 2001, doi 10.1007/978-0-387-76371-2.
    """
    array = np.asarray(weights, np.float64)
    return float(1 / (array**2).sum()) if array.size else 0.0


def weighted_mean(values: ArrayLike, weights: Floats) -> float:
    """Σ w x of (K,) values, a sample of weight 0 taking no part; NaN without samples."""
    array = np.asarray(values, np.float64)
    if array.shape != weights.shape:
        raise ToolkitError(f"values have shape {array.shape} and their weights {weights.shape}")
    if not array.size or np.isnan(weights).any():
        return nan
    counted = weights > 0
    return float((weights[counted] * array[counted]).sum())


def mc_inputs(*inputs: str, weights: str = "equal", count_end: bool = False, **_: object) -> tuple[str, ...]:
    """The fields of `Samples` that an estimator reads, given its parameters."""
    sums = ("sum_logprob", "sum_sampling_logprob") if weights == "importance" else ()
    return tuple(dict.fromkeys((*inputs, *(("has_end",) if count_end else ()), *sums)))


@register(
    "mc_sequence_entropy",
    level="samples",
    inputs=partial(mc_inputs, "sum_logprob"),
    higher_is_confident=False,
    range=(0, inf),
    source=KUHN,
)
def mc_sequence_entropy(
    sum_logprob: ArrayLike, sum_sampling_logprob: ArrayLike | None = None, *, weights: Weights = "equal"
) -> float:
    """−mean S_i: the Monte-Carlo estimate of the entropy over whole answers.

    Nats in [0, ∞]; lower is more confident; grows with length. Source: Kuhn et al. 2023, arXiv 2302.09664;
    LM-Polygraph's MonteCarloSequenceEntropy.

    Parameters
    ----------
    sum_logprob : (K,) nats, the end token included
    sum_sampling_logprob : (K,) nats, for weights="importance"
    weights : "equal" or "importance"
    """
    sums = np.asarray(sum_logprob, np.float64)
    return weighted_mean(-sums, sample_weights(len(sums), weights, sums, sum_sampling_logprob))


def per_token(
    sum_logprob: ArrayLike, n_tokens: ArrayLike, has_end: ArrayLike | None, count_end: bool
) -> Floats:
    """(K,) S_i/n_i in nats, NaN where n_i is 0; `count_end` adds the end token to n_i.

    Raises
    ------
    ToolkitError
        Where `count_end` is asked for and `has_end` is not given.
    """
    n = np.asarray(n_tokens, np.float64)
    if count_end:
        if has_end is None:
            raise ToolkitError("count_end=True needs has_end, whether each sample has an end token")
        n = n + np.asarray(has_end, bool)
    return np.asarray(sum_logprob, np.float64) / np.where(n > 0, n, nan)


@register(
    "mc_normalized_sequence_entropy",
    level="samples",
    inputs=partial(mc_inputs, "sum_logprob", "n_tokens"),
    higher_is_confident=False,
    range=(0, inf),
    source="Malinin & Gales 2021, arXiv 2002.07650",
)
def mc_normalized_sequence_entropy(
    sum_logprob: ArrayLike,
    n_tokens: ArrayLike,
    has_end: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
    *,
    weights: Weights = "equal",
    count_end: bool = False,
) -> float:
    """−mean S_i/n_i: `mc_sequence_entropy` per token.

    Nats in [0, ∞]; lower is more confident; NaN where a sample has no token to divide by. Source: Malinin &
    Gales 2021, arXiv 2002.07650; Kuhn et al. 2023, arXiv 2302.09664. LM-Polygraph's
    MonteCarloNormalizedSequenceEntropy has the end token in S and not in n, which is the default here.

    Parameters
    ----------
    sum_logprob : (K,) nats, the end token included
    n_tokens : (K,) the end token not counted
    has_end : (K,) bool, for count_end
    sum_sampling_logprob : (K,) nats, for weights="importance"
    weights : "equal" or "importance"
    count_end : whether n counts the end token, where a sample has one
    """
    means = per_token(sum_logprob, n_tokens, has_end, count_end)
    return weighted_mean(-means, sample_weights(len(means), weights, sum_logprob, sum_sampling_logprob))


@register(
    "monte_carlo_probability",
    level="samples",
    inputs=partial(mc_inputs, "sum_logprob", "n_tokens"),
    higher_is_confident=True,
    range=(0, 1),
    source=KUHN,
)
def monte_carlo_probability(
    sum_logprob: ArrayLike,
    n_tokens: ArrayLike,
    has_end: ArrayLike | None = None,
    sum_sampling_logprob: ArrayLike | None = None,
    *,
    weights: Weights = "equal",
    count_end: bool = False,
) -> float:
    """Mean of exp(S_i/n_i): the average over samples of the geometric mean of token probabilities.

    Probability in [0, 1]; higher is more confident. Source: Kuhn et al. 2023, arXiv 2302.09664; UQLM's
    monte_carlo_probability.

    Parameters
    ----------
    As of `mc_normalized_sequence_entropy`.
    """
    means = np.exp(per_token(sum_logprob, n_tokens, has_end, count_end))
    return weighted_mean(means, sample_weights(len(means), weights, sum_logprob, sum_sampling_logprob))
