"""Distributions by group: quantiles that occur, and every value that is left out is counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plots.drawn import artist, axes, boxes, caption, labelled, legend, points, rows_of
from toolkit.plots import plot_distribution
from toolkit.plots.layout import rows_height


def nearest_rank(values: list[float], share: float) -> float:
    """The smallest value that at least this share of all is not above."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered) - 1e-9), 1) - 1]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=60))
def test_boxes_medians_and_whiskers_are_quantiles_of_the_values(values: list[float]) -> None:
    with axes(draw=False) as ax:
        plot_distribution({"a": [np.nan], "b": values}, metric="m", ax=ax)
    ((left, top, right, bottom),) = boxes(ax, "boxes")
    assert (left, right) == (nearest_rank(values, 0.25), nearest_rank(values, 0.75))
    assert (top + bottom) / 2 == pytest.approx(1)
    (whisker,) = artist(ax, "whiskers").get_segments()
    assert whisker[:, 0].tolist() == [nearest_rank(values, 0.05), nearest_rank(values, 0.95)]
    (median,) = artist(ax, "medians").get_segments()
    assert median[:, 0].tolist() == [nearest_rank(values, 0.5)] * 2


def test_each_value_of_a_small_group_is_a_point_and_of_a_large_one_is_not() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(size=40), rng.normal(size=1000)
    with axes() as ax:
        plot_distribution({"small": small, "large": large}, metric="m", ax=ax)
    found = points(ax, "points-0")
    assert sorted(x for x, _ in found) == pytest.approx(sorted(small))
    assert all(abs(y) <= 0.3 for _, y in found)
    assert labelled(ax, "points-1") == []


def test_rows_say_n_and_what_is_not_computed() -> None:
    groups = {"right": [1.0, 2.0, np.nan], "$wrong$": [], "none": [np.nan] * 1200}
    with axes() as ax:
        plot_distribution(groups, metric="entropy", unit="nats", note="sampler", ax=ax)
    assert rows_of(ax) == ["right  (n = 2, 1 NaN)", r"\$wrong\$  (n = 0)", "none  (n = 0, 1,200 NaN)"]
    assert ax.get_xlabel() == "entropy (nats)"
    assert caption(ax) == "n = 2 · 1,201 not computed · sampler"
    assert "not computed" in legend(ax)
    hatched = [bar.get_y() + bar.get_height() / 2 for bar in artist(ax, "missing")]
    assert hatched == [1, 2]
    assert all(bar.get_hatch() for bar in artist(ax, "missing"))


def test_infinite_values_stand_at_the_edge_with_their_number() -> None:
    with axes() as ax:
        plot_distribution(
            {"a": [-np.inf, -np.inf, -1.0, 0.0], "b": [np.inf, 1.0], "c": [-np.inf]}, metric="m", ax=ax
        )
    assert [text.get_text() for text in ax.texts if "∞" in text.get_text()] == [
        "◂ 2 × −∞",
        "1 × ∞ ▸",
        "◂ 1 × −∞",
    ]
    low, high = ax.get_xlim()
    assert low < -1
    assert high > 1
    assert np.isfinite([low, high]).all()
    assert all(np.isfinite(line.get_xdata()).all() for line in ax.lines)


def test_one_value_has_room_around_it() -> None:
    with axes() as ax:
        plot_distribution({"a": [3.0]}, metric="m", ax=ax)
    assert ax.get_xlim()[0] < 3 < ax.get_xlim()[1]


def test_groups_without_room_are_left_out_and_counted() -> None:
    groups = {f"group {i}": np.arange(5.0) for i in range(50)}
    with axes() as ax:
        plot_distribution(groups, metric="m", ax=ax)
    kept = len(rows_of(ax))
    assert 10 < kept < 50
    assert caption(ax) == f"n = {5 * kept} · {50 - kept} more groups without room"
    with axes(size=(7.0, rows_height(50))) as ax:
        plot_distribution(groups, metric="m", ax=ax)
    assert len(rows_of(ax)) == 50


def test_a_long_or_hostile_name_leaves_its_counts_readable() -> None:
    with axes() as ax:
        plot_distribution({"x" * 100_000: [1.0], "\x1b[31m$\n": [1.0]}, metric="m", ax=ax)
    assert rows_of(ax)[0] == "x" * 27 + "…  (n = 1)"
    assert rows_of(ax)[1].endswith("(n = 1)")
    assert "\x1b" not in rows_of(ax)[1]
