"""`toolkit.compare`: differences by hand, what both runs must share, and what is said of the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.answers import Answer, greedy, make_answers, prompt, sample
from tests.graded import is_right, made, mean, mixed_answers, plain_auroc, plain_ece
from toolkit.errors import ToolkitError
from toolkit.judging.comparing import METRICS, Compared, compare
from toolkit.judging.evaluation import evaluate
from toolkit.judging.grades import grade
from toolkit.store import Run

QUICK: dict[str, Any] = {"bootstrap": 20, "estimators": ["mean_logprob", "geometric_mean_prob"]}

FIRST = [
    greedy("p1", "Yes", -0.1, end=-0.1),
    greedy("p2", "Yes", -0.5, end=-0.5),
    greedy("p3", "No", -0.2, end=-0.2),
    greedy("p4", "No", -0.9, end=-0.9),
    greedy("alone", "No", -0.1, end=-0.1),
]
SECOND = [
    greedy("p1", "Yes", -0.2, end=-0.2),
    greedy("p2", "No", -0.6, end=-0.6),
    greedy("p3", "No", -2.2, end=-2.2),
    greedy("p4", "No", -0.9, end=-0.9),
    greedy("other", "Yes", -0.1, end=-0.1),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    folder = tmp_path_factory.mktemp("compared")
    return made(folder / "one", FIRST), made(folder / "two", SECOND)


def row(found: Compared, metric: str, estimator: str | None = None) -> dict[str, Any]:
    frame = found.differences
    own = frame[frame["metric"] == metric]
    own = own if estimator is None else own[own["estimator"] == estimator]
    (only,) = own.to_dict("records")
    return {str(name): value for name, value in only.items()}


def test_a_case_by_hand(runs: tuple[Run, Run]) -> None:
    found = compare(*runs, **QUICK)
    accuracy = row(found, "accuracy")
    assert (accuracy["a"], accuracy["b"], accuracy["difference"]) == (0.5, 0.25, -0.25)
    assert accuracy["n_prompts"] == accuracy["n_a"] == accuracy["n_b"] == 4
    confidence = row(found, "confidence", "mean_logprob")
    assert confidence["a"] == pytest.approx(-(0.1 + 0.5 + 0.2 + 0.9) / 4)
    assert confidence["difference"] == pytest.approx(-(0.1 + 0.1 + 2.0) / 4)
    auroc = row(found, "auroc", "mean_logprob")
    assert auroc["a"] == 3 / 4  # -0.1 beats both wrong ones, -0.5 the one of -0.9
    assert auroc["b"] == 1.0
    assert auroc["difference"] == 0.25
    brier = row(found, "brier", "geometric_mean_prob")
    p, q = np.exp([-0.1, -0.5, -0.2, -0.9]), np.exp([-0.2, -0.6, -2.2, -0.9])
    assert brier["a"] == pytest.approx(np.mean((p - [1, 1, 0, 0]) ** 2))
    assert brier["b"] == pytest.approx(np.mean((q - [1, 0, 0, 0]) ** 2))
    assert row(found, "ece", "geometric_mean_prob")["a"] == pytest.approx(plain_ece(list(p), [1, 1, 0, 0]))
    assert set(found.differences["metric"]) == set(METRICS)
    assert list(found.differences["metric"]) == sorted(found.differences["metric"], key=METRICS.index)


def test_prompts_are_in_order_of_flips_then_of_confidence(runs: tuple[Run, Run]) -> None:
    prompts = compare(*runs, **QUICK).prompts
    assert list(prompts["prompt_id"]) == ["p2", "p3", "p1", "p4"]
    assert [None if pd.isna(flip) else flip for flip in prompts["flip"]] == [
        "right to wrong",
        None,
        None,
        None,
    ]
    assert list(prompts["outcome_difference"]) == [-1.0, 0.0, 0.0, 0.0]
    assert list(prompts["confidence_difference"]) == pytest.approx([-0.1, -2.0, -0.1, 0.0])
    assert list(prompts["same_text"]) == [False, True, True, True]
    assert (prompts["text_a"].iloc[0], prompts["text_b"].iloc[0]) == ("Yes", "No")
    back = compare(*runs[::-1], **QUICK).prompts
    assert back["flip"].iloc[0] == "wrong to right"


def test_prompts_of_one_run_are_named_and_counted(runs: tuple[Run, Run]) -> None:
    found = compare(*runs, **QUICK)
    assert found.notes[:2] == [
        "1 prompt only in one, left out: 'alone'",
        "1 prompt only in two, left out: 'other'",
    ]
    assert (found.context["n_prompts"], found.context["n_only"]) == (4, [1, 1])
    assert [one["run"] for one in found.context["runs"]] == ["one", "two"]


@pytest.mark.filterwarnings("ignore:.*all wrong")
def test_values_of_a_run_are_those_of_evaluate(tmp_path: Path) -> None:
    answers = mixed_answers()
    first, second = made(tmp_path / "a", answers), made(tmp_path / "b", changed(answers))
    for target in ("greedy", "first", "each", "vote"):
        asked: dict[str, Any] = {"target": target, "bootstrap": 0}
        found = compare(first, second, **asked).differences.set_index(["metric", "estimator"])
        for letter, run in (("a", first), ("b", second)):
            table = evaluate(run, **asked).set_index("estimator")
            for name in ("mean_logprob", "n_tokens", "vote_share", "geometric_mean_prob"):
                for metric in ("auroc", "brier", "ece"):
                    if (metric, name) in found.index:
                        expected = table.loc[name, metric]
                        assert found.loc[(metric, name), letter] == pytest.approx(expected, nan_ok=True)


def changed(answers: Sequence[Answer]) -> list[Answer]:
    """The same answers, less sure, and a few of them other ones."""
    rng = np.random.default_rng(2)
    found = []
    for one in answers:
        text = "No" if one.text == "Yes" and rng.random() < 0.15 else one.text
        logprobs = -rng.exponential(1.0, len(text))
        make: Any = greedy if one.kind == "greedy" else sample
        head = (one.prompt_id,) if one.kind == "greedy" else (one.prompt_id, one.sample_index)
        found.append(make(*head, text, *logprobs.tolist(), end=-float(rng.exponential())))
    return found


def test_several_units_of_a_prompt_against_plain_loops(tmp_path: Path) -> None:
    answers = mixed_answers()
    second = changed(answers)
    found = compare(made(tmp_path / "a", answers), made(tmp_path / "b", second), target="each", bootstrap=20)
    for letter, own in (("a", answers), ("b", second)):
        samples = [one for one in own if one.kind == "sample"]
        right = [is_right(one) for one in samples]
        means = [mean(one.all_logprobs) for one in samples]
        assert row(found, "accuracy")[letter] == pytest.approx(mean(right))
        assert row(found, "confidence", "mean_logprob")[letter] == pytest.approx(mean(means), rel=1e-5)
        assert row(found, "auroc", "mean_logprob")[letter] == pytest.approx(plain_auroc(means, right))
    assert (row(found, "accuracy")["n_prompts"], row(found, "accuracy")["n_a"]) == (8, 40)


def test_a_run_and_its_copy_do_not_differ(tmp_path: Path) -> None:
    answers = mixed_answers()
    found = compare(made(tmp_path / "a", answers), made(tmp_path / "b", answers), bootstrap=30)
    known = found.differences[found.differences["difference"].notna()]
    assert len(known) > 50
    assert (known["difference"] == 0).all()
    accuracy = row(found, "accuracy")
    assert accuracy["difference_low"] < 0  # a score interval knows how few there are
    assert accuracy["difference_high"] == pytest.approx(-accuracy["difference_low"])
    assert (known.loc[known["metric"] != "accuracy", ["difference_low", "difference_high"]] == 0).all(
        axis=None
    )
    assert not known["excludes_zero"].any()
    assert found.prompts["same_text"].all()
    assert found.notes == []


def test_another_sampling_of_the_same_is_not_told_apart(tmp_path: Path) -> None:
    """Two drawings of 40 prompts' answers from one distribution: intervals of 99 % hold 0."""
    held = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        easy = rng.random(40)
        drawn = []
        for name in ("a", "b"):
            answers = [_drawn(rng, f"p{i:02}", p) for i, p in enumerate(easy)]
            drawn.append(made(tmp_path / f"{seed}-{name}", answers))
        frame = compare(
            *drawn, bootstrap=300, level=0.99, estimators=["mean_logprob", "min_prob"]
        ).differences
        held += (~frame["excludes_zero"]).tolist()
    assert np.mean(held) >= 0.9


