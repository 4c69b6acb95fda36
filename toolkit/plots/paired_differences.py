"""Two runs compared: what a metric differs by, of each estimator, and how sure each run was of each prompt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from toolkit.characters import count, quoted
from toolkit.errors import ToolkitError
from toolkit.plots.arguments import same_length, vector
from toolkit.plots.keys import Key, Look, line_key, number, of_group, reference
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
    sizes,
)
from toolkit.plots.style import group_style, theme_of

_OUTCOMES = ("wrong in both", "right in both", "right in {a} only", "right in {b} only", "not graded")
_MARKERS = ("x", "o", "v", "^", ".")


def plot_paired_differences(
    differences: pd.DataFrame,
    *,
    metric: str = "auroc",
    names: tuple[str, str] = ("A", "B"),
    limit: int = 20,
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A row an estimator, the largest gain on top: what the second run has more of a metric, with its interval.

    A point is filled where the interval does not hold 0, and hollow where it does. A line stands at 0.

    Parameters
    ----------
    differences : DataFrame
        As `toolkit.compare` gives it: columns metric, estimator, difference, difference_low, difference_high
        and n_prompts.
    metric : str
        Which of its metrics.
    names : (str, str)
        The first and the second run.
    limit : int
        Most rows, those with the largest differences either way; fewer where the axes has no room for them.
        What is left out is counted.
    note : str
        What was compared, for the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the difference, second less first; estimator i is at y = i.

    Raises
    ------
    ToolkitError
        The frame has no such metric, or has an estimator twice; `limit` is below 1.
    """
    if limit < 1:
        raise ToolkitError(f"limit is {limit}: give at least 1")
    table = _table(differences, metric)
    ax = make_axes(ax, rows_height(min(limit, len(table.names))))
    shown = table.largest(min(limit, rows_that_fit(ax)))
    ax.set_xlabel(f"{metric} of {names[1]} less that of {names[0]}")
    label_rows(ax, shown.names)
    if shown.names:
        legend_above(ax, _draw(ax, shown))
    else:
        say(ax, f"{metric} has no difference that is defined")
    left_out = len(table.names) - len(shown.names)
    parts = [sizes(table.n_prompts, "prompt")] if table.names else []
    parts += [f"{count(left_out, 'more estimator')} not shown"] * bool(left_out)
    parts += [f"{count(table.n_undefined, 'estimator')} undefined"] * bool(table.n_undefined)
    add_caption(ax, parts, note)
    return ax


