"""Lines and paragraphs."""

from __future__ import annotations

import re

from toolkit.spans.base import Span

_LINE = re.compile(r"([^\n\r\v\f\x85\u2028\u2029]*)(?:\r\n|[\n\r\v\f\x85\u2028\u2029]|\Z)")


def find_lines(text: str) -> list[Span]:
    """The lines of a text that are not blank, without their line ends. Every line end of Unicode counts."""
    return [Span(*match.span(1)) for match in _LINE.finditer(text) if not _is_blank(match)]


def find_paragraphs(text: str) -> list[Span]:
    """Lines that follow one another without a blank line between, as one span."""
    found: list[Span] = []
    begins = True
    for match in _LINE.finditer(text):
        if _is_blank(match):
            begins = True
            continue
        start, end = match.span(1)
        if begins:
            found.append(Span(start, end))
        else:
            found[-1] = Span(found[-1].start, end)
        begins = False
    return found


def _is_blank(line: re.Match[str]) -> bool:
    return not line.group(1) or line.group(1).isspace()
