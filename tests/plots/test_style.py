"""The colours of the plots: apart in grey and with any colour vision, readable on their background."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from tests.appearance.test_palette import COLOUR_VISION, lightness, linear
from toolkit.appearance import palette
from toolkit.appearance.palette import RGB, contrast, hex_colour
from toolkit.errors import ToolkitError
from toolkit.plots.style import (
    DARK,
    LIGHT,
    THEMES,
    Theme,
    confidence_map,
    density_map,
    group_style,
    style,
    theme_of,
)

VISIONS = {"normal": np.eye(3).tolist(), **COLOUR_VISION}
# sRGB to CIE XYZ under D65, and its white (IEC 61966-2-1).
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)
THEME = pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
VISION = pytest.mark.parametrize("vision", VISIONS)


def rgb(colour: str) -> RGB:
    return RGB(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


def lab(colour: RGB, vision: str = "normal") -> np.ndarray:
    """CIE L*a*b* of a colour as this colour vision sees it."""
    seen = np.clip(np.array(VISIONS[vision]) @ [linear(part) for part in colour], 0, 1)
    x, y, z = TO_XYZ @ seen / TO_XYZ.sum(axis=1)
    f = [v ** (1 / 3) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z)]
    assert 116 * f[1] - 16 == pytest.approx(lightness(y), abs=1e-6)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distances(colours: list[RGB], vision: str) -> tuple[float, float]:
    """The least difference of two colours in lightness, and as a whole (CIE76)."""
    pairs = list(itertools.combinations([lab(colour, vision) for colour in colours], 2))
    return min(abs(a[0] - b[0]) for a, b in pairs), min(float(np.linalg.norm(a - b)) for a, b in pairs)


@THEME
@VISION
def test_groups_differ_in_grey_and_with_every_colour_vision(theme: Theme, vision: str) -> None:
    in_lightness, as_a_whole = distances([rgb(colour) for colour in theme.groups], vision)
    assert in_lightness >= 6
    assert as_a_whole >= 15


@THEME
@VISION
def test_right_and_wrong_differ_by_lightness_alone(theme: Theme, vision: str) -> None:
    in_lightness, _ = distances([rgb(theme.right), rgb(theme.wrong)], vision)
    assert in_lightness >= 15


@THEME
def test_what_is_drawn_stands_out_from_the_paper(theme: Theme) -> None:
    paper = rgb(theme.paper)
    assert contrast(rgb(theme.ink), paper) >= 7
    assert contrast(rgb(theme.muted), paper) >= 4.5
    for colour in (*theme.groups, theme.right, theme.wrong, theme.alternative):
        assert contrast(rgb(colour), paper) >= 3
    assert contrast(rgb(theme.muted), rgb(theme.missing)) >= 3  # the hatching on what was not computed


@THEME
def test_no_group_is_taken_for_a_confidence(theme: Theme) -> None:
    confidences = [lab(palette.colour(step / 100)) for step in range(101)]
    for colour in (*theme.groups, theme.right, theme.wrong, *theme.density):
        assert min(float(np.linalg.norm(lab(rgb(colour)) - other)) for other in confidences) >= 10


@THEME
def test_forty_two_groups_differ_in_colour_marker_or_line(theme: Theme) -> None:
    styles = [group_style(theme, i) for i in range(42)]
    assert len({(one.colour, one.marker) for one in styles}) == 42
    assert len({one.marker for one in styles[:6]}) == 6
    assert len({str(one.line) for one in styles[:5]}) == 5


@THEME
@VISION
def test_density_goes_one_way_in_lightness(theme: Theme, vision: str) -> None:
    shades = [RGB(*(round(255 * part) for part in density_map(theme)(i / 10)[:3])) for i in range(11)]
    steps = np.diff([lab(shade, vision)[0] for shade in shades])
    assert (np.abs(steps) > 2).all()
    assert len(set(np.sign(steps))) == 1
    few, paper = lab(shades[0])[0], lab(rgb(theme.paper))[0]
    assert abs(few - paper) >= 12  # a cell with one token is seen


def test_confidence_has_the_colours_of_the_palette() -> None:
    for step in range(17):
        assert mpl.colors.to_hex(confidence_map()(step / 16)) == pytest.approx(hex_colour(step / 16))
    assert confidence_map()(np.ma.masked)[3] == 0


@THEME
def test_the_settings_hold_inside_and_are_as_before_afterwards(theme: Theme) -> None:
    before = dict(mpl.rcParams)
    with style(theme.name) as chosen:
        assert chosen is theme
        figure = Figure()
        ax = figure.subplots()
        assert dict(mpl.rcParams) != before
    assert dict(mpl.rcParams) == before
    assert (figure.get_facecolor()[:3], ax.get_facecolor()[:3]) == (to_rgb(theme.paper),) * 2
    assert theme_of(ax) is theme


def test_the_settings_are_as_before_after_an_error() -> None:
    before = dict(mpl.rcParams)
    with pytest.raises(ZeroDivisionError), style("dark"):
        raise ZeroDivisionError
    assert dict(mpl.rcParams) == before


def test_an_unknown_theme_lists_those_there_are() -> None:
    with (
        pytest.raises(ToolkitError, match=r"theme: there is no 'sepia': give one of light, dark"),
        style("sepia"),
    ):
        pass


@pytest.mark.parametrize(
    ("figure_colour", "axes_colour", "expected"),
    [
        ("white", "white", LIGHT),
        ("#0d1117", "none", DARK),  # seen through the axes
        ("white", "#222222", DARK),
        ("black", (1, 1, 1, 0.8), LIGHT),
        ("none", "none", LIGHT),
    ],
)
def test_the_theme_is_that_of_the_background(figure_colour: str, axes_colour: str, expected: Theme) -> None:
    figure = Figure(facecolor=figure_colour)
    assert theme_of(figure.subplots(subplot_kw={"facecolor": axes_colour})) is expected
    inside = figure.subfigures()
    assert theme_of(inside.subplots(subplot_kw={"facecolor": axes_colour})) is expected