def _drawn(rng: np.random.Generator, name: str, easy: float) -> Answer:
    text = "Yes" if rng.random() < easy else "No"
    return greedy(name, text, *(-rng.exponential(1.5 - easy, len(text))).tolist())


def test_ungraded_runs_are_compared_by_confidence_alone_and_it_is_said(tmp_path: Path) -> None:
    ids = dict.fromkeys(answer.prompt_id for answer in FIRST)
    plain = make_answers(tmp_path / "plain", [prompt(name, "Yes") for name in ids], FIRST)
    other = make_answers(tmp_path / "other", [prompt(name, "Yes") for name in ids], FIRST)
    graded = made(tmp_path / "graded", FIRST)
    grade(graded, "contains")
    for pair, said in (
        ((plain, other), "Neither run is graded: only confidence is compared"),
        ((graded, plain), "plain is not graded: only confidence is compared"),
    ):
        found = compare(*pair, **QUICK)
        assert found.notes[0].startswith(said)
        assert set(found.differences["metric"]) == {"confidence"}
        assert found.prompts[["outcome_a", "outcome_b"]].isna().all(axis=None)
        assert found.context["grader"] is None
    with pytest.raises(ToolkitError, match="plain: nothing is graded"):
        compare(graded, plain, grader="exact", **QUICK)


