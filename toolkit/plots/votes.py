"""Accuracy of votes against the number of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.plots.keys import Key, line_key, of_group, reference
from toolkit.plots.layout import (
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

_COLUMNS = ("rule", "k", "accuracy", "low", "high")
_BOUND = "pass"
_DODGE = 0.045  # of a doubling, between neighbouring rules


def plot_votes(votes: pd.DataFrame, *, note: str = "", ax: Axes | None = None) -> Axes:
    """A line a rule: how often the vote of k samples is right, with its interval.

    The rules stand a little apart, so that those of equal accuracy are all seen. The rule `pass` is drawn as
    what no vote can exceed: one of the k samples is right.

    Parameters
    ----------
    votes : DataFrame
        As `toolkit.judging.voting.vote_df` returns it, of one run: rule, k, accuracy, low, high, n. NaN
        accuracies, not computed, are left out and counted.
    note : str
        Sampler, run, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the number of samples k, logarithmic; y is accuracy.

    Raises
    ------
    ToolkitError
        If a column is missing, or the frame has several runs.
    """
    missing = [column for column in _COLUMNS if column not in votes]
    if missing:
        raise ToolkitError(
            f"votes has no column {missing[0]!r}: give a table of toolkit.judging.voting.vote_df"
        )
    if "run" in votes and votes["run"].nunique() > 1:
        raise ToolkitError(f"votes has {votes['run'].nunique()} runs: give those of one, an axes a run")
    known = votes[votes["accuracy"].notna()].sort_values("k")
    ax = make_axes(ax)
    ax.set_xlabel("samples that vote, k")
    ax.set_ylabel("accuracy")
    percent(ax.yaxis)
    if len(known):
        _set_samples(ax, known["k"].to_numpy(np.float64))
        legend_above(ax, _draw(ax, known, list(dict.fromkeys(votes["rule"]))))
    else:
        say(ax, "no vote has an accuracy")
    add_caption(ax, _counts(votes, known), note)
    return ax


def _set_samples(ax: Axes, k: Any) -> None:
    ax.set_xscale("log", base=2)
    sizes = np.unique(k)
    # Numbers that stand apart by half an em at least; the largest is always said.
    apart = 0.35 * np.log2(max(sizes[-1] / sizes[0], 2)) / size_in_inches(ax)[0]
    said = [sizes[-1]]
    for size in sizes[-2::-1]:
        if np.log2(said[-1] / size) >= apart:
            said.append(size)
    ax.xaxis.set_major_locator(FixedLocator(said[::-1]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    grid(ax)


def _draw(ax: Axes, known: pd.DataFrame, rules: list[str]) -> list[Key]:
    theme = theme_of(ax)
    votes = [rule for rule in rules if rule != _BOUND]
    keys = []
    for i, rule in enumerate(votes):
        rows = known[known["rule"] == rule]
        group = group_style(theme, i)
        look = of_group(group)
        k = rows["k"].to_numpy(np.float64) * 2 ** (_DODGE * (i - (len(votes) - 1) / 2))
        accuracy, low, high = (rows[name].to_numpy(np.float64) for name in ("accuracy", "low", "high"))
        ax.vlines(k, low, high, color=group.colour, linewidth=1.1, alpha=0.8, zorder=2)
        ax.plot(k, accuracy, zorder=3, label=f"_{rule}", **look)
        keys.append(line_key(rule, look))
    if _BOUND in rules:
        rows = known[known["rule"] == _BOUND]
        bound = reference(theme, dotted=True)
        ax.plot(rows["k"], rows["accuracy"], zorder=2, label=f"_{_BOUND}", **bound)
        keys.append(line_key("pass: one of k is right", bound))
    return keys


def _counts(votes: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    parts = [sizes(known["n"], "prompt")] if "n" in known else []
    undefined = int(votes["n_undefined"].max()) if "n_undefined" in votes and len(votes) else 0
    missing = len(votes) - len(known)
    parts += [f"up to {count(undefined, 'prompt')} left out"] * bool(undefined)
    return parts + [f"{count(missing, 'vote')} not computed"] * bool(missing)
