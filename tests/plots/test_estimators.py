"""Estimators compared: the best on top, baselines always there, intervals as the table has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.plots.drawn import artist, axes, caption, evaluation, labelled, legend, points, rows_of, texts
from toolkit.errors import ToolkitError
from toolkit.plots import plot_estimators
from toolkit.plots.layout import rows_height

BASELINES = ("random", "n_tokens")


def at(ax: object, label: str) -> dict[str, float]:
    """The value that is drawn in each row."""
    names = rows_of(ax)  # type: ignore[arg-type]
    return {names[round(y)]: x for x, y in points(ax, label)}  # type: ignore[arg-type]


def test_rows_are_sorted_and_points_and_intervals_are_those_of_the_table() -> None:
    frame = evaluation(10)
    with axes() as ax:
        plot_estimators(frame, ax=ax)
    ordered = frame.sort_values("auroc", ascending=False)
    assert rows_of(ax) == list(ordered.estimator)
    drawn = at(ax, "estimators-0") | at(ax, "baselines-0")
    assert drawn == pytest.approx(dict(zip(frame.estimator, frame.auroc, strict=True)))
    ends = {}
    for lines in ax.collections:
        for (low, y), (high, _) in lines.get_segments():
            ends[rows_of(ax)[round(y)]] = (low, high)
    for row in frame.itertuples():
        assert ends[row.estimator] == pytest.approx((row.auroc_low, row.auroc_high))
    assert texts(ax) == [f"{value:.2f}" for value in ordered.auroc]


def test_baselines_are_hollow_and_stay_whatever_the_limit() -> None:
    frame = evaluation(50)
    frame.loc[frame.estimator.isin(BASELINES), "auroc"] = [0.31, 0.32]
    with axes() as ax:
        plot_estimators(frame, limit=6, ax=ax)
    others = frame[~frame.estimator.isin(BASELINES)].nlargest(4, "auroc")
    assert rows_of(ax) == [*others.estimator, "n_tokens", "random"]
    hollow = artist(ax, "baselines-0")
    assert set(at(ax, "baselines-0")) == set(BASELINES)
    assert hollow.get_markerfacecolor() != hollow.get_color()
    assert artist(ax, "estimators-0").get_markerfacecolor() == artist(ax, "estimators-0").get_color()
    assert caption(ax) == "n = 185 · 44 more estimators not shown"
    assert "baseline" in legend(ax)


def test_with_a_limit_of_one_a_single_row_is_drawn() -> None:
    with axes() as ax:
        plot_estimators(evaluation(5), limit=1, ax=ax)
    assert len(rows_of(ax)) == 1


def test_fifty_estimators_fit_into_a_figure_of_their_height() -> None:
    frame = evaluation(50)
    with axes(size=(7.0, rows_height(50))) as ax:
        plot_estimators(frame, limit=50, ax=ax)
    assert len(rows_of(ax)) == 50
    with axes(size=(7.0, 3.0)) as ax:
        plot_estimators(frame, limit=50, ax=ax)
    assert len(rows_of(ax)) < 25
    assert set(BASELINES) <= set(rows_of(ax))


@pytest.mark.parametrize(
    ("metric", "chance"),
    [("auroc", 0.5), ("auroc_within", 0.5), ("prr_half", 0.0), ("ece", None), ("auprc", None)],
)
def test_chance_is_drawn_where_it_is_known(metric: str, chance: float | None) -> None:
    with axes() as ax:
        plot_estimators(evaluation(metric=metric), metric=metric, ax=ax)
    lines = labelled(ax, "chance")
    assert [line.get_xdata()[0] for line in lines] == ([] if chance is None else [chance])
    assert any(said.startswith("chance") for said in legend(ax)) == (chance is not None)


def test_where_lower_is_better_the_lowest_is_on_top() -> None:
    frame = evaluation(8, metric="ece")
    with axes() as ax:
        plot_estimators(frame, metric="ece", ax=ax)
    assert rows_of(ax) == list(frame.sort_values("ece").estimator)
    assert ax.get_xlabel() == "ece, lower is better"


def test_runs_stand_side_by_side_in_the_order_of_their_mean() -> None:
    one = evaluation(6).assign(run="$a$")
    other = one.assign(run="b", auroc=np.linspace(0.9, 0.6, 6)).iloc[:-1]
    frame = pd.concat([one, other], ignore_index=True)
    with axes() as ax:
        plot_estimators(frame, ax=ax)
    means = frame.groupby("estimator").auroc.mean()
    assert rows_of(ax) == list(means.sort_values(ascending=False).index)
    for run, name in enumerate(["$a$", "b"]):
        rows = frame[frame.run == name].set_index("estimator").auroc
        assert at(ax, f"estimators-{run}") | at(ax, f"baselines-{run}") == pytest.approx(rows.to_dict())
    sides = [np.array(points(ax, f"estimators-{run}"))[:, 1] % 1 for run in (0, 1)]
    assert (sides[0] > 0.5).all()
    assert (sides[1] < 0.5).all()
    assert legend(ax)[:2] == [r"\$a\$", "b"]


def test_undefined_estimators_are_counted_and_not_drawn() -> None:
    frame = evaluation(6)
    frame.loc[frame.estimator == "estimator_1", ["auroc", "auroc_low", "auroc_high"]] = np.nan
    frame.loc[frame.estimator == "estimator_2", ["auroc_low", "auroc_high"]] = np.nan
    frame.loc[0, "n"] = 100
    with axes() as ax:
        plot_estimators(frame, ax=ax)
    assert "estimator_1" not in rows_of(ax)
    assert "estimator_2" in rows_of(ax)
    assert caption(ax) == "n = 100 to 185 · 1 estimator undefined"
    assert sum(len(lines.get_segments()) for lines in ax.collections) == 4
    frame[["auroc", "auroc_low", "auroc_high"]] = np.nan
    with axes() as ax:
        plot_estimators(frame, ax=ax)
    assert texts(ax) == ["auroc is undefined for every estimator"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "speed"}, r"the evaluation has no 'speed': it has auroc"),
        ({"limit": 0}, "limit is 0: give at least 1"),
    ],
)
def test_a_wrong_choice_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        plot_estimators(evaluation(), **change)  # type: ignore[arg-type]


def test_an_estimator_twice_in_a_run_is_refused() -> None:
    frame = pd.concat([evaluation(), evaluation()])
    with pytest.raises(ToolkitError, match=r"'random' twice in a run: give one row an estimator and run"):
        plot_estimators(frame)