def plot_paired_confidence(
    first: ArrayLike,
    second: ArrayLike,
    outcome_first: ArrayLike,
    outcome_second: ArrayLike,
    *,
    estimator: str = "confidence",
    names: tuple[str, str] = ("A", "B"),
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A point a prompt: how sure the first run was, across, and the second, up; its mark says which was right.

    Parameters
    ----------
    first, second : (n,) array_like
        Confidence of each run in its answer to a prompt. A prompt where either is NaN or infinite is left
        out, and counted.
    outcome_first, outcome_second : (n,) array_like
        0 is wrong; from 0.5 on counts as right; NaN is not graded.
    estimator : str
        What the confidence is.
    names : (str, str)
        The first and the second run.
    note : str
    ax : Axes, optional

    Returns
    -------
    Axes
        Both axes have the same limits; on the dashed line both runs were as sure.

    Raises
    ------
    ToolkitError
        The lengths differ.
    """
    x, y = vector(first, "first"), vector(second, "second")
    a, b = vector(outcome_first, "outcome_first"), vector(outcome_second, "outcome_second")
    same_length(first=x, second=y, outcome_first=a, outcome_second=b)
    ax = make_axes(ax)
    kept = np.isfinite(x) & np.isfinite(y)
    ax.set_xlabel(f"{estimator}, {names[0]}")
    ax.set_ylabel(f"{estimator}, {names[1]}")
    grid(ax)
    if kept.any():
        legend_above(ax, _draw_points(ax, x[kept], y[kept], _verdicts(a[kept], b[kept]), names))
    else:
        say(ax, "no prompt has a confidence in both runs")
    add_caption(ax, counted(int(kept.sum()), "prompt", not_computed=int((~kept).sum())), note)
    return ax


class _Table(NamedTuple):
    names: list[str]  # the largest gain first
    value: Floats
    low: Floats
    high: Floats
    n_prompts: Floats
    n_undefined: int

    def largest(self, n: int) -> _Table:
        """The n that differ most, in the order that they have."""
        rows = np.sort(np.argsort(-np.abs(self.value), kind="stable")[:n])
        return self._replace(
            names=[self.names[i] for i in rows],
            value=self.value[rows],
            low=self.low[rows],
            high=self.high[rows],
            n_prompts=self.n_prompts[rows],
        )


def _table(frame: pd.DataFrame, metric: str) -> _Table:
    needed = ("metric", "estimator", "difference", "difference_low", "difference_high", "n_prompts")
    missing = [name for name in needed if name not in frame]
    if missing:
        raise ToolkitError(f"the differences have no column {missing[0]}: give those of toolkit.compare")
    own = frame[(frame["metric"] == metric) & frame["estimator"].notna()]
    if own.empty:
        known = ", ".join(dict.fromkeys(frame.loc[frame["estimator"].notna(), "metric"])) or "none"
        raise ToolkitError(f"metric: the differences have no {quoted(metric)}: they have {known}")
    twice = own["estimator"].duplicated()
    if twice.any():
        name = quoted(str(own.loc[twice, "estimator"].iloc[0]))
        raise ToolkitError(f"the differences have {name} twice: give one row an estimator")
    known_rows = own[own["difference"].notna()].sort_values("difference", ascending=False, kind="stable")
    columns = [known_rows[name].to_numpy(np.float64) for name in needed[2:]]
    value, low, high, n_prompts = columns
    names = [str(name) for name in known_rows["estimator"]]
    return _Table(names, value, low, high, n_prompts, len(own) - len(known_rows))


def _draw(ax: Axes, table: _Table) -> list[Key]:
    theme = theme_of(ax)
    grid(ax, "x")
    heights = np.arange(len(table.names))
    look = of_group(group_style(theme, 0), line=False)
    some = ~np.isnan(table.low)
    ax.hlines(heights[some], table.low[some], table.high[some], color=look["color"], linewidth=1.3, zorder=2)
    apart = (table.low > 0) | (table.high < 0)
    keys: list[Key] = []
    for label, rows, face, said in (
        ("apart", apart, look["color"], "the interval does not hold 0"),
        ("together", ~apart, theme.paper, "it does" if apart.any() else "the interval holds 0"),
    ):
        if rows.any():
            own = {**look, "markerfacecolor": face, "markeredgewidth": 1.3}
            ax.plot(table.value[rows], heights[rows], zorder=3, label=f"_{label}", **own)
            keys.append(line_key(said, own))
    line = reference(theme)
    ax.axvline(0, zorder=1, label="_zero", **line)
    return [*keys, line_key(f"no difference, {number(0)}", line)]


def _verdicts(a: Floats, b: Floats) -> NDArray[np.intp]:
    """Which of `_OUTCOMES` each prompt is."""
    right_a, right_b = a >= 0.5, b >= 0.5
    known = ~(np.isnan(a) | np.isnan(b))
    both = np.where(right_b, 1, 2)
    return np.where(known, np.where(right_a, both, np.where(right_b, 3, 0)), 4).astype(np.intp)


def _draw_points(
    ax: Axes, x: Floats, y: Floats, verdicts: NDArray[np.intp], names: tuple[str, str]
) -> list[Key]:
    theme = theme_of(ax)
    colours = (theme.muted, theme.muted, theme.wrong, theme.right, theme.muted)
    keys: list[Key] = []
    for kind, (text, marker, colour) in enumerate(zip(_OUTCOMES, _MARKERS, colours, strict=True)):
        own = verdicts == kind
        if own.any():
            look: Look = {"color": colour, "marker": marker, "markersize": 5.0, "linestyle": "none"}
            if marker == "o":
                look["markerfacecolor"] = theme.paper
            ax.plot(x[own], y[own], zorder=3, label=f"_outcome-{kind}", **look)
            said = text.format(a=names[0], b=names[1])
            keys.append(line_key(f"{said} ({int(own.sum()):,})", look))
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    margin = 0.04 * (high - low) or 1.0
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(low - margin, high + margin)
    line = reference(theme)
    ax.axline((low, low), slope=1, zorder=1, label="_same", **line)
    return [*keys, line_key("as sure in both", line)]
