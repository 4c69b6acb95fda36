"""How a statistic is distributed over spans, group by group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from toolkit.characters import clip, count, visible
from toolkit.plots.arguments import vector
from toolkit.plots.keys import Key, Look, line_key, missing_fill, missing_key, number
from toolkit.plots.layout import (
    Floats,
    add_caption,
    counted,
    grid,
    label_rows,
    legend_above,
    make_axes,
    rows_height,
    rows_that_fit,
    say,
)
from toolkit.plots.style import Theme, theme_of
from toolkit.plots.text import drawable

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BOX, _CLOUD = 0.28, 0.3  # half heights of a box and of a cloud of points, in rows
_POINTS = 250  # values of a group up to which each one is a point


def plot_distribution(
    groups: Mapping[str, ArrayLike], *, metric: str, unit: str = "", note: str = "", ax: Axes | None = None
) -> Axes:
    """A row a group: its median, the middle half as a box, and whiskers from the 5th to the 95th percentile.

    Quantiles are values that occur (no interpolation). A group of up to 250 values shows each as a point too.
    Infinite values stand at the edge, as an arrow with their number. Groups that the axes has no room for are
    left out and counted.

    Parameters
    ----------
    groups : mapping of str to (n,) array_like
        Values of the statistic, from top to bottom; NaN, not computed, is left out and counted in the label.
    metric, unit : str
        Of the axis.
    note : str
        Estimator, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the statistic; group i is at y = i.

    Raises
    ------
    ToolkitError
        If a group is not a list of numbers.
    """
    values = {name: vector(group, f"groups[{name!r:.40}]") for name, group in groups.items()}
    ax = make_axes(ax, rows_height(len(values)))
    shown = dict(list(values.items())[: rows_that_fit(ax)])
    ax.set_xlabel(drawable(f"{metric} ({unit})" if unit else metric))
    label_rows(ax, [_label(name, group) for name, group in shown.items()])
    if not shown:
        say(ax, "no groups")
    _draw(ax, list(shown.values()))
    every = np.concatenate([np.empty(0), *shown.values()])
    parts = counted(int((~np.isnan(every)).sum()), not_computed=int(np.isnan(every).sum()))
    left_out = len(values) - len(shown)
    add_caption(ax, [*parts, f"{count(left_out, 'more group')} without room" if left_out else ""], note)
    return ax


def _label(name: str, group: Floats) -> str:
    missing = int(np.isnan(group).sum())
    counts = f"n = {len(group) - missing:,}" + (f", {missing:,} NaN" if missing else "")
    return f"{clip(visible(name[:60]), 28)}  ({counts})"


def _draw(ax: Axes, groups: list[Floats]) -> None:
    theme = theme_of(ax)
    grid(ax, "x")
    known = [group[~np.isnan(group)] for group in groups]
    rows = [i for i, group in enumerate(known) if len(group)]
    quantiles = np.array([np.quantile(known[i], _QUANTILES, method="inverted_cdf") for i in rows])
    _set_limits(ax, np.concatenate([quantiles.ravel(), *(group for group in known if len(group) <= _POINTS)]))
    keys = _draw_boxes(ax, np.array(rows), np.clip(quantiles, *ax.get_xlim()), theme) if rows else []
    for i, group in enumerate(known):
        if len(group) <= _POINTS:
            _draw_points(ax, i, group[np.isfinite(group)], theme)
        _say_infinite(ax, i, group, theme)
    empty = [i for i, group in enumerate(known) if not len(group)]
    if empty:
        ax.barh(empty, 1, 0.5, transform=ax.get_yaxis_transform(), label="_missing", **missing_fill(theme))
        keys.append(missing_key(theme))
    legend_above(ax, keys)


def _set_limits(ax: Axes, drawn: Floats) -> None:
    finite = drawn[np.isfinite(drawn)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    margin = 0.04 * (high - low) or max(abs(low) * 0.1, 0.5)
    ax.set_xlim(low - margin, high + margin)


def _draw_boxes(ax: Axes, rows: Floats, quantiles: Floats, theme: Theme) -> list[Key]:
    """rows (m,), quantiles (m, 5)."""
    low, lower, middle, upper, high = quantiles.T
    top, bottom = rows - _BOX, rows + _BOX
    whiskers = np.stack([low, rows, high, rows], axis=1).reshape(-1, 2, 2)
    boxes = np.stack([lower, top, upper, top, upper, bottom, lower, bottom], axis=1).reshape(-1, 4, 2)
    medians = np.stack([middle, top, middle, bottom], axis=1).reshape(-1, 2, 2)
    fill: Look = {"facecolor": theme.faint, "edgecolor": theme.muted, "linewidth": 0.8}
    ax.add_collection(
        LineCollection(list(whiskers), colors=theme.muted, linewidths=1.2, zorder=1, label="_whiskers"),
        autolim=False,
    )
    ax.add_collection(PolyCollection(list(boxes), zorder=2, label="_boxes", **fill), autolim=False)
    ax.add_collection(
        LineCollection(list(medians), colors=theme.ink, linewidths=2.2, zorder=4, label="_medians"),
        autolim=False,
    )
    return [
        line_key("median", {"color": theme.ink, "linewidth": 2.2}),
        (Patch(**fill), "middle half"),
        line_key("5 % to 95 %", {"color": theme.muted, "linewidth": 1.2}),
    ]


def _draw_points(ax: Axes, row: int, values: Floats, theme: Theme) -> None:
    # Spread by the golden ratio: evenly, the same each time, and no two neighbours side by side.
    half = _CLOUD * min(1, len(values) / 20)
    offset = (np.arange(1, len(values) + 1) * 0.6180339887 % 1 - 0.5) * 2 * half
    ax.plot(
        np.sort(values),
        row + offset,
        marker="o",
        markersize=2.6,
        markerfacecolor=theme.groups[0],
        markeredgewidth=0,
        alpha=0.55,
        linestyle="none",
        zorder=3,
        label=f"_points-{row}",
    )


def _say_infinite(ax: Axes, row: int, group: Floats, theme: Theme) -> None:
    for sign, place, align, arrow in ((-1, 0.0, "left", "◂ {} × {}"), (1, 1.0, "right", "{} × {} ▸")):
        n = int((group == sign * np.inf).sum())
        if n:
            ax.text(
                place,
                row - 0.42,
                arrow.format(f"{n:,}", number(sign * np.inf)),
                transform=ax.get_yaxis_transform(),
                ha=align,
                va="center",
                fontsize=7,
                color=theme.ink,
                zorder=5,
            )
