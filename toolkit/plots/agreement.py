"""Agreement of the samples against the confidence in the answer: two kinds of certainty, and who is right."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.plots.arguments import same_length, vector
from toolkit.plots.keys import Key, Look, line_key
from toolkit.plots.layout import (
    Floats,
    add_caption,
    counted,
    grid,
    legend_above,
    make_axes,
    say,
)
from toolkit.plots.style import Theme, theme_of
from toolkit.plots.text import drawable

_MANY = 3000  # points from which they are small and pale


def plot_agreement(
    agreement: ArrayLike,
    confidence: ArrayLike,
    correct: ArrayLike | None = None,
    *,
    estimator: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A point a prompt: how far its samples agree, and how confident an estimator is.

    Right and wrong answers differ in colour and marker, and stand a little to the left and right of their
    agreement, since samples that are counted give few different shares. Infinite confidences stand at the edge
    as triangles.

    Parameters
    ----------
    agreement : (n,) array_like
        In [0, 1], the share of the samples that say the same.
    confidence : (n,) array_like
        Any statistic that rises with certainty. Prompts where either is NaN, not computed, are left out and
        counted.
    correct : (n,) array_like, optional
        1 right, 0 wrong, between them partly right; NaN is not graded.
    estimator : str
        Name of the confidence, for the axis.
    note : str
        Sampler, run, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is agreement, y confidence.

    Raises
    ------
    ToolkitError
        If lengths differ, or an agreement is outside [0, 1].
    """
    x, y = vector(agreement, "agreement"), vector(confidence, "confidence")
    outcome = np.full(len(x), np.nan) if correct is None else vector(correct, "correct")
    same_length(agreement=x, confidence=y, correct=outcome)
    outside = x[(x < 0) | (x > 1)]
    if len(outside):
        raise ToolkitError(f"agreement holds {outside[0]:g}: it is a share, in [0, 1]")
    known = ~(np.isnan(x) | np.isnan(y))
    ax = make_axes(ax)
    ax.set_xlabel("agreement of the samples, share")
    ax.set_ylabel(drawable(estimator) if estimator else "confidence")
    ax.set_xlim(-0.04, 1.04)
    if known.any():
        grid(ax)
        legend_above(ax, _draw(ax, x[known], y[known], outcome[known], graded=correct is not None))
    else:
        say(ax, "no prompt has both an agreement and a confidence")
    ungraded = 0 if correct is None else int((known & np.isnan(outcome)).sum())
    infinite = int((known & np.isinf(y)).sum())
    parts = counted(int(known.sum()), "prompt", not_computed=int((~known).sum()), not_graded=ungraded)
    add_caption(ax, [*parts, f"{infinite:,} infinite" if infinite else ""], note)
    return ax


def _draw(ax: Axes, x: Floats, y: Floats, outcome: Floats, *, graded: bool) -> list[Key]:
    theme = theme_of(ax)
    low, high = _set_limits(ax, y)
    shift = _shift(x)
    keys = []
    for label, which, side, look in _kinds(theme, outcome, graded):
        if which.any():
            look |= {"markersize": 5.0, "alpha": 0.8} if len(x) < _MANY else {"markersize": 3.0, "alpha": 0.4}
            inside = which & np.isfinite(y)
            ax.plot(
                x[inside] + side * shift,
                y[inside],
                label=f"_{label}",
                rasterized=len(x) > _MANY,
                zorder=3,
                **look,
            )
            beyond = which & np.isinf(y)
            for edge, marker in ((low, "v"), (high, "^")):
                at = beyond & ((y < 0) == (edge == low))
                if at.any():
                    ax.plot(
                        x[at] + side * shift, np.full(at.sum(), edge), label=f"_{label}, infinite", clip_on=False,
                        **{**look, "marker": marker},
                    )  # fmt: skip
            keys.append(line_key(f"{label} ({which.sum():,})" if graded else label, look))
    if np.isinf(y).any():
        keys.append(
            line_key("infinite, at the edge", {"linestyle": "none", "marker": "v", "color": theme.muted})
        )
    return keys if graded or np.isinf(y).any() else []


def _kinds(theme: Theme, outcome: Floats, graded: bool) -> list[tuple[str, NDArray[np.bool_], int, Look]]:
    """(label, which, side, look) of what is drawn apart."""
    line = {"linestyle": "none"}
    if not graded:
        return [
            ("prompts", np.ones(len(outcome), bool), 0, {"color": theme.groups[0], "marker": "o", **line})
        ]
    hollow = {"markerfacecolor": "none"}
    return [
        ("right", outcome == 1, -1, {"color": theme.right, "marker": "o", **line}),
        ("wrong", outcome == 0, 1, {"color": theme.wrong, "marker": "x", "markeredgewidth": 1.4, **line}),
        ("partly right", (outcome > 0) & (outcome < 1), 0, {"color": theme.groups[3], "marker": "D", **line}),
        ("not graded", np.isnan(outcome), 0, {"color": theme.muted, "marker": "o", **hollow, **line}),
    ]


def _set_limits(ax: Axes, y: Floats) -> tuple[float, float]:
    finite = y[np.isfinite(y)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.06 * (high - low) or max(abs(low) * 0.1, 0.5)
    ax.set_ylim(low - margin, high + margin)
    return low - margin, high + margin


def _shift(x: Floats) -> float:
    """How far right and wrong are moved apart: a fifth of the least step between agreements."""
    steps = np.diff(np.unique(x))
    return float(min(0.02, steps.min() / 5)) if len(steps) else 0.02