def test_other_graders_and_other_settings_are_refused_with_the_difference(tmp_path: Path) -> None:
    exact = made(tmp_path / "exact", FIRST)
    contains = made(tmp_path / "contains", FIRST, grader="contains")
    cased = made(tmp_path / "cased", FIRST, settings={"accents": False})
    with pytest.raises(ToolkitError) as refused:
        compare(exact, contains, **QUICK)
    assert "exact was graded by exact@" in str(refused.value)
    assert "contains by contains@" in str(refused.value)
    with pytest.raises(
        ToolkitError, match=r"differ in grader\.normalizer\.accents '(True|False)' against '(True|False)'"
    ):
        compare(exact, cased, **QUICK)
    with pytest.raises(ToolkitError, match="accents"):
        compare(exact, cased, grader="exact", **QUICK)
    with pytest.raises(ToolkitError, match="there are no grades by 'contains'"):
        compare(exact, contains, grader="contains", **QUICK)


def test_of_several_grades_the_common_ones_count(tmp_path: Path) -> None:
    both, one = made(tmp_path / "both", FIRST), made(tmp_path / "one", FIRST, grader="contains")
    grade(both, "contains")
    assert compare(both, one, **QUICK).context["grader"].startswith("contains@")
    grade(one, "exact")
    with pytest.raises(
        ToolkitError, match=r"both runs have the grades exact@.*contains@.* give one of them as grader"
    ):
        compare(both, one, **QUICK)
    assert compare(both, one, grader="exact", **QUICK).context["grader"].startswith("exact@")
    third = made(tmp_path / "third", FIRST, grader="choice")
    with pytest.raises(ToolkitError, match=r"no grades in common: both has .*contains@.*; third has choice@"):
        compare(both, third, **QUICK)


def test_runs_without_a_common_prompt_are_refused_with_some_of_each(tmp_path: Path) -> None:
    first = made(tmp_path / "a", [greedy(f"x{i}", "Yes", -0.1) for i in range(7)])
    second = made(tmp_path / "b", [greedy("y", "Yes", -0.1)])
    with pytest.raises(ToolkitError) as refused:
        compare(first, second, **QUICK)
    assert "a has 'x0', 'x1', 'x2', 'x3', 'x4' and 2 more; b has 'y'" in str(refused.value)


def test_another_text_under_the_same_id_is_told_and_compared(tmp_path: Path) -> None:
    answers = [greedy("p", "Yes", -0.1), greedy("q", "No", -0.3)]
    first = make_answers(
        tmp_path / "a", [prompt("p", "Yes", text="Old"), prompt("q", "Yes", text="Same")], answers
    )
    second = make_answers(
        tmp_path / "b", [prompt("p", "No", text="New"), prompt("q", "Yes", text="Same")], answers
    )
    for run in (first, second):
        grade(run, "exact")
    found = compare(first, second, **QUICK)
    assert "1 of 2 prompts have another text in the second run: 'p'" in found.notes
    assert "1 of 2 prompts have other references in the second run: 'p'" in found.notes
    assert row(found, "accuracy")["difference"] == -0.5


