"""Words by the Unicode rules (UAX #29): in every script, without a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

from toolkit.spans.base import Span

# With the flag WORD, \b is UAX #29's boundary, and \B is everywhere else. No word begins with white space or
# punctuation of ASCII, and most of what is no word does.
_SEGMENT = regex.compile(r"\b[^\x00-/:-@\[-^`{-\x7f](?:\B.)*", regex.WORD | regex.DOTALL)

# The same rules where all is ASCII, which is many times as fast: letters, digits and _ stick together; one mark
# between two letters, or between two digits, joins them.
_ASCII = re.compile(
    r"[A-Za-z0-9_]+(?:(?:(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))[A-Za-z0-9_]+)*"
)

_span = Span._make  # a third faster than by its fields; a run has a word a token

# From a character beyond ASCII to the next space, and on while the next piece has one too. There is a boundary
# before every space that follows no space, whatever stands around it.
_OTHER = re.compile(r"[^\x00-\x7f][^ ]*(?: +[^ ]*[^\x00-\x7f][^ ]*)*")


def find_words(text: str) -> list[Span]:
    """The words of a text: what stands between two boundaries of UAX #29 and has a letter or a digit.

    `can't`, `3.14` and `foo_bar` are one word each; `e-mail` is two, and punctuation, spaces and emoji are
    none. Scripts without spaces between words need a dictionary, which the rules do without: each Han and
    Hiragana character is a word of its own, Katakana runs are whole, and Thai, Lao, Khmer and Burmese are cut
    into single characters with their marks. Another segmenter can be given as a function.

    Source: Unicode Standard Annex #29, as the package regex has it.
    """
    if text.isascii():
        return _ascii_words(text, 0, len(text))
    found: list[Span] = []
    done = 0
    for start, end in _beyond_ascii(text):
        found += _ascii_words(text, done, start)
        found += [
            Span(match.start(), match.end())
            for match in _SEGMENT.finditer(text, start, end)
            if any(map(str.isalnum, match.group()))
        ]
        done = end
    return found + _ascii_words(text, done, len(text))


def _beyond_ascii(text: str) -> Iterator[tuple[int, int]]:
    """Stretches from space to space that have all characters beyond ASCII."""
    for match in _OTHER.finditer(text):
        yield text.rfind(" ", 0, match.start()) + 1, match.end()


def _ascii_words(text: str, start: int, end: int) -> list[Span]:
    """The words of text[start:end], which is ASCII and ends at a boundary."""
    found = _ASCII.finditer(text, start, end)
    return [_span((*match.span(), "", True)) for match in found if match[0].strip("_")]
