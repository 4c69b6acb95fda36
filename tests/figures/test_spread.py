"""Distributions by group, and entropy against log-probability: the values are those of the tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.answers import greedy, make_answers, prompt, sample
from tests.figures.runs import arguments, graded, only_panel, plain_run, settings, stopped_run
from toolkit.errors import ToolkitError
from toolkit.figures import prepare
from toolkit.figures.grades import grade_word
from toolkit.figures.spread import unit_of
from toolkit.judging.grades import grade
from toolkit.store import Run, open_runs

KEY = ["prompt_id", "kind", "sample_index"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Sequences in several row groups, whose keys interleave."""
    return plain_run(tmp_path_factory.mktemp("plain") / "run", batch=4, shuffled=True)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("graded") / "run")


def groups(runs: Run | list[Run], **options: object) -> dict[str, list[float]]:
    """What each row of a distribution holds, sorted."""
    given = open_runs([run.path for run in runs]) if isinstance(runs, list) else runs
    (rows,) = arguments(only_panel(given, "distribution", **options))
    return {name: sorted(values.tolist()) for name, values in rows.items()}


def test_a_graded_run_is_split_by_kind_and_grade(judged: Run) -> None:
    frame = judged.spans_df(by="sequence", metrics="mean_logprob").merge(judged.grades_df(), on=KEY)
    frame["group"] = frame["kind"] + ", " + frame["value"].map({1.0: "right", 0.0: "wrong"})
    expected = {name: sorted(rows["mean_logprob"]) for name, rows in frame.groupby("group")}
    assert groups(judged) == expected
    assert list(groups(judged)) == ["greedy, right", "greedy, wrong", "sample, right", "sample, wrong"]


@pytest.mark.parametrize("by", ["token", "segment", "word", "sequence", "window:3"])
def test_spans_are_those_of_the_tables(plain: Run, by: str) -> None:
    frame = plain.spans_df(by=by, metrics="mean_entropy")
    expected = {name: sorted(rows["mean_entropy"]) for name, rows in frame.groupby("kind")}
    assert groups(plain, by=by, metric="mean_entropy") == expected


def test_tokens_have_their_own_columns(plain: Run) -> None:
    tokens = plain.tokens_df(kinds="sample")
    assert groups(plain, by="token", kinds="sample") == {"all": sorted(tokens["logprob"])}
    assert groups(plain, by="token", metric="rank", kinds="sample") == {"all": sorted(tokens["rank"])}


def test_tokens_past_a_stop_string_take_no_part(tmp_path: Path) -> None:
    run = stopped_run(tmp_path / "run")
    tokens = run.tokens_df()
    kept = tokens[tokens["byte_start"] < 5]
    assert 0 < len(kept) < len(tokens)
    assert groups(run, by="token", group="kind") == {"sample": sorted(kept["logprob"])}
    assert sorted(arguments(only_panel(run, "entropy-logprob"))[1].tolist()) == sorted(kept["logprob"])


def test_runs_and_kinds_of_spans_are_groups_where_there_are_several(judged: Run, tmp_path: Path) -> None:
    other = graded(tmp_path / "other", temperature=0.5)
    found = groups([judged, other], kinds="greedy", by=["word", "sequence"])
    assert list(found) == [
        f"{run}, {by}, {value}"
        for run in ("run", "other")
        for by in ("word", "sequence")
        for value in ("right", "wrong")
    ]
    assert list(groups([judged, other], group=["temperature"])) == ["temperature 0.8", "temperature 0.5"]
    assert list(groups([judged, other], group=["model"])) == ["made"]
    note = settings(only_panel(open_runs([judged.path, other.path]), "distribution", kinds="sample"))["note"]
    assert note == "run: sampler: temperature 0.8; other: sampler: temperature 0.5"


def test_fields_are_split_by_their_path_and_the_largest_are_kept(tmp_path: Path) -> None:
    texts = ['{"a": 1, "b": 2}', '{"a": 3}', '{"a": 4, "c": 5}']
    answers = [sample("p", i, text, -1.0 - i) for i, text in enumerate(texts)]
    run = make_answers(tmp_path / "run", [prompt("p", "x")], answers)
    frame = run.spans_df(by="field", metrics="mean_logprob")
    expected = {name: sorted(rows["mean_logprob"]) for name, rows in frame.groupby("label")}
    assert groups(run, by="field", group="label") == expected
    assert list(groups(run, by="field", group="label", limit=1)) == ["a"]
    panel = only_panel(run, "distribution", by="field", group="label", limit=1)
    assert settings(panel)["note"].startswith("the 1 largest of 3 groups · ")


