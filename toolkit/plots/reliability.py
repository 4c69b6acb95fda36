"""Reliability diagram: how often an answer of a given confidence is right."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from toolkit.plots.keys import Key, line_key, number, of_group, reference
from toolkit.plots.layout import (
    Floats,
    add_caption,
    counted,
    grid,
    legend_above,
    make_axes,
    percent,
    say,
    size_in_inches,
)
from toolkit.plots.style import Theme, group_style, theme_of
from toolkit.plots.text import drawable
from toolkit.stats.calibration import Binning, ReliabilityCurve, ece, reliability_curve
from toolkit.stats.tally import judge

_LEAST_LETTERS = 5.0  # points
_STRIP = (-0.26, -0.06)  # where the bars of counts stand, below accuracy 0


def plot_reliability(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    bins: int = 10,
    binning: Binning = "equal_width",
    level: float = 0.95,
    estimator: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against mean confidence in bins, with intervals, beside the diagonal of perfect calibration.

    Below the diagram stand the bins with the number of answers in each. The caption has the expected
    calibration error of these bins.

    Parameters
    ----------
    confidence : (n,) array_like
        Probabilities in [0, 1]; NaN, not computed, is left out and counted.
    correct : (n,) array_like of 0 and 1
        NaN is not graded.
    bins, binning, level
        As in `toolkit.stats.calibration.reliability_curve`: Wilson's intervals, which take answers for
        independent.
    estimator : str
        Its name, for the axis.
    note : str
        Sampler, run, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is confidence, y accuracy.

    Raises
    ------
    ToolkitError
        As `reliability_curve` does.
    """
    judged = judge(confidence, correct)
    curve = reliability_curve(judged.confidence, judged.outcome, bins=bins, binning=binning, level=level)
    ax = make_axes(ax)
    _set_axes(ax, estimator)
    if judged.n:
        keys = _draw(ax, curve, level)
        legend_above(ax, keys)
    else:
        say(ax, "no graded answer has a confidence")
    parts = counted(judged.n, not_computed=judged.n_undefined, not_graded=judged.n_ungraded)
    if judged.n:
        error = ece(judged.confidence, judged.outcome, bins=bins, binning=binning)
        parts.append(f"ECE {number(error)} in {bins} {binning.replace('_', '-')} bins")
    add_caption(ax, parts, note)
    return ax


def _set_axes(ax: Axes, estimator: str) -> None:
    ax.set_xlabel(f"confidence: {drawable(estimator)}" if estimator else "confidence")
    ax.set_ylabel("accuracy")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(_STRIP[0], 1.04)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([0, 0.25, 0.5, 0.75, 1])
    percent(ax.yaxis)
    ax.spines["left"].set_bounds(0, 1)
    grid(ax)


def _draw(ax: Axes, curve: ReliabilityCurve, level: float) -> list[Key]:
    theme, group = theme_of(ax), group_style(theme_of(ax), 0)
    diagonal = reference(theme)
    ax.plot([0, 1], [0, 1], zorder=1.5, label="_diagonal", **diagonal)
    points = of_group(group) | {"linewidth": 1.4}
    ax.errorbar(
        curve.mean_confidence,
        curve.accuracy,
        yerr=np.maximum([curve.accuracy - curve.low, curve.high - curve.accuracy], 0),
        capsize=2.5,
        elinewidth=1.1,
        zorder=3,
        label="_accuracy",
        **points,
    )
    _draw_counts(ax, curve, theme)
    return [
        line_key(f"accuracy, {100 * level:g} % interval", points),
        line_key("perfectly calibrated", diagonal),
        (Patch(facecolor=theme.alternative), "answers in the bin"),
    ]


def _draw_counts(ax: Axes, curve: ReliabilityCurve, theme: Theme) -> None:
    floor, top = _STRIP
    # A bin of equal mass may be a single value, and its bar still has to be seen.
    width = np.maximum(curve.upper - curve.lower, 0.008)
    middle = (curve.lower + curve.upper) / 2
    heights = curve.n / curve.n.max() * (top - floor - 0.07)
    ax.bar(
        middle,
        heights,
        0.94 * width,
        bottom=floor,
        color=theme.alternative,
        linewidth=0,
        zorder=2,
        label="_counts",
    )
    ax.axhline(0, color=theme.muted, linewidth=0.8, zorder=2)
    _write_counts(ax, middle, floor + heights, curve.n, width)


def _write_counts(ax: Axes, middle: Floats, top: Floats, counts: NDArray[np.int64], width: Floats) -> None:
    """The number above each bar, in letters that all bars have room for; left out where a bar has none."""
    points = 72 * 0.85 * size_in_inches(ax)[0] * width / (0.74 * np.char.str_len(counts.astype(str)))
    size = float(np.clip(points[points >= _LEAST_LETTERS].min(initial=7), _LEAST_LETTERS, 7))
    ink = theme_of(ax).ink
    for x, y, n, room in zip(middle, top, counts, points, strict=True):
        if room >= size:
            ax.text(x, y + 0.008, f"{n:,}", ha="center", va="bottom", fontsize=size, color=ink)
