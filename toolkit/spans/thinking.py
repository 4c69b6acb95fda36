"""Thinking blocks, and the answer after them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.spans.base import Span, trimmed

Marks = Sequence[tuple[str, str]]

MARKS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))
"""(begin, end) as models write them."""


class Block(NamedTuple):
    """A thinking block; start:end is what is between its marks."""

    start: int
    end: int
    after: int  # where the text goes on
    begin: str  # its first mark; empty where it began before the text
    complete: bool  # False where it was not ended


def thinking_blocks(text: str, marks: Marks = MARKS, *, opened: bool = False) -> list[Block]:
    """The thinking blocks of a text, in order.

    A block that is not ended reaches to the text's end. An end mark without a begin mark ends a block that
    began where the last one ended, or before the text. A begin mark inside a block means nothing.

    Parameters
    ----------
    text : str
    marks : pairs of str
        The marks around a block.
    opened : bool
        The text begins inside a block, as some chat templates have it.
    """
    ends = dict(marks)
    found: list[Block] = []
    start, begin, inside = 0, "", opened
    for match in re.finditer("|".join(re.escape(mark) for pair in marks for mark in pair), text):
        mark = match.group()
        if mark in ends and not inside:
            start, begin, inside = match.end(), mark, True
        elif mark not in ends and (not begin or mark == ends[begin]):
            found.append(Block(start, match.start(), match.end(), begin, True))
            start, begin, inside = match.end(), "", False
    if inside:
        found.append(Block(start, len(text), len(text), begin, False))
    return found


def answer_range(text: str, marks: Marks = MARKS, *, opened: bool = False) -> tuple[int, int]:
    """What follows the last thinking block, without white space around it: empty where that was not ended.

    Parameters are those of `thinking_blocks`.
    """
    blocks = thinking_blocks(text, marks, opened=opened)
    return trimmed(text, blocks[-1].after if blocks else 0, len(text))


def ends_in_thinking(prompt: str, marks: Marks = MARKS) -> bool:
    """Whether a rendered prompt ends inside a thinking block, so that its continuation begins in one."""
    return any(prompt.rfind(begin) > prompt.rfind(end) for begin, end in marks)


@dataclass(frozen=True)
class Thinking:
    """Finds thinking blocks, labelled with their first mark, without white space around; empty ones are left out.

    Attributes
    ----------
    marks : pairs of str
    opened : bool
        The text begins inside a block.
    """

    marks: Marks = MARKS
    opened: bool = False

    def __call__(self, text: str) -> list[Span]:
        """The blocks of a text; the last one may not be complete."""
        blocks = thinking_blocks(text, self.marks, opened=self.opened)
        ranges = [(*trimmed(text, block.start, block.end), block) for block in blocks]
        return [Span(start, end, b.begin, b.complete) for start, end, b in ranges if start < end]


@dataclass(frozen=True)
class Answer:
    """Finds the answer: what follows the last thinking block; nothing where that was not ended.

    Attributes are those of `Thinking`.
    """

    marks: Marks = MARKS
    opened: bool = False

    def __call__(self, text: str) -> list[Span]:
        """One span, or none."""
        start, end = answer_range(text, self.marks, opened=self.opened)
        return [Span(start, end)] if start < end else []


def parse_marks(text: str) -> Marks:
    """`BEGIN,END` as one pair of marks.

    Raises
    ------
    ToolkitError
        It is not two texts, or they are the same.
    """
    begin, _, end = text.partition(",")
    if not begin or not end or begin == end or "," in end:
        raise ToolkitError(f"marks {quoted(text)}: give two, as <think>,</think>")
    return ((begin, end),)
