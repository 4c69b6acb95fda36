"""Text in the terminal, coloured by how sure the model was of it.

Takes pieces of text with a value each and gives back one string. Colour is never alone: the less sure
half of the scale is underlined too, and where there is no colour it stands in brackets with its value.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from toolkit.appearance import palette
from toolkit.appearance.scales import Scale
from toolkit.characters import is_joining, visible

UNSURE = 0.5  # below this confidence a piece is marked without colour too
_RESET = "\x1b[0m"
_LEGEND_STEPS = 9


class Piece(NamedTuple):
    """A stretch of text and the value that colours it; NaN is not computed, and leaves it plain."""

    text: str
    value: float


class ColourMode(enum.Enum):
    """What a terminal can show."""

    NONE = "none"
    XTERM256 = "256"
    TRUECOLOUR = "true"


def colour_mode(is_terminal: bool, environ: Mapping[str, str], choice: str = "auto") -> ColourMode:
    """Which colours to use.

    Parameters
    ----------
    is_terminal : bool
        Whether the output goes to a terminal.
    environ : Mapping
        NO_COLOR (not empty) and TERM=dumb turn colour off; COLORTERM and TERM say which there are.
    choice : {"auto", "always", "never"}
        `always` overrides the output's kind and NO_COLOR, for a pager; `never` turns colour off.
    """
    if choice == "never":
        return ColourMode.NONE
    term = environ.get("TERM", "")
    if choice == "auto" and (not is_terminal or environ.get("NO_COLOR") or term in ("", "dumb")):
        return ColourMode.NONE
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColourMode.TRUECOLOUR
    return ColourMode.XTERM256


def render(pieces: Iterable[Piece], scale: Scale, mode: ColourMode) -> str:
    """Pieces of text joined, each marked by its value's place on the scale.

    Control characters are made visible; a newline is shown and then obeyed. A combining mark at the
    start of a piece is drawn with the piece before it, since it shares that one's place in the line.
    """
    return "".join(_paint(piece, scale, mode) for piece in _attach_marks(pieces))


def _attach_marks(pieces: Iterable[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for text, value in pieces:
        start = 0
        while joined and start < len(text) and is_joining(text[start]):
            start += 1
        if start:
            joined[-1] = Piece(joined[-1].text + text[:start], joined[-1].value)
        if text[start:]:
            joined.append(Piece(text[start:], value))
    return joined


def _paint(piece: Piece, scale: Scale, mode: ColourMode) -> str:
    confidence = scale.confidence(piece.value)
    text = visible(piece.text, newlines=True)
    if math.isnan(confidence):
        return text
    if mode is ColourMode.NONE:
        return _bracketed(piece) if confidence < UNSURE else text
    start = _escape(confidence, mode)
    # Closed before a line break: some terminals would fill the rest of the line with the background.
    return "\n".join(f"{start}{line}{_RESET}" if line else "" for line in text.split("\n"))


def _bracketed(piece: Piece) -> str:
    """The text and its value in brackets; spaces and line breaks around it stay outside."""
    core = piece.text.strip(" \n") or piece.text
    before, _, after = piece.text.partition(core)
    marked = f"⟦{visible(core, newlines=True)} {number(piece.value)}⟧"
    return visible(before, newlines=True) + marked + visible(after, newlines=True)


def _escape(confidence: float, mode: ColourMode) -> str:
    underline = "4;" if confidence < UNSURE else ""
    if mode is ColourMode.XTERM256:
        index = palette.xterm_colour(confidence)
        ink = 16 if palette.text_on(palette.xterm_rgb(index)) == palette.BLACK else 231
        return f"\x1b[{underline}38;5;{ink};48;5;{index}m"
    back = palette.colour(confidence)
    ink_rgb = palette.text_on(back)
    return "\x1b[{}38;2;{};{};{};48;2;{};{};{}m".format(underline, *ink_rgb, *back)


def legend(metric: str, scale: Scale, mode: ColourMode) -> str:
    """One line that says what the marks mean: the scale's ends, its colours, and the mark of the unsure."""
    name = f"{metric} ({scale.unit})" if scale.unit else metric
    bound = number(scale.value(UNSURE))
    side = "below" if scale.sure > scale.unsure else "above"
    if mode is ColourMode.NONE:
        return f"{name}: ⟦text value⟧ marks {side} {bound}"
    steps = [scale.value(step / (_LEGEND_STEPS - 1)) for step in range(_LEGEND_STEPS)]
    blocks = "".join(_paint(Piece(f" {number(value)} ", value), scale, mode) for value in steps)
    return f"{name}: unsure {blocks} sure; underlined {side} {bound}"


def number(value: float) -> str:
    """A value for people: two decimals, whole numbers as they are, NaN as `?`."""
    if math.isnan(value):
        return "?"
    return f"{value:.0f}" if value.is_integer() and value else f"{value:z.2f}"


def split_by_tokens(
    text: str, byte_start: int, byte_end: int, tokens: Sequence[tuple[int, int, float]], scale: Scale
) -> list[Piece]:
    """A segment's text cut where its tokens meet, each part with its token's value.

    Parameters
    ----------
    text : str
        The segment's text, which lies over bytes `byte_start` to `byte_end` of the sequence.
    tokens : sequence of (byte_start, byte_end, value)
        Those with a byte in the segment, in order.
    scale : Scale
        Where several tokens made one character, it takes the least sure one's value.

    Notes
    -----
    Invalid bytes stand as U+FFFD, and which bytes each one replaced is not kept: such a segment is one piece.
    """
    spans = _character_spans(text, byte_start, byte_end)
    if spans is None:
        values = [value for _, _, value in tokens]
        return [Piece(text, least_sure(values, scale))] if text else []
    pieces: list[tuple[list[int], str]] = []
    for character, (start, end) in zip(text, spans, strict=True):
        owners = [i for i, (first, last, _) in enumerate(tokens) if first < end and last > start]
        if pieces and pieces[-1][0] == owners:
            pieces[-1] = (owners, pieces[-1][1] + character)
        else:
            pieces.append((owners, character))
    return [Piece(part, least_sure([tokens[i][2] for i in owners], scale)) for owners, part in pieces]


def _character_spans(text: str, byte_start: int, byte_end: int) -> list[tuple[int, int]] | None:
    spans, place = [], byte_start
    for character in text:
        following = place + len(character.encode("utf-8", errors="replace"))
        spans.append((place, following))
        place = following
    return spans if place == byte_end and "\ufffd" not in text else None


def least_sure(values: Sequence[float], scale: Scale) -> float:
    """The value of lowest confidence, also beyond the scale's end; NaN where none was computed."""
    known = [value for value in values if not math.isnan(value)]
    worst = min if scale.sure > scale.unsure else max
    return worst(known) if known else math.nan
