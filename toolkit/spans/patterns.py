"""Groups of a regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import regex

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.spans.base import Span

# A pattern that needs longer for one text would not end on a longer one either.
_SECONDS = 5.0


@dataclass(frozen=True)
class Groups:
    """Finds what the groups of a pattern matched, everywhere in a text.

    Attributes
    ----------
    pattern : str
        In the syntax of the package regex. A group's span is labelled with its name, or its number; a pattern
        without groups gives its whole matches.

    Raises
    ------
    ToolkitError
        The pattern is no regular expression.
    """

    pattern: str

    def __post_init__(self) -> None:
        _compiled(self.pattern)

    def __call__(self, text: str) -> list[Span]:
        """Spans of at least one character: each capture of a group that is repeated, and of nested groups all.

        Raises
        ------
        ToolkitError
            The pattern takes over 5 seconds on this text.
        """
        compiled = _compiled(self.pattern)
        names = {number: name for name, number in compiled.groupindex.items()}
        labels = {group: names.get(group, str(group)) for group in range(1, compiled.groups + 1)} or {0: ""}
        try:
            matches = list(compiled.finditer(text, timeout=_SECONDS))
        except TimeoutError:
            raise ToolkitError(
                f"pattern {quoted(self.pattern)} takes over {_SECONDS:g} s on {len(text)} characters: "
                "avoid nested repeats such as (a+)+"
            ) from None
        return sorted(
            Span(start, end, label)
            for match in matches
            for group, label in labels.items()
            for start, end in match.spans(group)
            if start < end
        )


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ToolkitError(f"pattern {quoted(pattern)} is no regular expression: {error}") from None
