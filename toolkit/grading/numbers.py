"""Numbers as people write them: 1,234.5, 10 000, −3, 2.5e6, 10^6, 3/4, 1½, 45 %, 5 million, twenty-five."""

from __future__ import annotations

import math
import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple

import regex

from toolkit.grading.number_words import SCALES, spoken_numbers

DecimalMark = Literal[".", ","]

_SIGNS = str.maketrans(
    {"．": ".", "，": ",", "－": "-", "＋": "+", "−": "-", "％": "%", "٫": ".", "٬": ",", "⁄": "/"}
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_POWER = r"(?:\^|\*\*)(?:\{{(?P<{0}>[-+]?\d+)\}}|(?P<{0}>[-+]?\d+))"
_SUPERSCRIPT = "[⁻⁺]?[⁰¹²³⁴-⁹]+"


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
        spaces, apostrophes and underscores; a group has three digits, or two before the last (1,23,456). A
        plain space groups threes: 10 000 is one number, 2020 100 are two.
    words : bool
        English number words count where the text has no digits: "One of them is 7" is 7. The pronoun does
        not: no one, this one.

    Returns
    -------
    list of FoundNumber
        Digits of any script; signs (a hyphen after a letter, a digit or a hyphen is none: GPT-4, 3-5), also
        before a currency; exponents (2e6, 2×10⁶, 2 x 10^6) and powers (10^6, 10⁶, 2**10); fractions 3/4, ½,
        1 1/2, 1½, but not dates 12/05/2020; "million" and its like after digits; percentages. Not version
        numbers (3.11.7), nor digits after a letter (H2O) or a letter's power (m^2), nor what is too large for
        a float. After an ellipsis begins a number: ...42 is 42.
    """
    plain = _plain_digits(text)
    found = [number for match in _digits(decimal).finditer(plain) if (number := _of_digits(match, decimal))]
    if found or not words:
        return found
    return [FoundNumber(*number) for number in spoken_numbers(text)]


@lru_cache(maxsize=2)
def _digits(decimal: DecimalMark) -> regex.Pattern[str]:
    point, comma = (r"\.", ",") if decimal == "." else (",", r"\.")
    vulgar = "[¼-¾⅐-⅞↉]"
    group = rf"[{comma}\u00a0\u2009\u202f'’_]"
    number = (
        rf"(?P<digits>(?:\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{3}}|[1-9]\d{{0,2}}(?:\x20\d{{3}})+)"
        rf"(?!\d)(?:{point}\d+)?|\d+(?:{point}\d+)?|(?<!{point}){point}\d+)"
    )
    exponent = (
        rf"(?:[eE](?P<e>[-+]?\d+)|\s?(?:[×x*·]|\\times|\\cdot)\s?10(?:{_POWER.format('ten')}"
        rf"|(?P<super>{_SUPERSCRIPT}))|{_POWER.format('power')}|(?<=(?<![\d{point}{comma}])10)(?P<of_ten>{_SUPERSCRIPT}))?"
    )
    return regex.compile(
        rf"(?:(?<![\w)-])(?P<sign>[-+]))?[$€£¥]?(?<![\w/]|\d{point}|\d/|\w\^\{{?[-+]?)"
        rf"(?:(?P<whole>\d+)\s+(?=\d+/))?"
        rf"(?:{number}{exponent}(?:/(?P<below>\d+)|(?P<and>{vulgar}))?|(?P<vulgar>{vulgar}))"
        rf"(?![\d/]|{point}\d)(?:\s?(?P<scale>{'|'.join(SCALES)})\b)?(?P<percent>\s?(?:%|per\s?cent\b))?",
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
    value *= SCALES[parts["scale"].lower()] if parts["scale"] else 1.0
    value = -value if parts["sign"] == "-" else value
    return FoundNumber(value, bool(parts["percent"]), *match.span()) if math.isfinite(value) else None


def _float(parts: dict[str, str], decimal: DecimalMark) -> float:
    whole, _, fraction = parts["digits"].partition(decimal)
    exponent = parts["e"] or parts["ten"] or (parts["super"] or "0").translate(_SUPERSCRIPTS)
    base = float(f"{regex.sub('[^0-9]', '', whole)}.{fraction or '0'}e{exponent}")  # too large is inf
    power = parts["power"] or (parts["of_ten"] or "1").translate(_SUPERSCRIPTS)
    try:
        return base ** float(power)
    except (OverflowError, ZeroDivisionError):
        return math.inf
