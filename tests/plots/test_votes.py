"""Votes and early stopping: the numbers of the tables, at the places that the axes name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.plots.drawn import artist, axes, caption, labelled, legend, points, texts, thresholds, votes
from toolkit.errors import ToolkitError
from toolkit.plots import plot_early_stopping, plot_votes

RULES = ["majority", "weighted", "filtered", "borda"]


def test_each_rule_is_a_line_over_the_number_of_samples() -> None:
    frame = votes().sample(frac=1, random_state=0)
    with axes() as ax:
        plot_votes(frame, ax=ax)
    for rule in RULES:
        rows = frame[frame.rule == rule].sort_values("k")
        x, y = np.array(points(ax, rule)).T
        assert y == pytest.approx(rows.accuracy)
        assert np.log2(x) == pytest.approx(np.log2(rows.k), abs=0.1)
    assert np.array(points(ax, "pass"))[:, 0].tolist() == [1, 2, 4, 8]
    assert len({np.array(points(ax, rule))[0, 0] for rule in RULES}) == 4  # side by side
    assert set(legend(ax)) == {*RULES, "pass: one of k is right"}
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2", "4", "8"]


def test_intervals_reach_from_low_to_high() -> None:
    frame = votes()
    with axes() as ax:
        plot_votes(frame, ax=ax)
    ends = sorted(tuple(segment[:, 1]) for lines in ax.collections for segment in lines.get_segments())
    rows = frame[frame.rule != "pass"]
    assert np.array(ends) == pytest.approx(np.array(sorted(zip(rows.low, rows.high, strict=True))))


def test_votes_that_are_not_computed_are_counted() -> None:
    frame = votes()
    frame.loc[frame.k == 8, "accuracy"] = np.nan
    frame.loc[0, ["n", "n_undefined"]] = [180, 5]
    with axes() as ax:
        plot_votes(frame, note="sampler", ax=ax)
    assert caption(ax) == "n = 180 to 185 prompts · up to 5 prompts left out · 5 votes not computed · sampler"
    assert len(points(ax, "majority")) == 3
    frame["accuracy"] = np.nan
    with axes() as ax:
        plot_votes(frame, ax=ax)
    assert texts(ax) == ["no vote has an accuracy"]


def test_a_single_number_of_samples_is_drawn() -> None:
    with axes() as ax:
        plot_votes(votes().query("k == 8"), ax=ax)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["8"]


def test_many_numbers_of_samples_do_not_run_into_each_other() -> None:
    rows = [
        {"rule": "majority", "k": k, "accuracy": 0.5, "low": 0.4, "high": 0.6, "n": 9} for k in range(1, 1001)
    ]
    with axes() as ax:
        plot_votes(pd.DataFrame(rows), ax=ax)
    named = [text.get_text() for text in ax.get_xticklabels()]
    assert named[-1] == "1,000"
    assert len(named) < 30


def test_several_runs_are_refused() -> None:
    frame = pd.concat([votes().assign(run="a"), votes().assign(run="b")])
    with pytest.raises(ToolkitError, match="votes has 2 runs: give those of one, an axes a run"):
        plot_votes(frame)


def test_early_stopping_is_accuracy_against_what_is_saved() -> None:
    frame = thresholds()
    with axes() as ax:
        plot_early_stopping(frame, note="window 16", ax=ax)
    (line,) = labelled(ax, "")
    assert line.get_xydata() == pytest.approx(frame[["saved", "accuracy"]].to_numpy())
    (bars,) = ax.collections
    ends = np.array([segment for segment in bars.get_segments()])
    assert ends[:, 0, 1] == pytest.approx(frame.low)
    assert ends[:, 1, 1] == pytest.approx(frame.high)
    assert artist(ax, "whole").get_ydata()[0] == 0.4
    assert texts(ax) == ["10", "50", "90"]
    assert caption(ax) == "n = 185 prompts · window 16"
    assert ax.get_xlim()[0] <= 0 < frame.saved.max() < ax.get_xlim()[1]


def test_runs_of_early_stopping_are_lines_in_their_colours() -> None:
    frame = pd.concat([thresholds().assign(run="a"), thresholds().assign(run="b", accuracy_whole=0.6)])
    with axes() as ax:
        plot_early_stopping(frame, ax=ax)
    assert artist(ax, "a").get_color() != artist(ax, "b").get_color()
    assert artist(ax, "a").get_marker() != artist(ax, "b").get_marker()
    assert [line.get_ydata()[0] for line in labelled(ax, "whole")] == [0.4, 0.6]
    assert legend(ax)[:2] == ["a", "b"]


def test_thresholds_that_are_not_computed_are_counted_and_intervals_may_be_missing() -> None:
    frame = thresholds()
    frame.loc[1, "accuracy"] = np.nan
    frame[["low", "high"]] = np.nan
    with axes() as ax:
        plot_early_stopping(frame, ax=ax)
    assert caption(ax) == "n = 185 prompts · 1 threshold not computed"
    assert texts(ax) == ["10", "90"]


def test_percentiles_that_save_the_same_are_not_written_over_each_other() -> None:
    frame = pd.concat([thresholds()] * 10, ignore_index=True).assign(percentile=range(30))
    with axes() as ax:
        plot_early_stopping(frame, ax=ax)
    assert len(texts(ax)) == 3
