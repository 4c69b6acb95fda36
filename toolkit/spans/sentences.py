"""Sentences in some 300 languages, by the package sentencex."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.spans.base import Span, trimmed

# sentencex panics where white space of more than one byte stands beside an initial. Each of these is replaced
# by one of one byte before it sees them, which moves no character.
_ONE_BYTE = dict.fromkeys(
    [0x1C, 0x1D, 0x1E, 0x1F, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "
) | dict.fromkeys([0x85, 0x2028, 0x2029], "\n")


@dataclass(frozen=True)
class Sentences:
    """Finds sentences.

    Attributes
    ----------
    language : str
        Its code, such as "de": it decides which abbreviations end no sentence (Dr., z. B.). End marks of all
        scripts are known to every language. An unknown code gets the rules of English.

    Raises
    ------
    ToolkitError
        The language is no code, or sentencex is not installed.
    """

    language: str = "en"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", self.language):
            raise ToolkitError(
                f"sentence: {quoted(self.language)} is no language code; give one such as en, de or zh"
            )

    def __call__(self, text: str) -> list[Span]:
        """The sentences of a text without the white space around them; Thai and other scripts without an end
        mark are one sentence a paragraph.
        """
        found, place = [], 0
        for piece in _splitter().segment(self.language.lower(), text.translate(_ONE_BYTE)):
            start, end = trimmed(text, place, place + len(piece))
            place += len(piece)
            if start < end:
                found.append(Span(start, end))
        return found


@lru_cache
def _splitter() -> Any:
    try:
        import sentencex
    except ImportError:
        raise ToolkitError("sentences need the package sentencex: pip install sentencex") from None
    return sentencex
