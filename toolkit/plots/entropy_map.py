"""Entropy of samples over positions, as a map: where a model does not know how to go on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.characters import count
from toolkit.plots.arguments import matrix, same_length
from toolkit.plots.keys import confidences, missing_fill, scale_key
from toolkit.plots.layout import (
    Floats,
    add_caption,
    counted,
    label_rows,
    legend_above,
    make_axes,
    rows_height,
    rows_that_fit,
    say,
)
from toolkit.plots.style import confidence_map, theme_of

_SHARP = 300  # positions that are drawn without smoothing; more would flicker when scaled down


def plot_entropy_map(
    entropy: ArrayLike, *, labels: Sequence[str] | None = None, note: str = "", ax: Axes | None = None
) -> Axes:
    """A row a sample, a cell a token, coloured by its entropy on the fixed scale.

    Parameters
    ----------
    entropy : (n_samples, n_positions) array_like
        Nats; NaN where a sample has ended, or where nothing was computed. Such cells are hatched.
    labels : sequence of str, optional
        A name a sample; its number from 0 by default.
    note : str
        Prompt, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the token index; sample i is at y = i.

    Raises
    ------
    ToolkitError
        If the array is not two-dimensional, or there is not a label a sample.
    """
    values = matrix(entropy, "entropy")
    names = [str(i) for i in range(len(values))] if labels is None else list(labels)
    same_length(entropy=values, labels=names)
    ax = make_axes(ax, rows_height(len(values)))
    kept = rows_that_fit(ax)
    shown = values[:kept]
    ax.set_xlabel("token")
    label_rows(ax, names[:kept], columns=24)
    if shown.size:
        _draw(ax, shown)
    else:
        ax.set_xticks([])
        say(ax, "no tokens")
    missing = int(np.isnan(shown).sum())
    parts = [count(len(shown), "sample")]
    parts += counted(shown.size - missing, "token", without_a_value=missing)
    left_out = len(values) - len(shown)
    add_caption(ax, [*parts, f"{count(left_out, 'more sample')} without room" if left_out else ""], note)
    return ax


def _draw(ax: Axes, values: Floats) -> None:
    theme, scale = theme_of(ax), TOKEN_SCALES["entropy"]
    n_samples, n_positions = values.shape
    image = ax.imshow(
        np.ma.masked_invalid(confidences(scale, values)),
        cmap=confidence_map(),
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest" if n_positions <= _SHARP else "antialiased",
        extent=(-0.5, n_positions - 0.5, n_samples - 0.5, -0.5),
        zorder=2,
    )
    image.set_label("_entropy")
    for row in range(1, n_samples):
        ax.axhline(row - 0.5, color=theme.paper, linewidth=1.2, zorder=3)
    ax.set_ylim(n_samples - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    keys = [scale_key(theme, "entropy", scale)]
    if np.isnan(values).any():
        ax.patch.set(**missing_fill(theme))
        keys.append((Patch(**missing_fill(theme)), "ended, or not computed"))
    legend_above(ax, keys)
