"""The one style of the plots: two themes, their colours, markers and lines.

Confidence keeps the palette of `toolkit.appearance.palette`. Groups (runs, estimators, rules) have colours of
their own, far from all of that palette, so that neither is taken for the other. The lightness of any two is
apart (CIE L* by 6 at least, in grey and with any colour vision), each stands out from the background (contrast
3 at least, WCAG 2), and the marker and the line differ too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba

from toolkit.appearance import palette
from toolkit.characters import quoted
from toolkit.errors import ToolkitError


@dataclass(frozen=True)
class Theme:
    """Colours of a theme, as `#rrggbb`."""

    name: str
    paper: str
    ink: str
    muted: str  # captions, ticks and what is less important; contrast to paper 4.5 at least
    faint: str  # grid lines and bars of counts
    missing: str  # behind the hatching of what was not computed
    alternative: str  # what else the model might have written
    right: str
    wrong: str
    groups: tuple[str, ...]
    density: tuple[str, str]  # few, many


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1a1d22",
    muted="#5c636e",
    faint="#d9dce1",
    missing="#eceef1",
    alternative="#8695a8",
    right="#0ba4a7",
    wrong="#2a357a",
    groups=("#21273c", "#0ba4a7", "#0c5a4f", "#4b79d7", "#2a357a", "#626b23"),
    density=("#bfd3e6", "#0b2447"),
)
DARK = Theme(
    name="dark",
    paper="#16181d",
    ink="#eceef1",
    muted="#a3aab6",
    faint="#383d46",
    missing="#262a31",
    alternative="#5d6979",
    right="#b4dee9",
    wrong="#ae8ef9",
    groups=("#b4dee9", "#527199", "#ae8ef9", "#2bd493", "#988705", "#eef980"),
    density=("#2b3a52", "#d9ecff"),
)
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # seven beside six colours: 42 groups differ
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 3)))
_FALLBACK_FONTS = (  # for scripts that the first font lacks; those that are installed are used
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Symbols 2",
    "Noto Emoji",
    "Segoe UI Symbol",
)


class GroupStyle(NamedTuple):
    """How one group of several is drawn."""

    colour: str
    marker: str
    line: Any  # matplotlib's linestyle


@contextmanager
def style(theme: str = "light") -> Iterator[Theme]:
    """The look of a theme for figures that are made inside; afterwards every setting is as before.

    Parameters
    ----------
    theme : {"light", "dark"}

    Yields
    ------
    Theme

    Raises
    ------
    ToolkitError
        For another theme.

    Examples
    --------
    >>> with style("dark"):
    ...     ax = plot_reliability([0.2, 0.9], [0, 1])
    """
    if theme not in THEMES:
        raise ToolkitError(f"theme: there is no {quoted(theme)}: give one of {', '.join(THEMES)}")
    chosen = THEMES[theme]
    with mpl.rc_context(_settings(chosen)):
        yield chosen


def theme_of(ax: Axes) -> Theme:
    """The theme that the background of an axes fits, whoever chose it: dark where white ink reads better."""
    figure = ax.figure.canvas.figure  # of a subfigure, the whole
    ground = (1.0, 1.0, 1.0)
    for red, green, blue, alpha in (to_rgba(figure.get_facecolor()), to_rgba(ax.get_facecolor())):
        layers = zip((red, green, blue), ground, strict=True)
        red, green, blue = (alpha * above + (1 - alpha) * below for above, below in layers)
        ground = (red, green, blue)
    rgb = palette.RGB(*(round(255 * part) for part in ground))
    return DARK if palette.text_on(rgb) == palette.WHITE else LIGHT


def group_style(theme: Theme, index: int) -> GroupStyle:
    """Colour, marker and line of the group at a place, from 0; they repeat together after 42 and more."""
    return GroupStyle(
        theme.groups[index % len(theme.groups)],
        _MARKERS[index % len(_MARKERS)],
        _LINES[index % len(_LINES)],
    )


@cache
def confidence_map() -> LinearSegmentedColormap:
    """The palette of confidence as a colour map over [0, 1], unsure first; NaN is left transparent."""
    anchors = [palette.hex_colour(i / (len(palette.ANCHORS) - 1)) for i in range(len(palette.ANCHORS))]
    return LinearSegmentedColormap.from_list("confidence", anchors, N=257)  # each anchor is met


@cache
def density_map(theme: Theme) -> LinearSegmentedColormap:
    """From few to many: a single hue whose lightness goes one way."""
    return LinearSegmentedColormap.from_list(f"density-{theme.name}", theme.density, N=256)


@cache
def installed_fallbacks() -> tuple[str, ...]:
    """Installed fonts for scripts that matplotlib's own font lacks."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return tuple(name for name in _FALLBACK_FONTS if name in installed)


def _settings(theme: Theme) -> Any:  # matplotlib's stubs list the keys of their own version
    return {
        "font.family": ["DejaVu Sans", *installed_fallbacks()],
        "font.size": 9,
        "figure.facecolor": theme.paper,
        "figure.constrained_layout.use": True,
        "figure.dpi": 100,
        "savefig.facecolor": "auto",
        "savefig.dpi": 200,
        "text.color": theme.ink,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.muted,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": False,
        "axes.unicode_minus": True,
        "xtick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.color": theme.muted,
        "ytick.labelcolor": theme.ink,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "lines.linewidth": 1.6,
        "lines.markersize": 5,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "legend.labelcolor": theme.ink,
        "hatch.linewidth": 0.6,
    }