def test_as_many_samples_are_compared_as_both_runs_have(tmp_path: Path) -> None:
    many = [sample("p", i, "Yes" if i < 2 else "No", -0.1 * (i + 1)) for i in range(5)]
    few = [sample("p", i, "No", -0.5) for i in range(2)]
    both = [sample("q", i, "No", -0.2) for i in range(2)]
    found = compare(made(tmp_path / "a", many + both), made(tmp_path / "b", few + both), bootstrap=0)
    assert found.notes[0] == (
        "1 of 2 prompts have another number of samples in the two runs (a mostly 5, b 2): "
        "as many as both have are compared, the first"
    )
    accuracy = row(found, "accuracy")
    assert (accuracy["a"], accuracy["n_a"], accuracy["n_b"]) == (0.5, 4, 4)
    assert row(found, "confidence", "vote_share")["a"] == 1.0  # of the two that take part, both say Yes


def test_a_target_that_a_run_lacks_and_samples_of_another_kind(tmp_path: Path) -> None:
    drawn = made(tmp_path / "drawn", [sample("p", 0, "Yes", -0.1), greedy("p", "Yes", -0.1)])
    scored = made(tmp_path / "scored", [Answer("p", ["No"], [-0.2], kind="scored")])
    with pytest.raises(ToolkitError, match="scored: target: the run has no greedy sequences"):
        compare(drawn, scored, target="greedy", **QUICK)
    found = compare(drawn, scored, **QUICK)
    assert found.context["target"] == "each"
    assert "what counts as samples differs in kind: of drawn sample and of scored scored" in found.notes


def test_what_is_undefined_is_said(tmp_path: Path) -> None:
    right = made(tmp_path / "right", [greedy(f"p{i}", "Yes", -0.1 * i) for i in range(3)])
    partly = made(tmp_path / "partly", [greedy(f"p{i}", "Yes" if i else "No", -0.1 * i) for i in range(3)])
    found = compare(right, partly, **QUICK)
    assert "right: 3 units, all right: AUROC is undefined" in found.notes
    auroc = row(found, "auroc", "mean_logprob")
    assert math.isnan(auroc["a"])
    assert math.isnan(auroc["difference"])
    assert not math.isnan(auroc["b"])


def test_grades_between_0_and_1_need_a_threshold(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    rows = [
        {"prompt_id": f"p{i}", "kind": "greedy", "sample_index": 0, "value": v}
        for i, v in enumerate((0.2, 0.8))
    ]
    labels.write_text("\n".join(map(json.dumps, rows)) + "\n")
    answers = [greedy(f"p{i}", "Yes", -0.1 - i) for i in range(2)]
    pair = [made(tmp_path / name, answers, grader=f"labels:{labels}") for name in ("a", "b")]
    found = compare(*pair, **QUICK)
    assert (
        "a: grades lie between 0 and 1: AUROC and calibration are undefined; give a threshold" in found.notes
    )
    assert set(found.differences["metric"]) == {"accuracy", "confidence"}
    cut = compare(*pair, threshold=0.5, **QUICK)
    assert row(cut, "auroc", "mean_logprob")["a"] == 0.0


def test_the_confidence_that_prompts_are_in_order_by(runs: tuple[Run, Run]) -> None:
    assert compare(*runs, bootstrap=0).context["confidence"] == "mean_logprob"
    assert compare(*runs, bootstrap=0, estimators=["min_prob"]).context["confidence"] == "min_prob"
    asked = compare(*runs, confidence="max_entropy", **QUICK)
    assert asked.context["confidence"] == "max_entropy"
    assert "max_entropy" in set(asked.differences["estimator"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "field"}, "by is field"),
        ({"level": 1.0}, "level is 1.0"),
        ({"bootstrap": -1}, "bootstrap is -1"),
        ({"estimators": ["nothing"]}, "nothing"),
        ({"confidence": "nothing"}, "nothing"),
        ({"target": "last"}, "there is no 'last'"),
        ({"over": "part"}, "part"),
    ],
)
def test_wrong_arguments_are_refused(runs: tuple[Run, Run], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        compare(*runs, **{**QUICK, **change})


def test_a_run_is_not_compared_with_itself(runs: tuple[Run, Run]) -> None:
    with pytest.raises(ToolkitError, match="is named twice"):
        toolkit.compare(runs[0], runs[0].path)
