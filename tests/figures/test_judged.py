"""Reliability, risk and coverage, estimators and agreement: the values are those of the evaluation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.answers import Answer, greedy, make_answers, prompt, sample
from tests.figures.runs import arguments, graded, notes, only_panel, plot_of, settings, ungraded
from tests.graded import ANSWERS, is_right, mean, of_kind, plain_auroc
from toolkit import stats
from toolkit.errors import ToolkitError
from toolkit.figures import prepare
from toolkit.figures.judged import probabilities
from toolkit.judging.grades import grade
from toolkit.store import Run, open_runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("graded") / "run")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("graded") / "other", temperature=0.5)


def probability(answer: Answer) -> float:
    return math.exp(mean(answer.all_logprobs))


def test_reliability_is_of_the_greedy_answers_probabilities(run: Run) -> None:
    panel = only_panel(run, "reliability", bins=4, binning="equal_mass")
    confidence, correct = arguments(panel)
    assert confidence == pytest.approx([probability(answer) for answer in of_kind("greedy")])
    assert correct.tolist() == [is_right(answer) for answer in of_kind("greedy")]
    given = settings(panel)
    assert (given["bins"], given["binning"], given["estimator"]) == (4, "equal_mass", "geometric_mean_prob")
    assert given["note"] == ("target greedy, over sequence · grader exact · sampler: temperature 0.8")


def test_reliability_of_every_sample_and_of_other_estimators(run: Run) -> None:
    drawing = prepare(run, "reliability", estimators=["mean_prob", "vote_share"], target="each")
    assert [panel.title for panel in drawing.panels] == ["mean_prob", "vote_share"]
    confidence, correct = arguments(drawing.panels[0])
    samples = of_kind("sample")
    assert confidence == pytest.approx([mean([math.exp(v) for v in a.all_logprobs]) for a in samples])
    assert correct.tolist() == [is_right(answer) for answer in samples]


def test_recalibration_comes_beside_what_it_changes_and_never_saw_its_prompt(run: Run) -> None:
    from toolkit.stats.recalibration import cross_validate

    before, after = prepare(run, "reliability", recalibrate="platt", target="each", seed=3).panels
    confidence, correct = arguments(before)
    prompts = [answer.prompt_id for answer in of_kind("sample")]
    expected = cross_validate("platt", confidence, correct, prompts, folds=5, seed=3).calibrated
    assert arguments(after)[0].tolist() == expected.tolist()
    assert after.title == "geometric_mean_prob, platt (5-fold)"
    (only,) = prepare(run, "reliability", estimators="sum_logprob", recalibrate="isotonic").panels
    assert ((arguments(only)[0] >= 0) & (arguments(only)[0] <= 1)).all()


def test_risk_and_coverage_turn_what_is_lower_where_sure(run: Run) -> None:
    panel = only_panel(run, "risk-coverage")
    (curves,) = arguments(panel)
    assert list(curves) == ["sum_logprob", "mean_logprob", "n_tokens", "semantic_entropy"]
    answers = of_kind("greedy")
    assert curves["sum_logprob"][0] == pytest.approx([sum(a.all_logprobs) for a in answers])
    assert curves["n_tokens"][0].tolist() == [-len(a.all_logprobs) for a in answers]
    assert curves["n_tokens"][1].tolist() == [is_right(a) for a in answers]
    assert list(arguments(only_panel(run, "risk-coverage", estimators="perplexity"))[0]) == ["perplexity"]


def test_a_run_without_samples_has_no_estimator_of_samples_by_default(tmp_path: Path) -> None:
    answers = [greedy("a", "Yes", -1.0), greedy("b", "No", -2.0)]
    made = ungraded(tmp_path / "run", answers)
    grade(made, "exact")
    (curves,) = arguments(only_panel(made, "risk-coverage"))
    assert list(curves) == ["sum_logprob", "mean_logprob", "n_tokens"]


def test_estimators_are_evaluated_once_a_run(run: Run, other: Run) -> None:
    panel = only_panel(run, "estimators", bootstrap=10, metric="prr", limit=5)
    (frame,) = arguments(panel)
    by_name = frame.set_index("estimator")
    answers = of_kind("greedy")
    expected = plain_auroc([sum(a.all_logprobs) for a in answers], [is_right(a) for a in answers])
    assert by_name.loc["sum_logprob", "auroc"] == pytest.approx(expected)
    assert set(frame["estimator"]) == {*stats.names("token-span"), *stats.names("samples")}
    assert (settings(panel)["metric"], settings(panel)["limit"]) == ("prr", 5)
    pair = open_runs([run.path, other.path])
    panel = only_panel(pair, "estimators", bootstrap=0, estimators=["mean_prob"])
    assert arguments(panel)[0]["run"].tolist() == ["run"] * 3 + ["other"] * 3
    assert settings(panel)["note"] == (
        "target greedy, over sequence · grader exact · "
        "run: sampler: temperature 0.8; other: sampler: temperature 0.5"
    )


def test_agreement_is_the_share_of_samples_that_say_the_same(run: Run) -> None:
    panel = only_panel(run, "agreement")
    agreement, confidence, correct = arguments(panel)
    answers = of_kind("greedy")
    said = {a.prompt_id: [s.text for s in of_kind("sample") if s.prompt_id == a.prompt_id] for a in answers}
    assert agreement == pytest.approx(
        [mean([float(t == a.text) for t in said[a.prompt_id]]) for a in answers]
    )
    assert confidence == pytest.approx([probability(answer) for answer in answers])
    assert correct.tolist() == [is_right(answer) for answer in answers]
    assert settings(panel)["note"].startswith("agreement: exact_match_rate · target greedy")
    assert settings(panel)["estimator"] == "geometric_mean_prob"


def test_agreement_needs_no_grades(tmp_path: Path) -> None:
    panel = only_panel(
        ungraded(tmp_path / "run", ANSWERS), "agreement", target="first", agreement="vote_share"
    )
    assert arguments(panel)[2] is None
    assert "not graded" in settings(panel)["note"]
    assert len(arguments(panel)[0]) == len({answer.prompt_id for answer in ANSWERS})


@pytest.mark.parametrize("kind", ["reliability", "risk-coverage", "agreement"])
def test_several_runs_have_a_panel_each(run: Run, other: Run, kind: str) -> None:
    drawing = prepare(open_runs([run.path, other.path]), kind)
    assert [panel.title.split(" · ")[0] for panel in drawing.panels] == ["run (made)", "other (made)"]
    assert [note.rpartition(" · ")[2] for note in notes(drawing)] == [
        "sampler: temperature 0.8",
        "sampler: temperature 0.5",
    ]
    assert {plot_of(panel) for panel in drawing.panels} == {f"plot_{kind.replace('-', '_')}"}


def test_probabilities_are_those_that_a_calibration_takes(run: Run) -> None:
    frame = arguments(only_panel(run, "estimators", bootstrap=0))[0]
    assert set(frame.loc[frame["ece"].notna(), "estimator"]) <= set(probabilities())
    assert {"sum_logprob", "perplexity", "jaccard_degree"}.isdisjoint(probabilities())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "reliability",
            {"estimators": "sum_logprob"},
            r"estimators: sum_logprob is no probability, .* recalibrate it \(isotonic, platt or histogram\), or "
            "use one of min_prob, geometric_mean_prob, mean_prob",
        ),
        (
            "reliability",
            {"estimators": "sum_logprob", "recalibrate": "temperature"},
            "recalibrate: temperature takes probabilities, and sum_logprob is none; use isotonic, platt or",
        ),
        ("reliability", {"recalibrate": "beta"}, "recalibrate: there is no 'beta'; use one of isotonic, "),
        (
            "reliability",
            {"binning": "wide"},
            "binning: there is no 'wide'; use one of equal_width, equal_mass",
        ),
        ("reliability", {"bins": 0}, "bins: 0 is below 1"),
        (
            "reliability",
            {"metric": "ece"},
            "metric: the figure reliability does not use it; it uses estimators",
        ),
        ("risk-coverage", {"estimators": "x"}, "estimators: .*'x'"),
        ("risk-coverage", {"estimators": []}, "estimators: no name is given"),
        ("risk-coverage", {"estimators": "cocoa", "target": "best"}, "target: there is no 'best'"),
        ("estimators", {"metric": "acc"}, "metric: there is no 'acc'; use one of auroc, auprc"),
        (
            "agreement",
            {"agreement": "mean_prob"},
            "agreement: mean_prob is no share of samples that agree; use",
        ),
        ("agreement", {"agreement": "x"}, "agreement: .*'x'"),
        ("agreement", {"estimators": ["mean_prob", "min_prob"]}, "estimators: one is shown, and 2 are given"),
    ],
)
def test_what_cannot_be_shown_is_said(run: Run, kind: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        prepare(run, kind, **options)


def test_grades_between_0_and_1_need_a_threshold(tmp_path: Path) -> None:
    run = ungraded(tmp_path / "run", of_kind("greedy"))
    grade(run, "function:tests.figures.test_judged:half")
    with pytest.raises(
        ToolkitError, match=r"threshold: grades of .* lie between 0 and 1; say from which one"
    ):
        prepare(run, "reliability")
    assert set(arguments(only_panel(run, "reliability", threshold=0.5))[1]) <= {0.0, 1.0}
    assert set(arguments(only_panel(run, "risk-coverage"))[0]["n_tokens"][1]) <= {0.5, 0.25}


def half(text: str, references: list[str]) -> float:
    return 0.5 if text == "Yes" else 0.25


def test_where_all_are_right_or_nothing_is_graded_it_is_said(tmp_path: Path) -> None:
    run = ungraded(tmp_path / "right", [greedy(f"p{i}", "Yes", -0.1 * i) for i in range(3)])
    grade(run, "exact")
    with pytest.raises(ToolkitError, match="AUROC, AUPRC and PRR are undefined"):
        prepare(run, "estimators", bootstrap=0)
    prompts = [prompt("a", "Yes"), prompt("b")]
    made = make_answers(tmp_path / "none", prompts, [greedy("b", "Yes", -1.0), sample("a", 0, "Yes", -1.0)])
    grade(made, "exact")
    with pytest.raises(ToolkitError, match="none of its 1 answer is graded"):
        prepare(made, "reliability")


def test_an_estimator_that_was_not_computed_is_named(tmp_path: Path) -> None:
    run = ungraded(tmp_path / "run", [greedy("a", "Yes", -1.0), greedy("b", "No", -2.0)])
    grade(run, "exact")
    with pytest.raises(ToolkitError, match="estimators: vote_share is undefined for every answer of"):
        prepare(run, "reliability", estimators="vote_share")


def test_beams_and_given_completions_are_not_called_draws(tmp_path: Path) -> None:
    for kind, way in (("beam", "beam search"), ("scored", "given completions")):
        answers = [
            Answer(f"p{i}", ["Yes"], [-1.0 - i - k], kind=kind, sample_index=k)  # type: ignore[arg-type]
            for i in range(2)
            for k in range(2)
        ]
        run = ungraded(tmp_path / kind, answers)
        grade(run, "exact")
        panel = only_panel(run, "risk-coverage")
        assert settings(panel)["note"] == f"target each, over sequence · grader exact · {way}"
        assert ("semantic_entropy" in arguments(panel)[0]) == (kind == "scored")
    with pytest.raises(ToolkitError, match="its samples are beams, which say nothing of how draws agree"):
        prepare(tmp_path / "beam", "agreement")


def test_a_random_estimator_has_numbers_too(run: Run) -> None:
    values = arguments(only_panel(run, "reliability", estimators="random", seed=1))[0]
    assert np.isfinite(values).all()
    assert isinstance(arguments(only_panel(run, "estimators", bootstrap=0))[0], pd.DataFrame)
