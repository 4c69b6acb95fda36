"""Text in the terminal, coloured by how sure the model was of it.

Takes pieces of text with a value each and gives back lines. Colour is never alone: the less sure half of the
scale is underlined too, and where there is no colour it stands in brackets with its value.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from toolkit.appearance import palette
from toolkit.appearance.scales import Scale
from toolkit.characters import cluster_width, clusters, room, visible, visible_cluster, width
from toolkit.report.pieces import Piece, shared_value, whole_characters

UNSURE = 0.5  # below this confidence a piece is marked without colour too
_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_OURS = re.compile(r"\x1b\[[0-9;]*m")
_LEGEND_STEPS = 5
_LARGE = 1e6
_SMALL = 0.005  # below, two decimals would say nothing
_FEWEST_COLUMNS = 12  # that a text is given, however narrow the terminal


class ColourMode(enum.Enum):
    """What a terminal can show."""

    NONE = "none"
    XTERM256 = "256"
    TRUECOLOUR = "true"


class _Cell(NamedTuple):
    """What takes a place in a line and is not broken."""

    text: str
    start: str = ""  # the escape sequence that its colour begins with
    columns: int = 1
    is_wide: bool = False  # an ideograph or emoji: a line may break before and after it


_BREAK = _Cell("\n")
_SPACE = _Cell(" ")


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


def render(
    pieces: Iterable[Piece], scale: Scale, mode: ColourMode, *, columns: int | None = None, indent: str = ""
) -> str:
    """Pieces of text joined, each marked by its value's place on the scale.

    Control characters are made visible; a newline is shown and then obeyed. What a person sees as one
    character has one mark, that of its least sure part, also where pieces meet within it.

    Parameters
    ----------
    pieces : iterable of Piece
    scale : Scale
    mode : ColourMode
    columns : int, optional
        Break lines that would be wider in any terminal, between words where there are any. No colour reaches
        over a break.
    indent : str
        Comes before each line that is not empty, and counts as part of its width.
    """
    whole = [Piece(text, shared_value(values, scale)) for text, values in whole_characters(list(pieces))]
    cells = _plain_cells(whole, scale) if mode is ColourMode.NONE else _coloured_cells(whole, scale, mode)
    room = None if columns is None else max(_FEWEST_COLUMNS, columns - width(indent))
    return "\n".join(indent + _paint(line) if line else "" for line in _lines(cells, room))


def _coloured_cells(pieces: Iterable[Piece], scale: Scale, mode: ColourMode) -> Iterator[_Cell]:
    for text, value in pieces:
        if value is None or math.isnan(value):
            yield from _cells(text)
        else:
            yield from _cells(text, _escape(scale.confidence(value), mode))


def _plain_cells(pieces: Iterable[Piece], scale: Scale) -> Iterator[_Cell]:
    """The unsure in brackets with their values; neighbours that were not computed share a pair."""

    def state(piece: Piece) -> str:
        if piece.value is None:
            return "none"
        confidence = scale.confidence(piece.value)
        return "not computed" if math.isnan(confidence) else "unsure" if confidence < UNSURE else "sure"

    for kind, group in groupby(pieces, state):
        if kind == "not computed":
            yield from _bracketed("".join(piece.text for piece in group), "?")
        else:
            for text, value in group:
                yield from _bracketed(text, number(value or 0.0)) if kind == "unsure" else _cells(text)


def _bracketed(text: str, value: str) -> Iterator[_Cell]:
    """The text and its value in brackets; spaces and line breaks around it stay outside."""
    core = text.strip(" \n")
    before, _, after = text.partition(core) if core else ("", "", "")
    cells = list(_cells(core)) if core else [cell for cell in _cells(text) if cell is not _BREAK]
    cells[0] = _longer(cells[0], "⟦", "")
    cells[-1] = _longer(cells[-1], "", f" {value}⟧")
    yield from (*_cells(before), *cells, *_cells(after))
    if not core:
        yield from [_BREAK] * text.count("\n")


def _longer(cell: _Cell, before: str, after: str) -> _Cell:
    return _Cell(before + cell.text + after, cell.start, len(before) + cell.columns + len(after))


def _cells(text: str, start: str = "") -> Iterator[_Cell]:
    for cluster in clusters(text):
        shown = visible_cluster(cluster)
        yield _Cell(shown, start, room(shown), is_wide=shown == cluster and cluster_width(shown) == 2)
        if cluster == "\n":
            yield _BREAK


def _lines(cells: Iterable[_Cell], room: int | None) -> Iterator[list[_Cell]]:
    """Lines of `room` columns at most. The last column is for a space, which has no colour there."""
    line: list[_Cell] = []
    used = 0
    for cell in cells:
        if cell is _BREAK:
            yield line
            line, used = [], 0
        elif room is None or not line or used + cell.columns < room:
            line.append(cell)
            used += cell.columns
        elif cell.text == " " and used < room:
            yield [*line, _SPACE]
            line, used = [], 0
        else:
            kept, rest = _split(line, cell)
            yield kept
            used = cell.columns + sum(one.columns for one in rest)
            if rest and used >= room:
                yield rest
                rest, used = [], cell.columns
            line = [*rest, cell]
    yield line


def _split(line: list[_Cell], following: _Cell) -> tuple[list[_Cell], list[_Cell]]:
    """A full line at its last space or wide character; whole where there is none."""
    place = len(line)
    if not following.is_wide:
        ends = (i for i in range(place, 0, -1) if line[i - 1].text == " " or line[i - 1].is_wide)
        place = next(ends, place)
    kept = line[:place]
    return [*kept[:-1], _SPACE] if kept[-1].text == " " else kept, line[place:]


def _paint(line: Iterable[_Cell]) -> str:
    """A line with its escapes, all of them closed: some terminals would fill its rest with the last colour."""
    painted = (
        (start, "".join(cell.text for cell in group)) for start, group in groupby(line, lambda c: c.start)
    )
    return "".join(f"{start}{text}{_RESET}" if start else text for start, text in painted)


def _escape(confidence: float, mode: ColourMode) -> str:
    underline = "4;" if confidence < UNSURE else ""
    if mode is ColourMode.XTERM256:
        index = palette.xterm_colour(confidence)
        ink = 16 if palette.text_on(palette.xterm_rgb(index)) == palette.BLACK else 231
        return f"\x1b[{underline}38;5;{ink};48;5;{index}m"
    back = palette.colour(confidence)
    ink_rgb = palette.text_on(back)
    return "\x1b[{}38;2;{};{};{};48;2;{};{};{}m".format(underline, *ink_rgb, *back)


def legend(
    metric: str, scale: Scale, mode: ColourMode, *, columns: int | None = None, gaps: bool = False
) -> str:
    """What the marks mean: the scale's ends, its colours, and the mark of the unsure.

    Parameters
    ----------
    columns : int, optional
        Width to keep to; 40 is enough for every scale.
    gaps : bool
        Say also how text looks whose value was not computed.
    """
    name = f"{visible(metric)} ({scale.unit}):" if scale.unit else f"{visible(metric)}:"
    side = f"{'below' if scale.sure > scale.unsure else 'above'} {number(scale.value(UNSURE))}"
    if mode is ColourMode.NONE:
        parts = [name, f"⟦text value⟧ marks {side}", *(["? was not computed"] if gaps else [])]
        return fold(parts, columns, between=" ")
    values = [scale.value(step / (_LEGEND_STEPS - 1)) for step in range(_LEGEND_STEPS)]
    blocks = [_Cell(f" {value:z.2g} ", _escape(scale.confidence(value), mode)) for value in values]
    parts = [name, f"unsure {_paint(blocks)} sure;", f"underlined {side}" + (";" if gaps else "")]
    return fold([*parts, *(["plain was not computed"] if gaps else [])], columns, between=" ")


def fold(parts: Iterable[str], columns: int | None, *, indent: str = "  ", between: str = "  ") -> str:
    """Parts beside each other, on as many lines of `columns` as they need; those after the first are indented."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{between}{part}" if lines[-1].strip() else lines[-1] + part
        if columns is not None and lines[-1].strip() and room(_OURS.sub("", longer)) > columns:
            lines.append(indent + part)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def bold(text: str, mode: ColourMode) -> str:
    """Text that stands out, where there are colours."""
    return text if mode is ColourMode.NONE else f"{_BOLD}{text}{_RESET}"


def number(value: float) -> str:
    """A value for people: two decimals, whole numbers as they are, very large and small ones short, NaN as `?`."""
    if math.isnan(value):
        return "?"
    if abs(value) >= _LARGE:
        return f"{value:.2g}"
    if 0 < value < _SMALL:  # a probability; a log-probability or a margin so near 0 is 0 to a reader
        return f"{value:.0e}"
    return f"{value:.0f}" if value.is_integer() and value else f"{value:z.2f}"
