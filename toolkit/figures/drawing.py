"""A figure before it is drawn: its title and panels, from which each theme is drawn without computing again."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THEMES = ("light", "dark")
MOST_PANELS = 12
_NARROW = 5.2  # inches of a panel beside others
_FULL = 7.0  # inches of a panel alone
_TITLE_SIZE = 10.5  # points
_SMALLEST_TITLE = 8.0
_BOLD_WIDTH = 0.62  # mean width of a bold letter by its size
_FEWEST_COLUMNS = 12
_MARGIN = 0.045  # inches left of the title, as left of the captions


class Panel(NamedTuple):
    """One of the axes of a figure. `draw(ax=ax)` is a function of `toolkit.plots` with its data bound."""

    title: str  # shown where there are several
    draw: Callable[..., Axes]
    height: float = 4.4  # inches


@dataclass(frozen=True)
class Drawing:
    """What a figure shows.

    Attributes
    ----------
    title : str
        Of the whole, in one line or more.
    panels : sequence of Panel
    wide : bool
        Whether panels are below each other, each as wide as the figure; else they fill rows.
    shared : str
        The axes that panels share: "x", "y", "both" or "none".
    """

    title: str
    panels: Sequence[Panel]
    wide: bool = False
    shared: str = "none"

    @property
    def columns(self) -> int:
        """Panels in a row."""
        return 1 if self.wide else math.ceil(math.sqrt(len(self.panels)))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        width = _FULL if self.columns == 1 else _NARROW * self.columns
        heights = [max(panel.height for panel in row) for row in self._rows]
        return width, sum(heights) + (0.4 if len(self.panels) > 1 else 0.0)

    def figure(self, *, theme: str = "light", size: tuple[float, float] | None = None) -> Figure:
        """Draw it.

        Parameters
        ----------
        theme : {"light", "dark"}
        size : (width, height), optional
            In inches; as large as the panels need by default.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown, and of no window: `toolkit.figures.save_figure` or its own `savefig` writes it.

        Raises
        ------
        ToolkitError
            There is no such theme.
        """
        from matplotlib.figure import Figure

        from toolkit.plots import style

        with style(theme):
            figure = Figure(figsize=size or self.size, layout="constrained")
            self._fill(figure)
        return figure

    @property
    def _rows(self) -> list[Sequence[Panel]]:
        return [self.panels[i : i + self.columns] for i in range(0, len(self.panels), self.columns)]

    def _fill(self, figure: Figure) -> None:
        from toolkit.plots import add_title

        heights = [max(panel.height for panel in row) for row in self._rows]
        grid = figure.subplots(len(heights), self.columns, squeeze=False, height_ratios=heights)
        drawn = list(grid.flat[: len(self.panels)])
        for panel, ax in zip(self.panels, drawn, strict=True):
            panel.draw(ax=ax)
            if len(self.panels) > 1:
                add_title(ax, panel.title)
        self._share(drawn)
        for ax in grid.flat[len(self.panels) :]:
            ax.remove()
        self._add_title(figure)

    def _add_title(self, figure: Figure) -> None:
        """The title, in lines that fit, and in smaller letters where the figure is narrow."""
        from toolkit.plots.text import drawable

        width = figure.get_figwidth()
        size = min(max(_TITLE_SIZE * width / _FULL, _SMALLEST_TITLE), _TITLE_SIZE)
        columns = int(width * 72 / (_BOLD_WIDTH * size))
        parts = [drawable(part) for part in self.title.split("\n")]
        title = figure.suptitle("", x=_MARGIN / width, ha="left", fontsize=size, fontweight="bold")
        title.set_text(_wrapped(parts, columns))
        room = (1 - 2 * _MARGIN / width) * figure.bbox.width
        while title.get_window_extent().width > room and columns > _FEWEST_COLUMNS:  # capitals are wider
            columns = max(int(0.95 * columns), _FEWEST_COLUMNS)
            title.set_text(_wrapped(parts, columns))

    def _share(self, axes: Sequence[Axes]) -> None:
        """Let panels reach as far as the widest does. Each keeps its ticks: captions lie between them."""
        for name in ("x", "y"):
            if self.shared in (name, "both"):
                limits = [end for ax in axes for end in getattr(ax, f"get_{name}lim")()]
                for ax in axes:
                    getattr(ax, f"set_{name}lim")(min(limits), max(limits))


def _wrapped(parts: Sequence[str], columns: int) -> str:
    return "\n".join(line for part in parts for line in textwrap.wrap(part, columns))
