"""What a span is, and what finds spans in a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolkit.characters import count, quoted
from toolkit.errors import ToolkitError


class Span(NamedTuple):
    """A stretch of a text: text[start:end], counted in characters."""

    start: int
    end: int
    label: str = ""  # the path of a JSON field, the name of a regex group
    complete: bool = True  # False where the text's end cuts it off


Finder = Callable[[str], Sequence[Span]]
"""Finds the spans of a text, in the order of their starts."""

UserFinder = Callable[[str], Iterable[Sequence[Any]]]
"""A user's: (start, end) or (start, end, label) of each span, in any order."""


@dataclass(frozen=True)
class Checked:
    """A user's function as a finder: its spans are checked and sorted.

    Attributes
    ----------
    function : UserFinder
    """

    function: UserFinder

    def __call__(self, text: str) -> list[Span]:
        """Spans of a text.

        Raises
        ------
        ToolkitError
            The function fails, or gives something that is no span of the text.
        """
        try:
            found = list(self.function(text))
        except Exception as error:
            raise ToolkitError(
                f"{self._name} raised {type(error).__name__}: {error} (on the text {quoted(text)})"
            ) from error
        return sorted(self._span(one, len(text)) for one in found)

    def _span(self, one: Any, length: int) -> Span:
        try:
            start, end, label = one if len(one) == 3 else (*one, "")
            span = Span(int(start), int(end), str(label))
        except (TypeError, ValueError):
            raise ToolkitError(
                f"{self._name} gave {quoted(repr(one))}: a span is (start, end) or (start, end, label)"
            ) from None
        if not 0 <= span.start <= span.end <= length:
            raise ToolkitError(
                f"{self._name} gave {span.start}:{span.end}, and the text has {count(length, 'character')}: "
                "a span is 0 <= start <= end <= length"
            )
        return span

    @property
    def _name(self) -> str:
        return f"by={getattr(self.function, '__qualname__', repr(self.function))}"


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without the white space at its edges; an empty one where there is nothing else."""
    inner = text[start:end]
    left = len(inner) - len(inner.lstrip())
    return start + left, max(start + left, start + len(inner.rstrip()))
