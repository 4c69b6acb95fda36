"""AUROC and AUPRC against plain loops over pairs and thresholds, and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from toolkit.errors import ToolkitError
from toolkit.stats import ranking
from toolkit.stats.tally import Blocks, judge

NAN, INF = math.nan, math.inf
CONFIDENCE = st.one_of(st.sampled_from([-INF, -2.0, -0.5, 0.0, 0.5, 1.0, INF, NAN]), st.floats(-5, 5))
UNITS = st.lists(
    st.tuples(CONFIDENCE, st.sampled_from([0.0, 1.0, 1.0, NAN]), st.sampled_from("abc")), max_size=14
)


def defined(units):
    return [(c, y, p) for c, y, p in units if not math.isnan(c) and not math.isnan(y)]


def plain_auroc(units):
    right = [c for c, y, *_ in units if y == 1]
    wrong = [c for c, y, *_ in units if y == 0]
    if not right or not wrong:
        return NAN
    wins = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in right for b in wrong)
    return wins / (len(right) * len(wrong))


def plain_auprc(units):
    n_right = sum(y for _, y, *_ in units)
    if n_right in (0, len(units)):
        return NAN
    area, recall_before = 0.0, 0.0
    for threshold in sorted({c for c, *_ in units}, reverse=True):
        answered = [y for c, y, *_ in units if c >= threshold]
        recall = sum(answered) / n_right
        area += (recall - recall_before) * sum(answered) / len(answered)
        recall_before = recall
    return area


def columns(units):
    return tuple(list(column) for column in zip(*units, strict=True)) if units else ([], [], [])


@given(UNITS)
def test_auroc_is_the_share_of_pairs_in_order(units):
    confidence, correct, _ = columns(units)
    assert ranking.auroc(confidence, correct) == pytest.approx(plain_auroc(defined(units)), nan_ok=True)


@given(UNITS)
def test_auprc_is_the_sum_over_thresholds(units):
    confidence, correct, _ = columns(units)
    assert ranking.auprc(confidence, correct) == pytest.approx(plain_auprc(defined(units)), nan_ok=True)


@given(UNITS.map(defined).filter(bool), st.data())
def test_rows_equal_units_repeated_as_often_as_counted(units, data):
    counts = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 3), min_size=len(units), max_size=len(units)), min_size=1, max_size=3
            )
        )
    )
    confidence, correct, _ = columns(units)
    tally = Blocks.of(np.array(confidence), np.array(correct)).tally(counts)
    for rows, plain in ((ranking.auroc_rows, plain_auroc), (ranking.auprc_rows, plain_auprc)):
        repeated = [[u for u, k in zip(units, row, strict=True) for _ in range(k)] for row in counts]
        assert rows(tally) == pytest.approx([plain(u) if u else NAN for u in repeated], nan_ok=True)


def test_values_are_scikit_learns_on_ordinary_units():
    rng = np.random.default_rng(0)
    confidence, correct = np.round(rng.normal(size=200), 1), rng.integers(0, 2, 200)
    assert ranking.auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence))
    assert ranking.auprc(confidence, correct) == pytest.approx(average_precision_score(correct, confidence))


@given(UNITS)
def test_within_prompts_is_the_mean_of_each_prompts_auroc(units):
    found = ranking.within_prompt_auroc(*columns(units))
    names = sorted({p for *_, p in units})
    each = [plain_auroc([u for u in defined(units) if u[2] == name]) for name in names]
    known = [value for value in each if not math.isnan(value)]
    assert found.value == pytest.approx(sum(known) / len(known) if known else NAN, nan_ok=True)
    assert found.aurocs == pytest.approx(known)
    assert [str(found.unique[i]) for i in found.prompts] == [
        n for n, v in zip(names, each, strict=True) if not math.isnan(v)
    ]
    assert found.n_undefined == len(names) - len(known)


@pytest.mark.parametrize("correct", [[], [1], [1, 1, 1], [0, 0], [NAN, 1.0]])
def test_one_class_is_undefined(correct):
    confidence = np.linspace(0, 1, len(correct))
    assert math.isnan(ranking.auroc(confidence, correct))
    assert math.isnan(ranking.auprc(confidence, correct))


def test_all_equal_confidence_is_chance():
    assert ranking.auroc([0.3] * 4, [1, 0, 0, 1]) == 0.5
    assert ranking.auprc([0.3] * 4, [1, 0, 0, 1]) == 0.5


def test_masked_tokens_rank_lowest():
    assert ranking.auroc([-INF, -1.0, -900.0], [0, 1, 1]) == 1.0


def test_units_left_out_are_counted_by_what_they_lack():
    judged = judge([0.1, NAN, -INF, NAN, 0.4], [1, 0, 0, NAN, NAN])
    assert (judged.n, judged.n_undefined, judged.n_ungraded) == (2, 1, 2)
    assert judged.kept.tolist() == [True, False, True, False, False]
    assert (judged.confidence.tolist(), judged.outcome.tolist()) == ([0.1, -INF], [1, 0])


def test_none_is_left_out_like_nan():
    assert ranking.auroc([None, 0.2, 0.9], [0, 0, 1]) == 1.0


def test_a_lower_is_more_confident_estimator_is_negated():
    assert ranking.as_confidence([1.0, NAN], True) == pytest.approx([1.0, NAN], nan_ok=True)
    assert ranking.as_confidence([INF, 2.0], False).tolist() == [-INF, -2.0]


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.1, 0.2], [1], "confidence has 2 values and correct has 1"),
        ([0.1, 0.2], [1, 0.5], "correct holds 0.5"),
        ([0.1, 0.2], [1, INF], "correct holds inf"),
        ([[0.1, 0.2]], [1, 0], r"confidence has shape \(1, 2\)"),
        (["high"], [1], "confidence holds something that is not a number"),
    ],
)
def test_wrong_input_is_named(confidence, correct, message):
    with pytest.raises(ToolkitError, match=message):
        ranking.auroc(confidence, correct)


def test_prompts_without_an_order_are_refused():
    with pytest.raises(ToolkitError, match="prompts holds NoneType, str: give prompts of one kind"):
        ranking.prompt_codes([None, "a"], 2)
    assert ranking.prompt_codes(["b", "a", "b"], 3)[1].tolist() == [1, 0, 1]


def test_prompts_of_another_length_are_refused():
    with pytest.raises(ToolkitError, match=r"prompts has shape \(1,\)"):
        ranking.within_prompt_auroc([0.1, 0.2], [0, 1], ["a"])
