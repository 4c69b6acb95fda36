"""Figures of single sequences: which are chosen, and that they show what is stored."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from tests.answers import greedy, make_answers, prompt, sample
from tests.figures.runs import (
    arguments,
    graded,
    notes,
    of_key,
    only_panel,
    plain_run,
    settings,
    stopped_run,
    ungraded,
)
from toolkit.errors import ToolkitError
from toolkit.figures import prepare
from toolkit.judging.grades import grade
from toolkit.store import Run, open_runs


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return plain_run(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("graded") / "run")


def test_the_answer_with_the_least_likely_token_is_chosen_and_shown_as_stored(plain: Run) -> None:
    tokens = plain.tokens_df(kinds="greedy")
    worst = tokens.loc[tokens["logprob"].idxmin(), "prompt_id"]
    own = of_key(tokens, worst, "greedy")
    panel = only_panel(plain, "sequence")
    texts, logprobs, alternatives = arguments(panel)
    assert logprobs.tolist() == own["logprob"].tolist()
    assert texts == [plain.vocabulary[token].literal for token in own["token_id"]]
    likely = of_key(plain.alternatives_df(), worst, "greedy")
    wide = likely.pivot(index="token_index", columns="alternative_rank", values="logprob")
    np.testing.assert_array_equal(alternatives, wide.to_numpy())
    assert settings(panel)["ranks"].tolist() == own["rank"].tolist()
    assert panel.title == f"{worst} · greedy"
    assert settings(panel)["note"].startswith(
        "greedy · chosen: of all greedy answers, the one with the least"
    )


def test_the_title_says_what_was_asked(plain: Run) -> None:
    title = prepare(plain, "sequence", prompts="question-00001").title
    assert title.splitlines() == [
        "Confidence along an answer · run (made)",
        "What is question-00001?",
        "question-00001 · greedy",
    ]


def test_a_named_prompt_and_samples_are_shown_without_a_reason(plain: Run) -> None:
    drawing = prepare(plain, "sequence", prompts="question-00001", kinds="sample", samples=[2, 0])
    assert [panel.title for panel in drawing.panels] == [
        "question-00001 · sample 0",
        "question-00001 · sample 2",
    ]
    assert notes(drawing) == ["sampler: temperature 0.8"] * 2
    stored = of_key(plain.tokens_df(), "question-00001", "sample", 2)
    assert arguments(drawing.panels[1])[1].tolist() == stored["logprob"].tolist()


def test_without_greedy_answers_the_sample_itself_is_chosen(tmp_path: Path) -> None:
    answers = [sample("a", 0, "x", -1.0), sample("a", 1, "y", -9.0), sample("b", 0, "z", -2.0)]
    panel = only_panel(ungraded(tmp_path / "run", answers), "sequence")
    assert (panel.title, arguments(panel)[0][0]) == ("a · sample 1", "y")


def test_where_no_alternatives_are_stored_none_are_given(judged: Run) -> None:
    assert arguments(only_panel(judged, "sequence"))[2] is None


def test_tokens_past_a_stop_string_are_not_shown(tmp_path: Path) -> None:
    run = stopped_run(tmp_path / "run")
    tokens = run.tokens_df()
    texts = arguments(only_panel(run, "sequence"))[0]
    assert 0 < len(texts) == int((tokens["byte_start"] < 5).sum()) < len(tokens)


def test_the_same_prompt_is_shown_of_several_runs(judged: Run, tmp_path: Path) -> None:
    other = graded(tmp_path / "other", temperature=0.5)
    drawing = prepare(open_runs([judged.path, other.path]), "sequence")
    assert [panel.title.split(" · ")[0] for panel in drawing.panels] == ["run (made)", "other (made)"]
    first, second = (arguments(panel)[1] for panel in drawing.panels)
    assert first.tolist() == second.tolist()


def test_runs_without_a_prompt_in_common_cannot_be_compared(plain: Run, judged: Run) -> None:
    with pytest.raises(ToolkitError, match="no prompt is in all of them"):
        prepare([plain.path, judged.path], "sequence")


def alike(texts: list[str]) -> float:
    """Mean similarity of one-word texts: the share of pairs that are equal."""
    pairs = list(combinations(texts, 2))
    return sum(a == b for a, b in pairs) / len(pairs)


def test_the_prompt_with_the_most_different_and_most_alike_samples_is_chosen(judged: Run) -> None:
    frame = judged.sequences_df(kinds="sample")
    texts = {name: rows["text"].tolist() for name, rows in frame.groupby("prompt_id")}
    best = max(texts, key=lambda name: (len(set(texts[name])), alike(texts[name]), -int(name[1:])))
    panel = only_panel(judged, "samples")
    assert panel.title == best
    assert "chosen: the most different answers in the most alike words" in settings(panel)["note"]
    (strips,) = arguments(panel)
    shown = ["".join(text for text, _ in strip).removesuffix("<|im_end|>") for strip in strips]
    assert shown[1:] == texts[best]
    grades = {0.0: "wrong", 1.0: "right"}
    of_samples = judged.grades_df(prompts=best, kinds="sample")["value"]
    labels = [f"sample {i}, {grades[value]}" for i, value in enumerate(of_samples)]
    assert settings(panel)["labels"][1:] == labels
    assert settings(panel)["labels"][0].startswith("greedy, ")


def test_of_prompts_with_as_many_answers_the_one_with_the_most_alike_words_is_chosen(tmp_path: Path) -> None:
    texts = {
        "a": ["one two three", "four five six"],
        "b": ["it is in Rome", "it is in Bari"],
        "c": ["it is Rome", "no"],
    }
    answers = [sample(name, i, text, -1.0) for name, own in texts.items() for i, text in enumerate(own)]
    assert only_panel(ungraded(tmp_path / "run", answers), "samples").title == "b"


def test_samples_have_the_metric_that_is_asked_for(plain: Run) -> None:
    panel = only_panel(plain, "samples", prompts="question-00002", metric="entropy", kinds="sample")
    tokens = plain.tokens_df(prompts="question-00002")
    for index, strip in enumerate(arguments(panel)[0]):
        stored = of_key(tokens, "question-00002", "sample", index)
        assert [value for _, value in strip] == stored["entropy"].tolist()
    assert (settings(panel)["metric"], len(arguments(panel)[0])) == ("entropy", 4)


def test_more_samples_than_the_limit_are_left_out_and_said(plain: Run) -> None:
    panel = only_panel(plain, "samples", prompts="question-00000", limit=3)
    assert settings(panel)["labels"] == ["greedy", "sample 0", "sample 1", "sample 2"]
    assert settings(panel)["note"] == "greedy, sampler: temperature 0.8 · the first 3 of 4 samples"


def test_the_entropy_map_is_nan_past_the_end_of_a_sample(plain: Run) -> None:
    panel = only_panel(plain, "entropy-map", prompts="question-00001")
    (matrix,) = arguments(panel)
    tokens = plain.tokens_df(prompts="question-00001")
    lengths = []
    for index, row in enumerate(matrix):
        own = of_key(tokens, "question-00001", "sample", index)["entropy"]
        lengths.append(len(own))
        assert row[: len(own)].tolist() == own.tolist()
        assert np.isnan(row[len(own) :]).all()
    assert matrix.shape == (4, max(lengths))


def test_what_a_prompt_asks_is_its_text_where_it_has_no_messages(judged: Run) -> None:
    assert prepare(judged, "samples", prompts="p3").title.splitlines()[1] == "Q"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("sequence", {"prompts": ["nobody"]}, "prompts: 'nobody' is not in .*; it has 3: question-00000, "),
        ("sequence", {"samples": [9]}, "no sequence is selected; name other prompts, kinds or samples"),
        (
            "samples",
            {"prompts": "question-00000", "samples": [1]},
            "'question-00000' 1 is selected: name more",
        ),
        (
            "samples",
            {"metric": "mean_logprob"},
            "metric: a token has no 'mean_logprob'; use one of logprob, ",
        ),
        ("samples", {"metric": "constrained_logprob"}, "metric: constrained_logprob was not computed in"),
        ("samples", {"kinds": "greedy"}, "kinds: samples are compared; name sample"),
        ("entropy-map", {"prompts": "question-00000", "samples": [7]}, "no sequence is selected"),
        ("sequence", {"grader": "exact"}, "nothing is graded"),
    ],
)
def test_what_cannot_be_shown_is_said(
    plain: Run, kind: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        prepare(plain, kind, **options)


def test_too_many_panels_are_refused(tmp_path: Path) -> None:
    answers = [greedy(f"p{i:02}", "x", -1.0) for i in range(13)]
    run = make_answers(tmp_path / "run", [prompt(f"p{i:02}", "x") for i in range(13)], answers)
    grade(run, "exact")
    with pytest.raises(ToolkitError, match="it would have 13 panels, and 12 can be read"):
        prepare(run, "sequence", prompts=[f"p{i:02}" for i in range(13)])
    assert json.dumps(settings(only_panel(run, "sequence", prompts="p05"))["note"]) == '"greedy"'
