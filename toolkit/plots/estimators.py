"""Estimators compared: what each is worth, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from toolkit.characters import count, quoted
from toolkit.errors import ToolkitError
from toolkit.plots.keys import Key, Look, line_key, number, of_group, reference
from toolkit.plots.layout import (
    Floats,
    add_caption,
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
from toolkit.stats.metrics import METRICS

_BASELINES = ("random", "n_tokens")
_STEP, _SPREAD = 0.24, 0.36  # between the runs of a row, and the most above and below its middle


def plot_estimators(
    evaluation: pd.DataFrame,
    *,
    metric: str = "auroc",
    limit: int = 20,
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A row an estimator, the best on top: a metric of it, with its interval.

    Baselines (`random`, and `n_tokens`, the length alone) are always among the rows, hollow. Of several runs,
    each has its colour and marker, side by side in the row; the rows are then in the order of their mean. A
    line stands where chance is, for metrics that know it.

    Parameters
    ----------
    evaluation : DataFrame
        As `toolkit.evaluate` returns it, with a column `run` where there are several.
    metric : str
        A metric of it, with the columns `metric_low` and `metric_high`.
    limit : int
        Most rows; fewer where the axes has no room for them. What is left out is counted.
    note : str
        What was judged, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the metric; estimator i is at y = i.

    Raises
    ------
    ToolkitError
        If the frame has no such metric or has an estimator twice in a run, or `limit` is below 1.
    """
    if limit < 1:
        raise ToolkitError(f"limit is {limit}: give at least 1")
    table = _table(evaluation, metric)
    known = int((~np.isnan(table.value)).any(axis=1).sum())
    ax = make_axes(ax, rows_height(min(limit, known)))
    rows = _best(table, metric, min(limit, rows_that_fit(ax)))
    shown = table.take(rows)
    ax.set_xlabel(metric if _higher_is_better(metric) else f"{metric}, lower is better")
    label_rows(ax, shown.names)
    if rows:
        legend_above(ax, _draw(ax, shown, metric))
    else:
        say(ax, f"{metric} is undefined for every estimator" if len(table.names) else "no estimators")
    add_caption(ax, _counts(evaluation, table, known - len(rows), known), note)
    return ax


class _Table(NamedTuple):
    names: list[str]
    runs: list[str]
    value: Floats  # (n_estimators, n_runs), as are the ends
    low: Floats
    high: Floats

    def take(self, rows: Sequence[int]) -> _Table:
        index = np.array(rows, np.intp)
        names = [self.names[i] for i in rows]
        return self._replace(names=names, value=self.value[index], low=self.low[index], high=self.high[index])


def _table(frame: pd.DataFrame, metric: str) -> _Table:
    columns = [metric, f"{metric}_low", f"{metric}_high"]
    _check(frame, columns)
    runs = frame["run"].astype(str) if "run" in frame else pd.Series("", index=frame.index, dtype=str)
    keys = pd.MultiIndex.from_arrays([frame["estimator"].astype(str), runs])
    twice = keys.duplicated()
    if twice.any():
        name = quoted(keys[twice][0][0])
        raise ToolkitError(f"the evaluation has {name} twice in a run: give one row an estimator and run")
    names, labels = (list(dict.fromkeys(keys.get_level_values(level))) for level in (0, 1))
    rows = frame[columns].astype(np.float64).set_axis(keys)
    value, low, high = (
        rows[column].unstack().reindex(index=names, columns=labels).to_numpy() for column in columns
    )
    return _Table(names, labels, value, low, high)


