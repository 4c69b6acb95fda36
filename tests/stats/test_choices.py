"""Scores and probabilities of choices, against plain loops in Python floats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats import Ranges, get
from toolkit.stats.choices import SCORES, average_orders, by_choice, rotations, softmax, text_scores

LOGPROBS = st.lists(st.floats(-60, 0), min_size=2, max_size=6)


def plain_softmax(values: list[float]) -> list[float]:
    weights = [math.exp(value - max(values)) for value in values]
    return [weight / sum(weights) for weight in weights]


@given(LOGPROBS)
def test_softmax_is_that_of_a_loop_and_sums_to_one(values: list[float]) -> None:
    found = softmax(values)
    assert found.tolist() == pytest.approx(plain_softmax(values))
    assert found.sum() == pytest.approx(1)


def test_softmax_goes_by_rows_and_does_not_care_for_a_common_shift() -> None:
    values = np.array([[-1.0, -2.0, -700.0], [-701.0, -702.0, -1400.0]])
    np.testing.assert_allclose(softmax(values)[0], softmax(values)[1], atol=1e-15)


def test_a_choice_that_cannot_be_has_no_share_and_none_at_all_is_undefined() -> None:
    assert softmax([0.0, -math.inf]).tolist() == [1, 0]
    assert np.isnan(softmax([-math.inf, -math.inf])).all()
    assert np.isnan(softmax([math.nan, -1.0])).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_choice_stands_once_at_every_place_over_all_rotations(n: int) -> None:
    orders = rotations(n)
    assert orders[0].tolist() == list(range(n))
    for axis in (0, 1):
        assert (np.sort(orders, axis=axis) == (np.arange(n)[:, None] if axis == 0 else np.arange(n))).all()


def test_what_is_found_at_a_place_is_that_of_the_choice_that_stood_there() -> None:
    assert by_choice([[10, 11, 12], [20, 21, 22]], [[0, 1, 2], [1, 2, 0]]).tolist() == [
        [10, 11, 12],
        [22, 20, 21],
    ]


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(st.floats(-20, 0), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_orders_are_averaged_as_probabilities(values: list[list[float]]) -> None:
    logprob, probability = average_orders(values)
    shares = [plain_softmax(row) for row in values]
    for i in range(len(values)):
        column = [row[i] for row in values]
        assert logprob[i] == pytest.approx(math.log(sum(map(math.exp, column)) / len(column)))
        assert probability[i] == pytest.approx(sum(row[i] for row in shares) / len(shares))
    assert probability.sum() == pytest.approx(1)


def test_a_letter_that_is_liked_wherever_it_stands_is_no_advantage_after_all_rotations() -> None:
    liked = np.log([0.7, 0.1, 0.1, 0.1])  # by place, whatever stands there
    orders = rotations(4)
    at_place = np.broadcast_to(liked, orders.shape)
    _, probability = average_orders(by_choice(at_place, orders))
    assert probability.tolist() == pytest.approx([0.25] * 4)
    _, first_order = average_orders(by_choice(at_place, orders)[:1])
    assert first_order.tolist() == pytest.approx([0.7, 0.1, 0.1, 0.1])


def test_text_scores_are_sum_mean_share_of_a_byte_and_gain_over_the_bare_prompt() -> None:
    found = text_scores([-6.0, -2.0], n_tokens=[3, 1], n_bytes=[12, 4], bare=[-10.0, -1.5])
    assert found.sum.tolist() == [-6, -2]
    assert found.mean.tolist() == [-2, -2]
    assert found.byte.tolist() == [-0.5, -0.5]
    assert found.pmi.tolist() == [4, -0.5]


QUESTIONS = [[0.7, 0.2, 0.1], [0.5, 0.5], [0.0, 1.0]]
VALUES = np.array([value for question in QUESTIONS for value in question])
ENDS = np.cumsum([len(question) for question in QUESTIONS])
RANGES = Ranges(ENDS - [len(question) for question in QUESTIONS], ENDS)


@pytest.mark.parametrize("score", SCORES)
def test_a_probability_is_the_column_that_its_name_says(score: str) -> None:
    assert get(f"choice_{score}")({f"choices.p_{score}": VALUES}, RANGES).tolist() == VALUES.tolist()


@pytest.mark.parametrize("score", SCORES)
def test_margin_is_what_a_choice_has_more_than_the_best_of_the_others(score: str) -> None:
    found = get(f"choice_margin(score={score})")({f"choices.p_{score}": VALUES}, RANGES)
    expected = [
        p - max(q for j, q in enumerate(question) if j != i)
        for question in QUESTIONS
        for i, p in enumerate(question)
    ]
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("score", SCORES)
def test_entropy_is_that_of_the_question_at_each_of_its_choices(score: str) -> None:
    found = get(f"choice_entropy({score})")({f"choices.p_{score}": VALUES}, RANGES)
    expected = [-sum(p * math.log(p) for p in question if p) for question in QUESTIONS for _ in question]
    assert found.tolist() == pytest.approx(expected)


def test_what_is_not_computed_stays_so_and_takes_its_question_along() -> None:
    values = np.array([math.nan, math.nan, 0.4, 0.6])
    ranges = Ranges(np.array([0, 2]), np.array([2, 4]))
    for name in ("choice_margin", "choice_entropy"):
        found = get(name)({"choices.p_letter": values}, ranges)
        assert np.isnan(found).tolist() == [True, True, False, False]


def test_a_score_that_there_is_not_is_refused() -> None:
    with pytest.raises(ToolkitError, match="letter, sum, mean, byte, pmi"):
        get("choice_margin(score=words)")
