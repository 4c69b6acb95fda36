"""The samples of a prompt, one below the other: how sure each token was, and where they part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from toolkit.appearance import palette
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES, Scale, scale_of
from toolkit.characters import count, width
from toolkit.plots.arguments import same_length
from toolkit.plots.keys import Key, confidences, line_key, missing_fill, missing_key, reference, scale_key
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
    size_in_inches,
)
from toolkit.plots.style import confidence_map, installed_fallbacks, theme_of
from toolkit.plots.text import token_label

_EDGED = 14  # tokens an inch up to which each box has an edge
_LABELS = 24  # columns of a sample's name
_HALF = 0.4  # of a row's height
_LONGEST = 24  # columns of a token's text
_PADDING = 0.7  # columns, beside a token's text in its box
_MONO_EM = 0.602  # width of a letter of DejaVu Sans Mono by its size
_LEAST_LETTERS, _MOST_LETTERS = 4.6, 9.0  # points


def plot_samples(
    samples: Sequence[Sequence[tuple[str, float]]],
    *,
    metric: str = "logprob",
    labels: Sequence[str] | None = None,
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A strip of tokens for each sample, coloured on the fixed scale; a bar marks where it leaves the first.

    Where there is room, tokens are as wide as their text and have it inside; else all are equally wide. What
    samples have in common stands in the same place either way. A dotted line is where the first of them
    parts.

    Parameters
    ----------
    samples : sequence of sequence of (text, value)
        Tokens, or other pieces of text, with a statistic; NaN, not computed, is hatched.
    metric : str
        What the values are, which chooses the scale: a name of `toolkit.appearance.scales`.
    labels : sequence of str, optional
        A name a sample; its number from 0 by default.
    note : str
        Prompt, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        Sample i is at y = i.

    Raises
    ------
    ToolkitError
        If there is no scale for the metric, or not a label a sample.
    """
    scale = scale_of(metric, {**TOKEN_SCALES, **SPAN_SCALES})
    names = [str(i) for i in range(len(samples))] if labels is None else list(labels)
    same_length(samples=samples, labels=names)
    ax = make_axes(ax, rows_height(len(samples)))
    kept = rows_that_fit(ax)
    label_rows(ax, names[:kept], columns=_LABELS)
    rows = [_row(sample) for sample in samples[:kept]]
    ax.set_xticks([])
    if any(len(row.texts) for row in rows):
        legend_above(ax, _draw(ax, rows, metric, scale, min(_LABELS, max(map(width, names)))))
    else:
        say(ax, "no tokens")
    values = np.concatenate([np.empty(0), *(row.values for row in rows)])
    parts = [count(len(rows), "sample")]
    missing = int(np.isnan(values).sum())
    parts += counted(len(values) - missing, "token", not_computed=missing)
    left_out = len(samples) - len(rows)
    add_caption(ax, [*parts, f"{count(left_out, 'more sample')} without room" if left_out else ""], note)
    return ax


class _Row(NamedTuple):
    texts: list[str]
    values: Floats


def _row(sample: Sequence[tuple[str, float]]) -> _Row:
    values = [np.nan if value is None else float(value) for _, value in sample]
    return _Row([text for text, _ in sample], np.array(values, np.float64))


def _draw(ax: Axes, rows: list[_Row], metric: str, scale: Scale, label_width: int) -> list[Key]:
    theme = theme_of(ax)
    shown = [[token_label(text, _LONGEST, _family()) for text in row.texts] for row in rows]
    widths = [
        _PADDING + np.array([width(text.replace(r"\$", "$")) for text in row], np.float64) for row in shown
    ]
    inches = size_in_inches(ax)[0] - 0.3 - label_width * 0.07
    readable = inches * 72 >= max(w.sum() for w in widths) * _MONO_EM * _LEAST_LETTERS
    if not readable:
        widths = [np.ones(len(w)) for w in widths]
    edged = readable or max(map(len, widths)) <= _EDGED * inches
    edges = [np.r_[0, np.cumsum(w)] - (0.0 if readable else 0.5) for w in widths]
    for i, (row, x) in enumerate(zip(rows, edges, strict=True)):
        confidence = confidences(scale, row.values)
        _draw_strip(ax, i, x, confidence, edged=edged)
        if readable:
            _write_tokens(ax, i, x, shown[i], confidence)
    ax.set_xlim(edges[0][0], max(x[-1] for x in edges))
    ax.set_xlabel("tokens, as wide as their text" if readable else "token")
    ax.spines["bottom"].set_visible(False)
    if not readable:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    keys = [scale_key(theme, metric, scale)]
    if any(np.isnan(row.values).any() for row in rows):
        keys.append(missing_key(theme))
    return keys + _draw_partings(ax, rows, edges)