def _check(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    if "estimator" not in frame or any(column not in frame for column in columns):
        known = [str(column) for column in frame.columns if f"{column}_low" in frame]
        said = f"it has {', '.join(known)}" if known else "it is not of toolkit.evaluate"
        raise ToolkitError(f"metric: the evaluation has no {quoted(columns[0])}: {said}")


def _higher_is_better(metric: str) -> bool:
    return METRICS[metric].higher_is_better if metric in METRICS else True


def _chance(metric: str) -> float | None:
    """What a ranking by chance has, where that does not depend on the data."""
    if metric in ("auroc", "auroc_within"):
        return 0.5
    return 0.0 if metric.startswith("prr") or metric.endswith("_difference") else None


def _best(table: _Table, metric: str, limit: int) -> list[int]:
    """Rows of the best estimators and of the baselines, the best first; a mean over runs decides."""
    known = ~np.isnan(table.value)
    counts = known.sum(axis=1)
    means = np.where(known, table.value, 0).sum(axis=1) / np.maximum(counts, 1)
    order = np.argsort(-means if _higher_is_better(metric) else means, kind="stable")
    ranked = [int(i) for i in order if counts[i]]
    baselines = [i for i in ranked if table.names[i] in _BASELINES]
    others = [i for i in ranked if table.names[i] not in _BASELINES]
    kept = {*others[: max(limit - len(baselines), 0)], *baselines[:limit]}
    return [i for i in ranked if i in kept]


def _draw(ax: Axes, table: _Table, metric: str) -> list[Key]:
    theme = theme_of(ax)
    grid(ax, "x")
    keys: list[Key] = []
    n_runs = len(table.runs)
    step = min(_STEP, 2 * _SPREAD / max(n_runs - 1, 1))
    shifts = step * (np.arange(n_runs) - (n_runs - 1) / 2)
    baseline = np.isin(table.names, _BASELINES)
    for run, shift in enumerate(shifts):
        group = group_style(theme, run)
        look = of_group(group, line=False)
        for hollow in (False, True):
            rows = np.flatnonzero(~np.isnan(table.value[:, run]) & (baseline == hollow))
            face = theme.paper if hollow else group.colour
            label = f"_{'baselines' if hollow else 'estimators'}-{run}"
            _draw_points(
                ax, table, run, rows, rows + shift, {**look, "markerfacecolor": face, "label": label}
            )
        if n_runs > 1:
            keys.append(line_key(table.runs[run], look))
    if n_runs == 1:
        _write_values(ax, table.value[:, 0])
    else:
        ax.hlines(
            np.arange(1, len(table.names)) - 0.5, 0, 1, transform=ax.get_yaxis_transform(), colors=theme.faint,
            linewidths=0.6, zorder=0.5,
        )  # fmt: skip
    if baseline.any():
        hollow_look = {"color": theme.ink, "markerfacecolor": theme.paper}
        keys.append(line_key("baseline", of_group(group_style(theme, 0), line=False) | hollow_look))
    return keys + _draw_chance(ax, metric)


def _draw_points(ax: Axes, table: _Table, run: int, rows: Any, heights: Floats, look: Look) -> None:
    value, low, high = (part[rows, run] for part in (table.value, table.low, table.high))
    # An interval that bias has moved off its value, as those of ECE, still ends where it ends.
    some = ~np.isnan(low)
    ax.hlines(heights[some], low[some], high[some], color=look["color"], linewidth=1.3, zorder=2)
    ax.plot(value, heights, zorder=3, markeredgewidth=1.3, **look)


def _write_values(ax: Axes, values: Floats) -> None:
    size = ax.yaxis.get_ticklabels()[0].get_fontsize()
    for row, value in enumerate(values):
        ax.text(
            1.01,
            row,
            f"{value:.2f}".replace("-", "−"),
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize=size,
            color=theme_of(ax).ink,
        )


def _draw_chance(ax: Axes, metric: str) -> list[Key]:
    chance = _chance(metric)
    if chance is None:
        return []
    look = reference(theme_of(ax))
    ax.axvline(chance, zorder=1, label="_chance", **look)
    return [line_key(f"chance, {number(chance)}", look)]


def _counts(frame: pd.DataFrame, table: _Table, left_out: int, known: int) -> list[str]:
    parts = [sizes(frame["n"])] if "n" in frame else []
    parts += [f"{count(left_out, 'more estimator')} not shown"] * bool(left_out)
    undefined = len(table.names) - known
    return parts + [f"{count(undefined, 'estimator')} undefined"] * bool(undefined)
