"""Evaluation of runs whose right answers are known, against plain loops."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from tests.answers import Answer, add_answers, greedy, make_answers, prompt, sample
from tests.graded import (
    ANSWERS,
    N_PROMPTS,
    PROMPTS,
    evaluated,
    graded_run,
    is_right,
    made,
    mean,
    of_kind,
    plain_auroc,
    plain_ece,
)
from tests.store.factory import make_manifest
from toolkit import stats
from toolkit.aggregation.agreement import Comparison
from toolkit.errors import ToolkitError
from toolkit.judging.evaluation import Evaluation, evaluate_run, sampler_of
from toolkit.judging.grades import grade
from toolkit.judging.question import Question
from toolkit.stats.metrics import METRICS
from toolkit.store import Run, RunWriter, open_run, open_runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("evaluation") / "run")


# --- a run where the right answer is known


def test_an_estimator_that_knows_all_has_an_auroc_of_one_whichever_way_it_points(tmp_path: Path) -> None:
    answers = [
        greedy(f"p{i}", "Yes" if i % 2 else "Nay", *[-0.2 - 0.1 * (1 - i % 2) - i / 1e3] * 3)
        for i in range(12)
    ]
    table = evaluated(made(tmp_path / "run", answers))
    for name in ("sum_logprob", "mean_logprob", "perplexity", "mean_entropy", "geometric_mean_prob"):
        assert table.loc[name, ["auroc", "auprc", "prr", "prr_half"]].tolist() == [1, 1, 1, 1], name
        assert table.loc[name, "e_aurc"] <= 0
    assert table.loc["n_tokens", "auroc"] == 0.5
    assert table.loc["mean_surprise", "auroc"] == 1  # falls with confidence


def test_values_are_ranked_by_what_the_registry_says(tmp_path: Path) -> None:
    answers = [greedy(f"p{i}", "Yes" if i % 2 else "Nay", *[-0.9 + 0.5 * (1 - i % 2)] * 3) for i in range(8)]
    table = evaluated(made(tmp_path / "run", answers))
    assert table.loc["mean_logprob", "auroc"] == 0
    assert table.loc["perplexity", "auroc"] == 0
    assert bool(table.loc["mean_logprob", "higher_is_confident"])
    assert not bool(table.loc["perplexity", "higher_is_confident"])


# --- metrics against plain loops


def test_metrics_of_greedy_answers_equal_plain_loops(run: Run) -> None:
    answers = of_kind("greedy")
    right = [is_right(answer) for answer in answers]
    table = evaluated(run)
    values = {
        "sum_logprob": [sum(answer.all_logprobs) for answer in answers],
        "mean_logprob": [mean(answer.all_logprobs) for answer in answers],
        "min_logprob": [min(answer.all_logprobs) for answer in answers],
        "geometric_mean_prob": [math.exp(mean(answer.all_logprobs)) for answer in answers],
        "mean_prob": [mean([math.exp(x) for x in answer.all_logprobs]) for answer in answers],
        "n_tokens": [-len(answer.all_logprobs) for answer in answers],
    }
    for name, confidence in values.items():
        assert table.loc[name, "auroc"] == pytest.approx(plain_auroc(confidence, right)), name
        assert (table.loc[name, "n"], table.loc[name, "n_undefined"]) == (N_PROMPTS, 0)
    for name in ("geometric_mean_prob", "mean_prob"):
        assert table.loc[name, "ece"] == pytest.approx(plain_ece(values[name], right), abs=1e-6)
        squares = [(c - r) ** 2 for c, r in zip(values[name], right, strict=True)]
        assert table.loc[name, "brier"] == pytest.approx(mean(squares), abs=1e-6)
    for metric in (
        "prr",
        "prr_half",
        "aurc_prefix_mean",
        "aurc_trapezoid",
        "aurc_tie_merged",
        "e_aurc",
        "augrc",
    ):
        expected = METRICS[metric](values["sum_logprob"], right)
        assert table.loc["sum_logprob", metric] == pytest.approx(expected), metric
    assert set(table["accuracy"]) == {mean(right)}


def test_calibration_is_of_what_lies_in_0_to_1_and_rises_with_confidence(run: Run) -> None:
    table = evaluated(run)
    for one in (*stats.estimators("token-span"), *stats.estimators("samples")):
        fits = one.higher_is_confident and one.range[0] >= 0 and one.range[1] <= 1
        if table.loc[one.label, "n"]:
            assert math.isnan(table.loc[one.label, "ece"]) != fits, one.label
    assert math.isnan(table.loc["jaccard_degree", "brier"])  # in [0, 1], but falls with confidence


@given(st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_run_has_plain_aurocs(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    value = st.sampled_from([-2.0, -1.0, -0.5, -0.25])
    texts = st.sampled_from(["Yes", "No"])
    drawn = data.draw(st.lists(st.tuples(texts, st.lists(value, max_size=4)), min_size=2, max_size=8))
    answers = [
        Answer(f"p{i}", [text] if values else [], values[:1], kind="greedy", end=None)
        for i, (text, values) in enumerate(drawn)
    ]
    run = made(tmp_path_factory.mktemp("any") / "run", answers)
    table = evaluated(run, estimators=["mean_logprob"], bootstrap=0)
    scored = [answer for answer in answers if answer.logprobs]
    assert table.loc["mean_logprob", "n"] == len(scored)
    assert table.loc["mean_logprob", "n_undefined"] == len(answers) - len(scored)
    expected = plain_auroc([answer.logprobs[0] for answer in scored], [is_right(answer) for answer in scored])
    assert table.loc["mean_logprob", "auroc"] == pytest.approx(expected, nan_ok=True)


def test_one_more_prr_can_be_asked_for(run: Run) -> None:
    table = evaluated(run, max_rejection=0.25)
    answers = of_kind("greedy")
    expected = stats_prr(
        [sum(answer.all_logprobs) for answer in answers], [is_right(a) for a in answers], 0.25
    )
    assert table.loc["sum_logprob", "prr_at_0.25"] == pytest.approx(expected, nan_ok=True)


def stats_prr(confidence: Sequence[float], quality: Sequence[float], share: float) -> float:
    def area(order: list[float]) -> float:
        n = len(order)
        last = range(n - math.floor(share * n) + 1, n + 1)
        return mean([mean(order[:k]) for k in last])

    ranked = [q for _, q in sorted(zip(confidence, quality, strict=True), key=lambda pair: -pair[0])]
    best = area(sorted(quality, reverse=True)) - mean(quality)
    return (area(ranked) - mean(quality)) / best if best else math.nan


# --- intervals and differences


def test_intervals_hold_the_value_and_follow_the_seed(run: Run) -> None:
    question = {"target": "each", "estimators": ["mean_logprob"], "bootstrap": 200}
    first, again, other = (evaluated(run, **question, seed=seed) for seed in (0, 0, 1))
    row = first.loc["mean_logprob"]
    assert row["auroc_low"] < row["auroc"] < row["auroc_high"]
    pd.testing.assert_frame_equal(first, again)
    assert other.loc["mean_logprob", "auroc_low"] != row["auroc_low"]
    none = evaluated(run, **{**question, "bootstrap": 0}).loc["mean_logprob"]
    assert none["auroc"] == row["auroc"]
    assert math.isnan(none["auroc_low"])
    assert none["auroc_difference"] == row["auroc_difference"]


def test_prompts_are_resampled_and_not_samples(tmp_path: Path) -> None:
    answers = [
        sample(f"p{i}", j, "Yes" if i % 2 else "No", -1.0 - (i * 7 % 5)) for i in range(6) for j in range(1)
    ]
    many = [
        sample(f"p{i}", j, "Yes" if i % 2 else "No", -1.0 - (i * 7 % 5)) for i in range(6) for j in range(20)
    ]
    question = {"target": "each", "estimators": ["sum_logprob"], "bootstrap": 100}
    once, often = (
        evaluated(made(tmp_path / "a", answers), **question),
        evaluated(made(tmp_path / "b", many), **question),
    )
    columns = ["auroc", "auroc_low", "auroc_high"]
    assert once.loc["sum_logprob", columns].tolist() == pytest.approx(
        often.loc["sum_logprob", columns].tolist()
    )


def test_the_difference_is_from_the_best_on_the_units_of_both(run: Run) -> None:
    table = evaluated(run)
    best = table["auroc"].idxmax()
    assert table.index[0] == best
    assert table.loc[best, ["auroc_difference", "auroc_difference_low"]].tolist() == [0, 0]
    complete = table[table["n"] == N_PROMPTS]
    gap = complete["auroc"] - table.loc[best, "auroc"]
    assert complete["auroc_difference"].to_numpy() == pytest.approx(gap.to_numpy())


def test_baselines_are_always_in_the_table(run: Run) -> None:
    table = evaluated(run, estimators=["mean_logprob"])
    assert sorted(table.index) == ["mean_logprob", "n_tokens", "random"]
    seeds = [
        evaluated(run, estimators=["random(seed=7)"], seed=seed).loc["random", "auroc"] for seed in range(6)
    ]
    assert len(set(seeds)) > 1


# --- what cannot be


@pytest.mark.parametrize(("text", "said"), [("Yes", "right"), ("No", "wrong")])
def test_where_all_are_the_same_metrics_are_undefined_and_one_line_says_so(
    tmp_path: Path, text: str, said: str
) -> None:
    run = made(tmp_path / "run", [greedy(f"p{i}", text, -1.0 - i) for i in range(4)])
    result = evaluate_run(run, Question(bootstrap=50))
    assert [said in note and "AUROC" in note for note in result.notes] == [True]
    assert result.frame[["auroc", "auprc", "prr", "auroc_low"]].isna().all(axis=None)
    assert result.frame.set_index("estimator").loc["mean_prob", "brier"] >= 0
    with pytest.warns(UserWarning, match=f"4 units, all {said}"):
        toolkit.evaluate(run, bootstrap=0)


def test_units_that_are_not_graded_are_left_out_and_told(tmp_path: Path) -> None:
    run = made(tmp_path / "run", of_kind("greedy"))
    with RunWriter.open(run.path, make_manifest()) as writer:
        writer.add_prompts([prompt("new", "Yes")])
        add_answers(writer, [greedy("new", "Yes", -0.5)])
    result = evaluate_run(open_run(run.path), Question(bootstrap=0))
    assert result.notes == [f"{run.path}: not graded, and left out: 1 of {N_PROMPTS + 1} units"]
    assert set(result.frame["n_ungraded"]) == {1}
    assert result.frame["n"].max() == N_PROMPTS


def test_where_nothing_of_a_target_is_graded_every_metric_is_undefined(tmp_path: Path) -> None:
    text = '{"a": 1}'
    run = made(tmp_path / "run", [greedy("p0", text, -1.0)], text, by="field")
    with RunWriter.open(run.path, make_manifest()) as writer:
        add_answers(writer, [sample("p0", 0, text, -1.0)])
    later = open_run(run.path)
    result = evaluate_run(later, Question(by="field", target="greedy", bootstrap=10))
    assert "1 unit, all right" in result.notes[0]
    of_samples = evaluate_run(later, Question(by="field", target="each", bootstrap=10))
    assert of_samples.notes == [f"{run.path}: no unit is graded: every metric is undefined"]
    assert of_samples.frame["n"].max() == 0


def test_a_run_without_sequences_is_refused(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts(PROMPTS)
    run = open_run(tmp_path / "run")
    assert len(grade(run, "exact")) == 0
    with pytest.raises(ToolkitError, match="it has no sequences"):
        toolkit.evaluate(run)


def test_graded_qualities_have_what_needs_no_right_and_wrong(tmp_path: Path) -> None:
    judge = tmp_path / "judge.py"
    judge.write_text("def share(text, references):\n    return len(text) / 10\n")
    answers = [greedy(f"p{i}", "x" * (i + 1), *[-1.0 / (i + 1)] * (i + 1)) for i in range(6)]
    run = made(tmp_path / "run", answers, grader=f"function:{judge}:share")
    result = evaluate_run(run, Question(bootstrap=20))
    table = result.frame.set_index("estimator")
    assert "give a threshold" in result.notes[0]
    assert table.loc["mean_logprob", "prr"] == 1
    assert table["auroc"].isna().all()
    assert table.loc["mean_logprob", "prr_difference"] == 0
    cut = evaluated(run, threshold=0.4).loc["mean_logprob"]
    assert (cut["auroc"], cut["accuracy"]) == (1, 0.5)


def test_a_run_must_be_graded_first(tmp_path: Path) -> None:
    run = make_answers(tmp_path / "run", PROMPTS, ANSWERS)
    with pytest.raises(
        ToolkitError, match=r"nothing is graded: run toolkit grade .*, or toolkit\.grade, first"
    ):
        toolkit.evaluate(run)
    grade(run, "exact")
    with pytest.raises(ToolkitError, match="nothing is graded by field: run toolkit grade"):
        toolkit.evaluate(run, by="field")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"grader": "number"}, "there are no grades by 'number': there are exact@"),
        ({"target": "best"}, "there is no 'best': give one of greedy, first, each, vote, mean"),
        ({"estimators": ["mean_logprb"]}, r"there is no estimator 'mean_logprb' \(did you mean mean_logprob"),
        ({"over": "anser"}, "there is no 'anser': give sequence"),
        ({"by": "word"}, "there is no 'word': give field"),
        ({"bootstrap": -1}, "bootstrap is -1"),
        ({"max_rejection": 0}, "max_rejection is 0"),
        ({"by": "field", "target": "vote"}, "target vote is of whole answers"),
        ({"by": "field", "over": "answer"}, "an estimator sees the field's tokens"),
    ],
)
def test_what_cannot_be_asked_is_named_with_what_can(
    run: Run, question: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        toolkit.evaluate(run, **question)


def test_targets_that_a_run_lacks_are_refused(tmp_path: Path) -> None:
    only_samples = made(tmp_path / "a", of_kind("sample"))
    with pytest.raises(ToolkitError, match="no greedy sequences: give first, each, vote or mean"):
        toolkit.evaluate(only_samples, target="greedy")
    only_greedy = made(tmp_path / "b", of_kind("greedy"))
    with pytest.raises(ToolkitError, match="no samples for each: give greedy"):
        toolkit.evaluate(only_greedy, target="each")


def test_comparisons_that_are_not_are_refused() -> None:
    for asked, message in [
        (("exat", "rougeL"), "there is no 'exat': give exact, number"),
        (("number:x", "rougeL"), "the tolerance is a number"),
        (("exact", "cosine"), "there is no 'cosine': give one of jaccard"),
    ]:
        with pytest.raises(ToolkitError, match=message):
            Comparison(*asked)


# --- the result


def test_a_result_names_its_sampler_and_what_was_judged(run: Run) -> None:
    result = evaluate_run(run, Question(bootstrap=0))
    assert isinstance(result, Evaluation)
    assert set(result.frame["sampler"]) == {"temperature 0.8"}
    assert set(result.frame["grader"]) == {"exact"}
    assert result.context["n"] == N_PROMPTS


def test_several_runs_are_labelled(run: Run, tmp_path: Path) -> None:
    other = made(tmp_path / "other", ANSWERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = toolkit.evaluate(open_runs([run.path, other.path]), bootstrap=0)
    assert list(frame.columns[:5]) == ["run", "model", "temperature", "top_p", "estimator"]
    assert frame["run"].unique().tolist() == ["run", "other"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "order": "mlx_lm"}, "temperature 1"),
        (
            {"min_p": 0.05, "temperature": 0.7, "top_k": 40, "top_p": 1.0},
            "temperature 0.7, top_k 40, min_p 0.05",
        ),
    ],
)
def test_the_sampler_is_told_by_its_temperature_and_the_filters_that_are_used(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    manifest = dataclasses.replace(make_manifest(), content_config={"sampler": settings})
    RunWriter.create(tmp_path / "run", manifest).close()
    assert sampler_of(open_run(tmp_path / "run")) == words
