"""Votes and early stopping: the frames of the library, with settings that fit the run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.answers import sample
from tests.figures.runs import arguments, graded, notes, only_panel, settings, ungraded
from tests.graded import N_PROMPTS
from toolkit.errors import ToolkitError
from toolkit.figures import prepare
from toolkit.judging.grades import grade
from toolkit.judging.voting import Election, early_stopping_df, vote_df
from toolkit.store import Run, open_runs

QUICK = {"bootstrap": 10}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("graded") / "run")


def test_votes_are_those_of_the_library(run: Run) -> None:
    panel = only_panel(run, "votes", estimators="mean_prob", seed=2, **QUICK)
    expected = vote_df(run, Election(confidence="mean_prob", bootstrap=10, seed=2))
    pd.testing.assert_frame_equal(arguments(panel)[0], expected)
    assert settings(panel)["note"] == (
        "weighted by mean_prob · filtered keeps 10 % · same answer: exact · sampler: temperature 0.8"
    )


def test_several_runs_have_a_panel_each(run: Run, tmp_path: Path) -> None:
    other = graded(tmp_path / "other", temperature=0.5)
    drawing = prepare(open_runs([run.path, other.path]), "votes", **QUICK)
    assert [panel.title for panel in drawing.panels] == ["run (made)", "other (made)"]
    assert notes(drawing)[1].endswith("temperature 0.5")


def test_early_stopping_fits_its_settings_to_short_answers(run: Run) -> None:
    lengths = run.sequences_df(kinds="sample")["n_tokens"]
    window = int(lengths.median()) // 2
    panel = only_panel(run, "early-stopping", **QUICK)
    expected = early_stopping_df(
        run,
        Election(bootstrap=10),
        percentiles=[10.0, 25.0, 50.0, 75.0, 90.0],
        warmup=2,
        window=window,
    )
    pd.testing.assert_frame_equal(arguments(panel)[0], expected)
    assert settings(panel)["note"].startswith(
        f"first 2 samples whole, window {window} tokens · same answer: "
    )


def test_settings_of_early_stopping_can_be_given(run: Run, tmp_path: Path) -> None:
    other = graded(tmp_path / "other", temperature=0.5)
    options = {"percentiles": [50], "warmup": 5, "window": 9}
    panel = only_panel(open_runs([run.path, other.path]), "early-stopping", **options, **QUICK)
    frame = arguments(panel)[0]
    assert frame[["run", "percentile", "warmup", "window"]].values.tolist() == [
        ["run", 50.0, 5, 9],
        ["other", 50.0, 5, 9],
    ]
    note = settings(panel)["note"]
    assert note.startswith(
        "first 5 samples whole, window 9 tokens, nothing would be cut · same answer: exact"
    )
    assert note.endswith("run: sampler: temperature 0.8; other: sampler: temperature 0.5")


def test_samples_that_are_not_graded_are_counted(tmp_path: Path) -> None:
    from tests.answers import make_answers, prompt

    answers = [sample(name, i, "Yes", -1.0) for name in "ab" for i in range(2)]
    run = make_answers(tmp_path / "run", [prompt("a", "Yes"), prompt("b")], answers)
    grade(run, "exact")
    assert "2 of 4 samples are not graded" in settings(only_panel(run, "votes", **QUICK))["note"]


def test_one_sample_is_no_vote(tmp_path: Path) -> None:
    run = ungraded(tmp_path / "run", [sample(f"p{i}", 0, "Yes", -1.0) for i in range(N_PROMPTS)])
    grade(run, "exact")
    for kind in ("votes", "early-stopping", "agreement", "samples", "entropy-map"):
        with pytest.raises(
            ToolkitError, match=f"the figure {kind} compares samples of a prompt, and no prompt"
        ):
            prepare(run, kind)


def test_a_weight_that_is_none_lists_those_that_are(run: Run) -> None:
    with pytest.raises(ToolkitError, match=r"estimators: sum_logprob is no weight.*mean_prob"):
        prepare(run, "votes", estimators="sum_logprob")
    with pytest.raises(ToolkitError, match="estimators: one weighs a sample, and 2 are given"):
        prepare(run, "votes", estimators=["mean_prob", "min_prob"])
