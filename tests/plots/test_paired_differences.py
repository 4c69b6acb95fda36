"""Two runs compared: rows and intervals are those of the table, points those of the prompts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.plots.drawn import artist, axes, caption, differences, labelled, legend, points, rows_of, texts
from toolkit.errors import ToolkitError
from toolkit.plots import plot_paired_confidence, plot_paired_differences
from toolkit.plots.layout import rows_height

NAN = math.nan


def test_rows_are_sorted_and_points_and_intervals_are_those_of_the_table() -> None:
    frame = differences(9)
    with axes(size=(7.0, rows_height(9))) as ax:
        plot_paired_differences(frame, names=("float32", "4-bit"), ax=ax)
    ordered = frame.sort_values("difference", ascending=False)
    assert rows_of(ax) == list(ordered.estimator)
    names = rows_of(ax)
    drawn = {names[round(y)]: (x, kind) for kind in ("apart", "together") for x, y in points(ax, kind)}
    ends = {names[round(y)]: (a, b) for lines in ax.collections for (a, y), (b, _) in lines.get_segments()}
    for row in frame.itertuples():
        kind = "apart" if row.difference_low > 0 or row.difference_high < 0 else "together"
        assert drawn[row.estimator] == (pytest.approx(row.difference), kind)
        assert ends[row.estimator] == pytest.approx((row.difference_low, row.difference_high))
    assert artist(ax, "apart").get_markerfacecolor() != artist(ax, "together").get_markerfacecolor()
    assert ax.get_xlabel() == "auroc of 4-bit less that of float32"
    assert legend(ax) == ["the interval does not hold 0", "it does", "no difference, 0"]
    assert caption(ax) == "n = 185 prompts"


def test_with_a_limit_the_largest_differences_either_way_are_shown_and_the_rest_is_counted() -> None:
    frame = differences(30)
    frame.loc[5, ["difference", "difference_low", "difference_high"]] = NAN
    with axes(size=(7.0, rows_height(30))) as ax:
        plot_paired_differences(frame, limit=6, ax=ax)
    size = frame.difference.abs().sort_values(ascending=False)
    assert set(rows_of(ax)) == set(frame.loc[size.index[:6], "estimator"])
    assert caption(ax) == "n = 185 prompts · 23 more estimators not shown · 1 estimator undefined"


def test_without_intervals_points_are_hollow_and_without_values_it_is_said() -> None:
    frame = differences(3).assign(difference_low=NAN, difference_high=NAN)
    with axes() as ax:
        plot_paired_differences(frame, ax=ax)
    assert len(points(ax, "together")) == 3
    assert labelled(ax, "apart") == []
    with axes() as ax:
        plot_paired_differences(frame.assign(difference=NAN), ax=ax)
    assert texts(ax) == ["auroc has no difference that is defined"]
    assert caption(ax) == "3 estimators undefined"


def test_a_point_a_prompt_marked_by_who_was_right() -> None:
    first, second = [0.1, 0.2, 0.3, 0.4, 0.5, NAN, -np.inf], [0.2, 0.2, 0.1, 0.9, 0.6, 0.1, 0.2]
    outcome_a, outcome_b = [0, 1, 1, 0, NAN, 1, 1], [0, 1, 0, 0.75, 1, 1, 1]
    with axes() as ax:
        plot_paired_confidence(first, second, outcome_a, outcome_b, estimator="p", names=("x", "y"), ax=ax)
    drawn = [points(ax, f"outcome-{kind}") for kind in range(5)]
    assert drawn == [[(0.1, 0.2)], [(0.2, 0.2)], [(0.3, 0.1)], [(0.4, 0.9)], [(0.5, 0.6)]]
    assert legend(ax) == [
        "wrong in both (1)",
        "right in both (1)",
        "right in x only (1)",
        "right in y only (1)",
        "not graded (1)",
        "as sure in both",
    ]
    assert caption(ax) == "n = 5 prompts · 2 not computed"
    assert ax.get_xlim() == ax.get_ylim()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("p, x", "p, y")


def test_without_a_confidence_it_is_said() -> None:
    with axes() as ax:
        plot_paired_confidence([NAN], [0.1], [1], [1], ax=ax)
    assert texts(ax) == ["no prompt has a confidence in both runs"]


def test_wrong_arguments_are_named() -> None:
    frame = differences(3)
    with axes() as ax:
        with pytest.raises(ToolkitError, match="limit is 0"):
            plot_paired_differences(frame, limit=0, ax=ax)
        with pytest.raises(ToolkitError, match="have no 'ece': they have auroc"):
            plot_paired_differences(frame, metric="ece", ax=ax)
        with pytest.raises(ToolkitError, match="no column n_prompts"):
            plot_paired_differences(frame.drop(columns="n_prompts"), ax=ax)
        with pytest.raises(ToolkitError, match="'estimator_0' twice"):
            plot_paired_differences(frame.assign(estimator="estimator_0"), ax=ax)
        with pytest.raises(ToolkitError, match="first has 1 and second has 2"):
            plot_paired_confidence([1.0], [1.0, 2.0], [1], [1], ax=ax)
