"""What every plot has beside its data: an axes, a legend above it, a caption below it, a title on top.

The caption wraps to the axes' width each time it is drawn. Constrained layout, which `style` turns on, gives
these parts their room.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerTuple
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox, IdentityTransform
from numpy.typing import NDArray

from toolkit.characters import count, width
from toolkit.plots.style import theme_of
from toolkit.plots.text import drawable

Handle = Artist | tuple[Artist, ...]
Floats = NDArray[np.float64]

WIDTH = 7.0  # inches, of a figure
HEIGHT = 4.4
_ROW = 0.27  # inches, of a row of points, boxes or cells
_EM = 0.54  # mean width of a character by its font's size
_CAPTION_SIZE, _LEGEND_SIZE, _TITLE_SIZE = 7.5, 8.0, 10.0  # points
_HANDLE, _PAD, _SPACING = 2.8, 0.5, 1.2  # of a legend, in its letters' height
_GAP = 5.0  # points to the caption, and to the title
_NUMBER = re.compile(r" (?=[\d.−-]*\d)")  # a space that a line does not break at: a name stays with its value


def make_axes(ax: Axes | None, height: float = HEIGHT) -> Axes:
    """The axes given, else one in a figure of its own, which pyplot knows and does not show."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, made = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
    return made


def rows_height(n_rows: int) -> float:
    """Inches that a figure with a row for each of `n_rows` things wants."""
    return max(1.6 + _ROW * n_rows, 2.4)


def rows_that_fit(ax: Axes) -> int:
    """Rows with readable labels that an axes has room for, 4 at least."""
    return max(4, int((size_in_inches(ax)[1] - 0.9) / 0.125))


def size_in_inches(ax: Axes) -> tuple[float, float]:
    """Width and height of the part of the figure that an axes and its labels share."""
    figure, spec = ax.figure, ax.get_subplotspec()
    if spec is None:
        box = ax.get_position(original=True)
        across, down = box.width, box.height
    else:
        cells = spec.get_gridspec()
        across = _share(cells.get_width_ratios(), spec.colspan)
        down = _share(cells.get_height_ratios(), spec.rowspan)
    return across * figure.bbox.width / figure.dpi, down * figure.bbox.height / figure.dpi


def _share(ratios: Any, taken: range) -> float:
    return float(np.asarray(ratios)[list(taken)].sum() / np.sum(ratios))


def counted(n: int, what: str = "", **left_out: int) -> list[str]:
    """Parts of a caption: how many are drawn, and how many are not, by reason; reasons with none are not said.

    >>> counted(1200, "token", not_computed=3)
    ['n = 1,200 tokens', '3 not computed']
    """
    parts = [f"n = {count(n, what) if what else f'{n:,}'}"]
    return parts + [f"{number:,} {reason.replace('_', ' ')}" for reason, number in left_out.items() if number]


def sizes(each: Iterable[float], what: str = "") -> str:
    """The part of a caption that says n where each row or curve has its own: `n = 50 to 80 prompts`."""
    known = [int(n) for n in each if n == n] or [0]
    low, high = min(known), max(known)
    said = count(high, what) if what else f"{high:,}"
    return f"n = {said}" if low == high else f"n = {low:,} to {said}"


def percent(axis: Axis) -> None:
    """Ticks of shares as percentages, with no more digits than they need."""
    axis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g} %".replace("-", "−"))


def add_caption(ax: Axes, parts: Iterable[str], note: str = "") -> None:
    """A small line below the axes' label: parts, then the note. It wraps to the axes' width."""
    shown = "\u00a0· ".join(part for part in (*parts, note.strip()) if part)
    text = drawable(_NUMBER.sub("\u00a0", shown), 1000)
    ax.add_artist(_Line(ax, text, above=False, color=theme_of(ax).muted))


def add_title(ax: Axes, text: str) -> None:
    """A title above the axes and its legend, on the left. It wraps to the axes' width."""
    ax.add_artist(_Line(ax, drawable(text, 200), above=True, fontweight="bold", color=theme_of(ax).ink))


def legend_above(ax: Axes, keys: Sequence[tuple[Handle, str]]) -> None:
    """A legend above the axes, in as many columns as there is room for.

    Parameters
    ----------
    keys : sequence of (handle, label)
        The artists of a tuple stand side by side in one entry. Without keys there is no legend.
    """
    if keys:
        handles, labels = [handle for handle, _ in keys], [drawable(label, 60) for _, label in keys]
        room = size_in_inches(ax)[0] * 72 - 12
        ax.legend_ = _Legend(ax, handles, labels, _columns([width(label) for label in labels], room))


def say(ax: Axes, sentence: str) -> None:
    """A sentence in the middle of axes that have nothing to show."""
    ax.text(
        0.5,
        0.5,
        drawable(sentence),
        transform=ax.transAxes,
        ha="center",
        va="center",
        color=theme_of(ax).muted,
        fontsize=9,
    )


