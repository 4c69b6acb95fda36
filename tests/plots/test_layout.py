"""Captions, legends and titles have their places, whatever the size, the scale and the theme."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from tests.plots.drawn import axes, caption, legend
from toolkit.plots.layout import (
    add_caption,
    add_title,
    counted,
    label_rows,
    legend_above,
    percent,
    rows_height,
    rows_that_fit,
    size_in_inches,
)

NOTE = (
    "greedy, temperature 0.7, top_p 0.95, top_k 40, min_p 0, mean_logprob of the answer of data/raw/capitals"
)
KEYS = [(Line2D([], []), f"estimator_{i}") for i in range(7)]


def beside(ax: Axes) -> list[Bbox]:
    """The places of caption and title, in the order they were added."""
    return [one.get_window_extent() for one in ax.get_children() if type(one).__name__ == "_Line"]


@pytest.mark.parametrize("size", [(7.0, 4.4), (4.2, 2.6), (2.4, 3.8), (12.0, 3.0)])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_title_legend_axes_label_and_caption_stand_below_each_other(
    size: tuple[float, float], scale: str
) -> None:
    with axes(size=size) as ax:
        ax.plot([1, 10], [1, 2])
        ax.set_xscale(scale)
        ax.set_xlabel("label")
        legend_above(ax, KEYS)
        add_caption(ax, counted(12, "prompt"), NOTE)
        add_title(ax, "A title that is long enough to need two lines where an axes is small")
    below, above = beside(ax)
    key = ax.get_legend().get_window_extent()
    label = ax.xaxis.label.get_window_extent()
    figure = ax.figure.bbox
    assert figure.y1 >= above.y1 > above.y0 > key.y1 > key.y0 >= ax.bbox.y1
    assert ax.bbox.y0 > label.y1 > label.y0 > below.y1 > below.y0 >= figure.y0
    for box in (above, key, below):
        assert figure.x0 <= box.x0 < box.x1 <= figure.x1
    assert above.x0 == pytest.approx(below.x0)


def test_the_caption_is_wrapped_anew_where_the_figure_changed_its_size() -> None:
    with axes(size=(9.0, 4.0)) as ax:
        add_caption(ax, ["n = 3"], NOTE)
    (line,) = (one for one in ax.get_children() if type(one).__name__ == "_Line")
    lines = line.get_text().count("\n")
    ax.figure.set_size_inches(3.0, 4.0)
    FigureCanvasAgg(ax.figure).draw()
    assert line.get_text().count("\n") > lines
    assert caption(ax) == f"n = 3 · {NOTE}"


@pytest.mark.parametrize("wide", [2.0, 2.3, 2.6, 2.9, 3.2, 3.6])
def test_a_caption_keeps_a_name_and_its_value_on_a_line(wide: float) -> None:
    with axes(size=(wide, 3.0)) as ax:
        add_caption(ax, ["n = 1,200 tokens"], "temperature 0.7, top_p 0.95, top_k 40, min_p 0, seed −1")
    (line,) = (one for one in ax.get_children() if type(one).__name__ == "_Line")
    starts = [part.lstrip() for part in line.get_text().split("\n")]
    assert len(starts) > 1
    assert not any(start[:1].isdigit() or start[:1] in "·−" for start in starts)


def test_a_caption_and_a_title_are_no_formulas_and_hide_nothing() -> None:
    with axes() as ax:
        add_caption(ax, ["n = $1$", ""], "  a\nb\x1b  ")
        add_title(ax, "$x$ \u202e")
    assert caption(ax) == r"n = \$1\$ · a↵b<U+001B>"
    assert len(beside(ax)) == 2


def test_without_keys_there_is_no_legend() -> None:
    with axes() as ax:
        legend_above(ax, [])
    assert legend(ax) == []
    assert ax.get_legend() is None


def test_a_legend_has_fewer_columns_in_a_small_figure() -> None:
    heights = {}
    for wide in (9.0, 4.2, 2.2):
        with axes(size=(wide, 4.0)) as ax:
            legend_above(ax, KEYS)
        box = ax.get_legend().get_window_extent()
        heights[wide] = box.height
        assert ax.figure.bbox.x0 <= box.x0 < box.x1 <= ax.figure.bbox.x1
        assert legend(ax) == [f"estimator_{i}" for i in range(7)]
    assert heights[2.2] > heights[4.2] > heights[9.0]


def test_an_axes_shares_its_figure_with_others() -> None:
    with axes(size=(8.0, 6.0)) as ax:
        assert size_in_inches(ax) == (8.0, 6.0)
        grid = ax.figure.add_gridspec(2, 4)
        assert size_in_inches(ax.figure.add_subplot(grid[0, 1:3])) == (4.0, 3.0)
        assert size_in_inches(ax.figure.add_axes((0.1, 0.1, 0.5, 0.25))) == pytest.approx((4.0, 1.5))
        uneven = ax.figure.add_gridspec(2, 2, height_ratios=[1, 3], width_ratios=[3, 1])
        assert size_in_inches(ax.figure.add_subplot(uneven[1, 1])) == (2.0, 4.5)
        ax.remove()


@pytest.mark.parametrize("n", [1, 5, 20, 50, 200])
def test_a_figure_of_the_height_asked_for_has_room_for_all_rows(n: int) -> None:
    with axes(size=(7.0, rows_height(n))) as ax:
        assert rows_that_fit(ax) >= n
        label_rows(ax, [f"row {i}" for i in range(n)])
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"row {i}" for i in range(n)]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # from top to bottom


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0 %"), (0.25, "25 %"), (0.125, "12.5 %"), (0.1 + 0.2, "30 %"), (-0.5, "−50 %")]
)
def test_shares_are_said_with_the_digits_they_need(share: float, said: str) -> None:
    with axes() as ax:
        percent(ax.xaxis)
        assert ax.xaxis.get_major_formatter()(share) == said


def test_counts_say_what_is_left_out_and_nothing_else() -> None:
    assert counted(1, "token") == ["n = 1 token"]
    assert counted(1200, not_computed=0) == ["n = 1,200"]
    assert counted(0, "prompt", not_computed=3, not_graded=1000) == [
        "n = 0 prompts",
        "3 not computed",
        "1,000 not graded",
    ]
