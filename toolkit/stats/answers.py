"""What a text answers: its normalised form, a number, a choice letter, a regex's match.

Each is a function of one text. Those that extract give None where there is no such answer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Literal

from toolkit.errors import ToolkitError

Position = Literal["first", "last"]

_KEPT = frozenset("#@&%‰§/\\")  # punctuation that changes what a word means: C#, 5%
_GROUPED = r"\d{1,3}(?:[,\u00a0\u202f]\d{2,3})*[,\u00a0\u202f]\d{3}(?!\d)"
_NUMBER = re.compile(
    r"(?:(?<![\w)])[-−+])?"  # a hyphen after a word is no sign: GPT-4, 3-5
    rf"(?<![\w.])(?:(?:{_GROUPED}|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)


def normalize_text(text: str) -> str:
    """The text without what seldom changes an answer: case, width, spacing, punctuation around words.

    NFKC and case-folded; a run of white space is one space; punctuation and back-quotes at the edges of words
    go, except # @ & % ‰ § / \\ and a minus or a point before a digit, so that -5, .5 and 5% stay what they
    are. A text of nothing but punctuation stays.

    SQuAD's normalisation also drops a, an and the, and all punctuation inside words, which makes 3.5 into 35.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = [_trim(word) for word in folded.split()]
    return " ".join(word for word in words if word) or " ".join(folded.split())


def extract_number(text: str, position: Position = "last") -> float | None:
    """The first or the last number of a text, None where there is none.

    Digits of any script, with a decimal point, groups of thousands by comma or no-break space (1,234.5;
    1,23,456), a sign, an exponent. A percentage is its number; a fraction is two numbers; digits after a
    letter (H2O) are none.
    """
    found = [match.group() for match in _NUMBER.finditer(text)]
    if not found:
        return None
    digits = re.sub(r"[,\u00a0\u202f]", "", _one(found, position)).replace("−", "-")
    value = float(digits)
    return value if math.isfinite(value) else None


def extract_choice(text: str, letters: str = "ABCDE") -> str | None:
    """The letter that a text chooses among `letters`, as a capital, None where it chooses none.

    In this order: the last letter after "answer", "option" or "choice" ("The answer is (B)"); the letter that
    the text begins with or consists of ("B) Paris", "b."); the last letter in brackets. A lone capital inside
    a sentence is not taken, since "A" is a word.
    """
    if not letters.isalpha():
        raise ToolkitError(f"letters={letters!r}: it must be letters, such as ABCD")
    upper = f"[{letters.upper()}]"
    either = f"[{letters.upper()}{letters.lower()}]"
    named = (
        rf"\b(?i:answer|option|choice)\b\W*(?:(?i:is|would be|was)\b)?[\s:=*_(\[{{\"'`]*({upper})(?![\w'’])"
    )
    leading = rf"\A[\s*_(\[{{\"'`]*({either})(?=[\s*_\"'`]*[).:\]}}]|[\s*_\"'`]*\Z)"
    bracketed = rf"[(\[{{]\s*({either})\s*[)\]}}]"
    for pattern in (named, leading, bracketed):
        found = re.findall(pattern, text)
        if found:
            return str(found[-1]).upper()
    return None


def extract_match(text: str, pattern: str, position: Position = "last") -> str | None:
    """What a regular expression matches: its first group where it has one; None where nothing matches.

    Parameters
    ----------
    pattern : of Python's `re`
    position : which of several matches

    Raises
    ------
    ToolkitError
        Where the pattern does not compile.
    """
    try:
        found = [match.group(match.re.groups and 1) for match in re.finditer(pattern, text)]
    except re.error as error:
        raise ToolkitError(f"pattern {pattern!r} is no regular expression: {error}") from None
    return _one(found, position) if found else None


def _one(found: list[str], position: Position) -> str:
    if position not in ("first", "last"):
        raise ToolkitError(f"position={position!r}: it must be first or last")
    return found[0 if position == "first" else -1]


def _trim(word: str) -> str:
    start, end = 0, len(word)
    while end and _is_edge(word[end - 1]):
        end -= 1
    while start < end and _is_edge(word[start]) and not re.match(r"-?\.?\d", word[start:]):
        start += 1
    return word[start:end]


def _is_edge(character: str) -> bool:
    return character == "`" or (unicodedata.category(character)[0] == "P" and character not in _KEPT)
