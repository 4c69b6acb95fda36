"""Votes: the answer of a prompt, elected by its samples.

Voters are samples with an answer and, where confidence counts, a confidence that is not NaN; the others are
left out and counted. Ties go to the answer whose voters have the larger sum of confidence, then to the one
drawn first. A larger confidence is more confident everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.equivalence import NO_ANSWER
from toolkit.stats.ranges import Floats


class Vote(NamedTuple):
    """The outcome of a vote."""

    winner: int  # the class elected; NO_ANSWER where nobody votes
    sample: int  # the first that voted for it; -1 where nobody votes
    share: float  # of the votes that the winner has; NaN where nobody votes
    n_voters: int
    n_undefined: int  # samples that cannot vote: no answer, or no confidence where it is needed


Rule = Callable[[NDArray[np.int64], Floats], Vote]


def majority_vote(classes: ArrayLike, confidence: ArrayLike | None = None) -> Vote:
    """The most frequent answer. Source: Wang et al. 2022, arXiv 2203.11171 (self-consistency).

    Parameters
    ----------
    classes : (K,) integers, -1 for no answer
    confidence : (K,) for ties only; a NaN counts as the least
    """
    ids = _integers(classes)
    ties = np.zeros(len(ids)) if confidence is None else np.nan_to_num(_floats(confidence, ids), nan=-np.inf)
    return _elect(ids, np.ones(len(ids)), ties, ids != NO_ANSWER)


def weighted_vote(classes: ArrayLike, confidence: ArrayLike) -> Vote:
    """The answer with the largest sum of confidence. Source: Fu et al. 2025, arXiv 2508.15260.

    Parameters
    ----------
    classes : (K,) integers, -1 for no answer
    confidence : (K,) at least 0, such as geometric_mean_prob or lowest_window

    Raises
    ------
    ToolkitError
        Where a confidence is negative or infinite: sums of negative weights would prefer the rarest answer.
    """
    ids = _integers(classes)
    weights = _floats(confidence, ids)
    voters = (ids != NO_ANSWER) & ~np.isnan(weights)
    wrong = weights[voters & ~((weights >= 0) & (weights < np.inf))]
    if wrong.size:
        raise ToolkitError(f"confidence {wrong[0]:g} is no weight: use one of at least 0, such as mean_prob")
    return _elect(ids, weights, weights, voters)


def filtered_vote(
    classes: ArrayLike, confidence: ArrayLike, *, keep: float = 0.1, weighted: bool = True
) -> Vote:
    """A vote of the most confident tenth. Source: Fu et al. 2025, arXiv 2508.15260.

    Parameters
    ----------
    classes : (K,) integers, -1 for no answer
    confidence : (K,)
    keep : share of the voters kept, above 0 and at most 1: those from the percentile 100·(1 − keep) of
        confidence on, as in DeepConf's code, so ⌊keep·(n − 1)⌋ + 1 of n voters and all that tie with the last
    weighted : whether those kept weigh as in `weighted_vote`, as published, or vote alike

    Returns
    -------
    Vote
        `n_voters` are those kept; `n_undefined` does not count those that were filtered out.

    Raises
    ------
    ToolkitError
        For a `keep` out of range, or a confidence that is no weight where `weighted`.
    """
    if not 0 < keep <= 1:
        raise ToolkitError(f"keep={keep}: it is a share of the voters, above 0 and at most 1")
    ids = _integers(classes)
    values = _floats(confidence, ids)
    voters = np.flatnonzero((ids != NO_ANSWER) & ~np.isnan(values))
    if voters.size:
        last = np.sort(values[voters])[::-1][int(keep * (len(voters) - 1) + 1e-9)]
        values = np.where(values >= last, values, nan)
    kept = np.where(np.isnan(values), NO_ANSWER, ids)
    vote = weighted_vote(kept, values) if weighted else majority_vote(kept, values)
    return vote._replace(n_undefined=len(ids) - len(voters))  # those filtered out could have voted


def borda_vote(classes: ArrayLike, self_certainty: ArrayLike, *, p: float = 0.3) -> Vote:
    """(n − rank + 1)^p votes for the answer of each of n voters, rank 1 having the highest self-certainty.

    Tied voters get the mean of their ranks. Source: Kang et al. 2025, arXiv 2502.18581, with p of 0.3 to 1.2,
    rising with the number of samples.

    Parameters
    ----------
    classes : (K,) integers, -1 for no answer
    self_certainty : (K,), or any confidence
    p : at least 0; 0 is the majority
    """
    if not p >= 0:
        raise ToolkitError(f"p={p}: the exponent must be at least 0")
    ids = _integers(classes)
    values = _floats(self_certainty, ids)
    voters = (ids != NO_ANSWER) & ~np.isnan(values)
    weights = np.zeros(len(ids))
    _, place, counts = np.unique(values[voters], return_inverse=True, return_counts=True)
    weights[voters] = (np.cumsum(counts) - (counts - 1) / 2)[place] ** p  # n − rank + 1, ties at their mean
    return _elect(ids, weights, values, voters)


def accuracy_by_samples(
    classes: ArrayLike,
    correct: ArrayLike,
    sizes: Sequence[int],
    rule: Rule,
    confidence: ArrayLike | None = None,
    *,
    max_subsets: int = 200,
    seed: int = 0,
) -> Floats:
    """The grade that a vote of k samples of a prompt gets, on average over subsets, for each k.

    For the majority, `majority_at_k` is exact and quicker.

    Parameters
    ----------
    classes : (K,) integers, -1 for no answer
    correct : (K,) grades in [0, 1]
    sizes : the numbers of samples k
    rule : from the classes and confidences of some samples to a `Vote`
    confidence : (K,); zeros where it is not given
    max_subsets : all subsets of a k are taken where there are no more than this; else as many are drawn
    seed : of the draw

    Returns
    -------
    (len(sizes),) in [0, 1]; NaN where k is above K or a winner is not graded; a vote without voters scores 0
    """
    ids, grades = _integers(classes), np.asarray(correct, np.float64)
    values = np.zeros(len(ids)) if confidence is None else _floats(confidence, ids)
    rng = np.random.default_rng(seed)
    result = np.full(len(sizes), nan)
    for i, k in enumerate(sizes):
        if 1 <= k <= len(ids):
            subsets = _subsets(len(ids), k, max_subsets, rng)
            result[i] = np.mean(
                [_grade(rule(ids[chosen], values[chosen]), grades[chosen]) for chosen in subsets]
            )
    return result


def _grade(vote: Vote, grades: Floats) -> float:
    return float(grades[vote.sample]) if vote.sample >= 0 else 0.0


def _subsets(n: int, k: int, most: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Subsets of k of n in rising order, so that the first drawn stays first."""
    if comb(n, k) <= most:
        return [np.array(chosen) for chosen in combinations(range(n), k)]
    return [np.sort(rng.choice(n, k, replace=False)) for _ in range(most)]


