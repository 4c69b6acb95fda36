"""Votes against plain elections."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats import votes
from toolkit.stats.subsets import majority_at_k

CLASSES = st.lists(st.integers(-1, 3), min_size=1, max_size=12)
CONFIDENCES = st.lists(st.sampled_from([0.25, 0.5, 0.5, 1.0, math.nan]), min_size=12, max_size=12)


def elect(classes: list[int], weights: list[float], confidence: list[float]) -> int:
    """The class with most weight; ties by the sum of confidence, then by who comes first."""
    ids = list(
        dict.fromkeys(c for c, w in zip(classes, weights, strict=True) if c != -1 and not math.isnan(w))
    )

    def standing(group: int) -> tuple[float, float]:
        members = [i for i, c in enumerate(classes) if c == group and not math.isnan(weights[i])]
        return sum(weights[i] for i in members), sum(confidence[i] for i in members)

    return max(ids, key=standing) if ids else -1  # max keeps the first of equals


def check(vote: votes.Vote, classes: list[int], winner: int, voters: list[int], n_filtered: int = 0) -> None:
    assert vote.winner == winner
    assert vote.n_voters == len(voters)
    assert vote.n_undefined == len(classes) - len(voters) - n_filtered
    assert vote.sample == next((i for i in voters if classes[i] == winner), -1)


@given(CLASSES, CONFIDENCES)
def test_the_majority_breaks_ties_by_confidence_then_by_order(
    classes: list[int], values: list[float]
) -> None:
    voters = [i for i, c in enumerate(classes) if c != -1]
    ones = [1.0] * len(classes)
    check(votes.majority_vote(classes), classes, elect(classes, ones, ones), voters)
    values = values[: len(classes)]
    least = [-math.inf if math.isnan(v) else v for v in values]
    vote = votes.majority_vote(classes, values)
    check(vote, classes, elect(classes, ones, least), voters)
    if voters:
        assert vote.share == pytest.approx(classes.count(vote.winner) / len(voters))


@given(CLASSES, CONFIDENCES)
def test_a_weighted_vote_adds_confidences(classes: list[int], values: list[float]) -> None:
    values = values[: len(classes)]
    voters = [i for i, c in enumerate(classes) if c != -1 and not math.isnan(values[i])]
    vote = votes.weighted_vote(classes, values)
    check(vote, classes, elect(classes, values, values), voters)
    if voters:
        mine = sum(values[i] for i in voters if classes[i] == vote.winner)
        assert vote.share == pytest.approx(mine / sum(values[i] for i in voters))


@given(CLASSES, CONFIDENCES, st.sampled_from([0.1, 0.5, 1.0]), st.booleans())
def test_a_filtered_vote_is_one_of_the_most_confident(
    classes: list[int], values: list[float], keep: float, weighted: bool
) -> None:
    values = values[: len(classes)]
    voters = [i for i, c in enumerate(classes) if c != -1 and not math.isnan(values[i])]
    vote = votes.filtered_vote(classes, values, keep=keep, weighted=weighted)
    if not voters:
        assert (vote.winner, vote.n_voters, vote.n_undefined) == (-1, 0, len(classes))
        return
    bar = np.percentile([values[i] for i in voters], 100 * (1 - keep), method="higher")
    kept = [i for i in voters if values[i] >= bar]
    weights = [(values[i] if weighted else 1.0) if i in kept else math.nan for i in range(len(classes))]
    check(vote, classes, elect(classes, weights, values), kept, len(voters) - len(kept))


@given(CLASSES, CONFIDENCES, st.sampled_from([0.0, 0.3, 1.0, 2.0]))
def test_a_borda_vote_gives_powers_of_ranks(classes: list[int], values: list[float], p: float) -> None:
    values = values[: len(classes)]
    voters = [i for i, c in enumerate(classes) if c != -1 and not math.isnan(values[i])]

    def rank(i: int) -> float:  # 1 is the most confident; the mean place of those that tie
        better = sum(values[j] > values[i] for j in voters)
        return better + (1 + sum(values[j] == values[i] for j in voters)) / 2

    weights = [(len(voters) - rank(i) + 1) ** p if i in voters else math.nan for i in range(len(classes))]
    check(votes.borda_vote(classes, values, p=p), classes, elect(classes, weights, values), voters)


def test_without_voters_nobody_wins() -> None:
    for vote in (
        votes.majority_vote([-1, -1]),
        votes.weighted_vote([0, -1], [math.nan, 1.0]),
        votes.filtered_vote([-1], [1.0]),
        votes.borda_vote([], []),
    ):
        assert (vote.winner, vote.sample, vote.n_voters) == (-1, -1, 0)
        assert math.isnan(vote.share)


def test_log_probabilities_are_no_weights() -> None:
    with pytest.raises(ToolkitError, match=r"-1 is no weight"):
        votes.weighted_vote([0, 1], [0.5, -1.0])
    with pytest.raises(ToolkitError, match="inf is no weight"):
        votes.weighted_vote([0], [math.inf])
    assert votes.borda_vote([0, 1, 1], [-0.1, -3.0, -4.0], p=2.0).winner == 0
    assert votes.filtered_vote([0, 1], [-1.0, -0.5], weighted=False).winner == 1


@pytest.mark.parametrize("keep", [0.0, 1.1])
def test_parameters_out_of_range_are_refused(keep: float) -> None:
    with pytest.raises(ToolkitError, match="keep"):
        votes.filtered_vote([0], [1.0], keep=keep)
    with pytest.raises(ToolkitError, match="p=-1"):
        votes.borda_vote([0], [1.0], p=-1.0)
    with pytest.raises(ToolkitError, match="shape"):
        votes.weighted_vote([0, 1], [1.0])


def test_accuracy_by_samples_is_over_all_subsets_where_they_are_few() -> None:
    classes, correct, confidence = [0, 1, 1, 0, 2], [1, 0, 0, 1, 0], [0.9, 0.2, 0.3, 0.8, 0.1]
    found = votes.accuracy_by_samples(
        classes, correct, [1, 2, 5, 6], partial(votes.borda_vote, p=1.0), confidence
    )
    pairs = [(i, j) for i in range(5) for j in range(i)]
    right = [classes[i if confidence[i] > confidence[j] else j] == 0 for i, j in pairs]
    np.testing.assert_allclose(found, [2 / 5, sum(right) / 10, 1.0, np.nan])


def test_accuracy_by_samples_draws_subsets_where_they_are_many() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 40)
    correct = classes == 0
    exact = [majority_at_k(classes, correct, k) for k in (5, 20)]
    drawn = votes.accuracy_by_samples(
        classes, correct, [5, 20], lambda c, _: votes.majority_vote(c), max_subsets=3000, seed=1
    )
    np.testing.assert_allclose(drawn, exact, atol=0.05)


def test_subsets_keep_the_order_of_drawing() -> None:
    later = np.linspace(0, 1, 40)

    def last(classes: np.ndarray, _: np.ndarray) -> votes.Vote:
        return votes.Vote(0, len(classes) - 1, 1.0, len(classes), 0)

    found = votes.accuracy_by_samples([0] * 40, later, [2], last, max_subsets=700)
    assert found[0] == pytest.approx(2 / 3, abs=0.03)  # the larger of two uniform numbers


def test_a_vote_without_voters_scores_nothing_and_an_ungraded_winner_is_undefined() -> None:
    found = votes.accuracy_by_samples([-1, 0], [1, 1], [1], lambda c, _: votes.majority_vote(c))
    assert found.tolist() == [0.5]
    found = votes.accuracy_by_samples([0], [math.nan], [1], lambda c, _: votes.majority_vote(c))
    assert np.isnan(found).tolist() == [True]
