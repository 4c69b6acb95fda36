"""Words by the Unicode rules (UAX #29): in every script, without a dictionary."""

from __future__ import annotations

import regex

from toolkit.spans.base import Span

# With the flag WORD, \b is UAX #29's boundary, and \B is everywhere else. No word begins with white space or
# punctuation of ASCII, and most of what is no word does.
_SEGMENT = regex.compile(r"\b[^\x00-/:-@\[-^`{-\x7f](?:\B.)*", regex.WORD | regex.DOTALL)


def find_words(text: str) -> list[Span]:
    """The words of a text: what stands between two boundaries of UAX #29 and has a letter or a digit.

    `can't`, `3.14` and `foo_bar` are one word each; `e-mail` is two, and punctuation, spaces and emoji are
    none. Scripts without spaces between words need a dictionary, which the rules do without: each Han and
    Hiragana character is a word of its own, Katakana runs are whole, and Thai, Lao, Khmer and Burmese are cut
    into single characters with their marks. Another segmenter can be given as a function.

    Source: Unicode Standard Annex #29, as the package regex has it.
    """
    return [
        Span(match.start(), match.end())
        for match in _SEGMENT.finditer(text)
        if any(map(str.isalnum, match.group()))
    ]
