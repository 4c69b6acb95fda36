"""What a text answers: its normalised form, a number, a choice letter, a regex's match.

Each is a function of one text. Those that extract give None where there is no such answer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Literal

from toolkit.errors import ToolkitError
from toolkit.patterns import compile_pattern, search

Position = Literal["first", "last"]

_KEPT = frozenset("#@&%‰§/\\")  # punctuation that changes what a word means: C#, 5%
_GROUP = "[, \u00a0\u2009\u202f]"
_GROUPED = (
    r"(?:\d{1,3}(?:[,\u00a0\u2009\u202f]\d{2,3})*[,\u00a0\u2009\u202f]\d{3}|[1-9]\d{0,2}(?: \d{3})+)(?!\d)"
)
_NUMBER = re.compile(
    r"(?:(?<![\w)−-])(?P<sign>[-−+]))?[$€£¥]?"  # a hyphen after a word is no sign: GPT-4, 3-5
    rf"(?<!\w)(?<!\d\.)(?<!\w\^)(?P<digits>(?:{_GROUPED}|\d+)(?:\.\d+)?|(?<!\.)\.\d+)(?:[eE](?P<e>[-+]?\d+))?"
    r"(?: ?[×x*·] ?10(?:\^|\*\*)(?P<ten>[-+]?\d+)|(?:\^|\*\*)(?P<power>[-+]?\d+))?(?!\d|\.\d)"
)


def normalize_text(text: str) -> str:
    """The text without what seldom changes an answer: case, width, spacing, punctuation around words.

    NFKC and case-folded; a run of white space is one space; punctuation and back-quotes at the edges of words
    go, except # @ & % ‰ § / \\ and a minus or a point before a digit, so that -5, .5 and 5% stay what they
    are, and 5 % is 5%. A text of nothing but punctuation stays.

    SQuAD's normalisation also drops a, an and the, and all punctuation inside words, which makes 3.5 into 35.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = [_trim(word) for word in folded.split()]
    kept = re.sub(r"(?<=\d) (?=[%‰])", "", " ".join(word for word in words if word))
    return kept or " ".join(folded.split())


def extract_number(text: str, position: Position = "last") -> float | None:
    """The first or the last number of a text, None where there is none.

    Digits of any script, with a decimal point, groups of thousands by comma or space (1,234.5; 1,23,456;
    10 000), a sign, also before a currency, an exponent (1e3, 2 x 10^3), a power (10^3). A percentage is its
    number; a fraction is two numbers; version numbers (3.11.7) and digits after a letter (H2O, m^2) are none.
    """
    _check(position)
    found = list(_NUMBER.finditer(text))
    value = _number_of(found[0 if position == "first" else -1]) if found else math.nan
    return value if math.isfinite(value) else None


def extract_choice(text: str, letters: str = "ABCDE") -> str | None:
    """The letter that a text chooses among `letters`, as a capital, None where it chooses none.

    In this order: the last letter after "answer", "option" or "choice" in the same sentence ("The answer is
    (B)"); the letter that the text begins with or consists of ("B) Paris", "b."); the last letter in
    brackets. A lone capital inside a sentence is not taken, since "A" is a word.
    """
    if not letters.isalpha():
        raise ToolkitError(f"letters={letters!r}: it must be letters, such as ABCD")
    upper = f"[{letters.upper()}]"
    either = f"[{letters.upper()}{letters.lower()}]"
    named = (
        r"\b(?i:answer|option|choice)\b(?:[^\w.!?…。！？]|_)*+"
        rf"(?:(?i:is|would be|was)\b[\s:=*_(\[{{\"'`]*+)?({upper})(?![^\W_]|['’])"
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
    pattern : in the syntax of the package `regex`
    position : which of several matches

    Raises
    ------
    ToolkitError
        Where the pattern does not compile, or takes over 5 seconds on this text.
    """
    _check(position)
    found = search(compile_pattern(pattern), text, last=position == "last")
    return None if found is None else found.group(1 if found.re.groups else 0)


def _check(position: Position) -> None:
    if position not in ("first", "last"):
        raise ToolkitError(f"position={position!r}: it must be first or last")


def _number_of(match: re.Match[str]) -> float:
    sign, digits, e, ten, power = match.group("sign", "digits", "e", "ten", "power")
    value = float(f"{re.sub(_GROUP, '', digits)}e{e or ten or 0}")
    try:
        value **= float(power or 1)
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return -value if sign in ("-", "−") else value


def _trim(word: str) -> str:
    start, end = 0, len(word)
    while end and _is_edge(word[end - 1]):
        end -= 1
    while start < end and _is_edge(word[start]) and not re.match(r"-?\.?\d", word[start:]):
        start += 1
    return word[start:end]


def _is_edge(character: str) -> bool:
    return character == "`" or (unicodedata.category(character)[0] == "P" and character not in _KEPT)