def _family() -> list[str]:
    return ["DejaVu Sans Mono", *installed_fallbacks()]


def _draw_strip(ax: Axes, row: int, edges: Floats, confidence: Floats, *, edged: bool) -> None:
    theme = theme_of(ax)
    left, right = edges[:-1], edges[1:]
    low, high = np.full(len(left), row - _HALF), np.full(len(left), row + _HALF)
    boxes = np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2)
    known = ~np.isnan(confidence)
    line = 0.4 if edged else 0.0
    sure = PolyCollection(list(boxes[known]), edgecolors=theme.muted, linewidths=line, label=f"_tokens-{row}")
    sure.set(array=confidence[known], cmap=confidence_map(), clim=(0, 1), rasterized=len(boxes) > 2000)
    ax.add_collection(sure, autolim=False)
    if not edged:  # a sure strip is nearly paper, and has to be seen on it
        outline = Rectangle((edges[0], row - _HALF), edges[-1] - edges[0], 2 * _HALF, fill=False)
        ax.add_patch(outline).set(edgecolor=theme.muted, linewidth=0.6)
    if not known.all():
        gone = PolyCollection(list(boxes[~known]), label=f"_missing-{row}", **missing_fill(theme))
        ax.add_collection(gone, autolim=False)


def _write_tokens(ax: Axes, row: int, edges: Floats, texts: Sequence[str], confidence: Floats) -> None:
    theme = theme_of(ax)
    for start, text, sure in zip(edges, texts, confidence, strict=False):
        on_colour = None if np.isnan(sure) else palette.text_on(palette.colour(sure))
        ink = theme.ink if on_colour is None else "#{:02x}{:02x}{:02x}".format(*on_colour)
        ax.add_artist(_Letters(ax, start + _PADDING / 2, row, text, ink))


class _Letters(Text):
    """A token's text, in letters that fill its box whatever size the axes has when it is drawn."""

    def __init__(self, ax: Axes, x: float, y: float, text: str, ink: str) -> None:
        super().__init__(
            x, y, text, color=ink, family=_family(), ha="left", va="center_baseline", transform=ax.transData
        )
        self.set_in_layout(False)
        self._inside = ax

    def draw(self, renderer: RendererBase) -> None:
        (x0, y0), (x1, y1) = self._inside.transData.transform([(0, 0), (1, 1)])
        points = 72 / self._inside.figure.dpi
        size = min((x1 - x0) * points / _MONO_EM, 0.75 * abs(y1 - y0) * points, _MOST_LETTERS)
        if size >= 0.8 * _LEAST_LETTERS:
            self.set_fontsize(size)
            super().draw(renderer)


def _draw_partings(ax: Axes, rows: list[_Row], edges: list[Floats]) -> list[Key]:
    """A bar where each sample leaves the first one, and a line through all where one first does."""
    theme, first = theme_of(ax), rows[0].texts
    at = {i: float(edges[i][_parting(first, row.texts)]) for i, row in enumerate(rows) if row.texts != first}
    if not at or not first:
        return []
    x, y = np.array(list(at.values())), np.array(list(at))
    for colour, wide, label in ((theme.paper, 4.4, "around"), (theme.ink, 2.6, "partings")):
        bars = ax.vlines(x, y - 0.48, y + 0.48, colors=colour, linewidths=wide, zorder=4)
        bars.set(clip_on=False, label=f"_{label}")
    line = reference(theme, dotted=True) | {"color": theme.ink}
    ax.axvline(x.min(), zorder=3, clip_on=False, label="_first-parting", **line)
    bar = {"linestyle": "none", "marker": "|", "markersize": 9, "markeredgewidth": 2.6, "color": theme.ink}
    return [line_key("leaves the first row", bar), line_key("where one first does", line)]


def _parting(first: Sequence[str], other: Sequence[str]) -> int:
    """How many tokens two samples have in common before they part."""
    same: NDArray[np.bool_] = np.array([a == b for a, b in zip(first, other, strict=False)], bool)
    return int(np.argmin(same)) if not same.all() else len(same)
