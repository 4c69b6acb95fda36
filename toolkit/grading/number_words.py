"""English number words: twenty-five, three point one, two thirds, half a million. Digits are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import regex

SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_BELOW_20 = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TEN_TIMES = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: value for value, word in enumerate(_BELOW_20)} | {
    word: 10 * value for value, word in enumerate(_TEN_TIMES, start=2)
}
_PARTS = {
    "half": 2,
    "halve": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "eighth": 8,
} | {"tenth": 10}
_UNIT, _TEEN, _TENS = (
    "|".join(sorted((w for w, v in _SMALL.items() if low <= v < high), key=len, reverse=True))
    for low, high in ((1, 10), (10, 20), (20, 100))
)
_BELOW_100 = rf"(?:(?:{_TENS})(?:[\s-]+(?:{_UNIT})\b)?|{_TEEN}|{_UNIT})\b"
_BELOW_1000 = rf"(?:(?:(?:{_BELOW_100}|an?)[\s-]+)?hundred(?:\s+(?:and\s+)?{_BELOW_100})?|{_BELOW_100})\b"
_SCALE = r"(?:thousand|million|billion|trillion)\b"
_PART = "|".join(_PARTS)
_WORDS = regex.compile(
    rf"\b(?P<minus>(?:minus|negative)\s+)?(?P<halved>half\s+(?=an?\b))?"
    rf"(?P<whole>(?:(?:{_BELOW_1000}|an?)[\s-]+)?{_SCALE}(?:,?\s+(?:and\s+)?{_BELOW_1000}[\s-]+{_SCALE})*"
    rf"(?:,?\s+(?:and\s+)?{_BELOW_1000})?|{_BELOW_1000}|zero\b)"
    rf"(?:\s+point(?P<fraction>(?:\s+(?:zero|{_UNIT})\b)+))?"
    # One third, two thirds; but the twenty third is no fraction.
    rf"(?:(?<=\bone)[\s-]+(?P<one_part>{_PART})\b|[\s-]+(?P<parts>{_PART})s\b)?"
    rf"(?:\s+and\s+(?:an?|one)[\s-]+(?P<and_part>{_PART})\b)?(?:(?<={_PART}|{_PART}s)\s+(?P<times>{_SCALE}))?"
    r"(?P<percent>\s*(?:%|per\s?cent\b))?",
    regex.IGNORECASE,
)
_PRONOUN = regex.compile(
    r"\b(?:any|each|every|no|other|some|that|the|this|which)[\s-]+\Kone\b|\bone(?=\s+another\b)",
    regex.IGNORECASE,
)


class SpokenNumber(NamedTuple):
    """A number in words, at text[start:end]."""

    value: float
    percent: bool
    start: int
    end: int


def spoken_numbers(text: str) -> Iterator[SpokenNumber]:
    """The numbers that a text has in words, in order. The one that is a pronoun is none: no one, this one."""
    pronouns = {match.start() for match in _PRONOUN.finditer(text)}
    for match in _WORDS.finditer(text):
        if not (match.start() in pronouns and match.group().lower() == "one"):
            yield SpokenNumber(_value(match), match["percent"] is not None, *match.span())


def _value(match: regex.Match[str]) -> float:
    parts = {name: (said or "").lower() for name, said in match.groupdict().items()}
    value = _spoken(parts["whole"])
    for place, word in enumerate(parts["fraction"].split(), start=1):
        value += _SMALL[word] / 10**place
    below = parts["one_part"] or parts["parts"]
    value /= _PARTS[below] if below else 1
    value += 1 / _PARTS[parts["and_part"]] if parts["and_part"] else 0
    value *= SCALES[parts["times"]] if parts["times"] else 1
    value /= 2 if parts["halved"] else 1
    return -value if parts["minus"] else value


def _spoken(said: str) -> float:
    """three hundred and five thousand and two: hundreds multiply what is said since the last thousand."""
    total, current = 0.0, 0.0
    for word in regex.findall("[a-z]+", said):
        if word in _SMALL:
            current += _SMALL[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in SCALES:
            total += (current or 1) * SCALES[word]
            current = 0.0
    return total + current
