"""Graders that compare a text with references: exact, contains, number, regex, choice, and any of several.

Every grader takes several references, any of which is right. Its settings are the fields of a frozen record,
so that a hash of them says how a grade came about. An answer without what is looked for is wrong; a unit
without a reference that can be used is ungraded (NaN).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

import regex

from toolkit.errors import ToolkitError
from toolkit.grading.base import NO_ANSWER, UNGRADED, Grade, Grader, Key
from toolkit.grading.normalize import Normalizer
from toolkit.grading.numbers import DecimalMark, FoundNumber, find_numbers
from toolkit.grading.units import whole_number
from toolkit.patterns import compile_pattern, search


@dataclass(frozen=True)
class Exact(Grader):
    """1 where the text equals a reference, both normalised; else 0.

    SQuAD's exact match where its normalisation does not lose digits or signs (see `Normalizer`).
    """

    name: ClassVar[str] = "exact"
    normalizer: Normalizer = field(default_factory=Normalizer)

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        wanted = {self.normalizer(reference) for reference in references} - {""}
        if not wanted:
            return UNGRADED
        if text is None:
            return NO_ANSWER
        return Grade(float(self.normalizer(text) in wanted), text.strip())


@dataclass(frozen=True)
class Contains(Grader):
    """1 where a reference occurs in the text, both normalised; else 0. `extracted` is the reference found.

    Attributes
    ----------
    whole_words : bool
        Only between word boundaries as Unicode has them (UAX 29): Niger is not in Nigeria, and 5 is neither
        in 15 nor in 1.5 nor in -5. Signs that belong to a word are part of it: C is not in C++, C# or C+, nor
        NET in .NET. Between Chinese characters is a boundary everywhere; Korean particles hang on to their
        word, so False serves better there.

    Notes
    -----
    A possessive, an elided article and a missing space after a point hide no word: Paris is in "Paris's",
    Italie in "l'Italie", and Oslo in "Oslo.It".
    """

    name: ClassVar[str] = "contains"
    whole_words: bool = True
    normalizer: Normalizer = field(default_factory=Normalizer)

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        wanted = [(reference, self.normalizer(reference)) for reference in references]
        wanted = [pair for pair in wanted if pair[1]]
        if not wanted:
            return UNGRADED
        apart = _HANGING.sub(" ", text or "")
        texts = dict.fromkeys(map(self.normalizer, (text or "", apart)))
        for reference, plain in wanted:
            if any(_contains(within, plain, self.whole_words) for within in texts):
                return Grade(1.0, reference)
        return Grade(0.0, None)


# What a word can carry without a space between: 's after it, l' before it, and a point with another sentence.
_HANGING = regex.compile(
    r"(?i)(?<=\w)['’ʼ＇]s\b|(?<=\b(?:[dl]|qu|all|dall|dell|nell|sull))['’ʼ＇](?=\p{L})|(?<=\p{L}{2})\.(?=\p{L}{2})"
)


@lru_cache(maxsize=4096)
def _words_pattern(plain: str) -> regex.Pattern[str]:
    # The 5 of -5 is another number, and the 5 of 1-5 is not.
    unsigned = r"(?<!(?<!\d)-)" if plain[0].isdecimal() else ""
    # C++11, A+ and C# are names; 2+2 is none, nor is Paris### where a heading follows at once.
    sharp = "|#(?!#)" if len(plain) == 1 else ""
    literal = regex.escape(plain, special_only=True)
    return regex.compile(rf"(?w)\b(?<!(?<![\w.])\.){unsigned}{literal}\b(?!\+\+(?!\+)|\+(?![\w+]){sharp})")


def _contains(within: str, plain: str, whole_words: bool) -> bool:
    return plain in within and (not whole_words or _words_pattern(plain).search(within) is not None)


@dataclass(frozen=True)
class Number(Grader):
    """1 where a number of the text is a reference's, within a tolerance; else 0.

    Attributes
    ----------
    absolute, relative : float
        |found − wanted| ≤ max(absolute, relative · |wanted|).
    which : {"last", "first", "any"}
        The number judged: a chain of reasoning ends with its answer (the convention of GSM8K), a short answer
        begins with it. `any` is the lenient one.
    decimal, words
        As in `find_numbers`.

    Notes
    -----
    A reference must be a number, such as 12, $12, 12 km/h or twelve, and not merely hold one, as Apollo 12 does:
    such a reference is not used. Currencies and units of measure are not compared. 45 % equals 45 and 0.45
    where only one of the two is written as a percentage.
    """

    name: ClassVar[str] = "number"
    absolute: float = 0.0
    relative: float = 1e-9
    which: Literal["last", "first", "any"] = "last"
    decimal: DecimalMark = "."
    words: bool = True

    def __post_init__(self) -> None:
        for name, value in (("absolute", self.absolute), ("relative", self.relative)):
            if not (math.isfinite(value) and value >= 0):
                raise ToolkitError(f"{name} is {value}: a tolerance is finite and not negative")
        if self.which not in ("last", "first", "any"):
            raise ToolkitError(f"which is {self.which!r}: give last, first or any")
        if self.decimal not in (".", ","):
            raise ToolkitError(f"decimal is {self.decimal!r}: give . or ,")

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        of_references = [
            whole_number(reference, decimal=self.decimal, words=self.words) for reference in references
        ]
        wanted = [number for number in of_references if number is not None]
        return self._judge(text or "", self._numbers(text or ""), wanted)

    def grade_value(self, found: str | float, wanted: float) -> Grade:
        """Grade a number, or a text with one, by a number. What is too large for a float is ungraded."""
        text = found if isinstance(found, str) else repr(found)
        numbers = self._numbers(text) if isinstance(found, str) else _plain(found)
        return self._judge(text, numbers, _plain(wanted))

    def _judge(self, text: str, found: list[FoundNumber], wanted: list[FoundNumber]) -> Grade:
        if not wanted:
            return UNGRADED
        if not found:
            return NO_ANSWER
        judged = found if self.which == "any" else [found[-1 if self.which == "last" else 0]]
        for number in judged:
            if any(self._equal(number, one) for one in wanted):
                return Grade(1.0, text[number.start : number.end].strip())
        return Grade(0.0, text[judged[-1].start : judged[-1].end].strip())

    def _numbers(self, text: str) -> list[FoundNumber]:
        return find_numbers(text, decimal=self.decimal, words=self.words)

    def _equal(self, found: FoundNumber, wanted: FoundNumber) -> bool:
        pairs = [(found.value, wanted.value)]
        if found.percent and not wanted.percent:
            pairs.append((found.value / 100, wanted.value))
        if wanted.percent and not found.percent:
            pairs.append((found.value, wanted.value / 100))
        return any(abs(a - b) <= max(self.absolute, self.relative * abs(b)) for a, b in pairs)


def _plain(value: float) -> list[FoundNumber]:
    try:
        number = FoundNumber(float(value), False, 0, len(repr(value)))
    except OverflowError:
        return []
    return [number] if math.isfinite(number.value) else []


@dataclass(frozen=True)
class Regex(Grader):
    """1 where a regular expression (the `regex` package's syntax) matches somewhere in the text; else 0.

    Attributes
    ----------
    pattern : str, optional
        Without it, each reference is a pattern. With it, references are not needed, unless it holds
        ``{reference}``, which stands for any of them, taken literally: ``answer is {reference}\\b``.
    ignore_case : bool
    """

    name: ClassVar[str] = "regex"
    pattern: str | None = None
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if self.pattern is not None:
            compile_pattern(self.pattern.replace("{reference}", "x"))

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        patterns = self._patterns(references)
        if not patterns:
            return UNGRADED
        flags = "(?i)" if self.ignore_case else ""
        for pattern in patterns:
            found = search(compile_pattern(flags + pattern), text or "")
            if found is not None and text is not None:
                return Grade(1.0, found.group())
        return NO_ANSWER

    @property
    def needs_references(self) -> bool:
        return self.pattern is None or "{reference}" in self.pattern

    def _patterns(self, references: Sequence[str]) -> list[str]:
        if self.pattern is None:
            for reference in references:
                compile_pattern(reference, "reference")
            return list(references)
        if "{reference}" not in self.pattern:
            return [self.pattern]
        escaped = [regex.escape(reference) for reference in references]
        return [self.pattern.replace("{reference}", reference) for reference in escaped]


@dataclass(frozen=True)
class Choice(Grader):
    """1 where the letter that the text chooses is a reference's; else 0.

    The letter is found as `toolkit.stats.answers.extract_choice` says, in text and reference alike: B, (b),
    "B.", "The answer is B", the last one in brackets. A capital inside a sentence is not taken: "A" is a
    word.

    Attributes
    ----------
    letters : str
        What there is to choose from.
    """

    name: ClassVar[str] = "choice"
    letters: str = "ABCDE"

    def __post_init__(self) -> None:
        if not self.letters.isascii() or not self.letters.isalpha():
            raise ToolkitError(f"letters is {self.letters!r}: give letters, such as ABCD")

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        # Statistics import SciPy, which the other graders can do without.
        from toolkit.stats.answers import extract_choice

        wanted = {extract_choice(reference, self.letters) for reference in references} - {None}
        if not wanted:
            return UNGRADED
        chosen = extract_choice(text or "", self.letters)
        return NO_ANSWER if chosen is None else Grade(float(chosen in wanted), chosen)


@dataclass(frozen=True)
class AnyOf(Grader):
    """The best grade that any of several graders gives; NaN where none of them can say.

    By default right where a reference is in the text, or is a number that the text comes to: 1,000 for 1000.
    `extracted` is the best grader's.
    """

    name: ClassVar[str] = "any_of"
    graders: tuple[Grader, ...] = (Contains(), Number())

    def __post_init__(self) -> None:
        if not self.graders:
            raise ToolkitError("graders is empty: give any-of at least one grader")

    @property
    def needs_references(self) -> bool:
        return all(grader.needs_references for grader in self.graders)

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        grades = [grader.grade(text, references, key=key) for grader in self.graders]
        known = [grade for grade in grades if not math.isnan(grade.value)]
        return max(known, key=lambda grade: grade.value, default=UNGRADED)

    def config(self) -> dict[str, Any]:
        """Name, version and the settings of each grader."""
        members = [grader.config() for grader in self.graders]
        return {"grader": self.name, "version": self.version, "graders": members}
