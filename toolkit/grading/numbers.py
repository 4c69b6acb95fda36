"""Numbers as people write them: 1,234.5, −3, 2.5e6, 3/4, 1½, 45 %, 5 million, twenty-five."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import regex

DecimalMark = Literal[".", ","]

_SIGNS = str.maketrans(
    {"．": ".", "，": ",", "－": "-", "＋": "+", "−": "-", "％": "%", "٫": ".", "٬": ",", "⁄": "/"}
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_BELOW_20 = (
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TEN_TIMES = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: value for value, word in enumerate(_BELOW_20)} | {
    word: 10 * value for value, word in enumerate(_TEN_TIMES, start=2)
}
_UNIT, _TEEN, _TENS = (
    "|".join(sorted((w for w, v in _SMALL.items() if low <= v < high), key=len, reverse=True))
    for low, high in ((1, 10), (10, 20), (20, 100))
)
_BELOW_100 = rf"(?:(?:{_TENS})(?:[\s-]+(?:{_UNIT})\b)?|{_TEEN}|{_UNIT})\b"
_BELOW_1000 = rf"(?:(?:(?:{_BELOW_100}|an?)[\s-]+)?hundred(?:\s+(?:and\s+)?{_BELOW_100})?|{_BELOW_100})\b"
_SCALE = r"(?:thousand|million|billion|trillion)\b"
_WORDS = regex.compile(
    rf"\b(?P<minus>(?:minus|negative)\s+)?"
    rf"(?P<whole>(?:(?:{_BELOW_1000}|an?)[\s-]+)?{_SCALE}(?:,?\s+(?:and\s+)?{_BELOW_1000}[\s-]+{_SCALE})*"
    rf"(?:,?\s+(?:and\s+)?{_BELOW_1000})?|{_BELOW_1000}|zero\b)"
    rf"(?:\s+point(?P<fraction>(?:\s+(?:zero|{_UNIT})\b)+))?"
    r"(?P<percent>\s*(?:%|per\s?cent\b))?",
    regex.IGNORECASE,
)


class FoundNumber(NamedTuple):
    """A number in a text, at text[start:end] in characters."""

    value: float  # finite; of 45 % it is 45
    percent: bool
    start: int
    end: int


def find_numbers(text: str, *, decimal: DecimalMark = ".", words: bool = True) -> list[FoundNumber]:
    """The numbers of a text, in order.

    Parameters
    ----------
    text : str
    decimal : {".", ","}
        The decimal mark. Of the point and the comma, the other one groups thousands, as do no-break and thin
        spaces, apostrophes and underscores; a group has three digits, or two before the last (1,23,456).
    words : bool
        English number words count where the text has no digits: "One of them is 7" is 7.

    Returns
    -------
    list of FoundNumber
        Digits of any script; signs (a hyphen after a letter or digit is none: GPT-4, 3-5), also before a
        currency; exponents (2e6, 2×10⁶, 2 x 10^6); fractions 3/4, ½, 1 1/2, 1½, but not dates 12/05/2020;
        "million" and its like after digits; percentages. Not version numbers (3.11.7), nor digits after a
        letter (H2O), nor what is too large for a float.
    """
    plain = _plain_digits(text)
    found = [number for match in _digits(decimal).finditer(plain) if (number := _of_digits(match, decimal))]
    if found or not words:
        return found
    return list(_of_words(text))


@lru_cache(maxsize=2)
def _digits(decimal: DecimalMark) -> regex.Pattern[str]:
    point, comma = (r"\.", ",") if decimal == "." else (",", r"\.")
    vulgar = "[¼-¾⅐-⅞↉]"
    number = (
        rf"(?P<digits>\d{{1,3}}(?:[{comma}\u00a0\u2009\u202f'’_]\d{{2,3}})*[{comma}\u00a0\u2009\u202f'’_]\d{{3}}"
        rf"(?!\d)(?:{point}\d+)?|\d+(?:{point}\d+)?|{point}\d+)"
    )
    exponent = (
        r"(?:[eE](?P<e>[-+]?\d+)|\s?[×x*·]\s?10(?:(?:\^|\*\*)(?P<ten>[-+]?\d+)|(?P<super>[⁻⁺]?[⁰¹²³⁴-⁹]+)))?"
    )
    return regex.compile(
        rf"(?:(?<![\w.,)])(?P<sign>[-+]))?[$€£¥]?(?<![\w/]|\d{point}|\d/)"
        rf"(?:(?P<whole>\d+)\s+(?=\d+/))?"
        rf"(?:{number}{exponent}(?:/(?P<below>\d+)|(?P<and>{vulgar}))?|(?P<vulgar>{vulgar}))"
        rf"(?![\d/]|{point}\d)(?:\s?(?P<scale>{'|'.join(_SCALES)})\b)?(?P<percent>\s?(?:%|per\s?cent\b))?",
        regex.IGNORECASE,
    )


def _plain_digits(text: str) -> str:
    """The same text, character for character, with decimal digits of any script as 0 to 9."""
    translated = text.translate(_SIGNS)
    if translated.isascii():
        return translated
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in translated)


def _of_digits(match: regex.Match[str], decimal: DecimalMark) -> FoundNumber | None:
    parts = match.groupdict()
    value = unicodedata.numeric(parts["vulgar"]) if parts["vulgar"] else _float(parts, decimal)
    if parts["below"]:
        value = value / float(parts["below"]) if float(parts["below"]) else math.inf
    value += unicodedata.numeric(parts["and"]) if parts["and"] else 0.0
    value += float(parts["whole"] or 0)
    value *= _SCALES[parts["scale"].lower()] if parts["scale"] else 1.0
    value = -value if parts["sign"] == "-" else value
    return FoundNumber(value, bool(parts["percent"]), *match.span()) if math.isfinite(value) else None


def _float(parts: dict[str, str], decimal: DecimalMark) -> float:
    whole, _, fraction = parts["digits"].partition(decimal)
    exponent = parts["e"] or parts["ten"] or (parts["super"] or "0").translate(_SUPERSCRIPTS)
    return float(f"{regex.sub('[^0-9]', '', whole)}.{fraction or '0'}e{exponent}")  # too large is inf


def _of_words(text: str) -> Iterator[FoundNumber]:
    for match in _WORDS.finditer(text):
        value = _spoken(match["whole"].lower())
        for place, word in enumerate((match["fraction"] or "").lower().split(), start=1):
            value += _SMALL[word] / 10**place
        value = -value if match["minus"] else value
        yield FoundNumber(value, match["percent"] is not None, *match.span())


def _spoken(said: str) -> float:
    """three hundred and five thousand and two: hundreds multiply what is said since the last thousand."""
    total, current = 0.0, 0.0
    for word in regex.findall("[a-z]+", said):
        if word in _SMALL:
            current += _SMALL[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _SCALES:
            total += (current or 1) * _SCALES[word]
            current = 0.0
    return total + current
