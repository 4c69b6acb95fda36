"""What the analyses draw beside the plots of `toolkit.plots`: numbers with intervals, in their style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from toolkit.plots.layout import add_caption, grid, label_rows, legend_above, make_axes
from toolkit.plots.style import group_style, theme_of
from toolkit.plots.text import drawable
from toolkit.stats.bootstrap import Interval

Named = Mapping[str, Interval]


def plot_points(
    groups: Mapping[str, Named],
    *,
    quantity: str,
    note: str = "",
    order: Sequence[str] = (),
    reference: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A row a name, with the value and interval of each group that has it.

    Parameters
    ----------
    groups : mapping of str to mapping of str to Interval
        One group needs no legend.
    quantity : str
        Of the axis, with its unit.
    note : str
        Of the caption: n, estimator, sampler, what the intervals are.
    order : sequence of str
        Of the rows; others follow as they are met.
    reference : float, optional
        A value that a line is drawn at.
    ax : Axes, optional
    """
    ax = make_axes(ax)
    there = dict.fromkeys(row for named in groups.values() for row in named)
    rows = [*(row for row in order if row in there), *(row for row in there if row not in order)]
    if reference is not None:
        ax.axvline(reference, color=theme_of(ax).muted, linestyle=(0, (4, 2)), linewidth=1, zorder=1)
    steps = (np.arange(len(groups)) - (len(groups) - 1) / 2) * min(0.5, 0.7 / len(groups))
    keys = []
    for place, (group, named) in enumerate(groups.items()):
        at = [rows.index(row) + steps[place] for row in named]
        keys.append((_points(ax, list(named.values()), at, place, "x"), group))
    label_rows(ax, rows)
    ax.set_xlabel(drawable(quantity))
    grid(ax, "x")
    legend_above(ax, keys if len(groups) > 1 else [])
    add_caption(ax, [], note)
    return ax


def plot_lines(
    x: Sequence[float],
    series: Mapping[str, Sequence[Interval]],
    *,
    across: str,
    quantity: str,
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Values with intervals against a few values of x, a line a series.

    Parameters
    ----------
    x : sequence of float
        They become the ticks.
    series : mapping of str to sequence of Interval
        One for each of x. One series needs no legend.
    across, quantity : str
        Of the axes, with their units.
    note : str
        Of the caption.
    ax : Axes, optional
    """
    ax = make_axes(ax)
    shift = 0.006 * (max(x) - min(x))
    keys = []
    for place, (name, found) in enumerate(series.items()):
        at = [value + (place - (len(series) - 1) / 2) * shift for value in x]
        handle = _points(ax, found, at, place, "y")
        look = group_style(theme_of(ax), place)
        ax.plot(at, [one.value for one in found], color=look.colour, linestyle=look.line, linewidth=1.4)
        handle.set(linestyle=look.line, linewidth=1.4)
        keys.append((handle, name))
    ax.set_xticks(list(x), [f"{value:g}" for value in x])
    ax.set_xlabel(drawable(across))
    ax.set_ylabel(drawable(quantity))
    grid(ax)
    legend_above(ax, keys if len(series) > 1 else [])
    add_caption(ax, [], note)
    return ax


def _points(ax: Axes, found: Sequence[Interval], at: Sequence[float], place: int, along: str) -> Line2D:
    """Markers with intervals; what a legend shows for them."""
    look = group_style(theme_of(ax), place)
    values, low, high = (np.array([one[i] for one in found], np.float64) for i in range(3))
    ends = np.nan_to_num(np.maximum([values - low, high - values], 0))
    where = (values, at) if along == "x" else (at, values)
    errors: Any = {"xerr" if along == "x" else "yerr": ends}
    ax.errorbar(
        *where,
        **errors,
        linestyle="none",
        marker=look.marker,
        markersize=5,
        color=look.colour,
        elinewidth=1.2,
        capsize=2.5,
        zorder=3,
    )
    return Line2D([], [], color=look.colour, marker=look.marker, markersize=5, linestyle="none")
