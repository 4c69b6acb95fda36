"""Graders by name, and a grader together with where in the text it looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple

from toolkit.errors import ToolkitError
from toolkit.grading.base import Grade, Grader, Key, config_hash
from toolkit.grading.extract import Extraction
from toolkit.grading.graders import AnyOf, Choice, Contains, Exact, Number, Regex
from toolkit.grading.judgements import Function, Labels

GRADERS: dict[str, type[Grader]] = {
    grader.name: grader for grader in (Exact, Contains, AnyOf, Number, Regex, Choice, Function, Labels)
}


def make_grader(name: str, **settings: Any) -> Grader:
    """A grader by its name; `any-of` and `any_of` are one.

    Raises
    ------
    ToolkitError
        If there is no such grader, it has no such setting, one that it needs is missing, or a value is wrong.
    """
    known = name.replace("-", "_")
    if known not in GRADERS:
        known_names = ", ".join(GRADERS).replace("_", "-")
        raise ToolkitError(f"unknown grader {name!r}: give one of {known_names}")
    kind = GRADERS[known]
    names = [f.name for f in fields(kind)]
    for setting in settings:
        if setting not in names:
            raise ToolkitError(f"grader {known} has no setting {setting!r}: it has {', '.join(names)}")
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    for setting in missing:
        if setting not in settings:
            raise ToolkitError(f"grader {known} needs {setting}: give it, or {known}:VALUE")
    try:
        return kind(**settings)
    except TypeError as error:
        raise ToolkitError(f"grader {known}: a setting has the wrong type: {error}") from None


def parse_grader(text: str) -> Grader:
    """A grader as a command names it: NAME, or NAME:VALUE with its main setting.

    number:TOLERANCE (absolute), regex:PATTERN, choice:LETTERS, function:MODULE:NAME, labels:FILE,
    any_of:NAME,NAME.

    Raises
    ------
    ToolkitError
        As in `make_grader`, or if the grader takes no value.
    """
    name, colon, value = text.partition(":")
    known = name.replace("-", "_")
    if not colon or known not in GRADERS:
        return make_grader(name)
    if known not in _MAIN:
        raise ToolkitError(f"grader {known} takes no value, and {text!r} gives one: give {known}")
    setting, read = _MAIN[known]
    return make_grader(known, **{setting: read(value)})


def _tolerance(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ToolkitError(f"number:{value}: the tolerance is a number, as number:0.01") from None


_MAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "number": ("absolute", _tolerance),
    "regex": ("pattern", str),
    "choice": ("letters", str),
    "function": ("target", str),
    "labels": ("path", str),
    "any_of": ("graders", lambda value: tuple(make_grader(name.strip()) for name in value.split(","))),
}


class Graded(NamedTuple):
    """A grade, and the stretch of the text, in characters, that was judged."""

    grade: Grade
    start: int
    end: int


@dataclass(frozen=True)
class Grading:
    """A grader, and the part of the text that it is given."""

    grader: Grader
    extraction: Extraction = field(default_factory=Extraction)

    def __call__(self, text: str, references: Sequence[str] = (), *, key: Key | None = None) -> Graded:
        """Find the answer in a text and grade it.

        Raises
        ------
        ToolkitError
            As the extraction and the grader do.
        """
        answer = self.extraction(text)
        return Graded(self.grader.grade(answer.text, references, key=key), answer.start, answer.end)

    @property
    def config_hash(self) -> str:
        """16 hexadecimal digits that change with any setting of the grader or the extraction."""
        return config_hash({"grading": self.grader.config(), "extraction": self.extraction.config()})
