"""Entropy against log-probability: was a token as likely as the model's uncertainty would have it?"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from toolkit.plots.arguments import same_length, vector
from toolkit.plots.keys import Key, Look, line_key, reference
from toolkit.plots.layout import (
    Floats,
    add_caption,
    counted,
    grid,
    legend_above,
    make_axes,
    say,
    size_in_inches,
)
from toolkit.plots.style import density_map, theme_of

_POINTS = 1500  # tokens up to which each is a point


def plot_entropy_logprob(
    entropy: ArrayLike, logprob: ArrayLike, *, note: str = "", ax: Axes | None = None
) -> Axes:
    """A point a token, or the density of many; the line is logprob = −entropy.

    Entropy is what −logprob would be on average, were the token drawn from the model. Tokens above the line
    were likelier than that, as greedy ones are; those far below were surprises.

    Parameters
    ----------
    entropy : (n,) array_like
        Nats.
    logprob : (n,) array_like
        Nats. Tokens where either is NaN, not computed, are left out and counted; -inf, masked out, stands at
        the lower edge.
    note : str
        Sampler, run, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is entropy, y the log-probability.

    Raises
    ------
    ToolkitError
        If lengths differ.
    """
    x, y = vector(entropy, "entropy"), vector(logprob, "logprob")
    same_length(entropy=x, logprob=y)
    known = np.isfinite(x) & (y < np.inf)
    masked = known & np.isneginf(y)
    ax = make_axes(ax)
    ax.set_xlabel("entropy (nats)")
    ax.set_ylabel("logprob (nats)")
    if known.any():
        grid(ax)
        legend_above(ax, _draw(ax, x[known], y[known]))
    else:
        say(ax, "no token has both an entropy and a log-probability")
    counts = {"not_computed": int((~known).sum()), "masked_out": int(masked.sum())}
    add_caption(ax, counted(int(known.sum()), "token", **counts), note)
    return ax


def _draw(ax: Axes, x: Floats, y: Floats) -> list[Key]:
    theme = theme_of(ax)
    finite = np.isfinite(y)
    right = float(max(x.max(), 0.1)) * 1.04
    bottom = float(min(y[finite].min(initial=0.0), -right / 2)) * 1.06
    ax.set_xlim(-0.02 * right, right)
    ax.set_ylim(bottom, -0.02 * bottom)
    keys = _draw_points(ax, x[finite], y[finite]) if finite.any() else []
    line = reference(theme) | {"color": theme.ink}
    ax.plot([0, right], [0, -right], zorder=4, label="_expected", **line)
    keys.append(line_key("logprob = −entropy", line))
    if not finite.all():
        look: Look = {"marker": "v", "color": theme.wrong, "linestyle": "none"}
        ax.plot(x[~finite], np.full((~finite).sum(), bottom), clip_on=False, label="_masked", **look)
        keys.append(line_key("masked out, −∞", look))
    return keys


def _draw_points(ax: Axes, x: Floats, y: Floats) -> list[Key]:
    theme = theme_of(ax)
    if len(x) <= _POINTS:
        look: Look = {
            "linestyle": "none",
            "marker": "o",
            "color": theme.groups[0],
            "markersize": 3.5,
            "alpha": 0.6,
            "markeredgewidth": 0,
        }
        ax.plot(x, y, zorder=3, label="_tokens", **look)
        return [line_key("token", look)]
    across = int(np.clip(9 * size_in_inches(ax)[0], 20, 70))
    cells = ax.hexbin(
        x,
        y,
        gridsize=across,
        extent=(*ax.get_xlim(), *ax.get_ylim()),
        mincnt=1,
        norm=LogNorm(),
        cmap=density_map(theme),
        linewidths=0.1,
        zorder=2,
        label="_density",
    )
    counts = cells.get_array()
    most = int(counts.max()) if counts is not None else 0
    strip = tuple(Patch(facecolor=density_map(theme)(i / 8)) for i in range(9))
    return [(strip, f"1 to {most:,} tokens, logarithmic")]
