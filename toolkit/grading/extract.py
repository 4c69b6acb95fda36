"""The part of a text that is the answer: after thinking, a line of it, a pattern's group."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from toolkit.errors import ToolkitError
from toolkit.patterns import compile_pattern, search
from toolkit.spans import MARKS

Which = Literal["first", "last"]


class Extracted(NamedTuple):
    """A stretch of a text: text[start:end], counted in characters."""

    text: str | None  # None where there is no answer; start and end are then both where one could begin
    start: int
    end: int


@dataclass(frozen=True)
class Extraction:
    """Where in a text the answer is. Steps narrow the range, in this order; space around it is left out.

    Attributes
    ----------
    thinking : pairs of text
        The marks around thinking blocks. The answer is what follows the last block; there is none where a
        block was begun and not ended. Empty: thinking is judged too.
    opened : bool
        The prompt ends inside a thinking block (as some chat templates have it), so that a text without an
        end mark is all thinking.
    pattern : str, optional
        A regular expression (the `regex` package's syntax); the answer is its first group, or the whole match
        where it has none, and there is none without a match.
    match : {"last", "first"}
        Which match of the pattern.
    line : {"last", "first"}, optional
        Only that line which is not blank.
    """

    thinking: tuple[tuple[str, str], ...] = MARKS
    opened: bool = False
    pattern: str | None = None
    match: Which = "last"
    line: Which | None = None

    def __post_init__(self) -> None:
        for name, value in (("match", self.match), ("line", self.line or "last")):
            if value not in ("first", "last"):
                raise ToolkitError(f"{name} is {value!r}: give first or last")
        if any(not begin or not end for begin, end in self.thinking):
            raise ToolkitError("thinking has an empty mark: give pairs such as ('<think>', '</think>')")
        if self.pattern is not None:
            compile_pattern(self.pattern)

    def __call__(self, text: str) -> Extracted:
        """Find the answer.

        Raises
        ------
        ToolkitError
            If the pattern takes too long on this text.
        """
        start, end = _trimmed(text, self._answer_start(text), len(text))
        if self.pattern is not None:
            found = search(compile_pattern(self.pattern), text[start:end], last=self.match == "last")
            span = found.span(1 if found.re.groups else 0) if found is not None else (-1, -1)
            if span[0] < 0:
                return Extracted(None, start, start)
            start, end = _trimmed(text, start + span[0], start + span[1])
        if self.line is not None:
            start, end = _line(text, start, end, self.line)
        return Extracted(text[start:end], start, end) if end > start else Extracted(None, start, start)

    def config(self) -> dict[str, Any]:
        """Settings, as JSON has them."""
        return asdict(self)

    def _answer_start(self, text: str) -> int:
        ends = [text.rfind(end) + len(end) for _, end in self.thinking if end in text]
        start = max(ends, default=0)
        unended = any(text.find(begin, start) >= 0 for begin, _ in self.thinking)
        return len(text) if unended or (self.opened and not ends) else start


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    left = len(inner) - len(inner.lstrip())
    return start + left, max(start + left, start + len(inner.rstrip()))


def _line(text: str, start: int, end: int, which: Which) -> tuple[int, int]:
    """The first or last line of a range that neither begins nor ends with a blank line."""
    lines = text[start:end].splitlines(keepends=True)
    if not lines:
        return start, end
    if which == "first":
        return _trimmed(text, start, start + len(lines[0]))
    return _trimmed(text, end - len(lines[-1]), end)