def grid(ax: Axes, axis: Any = "both") -> None:
    """Thin lines behind the data."""
    ax.grid(True, axis=axis, color=theme_of(ax).faint, linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)


def label_rows(ax: Axes, labels: Sequence[str], columns: int = 60) -> None:
    """Rows at 0, 1, ... from the top, each with its label, in letters that the rows have room for."""
    n = len(labels)
    pitch = 72 * max(size_in_inches(ax)[1] - 1.2, 0.6) / max(n, 1)
    ax.set_yticks(
        range(n), [drawable(label, columns) for label in labels], fontsize=float(np.clip(0.8 * pitch, 5, 8.5))
    )
    ax.set_ylim(n - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


class _Legend(Legend):
    """A legend that stands on the axes, and begins at the left of the axis' labels."""

    def __init__(self, ax: Axes, handles: Sequence[Any], labels: Sequence[str], ncols: int) -> None:
        super().__init__(
            ax,
            handles,
            labels,
            loc="lower left",
            borderaxespad=0.7,
            borderpad=0.2,
            ncols=ncols,
            fontsize=_LEGEND_SIZE,
            frameon=False,
            labelcolor=theme_of(ax).ink,
            handlelength=_HANDLE,
            handletextpad=_PAD,
            columnspacing=_SPACING,
            numpoints=1,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        )
        self._above_of = ax

    def _place(self, renderer: RendererBase | None) -> None:
        corner = _left(self._above_of, renderer), self._above_of.bbox.y1
        self.set_bbox_to_anchor(corner, IdentityTransform())

    def get_window_extent(self, renderer: RendererBase | None = None) -> Bbox:
        self._place(renderer)
        return super().get_window_extent(renderer)

    def get_tightbbox(self, renderer: RendererBase | None = None) -> Bbox | None:
        self._place(renderer)
        return super().get_tightbbox(renderer)

    def draw(self, renderer: RendererBase) -> None:
        self._place(renderer)
        super().draw(renderer)


class _Line(Annotation):
    """A text that hangs above or below an axes, and is wrapped anew where the axes changed its width."""

    def __init__(self, ax: Axes, text: str, *, above: bool, **look: Any) -> None:
        self._sentence, self._axes_beside = text, ax
        self._box, self._size = (_above, _TITLE_SIZE) if above else (_below, _CAPTION_SIZE)
        super().__init__(
            text,
            xy=(0, 1) if above else (0, 0),
            xycoords=lambda renderer: self._box(ax, renderer),
            xytext=(0, _GAP if above else -_GAP),
            textcoords="offset points",
            transform=IdentityTransform(),  # else the axes puts its own in place, and a log scale hides the text
            va="bottom" if above else "top",
            ha="left",
            fontsize=self._size,
            linespacing=1.25,
            annotation_clip=False,
            clip_on=False,
            **look,
        )

    def _fold(self, renderer: RendererBase | None) -> None:
        inches = self._box(self._axes_beside, renderer).width / self._axes_beside.figure.dpi
        columns = int(72 * inches / (_EM * self._size))
        self.set_text("\n".join(textwrap.wrap(self._sentence, max(16, columns))))

    def get_window_extent(self, renderer: RendererBase | None = None) -> Bbox:  # type: ignore[override]
        self._fold(renderer)
        return super().get_window_extent(renderer)

    def draw(self, renderer: RendererBase) -> None:
        self._fold(renderer)
        super().draw(renderer)


def _left(ax: Axes, renderer: RendererBase | None) -> float:
    """Left edge of the axes with its labels, in pixels."""
    box = ax.yaxis.get_tightbbox(renderer)
    return ax.bbox.x0 if box is None else min(box.x0, ax.bbox.x0)


def _below(ax: Axes, renderer: RendererBase | None) -> Bbox:
    """From the left of the labels to the axes' right edge, down to the lower edge of the axis label."""
    box = ax.xaxis.get_tightbbox(renderer)
    bottom = ax.bbox.y0 if box is None else min(box.y0, ax.bbox.y0)
    return Bbox.from_extents(_left(ax, renderer), bottom, ax.bbox.x1, ax.bbox.y1)


def _above(ax: Axes, renderer: RendererBase | None) -> Bbox:
    """The axes with its legend."""
    legend = ax.get_legend()
    top = ax.bbox.y1 if legend is None else max(ax.bbox.y1, legend.get_window_extent(renderer).y1)
    return Bbox.from_extents(_left(ax, renderer), ax.bbox.y0, ax.bbox.x1, top)


def _columns(widths: Sequence[int], points: float) -> int:
    """Most columns of a legend whose labels have these widths, in characters, that fit into the room."""
    beside = _LEGEND_SIZE * (_HANDLE + _PAD + _SPACING)
    for n in range(len(widths), 1, -1):
        longest = [int(column.max()) for column in np.array_split(widths, n)]  # as a legend is filled
        if sum(longest) * 1.08 * _EM * _LEGEND_SIZE + len(longest) * beside <= points:
            return n
    return 1
