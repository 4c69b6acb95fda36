"""Answer only where sure: what the least confident units cost, and what leaving them out gains.

Risk is 1 − quality: the share of wrong answers where quality is 0 and 1. Coverage is the share of units that
are answered, the most confident first. Knows nothing of probabilities: any confidence that rises with
certainty will do, infinities included.

No value depends on the order in which tied units are given. Where a definition needs an order (the prefix
mean, the trapezoid, the rejection ratio), a tied unit has the mean quality of its block, which is the
expectation over all orders; libraries that sort take whichever order the sort leaves. NaN units are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import ToolkitError
from toolkit.stats.tally import (
    Blocks,
    Floats,
    Tally,
    judge,
    of_units,
    ratio,
    require_binary,
    require_quality,
)

# What a product such as 0.7 · 10 may be off by; below it, the floor and the ceiling are of the whole number.
_ROUNDING = 1e-9


def aurc_prefix_mean(confidence: ArrayLike, quality: ArrayLike) -> float:
    """Area under risk and coverage, as the mean risk over all prefixes of the most confident units.

    Parameters
    ----------
    confidence : (n,) array_like
        Higher means more confident.
    quality : (n,) array_like
        0 and 1, or graded in [0, 1].

    Returns
    -------
    float
        In [0, 1], lower is better; NaN without units.

    Raises
    ------
    ToolkitError
        If lengths differ, or a quality is outside [0, 1].

    Notes
    -----
    LM-Polygraph's `rcc-auc`, except that it first stretches the qualities to fill [0, 1].
    El-Yaniv & Wiener 2010.
    """
    return of_units(aurc_prefix_mean_rows, require_quality(judge(confidence, quality, name="quality")))


def aurc_trapezoid(confidence: ArrayLike, quality: ArrayLike) -> float:
    """Area under risk and coverage, by trapezoids over coverage 1/n to 1, divided by 1 − 1/n.

    Parameters, range, direction and errors are those of `aurc_prefix_mean`; NaN below two units.

    Notes
    -----
    torch-uncertainty's `AURC`. Geifman & El-Yaniv 2017, arXiv 1705.08500.
    """
    return of_units(aurc_trapezoid_rows, require_quality(judge(confidence, quality, name="quality")))


def aurc_tie_merged(confidence: ArrayLike, quality: ArrayLike) -> float:
    """Area under risk and coverage, where tied units are one working point.

    Trapezoids between the points that a threshold can reach; the first point's risk goes on to coverage 0.
    Parameters, range, direction and errors are those of `aurc_prefix_mean`; NaN without units.

    Notes
    -----
    fd-shifts' `aurc`, there times 1000 where it is shown. Traub et al. 2024, arXiv 2407.01032.
    """
    return of_units(aurc_tie_merged_rows, require_quality(judge(confidence, quality, name="quality")))


def e_aurc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """`aurc_tie_merged` less that of a perfect ranking, err + (1 − err)·ln(1 − err).

    The optimum is that of infinitely many units, so a good ranking of few gives a little less than 0.

    Parameters
    ----------
    confidence : (n,) array_like
    correct : (n,) array_like of 0 and 1
        The optimum holds for these only.

    Returns
    -------
    float
        About 0 to 1, lower is better; NaN without units.

    Raises
    ------
    ToolkitError
        If lengths differ, or `correct` holds something else.

    Notes
    -----
    fd-shifts' `eaurc`. Geifman, Uziel & El-Yaniv 2019, arXiv 1805.08206.
    """
    return of_units(e_aurc_rows, require_binary(judge(confidence, correct)))


def augrc(confidence: ArrayLike, quality: ArrayLike) -> float:
    """Area under risk · coverage and coverage: the chance that a unit is answered and wrong, over thresholds.

    Parameters and errors are those of `aurc_prefix_mean`; tied units are one working point.

    Returns
    -------
    float
        In [0, 0.5] for qualities of 0 and 1, lower is better; NaN without units.

    Notes
    -----
    fd-shifts' `augrc`; torch-uncertainty's runs from coverage 1/n and divides by 1 − 1/n.
    Traub et al. 2024, arXiv 2407.01032.
    """
    return of_units(augrc_rows, require_quality(judge(confidence, quality, name="quality")))


def prr(confidence: ArrayLike, quality: ArrayLike, *, max_rejection: float = 1.0) -> float:
    """Prediction rejection ratio: how much of a perfect ranking's gain in quality the confidence gives.

    (A − mean quality) / (A_oracle − mean quality), A the mean over k = n−R+1..n of the mean quality of the k
    most confident, R = ⌊max_rejection · n⌋.

    Parameters
    ----------
    confidence : (n,) array_like
    quality : (n,) array_like
        0 and 1 or graded, on any scale: the ratio does not change with it.
    max_rejection : float
        In (0, 1]: the share of units that may be left out, the least confident first. With 0.5 only the order
        of the less confident half counts, since the other half is always kept whole.

    Returns
    -------
    float
        At most 1 (perfect); 0 is chance, below 0 is worse. NaN where all qualities are equal, or R is 0.

    Raises
    ------
    ToolkitError
        If lengths differ, or `max_rejection` is outside (0, 1].

    Notes
    -----
    LM-Polygraph's definition. It takes 0 from 1000 random rankings where this takes their expectation, the
    mean quality, and gives the unscaled area where all qualities are equal. Malinin's rejection curve
    (arXiv 2002.07650) replaces the rejected by the truth and is another measure.
    """
    if not 0 < max_rejection <= 1:
        raise ToolkitError(f"max_rejection is {max_rejection}: give a share of units above 0 and up to 1")
    judged = judge(confidence, quality, name="quality")
    return of_units(lambda tally: prr_rows(tally, max_rejection), judged)


def risk_at_coverage(confidence: ArrayLike, quality: ArrayLike, coverage: float) -> float:
    """Risk of the most confident units that make up at least this coverage; tied units are taken together.

    Parameters, range, direction and errors are those of `aurc_prefix_mean`; `coverage` is in (0, 1].

    Notes
    -----
    Without ties the ⌈coverage · n⌉ most confident, as in torch-uncertainty's `RiskAtxCov`.
    """
    _check_share(coverage, "coverage", above=True)
    judged = require_quality(judge(confidence, quality, name="quality"))
    return of_units(lambda tally: risk_at_coverage_rows(tally, coverage), judged)


def coverage_at_risk(confidence: ArrayLike, quality: ArrayLike, risk: float) -> float:
    """The largest coverage that a threshold reaches with at most this risk.

    Parameters and errors are those of `aurc_prefix_mean`; `risk` is in [0, 1].

    Returns
    -------
    float
        In [0, 1], higher is better; 0 where no threshold is that safe, NaN without units.

    Notes
    -----
    torch-uncertainty's `CovAtxRisk` says NaN for 0, and cuts between tied units.
    """
    _check_share(risk, "risk")
    judged = require_quality(judge(confidence, quality, name="quality"))
    return of_units(lambda tally: coverage_at_risk_rows(tally, risk), judged)


class RiskCoverage(NamedTuple):
    """The working points that thresholds reach, least coverage first; arrays of shape (m,)."""

    threshold: Floats  # a unit is answered if its confidence is at least this
    coverage: Floats  # share answered, rising to 1
    risk: Floats  # mean risk of the answered
    optimum: Floats  # the least risk that any ranking has at this coverage
    random: Floats  # what a ranking by chance has: the mean risk, everywhere


def risk_coverage(confidence: ArrayLike, quality: ArrayLike) -> RiskCoverage:
    """The risk-coverage curve, with the best and the random one beside it.

    Parameters and errors are those of `aurc_prefix_mean`. m is the number of distinct confidences; all arrays
    are empty without units.
    """
    judged = require_quality(judge(confidence, quality, name="quality"))
    if judged.n == 0:
        return RiskCoverage(*(np.empty(0) for _ in RiskCoverage._fields))
    tally = Blocks.of(judged.confidence, judged.outcome).tally()
    taken = tally.taken_to[0]
    best = np.cumsum(np.sort(judged.outcome)[::-1])[taken.astype(np.intp) - 1]
    return RiskCoverage(
        threshold=tally.blocks.confidence,
        coverage=taken / judged.n,
        risk=1 - tally.good_to[0] / taken,
        optimum=1 - best / taken,
        random=np.full(len(taken), 1 - judged.outcome.mean()),
    )


def aurc_prefix_mean_rows(tally: Tally) -> Floats:
    """`aurc_prefix_mean` of each resample: (b,)."""
    return 1 - ratio(tally.prefix_mean_sum(), tally.n)


def aurc_trapezoid_rows(tally: Tally) -> Floats:
    """`aurc_trapezoid` of each resample: (b,), NaN below two units."""
    risks = tally.n - tally.prefix_mean_sum()
    first = 1 - _first_quality(tally)
    return ratio(risks - (first + 1 - tally.mean) / 2, tally.n - 1)


def aurc_tie_merged_rows(tally: Tally) -> Floats:
    """`aurc_tie_merged` of each resample: (b,)."""
    risk = 1 - tally.good_to / np.maximum(tally.taken_to, 1)
    before = np.empty_like(risk)
    before[:, 1:] = risk[:, :-1]
    # Up to the first block that is taken at all, its own risk goes on to coverage 0.
    np.copyto(before, risk, where=tally.taken_to == tally.taken)
    return ratio(np.einsum("ij,ij->i", tally.taken, risk + before), 2 * tally.n)


def e_aurc_rows(tally: Tally) -> Floats:
    """`e_aurc` of each resample of a tally of binary outcomes: (b,)."""
    right = tally.mean
    log_right = np.log(right, out=np.zeros_like(right), where=right > 0)
    return aurc_tie_merged_rows(tally) - (1 - right + right * log_right)


def augrc_rows(tally: Tally) -> Floats:
    """`augrc` of each resample: (b,)."""
    wrong_to = tally.taken_to - tally.good_to
    wrong = tally.taken - tally.good
    return ratio(np.einsum("ij,ij->i", tally.taken, wrong_to - wrong / 2), tally.n**2)


def prr_rows(tally: Tally, max_rejection: float = 1.0) -> Floats:
    """`prr` of each resample: (b,), NaN where all qualities are equal or nothing may be rejected."""
    rejected = np.floor(max_rejection * tally.n + _ROUNDING)
    gain = ratio(tally.prefix_mean_sum(rejected), rejected) - tally.mean
    best = ratio(tally.oracle.prefix_mean_sum(rejected), rejected) - tally.mean
    # One quality only, or only the whole is looked at: nothing to gain, but rounding leaves 1e-17.
    best[(tally.oracle.taken == tally.n[:, None]).any(axis=1) | (rejected < 2)] = 0
    return ratio(gain, best)


def risk_at_coverage_rows(tally: Tally, coverage: float) -> Floats:
    """`risk_at_coverage` of each resample: (b,)."""
    reached = tally.taken_to >= (coverage * tally.n - _ROUNDING)[:, None]
    at = np.argmax(reached, axis=1)[:, None]
    good, taken = (np.take_along_axis(column, at, axis=1)[:, 0] for column in (tally.good_to, tally.taken_to))
    return 1 - ratio(good, taken)


def coverage_at_risk_rows(tally: Tally, risk: float) -> Floats:
    """`coverage_at_risk` of each resample: (b,)."""
    safe = tally.taken_to - tally.good_to <= risk * tally.taken_to + _ROUNDING
    return ratio((tally.taken_to * safe).max(axis=1), tally.n)


def _first_quality(tally: Tally) -> Floats:
    """Mean quality of the most confident block that is taken: (b,)."""
    at = np.argmax(tally.taken > 0, axis=1)[:, None]
    good, taken = (np.take_along_axis(column, at, axis=1)[:, 0] for column in (tally.good, tally.taken))
    return ratio(good, taken)


def _check_share(value: float, name: str, *, above: bool = False) -> None:
    if not 0 <= value <= 1 or (above and value == 0):
        raise ToolkitError(f"{name} is {value}: give a share in {'(0' if above else '[0'}, 1]")
