"""The one palette. It means confidence, from unsure (dark) to sure (nearly paper), wherever it is used.

Lightness rises evenly (CIE L* 24 to 97), so that it reads in grey, in print and with any colour vision;
the hue goes from purple over red and orange to cream. Made by walking CIE LCh in 16 equal steps of L*.
"""

from __future__ import annotations

from typing import NamedTuple


class RGB(NamedTuple):
    """A colour in sRGB, each part 0 to 255."""

    red: int
    green: int
    blue: int


BLACK = RGB(0, 0, 0)
WHITE = RGB(255, 255, 255)

ANCHORS = (  # unsure first, evenly spaced in confidence
    RGB(86, 38, 90),
    RGB(110, 40, 96),
    RGB(134, 42, 98),
    RGB(157, 45, 98),
    RGB(179, 49, 95),
    RGB(199, 57, 90),
    RGB(215, 72, 84),
    RGB(224, 91, 80),
    RGB(232, 109, 78),
    RGB(238, 128, 77),
    RGB(242, 147, 78),
    RGB(244, 165, 82),
    RGB(244, 184, 106),
    RGB(245, 201, 135),
    RGB(246, 217, 166),
    RGB(248, 232, 198),
    RGB(252, 246, 231),
)

# The nearest of the 256 terminal colours that keep the order of lightness, in 9 steps.
XTERM = (53, 89, 125, 167, 203, 209, 215, 223, 255)


def colour(confidence: float) -> RGB:
    """The colour of a confidence in [0, 1], between the anchors linearly; outside, the nearest end's."""
    place = min(max(confidence, 0.0), 1.0) * (len(ANCHORS) - 1)
    lower = min(int(place), len(ANCHORS) - 2)
    share = place - lower
    pairs = zip(ANCHORS[lower], ANCHORS[lower + 1], strict=True)
    return RGB(*(round(a + share * (b - a)) for a, b in pairs))


def hex_colour(confidence: float) -> str:
    """`colour` as `#rrggbb`, for HTML and matplotlib."""
    return "#{:02x}{:02x}{:02x}".format(*colour(confidence))


def xterm_colour(confidence: float) -> int:
    """The index among the 256 terminal colours for a confidence in [0, 1]."""
    return XTERM[round(min(max(confidence, 0.0), 1.0) * (len(XTERM) - 1))]


def xterm_rgb(index: int) -> RGB:
    """What a terminal draws for a colour index of 16 to 255: a 6 × 6 × 6 cube, then 24 greys."""
    if not 16 <= index <= 255:
        raise ValueError(f"index {index} is outside 16 to 255: the first 16 colours are the user's own")
    if index >= 232:
        return RGB(*(8 + 10 * (index - 232),) * 3)
    place = index - 16
    steps = (place // 36, place // 6 % 6, place % 6)
    return RGB(*(55 + 40 * step if step else 0 for step in steps))


def luminance(rgb: RGB) -> float:
    """Relative luminance in [0, 1], as WCAG 2 defines it."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: RGB, other: RGB) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG 2 defines it; text needs 4.5."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(background: RGB) -> RGB:
    """Black or white, whichever stands out more; the contrast is then 4.5 at least on any background."""
    return max((BLACK, WHITE), key=lambda ink: contrast(ink, background))
