"""Estimators over the tokens of a span, from the log-probabilities of the tokens alone; and baselines.

Each is a function of (columns, ranges): columns of n_tokens rows by name, and n_spans ranges of rows. It
returns (n_spans,) float64. A span without tokens, or with a token whose value was not computed (NaN), gives
NaN; -inf (a masked token) goes through. Weights of the ranges, the shares of bytes, count in sums and means.

`which` picks the log-probability: "logprob" is the untouched model's; "constrained" is after logits
processors and grammar masks; "sampling" is under the distribution that the token was drawn from.
"""

from __future__ import annotations

from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Columns, Floats, Ranges, column
from toolkit.stats.registry import register

Which = Literal["logprob", "constrained", "sampling"]
LOGPROB_COLUMNS = {
    "logprob": "logprob",
    "constrained": "constrained_logprob",
    "sampling": "sampling_logprob",
}

MALININ = "Malinin & Gales 2021, arXiv 2002.07650"


def logprob_inputs(*others: str, which: str = "logprob", **_: object) -> tuple[str, ...]:
    """The columns that an estimator of log-probabilities reads for a `which`, and `others`."""
    return (LOGPROB_COLUMNS[which], *others)


def logprobs(columns: Columns, which: Which = "logprob") -> NDArray[Any]:
    """(n_tokens,) the log-probabilities that `which` names, in nats."""
    if which not in LOGPROB_COLUMNS:
        raise ToolkitError(f"which={which!r}: it must be one of {', '.join(LOGPROB_COLUMNS)}")
    return column(columns, LOGPROB_COLUMNS[which])


def lowest_share(lengths: NDArray[np.int64], k: float) -> NDArray[np.int64]:
    """⌊k·n⌋ for each n, where 0.29 · 100 is 29 although its floating-point product is below.

    Raises
    ------
    ToolkitError
        Where k is not in (0, 1].
    """
    if not 0 < k <= 1:
        raise ToolkitError(f"k={k}: it is a share of a span's tokens, above 0 and at most 1")
    return np.floor(k * lengths + 1e-9).astype(np.int64)


