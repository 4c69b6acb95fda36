"""From runs to figures: which plot shows what of a run, with titles that say what was chosen and how it was drawn.

    figure = toolkit.figures.make_figure("data/raw/capitals", "reliability", theme="dark")
    toolkit.figures.save_figure(figure, "reliability.svg")

`prepare` reads and computes once what both themes are then drawn from. Statistics are those of
`toolkit.aggregation` and `toolkit.judging`, plots those of `toolkit.plots`; here is what joins them.
"""

from toolkit.figures.drawing import Drawing, Panel
from toolkit.figures.kinds import KINDS, FigureKind
from toolkit.figures.making import make_figure, prepare
from toolkit.figures.saving import FORMATS, figure_bytes, save_figure

__all__ = [
    "FORMATS",
    "KINDS",
    "Drawing",
    "FigureKind",
    "Panel",
    "figure_bytes",
    "make_figure",
    "prepare",
    "save_figure",
]
