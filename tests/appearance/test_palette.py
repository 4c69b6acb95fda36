"""The palette reads in grey, with any colour vision, and under text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.appearance.palette import (
    ANCHORS,
    BLACK,
    RGB,
    WHITE,
    XTERM,
    colour,
    contrast,
    hex_colour,
    luminance,
    text_on,
    xterm_colour,
    xterm_rgb,
)

# Machado, Oliveira and Fernandes 2009 (doi:10.1109/TVCG.2009.113), severity 1.0, on linear RGB.
COLOUR_VISION = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


def linear(value: float) -> float:
    value /= 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def lightness(y: float) -> float:
    """CIE L*, from a relative luminance."""
    return 116 * y ** (1 / 3) - 16 if y > (6 / 29) ** 3 else y * (29 / 3) ** 3


def seen(rgb: RGB, matrix: list[list[float]]) -> float:
    parts = [linear(c) for c in rgb]
    red, green, blue = (
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, parts, strict=True)))) for row in matrix
    )
    return lightness(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def test_lightness_rises_evenly_from_unsure_to_sure() -> None:
    steps = [b - a for a, b in itertools.pairwise(lightness(luminance(rgb)) for rgb in ANCHORS)]
    assert all(4.0 < step < 5.2 for step in steps)


@pytest.mark.parametrize("vision", COLOUR_VISION)
def test_the_order_holds_with_every_colour_vision(vision: str) -> None:
    values = [seen(rgb, COLOUR_VISION[vision]) for rgb in ANCHORS]
    assert all(b - a > 2.0 for a, b in itertools.pairwise(values))


def test_the_256_colours_keep_the_order_and_stay_near() -> None:
    values = [lightness(luminance(xterm_rgb(index))) for index in XTERM]
    wanted = [lightness(luminance(colour(step / (len(XTERM) - 1)))) for step in range(len(XTERM))]
    assert all(b - a > 5.0 for a, b in itertools.pairwise(values))
    assert all(abs(a - b) < 5.0 for a, b in zip(values, wanted, strict=True))


@given(st.builds(RGB, *[st.integers(0, 255)] * 3))
def test_text_can_be_read_on_any_colour(background: RGB) -> None:
    assert contrast(text_on(background), background) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21.0)
    assert contrast(RGB(119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.005)


def test_anchors_and_what_lies_between() -> None:
    assert [colour(step / 16) for step in range(17)] == list(ANCHORS)
    assert colour(1 / 32) == RGB(98, 39, 93)
    assert (colour(-1.0), colour(2.0)) == (ANCHORS[0], ANCHORS[-1])
    assert hex_colour(0.0) == "#56265a"
    assert (xterm_colour(-1.0), xterm_colour(0.5), xterm_colour(9.0)) == (53, 203, 255)


def test_xterm_colours_are_the_cube_and_the_greys() -> None:
    assert xterm_rgb(16) == BLACK
    assert xterm_rgb(231) == WHITE
    assert xterm_rgb(208) == RGB(255, 135, 0)
    assert xterm_rgb(244) == RGB(128, 128, 128)
    with pytest.raises(ValueError, match="outside 16 to 255"):
        xterm_rgb(15)
