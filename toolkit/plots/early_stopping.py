"""Early stopping: how many tokens a threshold saves, and what that does to the vote."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.plots.keys import Key, Look, line_key, of_group, reference
from toolkit.plots.layout import (
    Floats,
    add_caption,
    grid,
    legend_above,
    make_axes,
    percent,
    say,
    size_in_inches,
    sizes,
)
from toolkit.plots.style import group_style, theme_of

_COLUMNS = ("percentile", "saved", "accuracy", "low", "high", "accuracy_whole")
_LABEL_INCHES = 0.22  # between the percentiles written on two intervals


def plot_early_stopping(frame: pd.DataFrame, *, note: str = "", ax: Axes | None = None) -> Axes:
    """Accuracy of the vote against the share of tokens saved; a point a percentile, which stands above it.

    A dashed line is the accuracy of the vote over whole samples. Of several runs each has its colour.

    Parameters
    ----------
    frame : DataFrame
        As `toolkit.judging.voting.early_stopping_df` returns it, with a column `run` where there are several:
        percentile, saved, accuracy with low and high, accuracy_whole, n. Rows that are NaN, not computed, are
        left out and counted.
    note : str
        Warm-up, window, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the share of tokens saved, y accuracy.

    Raises
    ------
    ToolkitError
        If a column is missing.
    """
    missing = [column for column in _COLUMNS if column not in frame]
    if missing:
        raise ToolkitError(
            f"frame has no column {missing[0]!r}: give a table of toolkit.judging.voting.early_stopping_df"
        )
    known = frame[frame["saved"].notna() & frame["accuracy"].notna()]
    ax = make_axes(ax)
    ax.set_xlabel("tokens saved")
    ax.set_ylabel("accuracy of the vote")
    for axis in (ax.xaxis, ax.yaxis):
        percent(axis)
    if len(known):
        legend_above(ax, _draw(ax, known))
    else:
        say(ax, "no threshold has an accuracy")
    add_caption(ax, _counts(frame, known), note)
    return ax


def _draw(ax: Axes, known: pd.DataFrame) -> list[Key]:
    theme = theme_of(ax)
    grid(ax)
    runs = known["run"].astype(str) if "run" in known else pd.Series("", index=known.index)
    names = list(dict.fromkeys(runs))
    keys: list[Key] = []
    for i, name in enumerate(names):
        rows = known[runs == name].sort_values("percentile")
        group = group_style(theme, i)
        look = of_group(group)
        _draw_run(ax, rows, look, name)
        label = "vote of what is left, by percentile"
        keys.append(line_key(name if len(names) > 1 else label, look))
    ax.set_xlim(min(-0.02 * known["saved"].max(), -0.005), max(known["saved"].max() * 1.12, 0.05))
    return [*keys, line_key("vote of whole samples", reference(theme))]


def _draw_run(ax: Axes, rows: pd.DataFrame, look: Look, name: str) -> None:
    saved, accuracy, low, high = (
        rows[column].to_numpy(np.float64) for column in ("saved", "accuracy", "low", "high")
    )
    ax.vlines(saved, low, high, color=look["color"], linewidth=1.2, zorder=2)
    ax.plot(saved, accuracy, zorder=3, label=f"_{name}", **look)
    whole = rows["accuracy_whole"].to_numpy(np.float64)
    whole = whole[~np.isnan(whole)]
    if len(whole):
        dashed = reference(theme_of(ax)) | {"color": look["color"]}
        ax.axhline(whole[0], zorder=1, label="_whole", **dashed)
    _write_percentiles(
        ax, saved, np.where(np.isnan(high), accuracy, high), rows["percentile"].to_numpy(np.float64)
    )


def _write_percentiles(ax: Axes, saved: Floats, high: Floats, percentiles: Floats) -> None:
    """The percentile on each interval; one that would run into the one before is left out."""
    apart = _LABEL_INCHES * (float(saved.max()) or 1) / size_in_inches(ax)[0]
    last = -np.inf
    for x, y, percentile in zip(saved, high, percentiles, strict=True):
        if x - last >= apart:
            last = x
            ax.annotate(
                f"{percentile:g}",
                (x, y),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=theme_of(ax).ink,
                zorder=5,
            )


def _counts(frame: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    parts = [sizes(known["n"], "prompt")] if "n" in known else []
    missing = len(frame) - len(known)
    return parts + [f"{count(missing, 'threshold')} not computed"] * bool(missing)