def _elect(
    classes: NDArray[np.int64], weights: Floats, confidence: Floats, voters: NDArray[np.bool_]
) -> Vote:
    # In plain Python: voters are few, and each of a dozen calls of NumPy would cost more than all of this.
    places = np.flatnonzero(voters).tolist()
    n_undefined = len(classes) - len(places)
    if not places:
        return Vote(NO_ANSWER, -1, nan, 0, n_undefined)
    found: dict[int, _Candidate] = {}
    for place, own, weight, sure in zip(
        places, *(values[voters].tolist() for values in (classes, weights, confidence)), strict=True
    ):
        candidate = found.setdefault(own, _Candidate(place))
        candidate.votes += weight
        candidate.confidence += sure
    winner = min(found, key=lambda own: found[own].rank)
    total = np.array([found[own].votes for own in sorted(found)]).sum()
    share = found[winner].votes / total if total > 0 else nan
    return Vote(winner, found[winner].first, float(share), len(places), n_undefined)


@dataclass
class _Candidate:
    """An answer, and who votes for it."""

    first: int  # the first sample that does
    votes: float = 0.0
    confidence: float = 0.0

    @property
    def rank(self) -> tuple[float, bool, float, int]:
        """The smallest wins; a sum of confidence that is NaN is the least."""
        return -self.votes, isnan(self.confidence), -self.confidence, self.first


def _integers(classes: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(classes, np.int64)


def _floats(confidence: ArrayLike, classes: NDArray[np.int64]) -> Floats:
    values = np.asarray(confidence, np.float64)
    if values.shape != classes.shape:
        raise ToolkitError(
            f"classes have shape {classes.shape} and confidence {values.shape}: make them the same"
        )
    return values
