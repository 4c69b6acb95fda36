"""Regular expressions of users: in the syntax of the package `regex`, with a limit on the time."""

from __future__ import annotations

from functools import lru_cache

import regex

from toolkit.errors import ToolkitError

# A pattern that needs longer for one text would not end on a longer one either.
PATTERN_SECONDS = 5.0


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, what: str = "pattern") -> regex.Pattern[str]:
    """A user's regular expression; `what` is its name in the message.

    Raises
    ------
    ToolkitError
        If it is none.
    """
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ToolkitError(f"{what} {pattern!r} is no regular expression: {error}") from None


def search(pattern: regex.Pattern[str], text: str, *, last: bool = False) -> regex.Match[str] | None:
    """The first or the last match.

    Raises
    ------
    ToolkitError
        If it takes over 5 seconds: the pattern tries too many ways.
    """
    try:
        if not last:
            return pattern.search(text, timeout=PATTERN_SECONDS)
        matches = list(pattern.finditer(text, timeout=PATTERN_SECONDS))
    except TimeoutError:
        raise ToolkitError(
            f"pattern {pattern.pattern!r} takes over {PATTERN_SECONDS:g} s on {len(text)} characters: "
            "avoid nested repeats such as (a+)+"
        ) from None
    return matches[-1] if matches else None