def test_what_nobody_can_judge_and_what_is_partly_right_have_their_own_rows(tmp_path: Path) -> None:
    answers = [greedy(name, "Yes", -1.0) for name in "abc"]
    run = make_answers(tmp_path / "run", [prompt("a", "Yes"), prompt("b"), prompt("c", "No")], answers)
    grade(run, "exact")
    assert list(groups(run)) == ["right", "wrong", "not graded"]
    assert groups(run, group="finish") == {"stop": pytest.approx([-0.55] * 3)}
    assert groups(run, group="none") == {"all": pytest.approx([-0.55] * 3)}
    assert [grade_word(value) for value in (1.0, 0.4, 0.0, np.nan)] == ["right", "partly right", "wrong", ""]


def test_by_prompt_statistics_of_samples_can_be_shown(judged: Run) -> None:
    from toolkit.aggregation.summary import summary_df

    frame = summary_df(judged, "prompt", ["number_of_classes"])
    shown = groups(judged, by="prompt", metric="number_of_classes", kinds=["greedy", "sample"])
    assert shown == {"sample": sorted(frame["number_of_classes"])}
    tokens = summary_df(judged, "prompt", ["min_logprob"])
    expected = {name: sorted(rows["min_logprob"]) for name, rows in tokens.groupby("kind")}
    assert groups(judged, by="prompt", metric="min_logprob") == expected


def test_a_function_of_the_user_cuts_texts(judged: Run) -> None:
    shown = groups(judged, by=lambda text: [(0, 1, "first")], group="label", kinds="greedy")
    frame = judged.spans_df(by=lambda text: [(0, 1)], metrics="mean_logprob", kinds="greedy")
    assert shown == {"first": sorted(frame["mean_logprob"])}


def test_units_are_those_of_the_scales() -> None:
    assert [unit_of(name) for name in ("mean_logprob", "entropy", "n_tokens", "mean_prob")] == [
        "nats",
        "nats",
        "tokens",
        "",
    ]


def test_entropy_and_log_probability_are_of_all_the_samples_tokens(plain: Run) -> None:
    panel = only_panel(plain, "entropy-logprob")
    tokens = plain.tokens_df(kinds="sample")
    pairs = sorted(zip(*(values.tolist() for values in arguments(panel)), strict=True))
    assert pairs == sorted(zip(tokens["entropy"].tolist(), tokens["logprob"].tolist(), strict=True))
    assert settings(panel)["note"] == "sampler: temperature 0.8"
    shown = arguments(only_panel(plain, "entropy-logprob", kinds="greedy", prompts="question-00001"))[0]
    stored = plain.tokens_df(kinds="greedy", prompts="question-00001")["entropy"]
    assert np.array_equal(shown, stored.to_numpy(np.float64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "mean_logprb"}, "metric: .*'mean_logprb'.*did you mean mean_logprob"),
        ({"by": "token", "metric": "logprb"}, "metric: .*'logprb'.*; of tokens also logprob, "),
        ({"metric": "vote_share"}, "metric: vote_share is of a prompt's samples"),
        ({"by": "word", "group": "label"}, "group: a word has no label; use some of grade, kind, finish, "),
        ({"by": "prompt", "group": "grade"}, "group: a prompt has no grade; use some of kind, span, run"),
        ({"by": "wrd"}, "there is no span 'wrd'"),
        ({"kinds": "beam"}, "no sequence is selected"),
        (
            {"by": "token", "metric": "constrained_logprob"},
            "metric: constrained_logprob is not computed for any",
        ),
        ({"prompts": "x"}, "prompts: 'x' is not in"),
    ],
)
def test_what_cannot_be_shown_is_said(plain: Run, options: dict[str, object], message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        prepare(plain, "distribution", **options)


def test_grades_that_are_asked_for_have_to_be_there(plain: Run) -> None:
    with pytest.raises(ToolkitError, match="nothing is graded"):
        prepare(plain, "distribution", group="grade")