@register(
    "sum_logprob",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(-inf, 0),
    source="Fomicheva 2020, arXiv 2005.10608",
)
def sum_logprob(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """Σ l: the log-probability of the span given all before it.

    (n_spans,) nats in (−∞, 0]; higher is more confident; falls with length. Source: Fomicheva et al. 2020,
    arXiv 2005.10608. LM-Polygraph's MaximumSequenceProbability is its negative, the end token included.
    """
    return ranges.sum(logprobs(columns, which))


@register(
    "mean_logprob",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(-inf, 0),
    source=MALININ,
)
def mean_logprob(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """Mean l: the log-probability per token.

    (n_spans,) nats in (−∞, 0]; higher is more confident. Source: Malinin & Gales 2021, arXiv 2002.07650.
    LM-Polygraph's Perplexity is its negative, not the perplexity.
    """
    return ranges.mean(logprobs(columns, which))


@register(
    "min_logprob",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(-inf, 0),
    source="Manakul 2023, arXiv 2303.08896",
)
def min_logprob(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """Min l: the log-probability of the least likely token.

    (n_spans,) nats in (−∞, 0]; higher is more confident. Source: Manakul et al. 2023, arXiv 2303.08896, whose
    Max(−log p) is its negative.
    """
    return ranges.min(logprobs(columns, which))


@register(
    "min_prob",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(0, 1),
    source="Manakul 2023, arXiv 2303.08896",
)
def min_prob(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """exp(min l): the probability of the least likely token.

    (n_spans,) probability in [0, 1]; higher is more confident. Source: Manakul et al. 2023, arXiv 2303.08896;
    UQLM's min_probability.
    """
    return np.exp(ranges.min(logprobs(columns, which)))


@register(
    "perplexity",
    inputs=logprob_inputs,
    higher_is_confident=False,
    range=(1, inf),
    source="Jelinek 1977, doi 10.1121/1.2016299",
)
def perplexity(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """exp(−mean l): the number of equally likely tokens that would surprise as much.

    (n_spans,) in [1, ∞]; lower is more confident. Source: Jelinek et al. 1977, doi 10.1121/1.2016299.
    LM-Polygraph gives the name to −mean l.
    """
    with np.errstate(over="ignore"):
        return np.exp(-mean_logprob(columns, ranges, which=which))


@register(
    "geometric_mean_prob",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(0, 1),
    source=MALININ,
)
def geometric_mean_prob(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """exp(mean l): the geometric mean of the tokens' probabilities.

    (n_spans,) probability in [0, 1]; higher is more confident. Source: Malinin & Gales 2021, arXiv
    2002.07650; UQLM's sequence_probability with length normalisation.
    """
    return np.exp(mean_logprob(columns, ranges, which=which))


@register(
    "mean_prob",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(0, 1),
    source="Fomicheva 2020, arXiv 2005.10608",
)
def mean_prob(columns: Columns, ranges: Ranges, *, which: Which = "logprob") -> Floats:
    """Mean exp(l): the arithmetic mean of the tokens' probabilities.

    (n_spans,) probability in [0, 1]; higher is more confident; one unlikely token weighs less than in
    geometric_mean_prob. Source: Fomicheva et al. 2020, arXiv 2005.10608.
    """
    return ranges.mean(np.exp(logprobs(columns, which), dtype=np.float64))


@register(
    "min_k_percent",
    inputs=logprob_inputs,
    higher_is_confident=True,
    range=(-inf, 0),
    source="Shi 2023, arXiv 2310.16789",
)
def min_k_percent(columns: Columns, ranges: Ranges, *, k: float = 0.2, which: Which = "logprob") -> Floats:
    """Mean of the ⌊k·n⌋ lowest l; NaN where ⌊k·n⌋ is 0.

    (n_spans,) nats in (−∞, 0]; higher is more confident. Source: Shi et al. 2023, arXiv 2310.16789 (Min-K%
    Prob), whose code gives NaN for none too.

    Parameters
    ----------
    k : share of the tokens, above 0 and at most 1
    """
    return ranges.lowest_mean(logprobs(columns, which), lowest_share(ranges.lengths, k))


@register(
    "mean_rank",
    inputs=("rank",),
    higher_is_confident=False,
    range=(1, inf),
    source="Gehrmann 2019, arXiv 1906.04043",
)
def mean_rank(columns: Columns, ranges: Ranges) -> Floats:
    """Mean rank of the tokens; a rank is 1 + the number of logits strictly greater.

    (n_spans,) in [1, V]; lower is more confident. Source: Gehrmann et al. 2019, arXiv 1906.04043. Others
    count from 0, or give tied tokens different ranks.
    """
    return ranges.mean(column(columns, "rank"))


@register(
    "greedy_fraction",
    inputs=("rank",),
    higher_is_confident=True,
    range=(0, 1),
    source="Gehrmann 2019, arXiv 1906.04043",
)
def greedy_fraction(columns: Columns, ranges: Ranges) -> Floats:
    """Share of the tokens of rank 1, those that greedy decoding could have taken.

    (n_spans,) in [0, 1]; higher is more confident. Source: Gehrmann et al. 2019, arXiv 1906.04043 (share of
    the top 1).
    """
    rank = np.asarray(column(columns, "rank"), np.float64)
    return ranges.mean(np.where(np.isnan(rank), np.nan, rank == 1))


@register(
    "mean_boosted_prob",
    inputs=("boosted_prob",),
    higher_is_confident=True,
    range=(0, 1),
    source="Dinh 2025, arXiv 2502.11115",
)
def mean_boosted_prob(columns: Columns, ranges: Ranges) -> Floats:
    """Mean boosted probability: the mass of the dominant set for a token in it, else the token's own.

    (n_spans,) probability in [0, 1]; higher is more confident. Source: Dinh & Niehues 2025, arXiv
    2502.11115. The set ends after the last drop of the sorted probabilities that exceeds 0.3·p_i and 0.005;
    it is cut when a token is generated, since stored alternatives are too few for it.
    """
    return ranges.mean(column(columns, "boosted_prob"))


@register("n_tokens", inputs=(), higher_is_confident=False, range=(0, inf), source="baseline")
def n_tokens(columns: Columns, ranges: Ranges) -> Floats:
    """Number of tokens: a baseline that any estimator has to beat.

    (n_spans,) in [0, ∞); fewer tokens are taken as more confident. An empty span has 0, which is a count and
    not undefined.
    """
    return ranges.lengths.astype(np.float64)


@register("random", inputs=(), higher_is_confident=True, range=(0, 1), source="baseline")
def random(columns: Columns, ranges: Ranges, *, seed: int = 0, first: int = 0) -> Floats:
    """Uniform random numbers: a baseline that any estimator has to beat.

    (n_spans,) in [0, 1); the direction means nothing. NaN for a span without tokens, so that its n is the
    others'.

    Parameters
    ----------
    seed : at least 0
    first : number of the first span among all, where spans come in parts: the numbers are those that all
        spans at once would get
    """
    if seed < 0 or first < 0:
        raise ToolkitError(f"seed={seed}, first={first}: neither may be below 0")
    stream = np.random.Philox(key=seed)
    stream.advance(first // 4)  # Philox makes four numbers a step
    values = np.random.Generator(stream).random(first % 4 + len(ranges))[first % 4 :]
    return np.where(ranges.lengths > 0, values, np.nan)
