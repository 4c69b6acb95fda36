"""The kinds of spans by name: `word`, `sentence:de`, `regex:PATTERN`, `window:32:16`, or a function."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.spans.base import Checked, Finder, UserFinder
from toolkit.spans.json_fields import Fields
from toolkit.spans.lines import find_lines, find_paragraphs
from toolkit.spans.patterns import Groups
from toolkit.spans.sentences import Sentences
from toolkit.spans.thinking import Answer, Thinking, parse_marks
from toolkit.spans.words import find_words


class Window(NamedTuple):
    """Runs of `size` tokens, each beginning `step` tokens after the one before."""

    size: int
    step: int


@dataclass(frozen=True)
class SpanKind:
    """What a text is cut into.

    Attributes
    ----------
    name : str
        Without its argument: "regex".
    find : Finder, optional
        Finds the spans of a text; None for spans of tokens, segments and whole sequences.
    window : Window, optional
        For "window".
    labelled : bool
        Whether its spans have labels.
    can_be_cut : bool
        Whether the text's end can cut a span off, so that it is not complete.
    """

    name: str
    find: Finder | None = None
    window: Window | None = None
    labelled: bool = False
    can_be_cut: bool = False

    @property
    def find_opened(self) -> Finder | None:
        """The same finder for a text that begins inside a thinking block; None where that is no matter."""
        knows = isinstance(self.find, Thinking | Answer | Fields)
        return replace(self.find, opened=True) if knows else None  # type: ignore[type-var]


class Form(NamedTuple):
    """A kind as the documentation lists it, and how it is made of its argument."""

    usage: str
    description: str
    make: Callable[[str], SpanKind]  # of the text after the first colon; empty where there is none


def _plain(name: str, finder: Finder | None = None) -> Callable[[str], SpanKind]:
    def make(argument: str) -> SpanKind:
        if argument:
            raise ToolkitError(f"span {name} takes nothing after it, and {quoted(argument)} is given")
        return SpanKind(name, finder)

    return make


def _sentence(argument: str) -> SpanKind:
    return SpanKind("sentence", Sentences(argument or "en"))


def _field(argument: str) -> SpanKind:
    return SpanKind("field", Fields(argument or None), labelled=True, can_be_cut=True)


def _key(argument: str) -> SpanKind:
    return SpanKind("key", Fields(argument or None, "key"), labelled=True)


def _regex(argument: str) -> SpanKind:
    if not argument:
        raise ToolkitError(r"span regex needs a pattern after it, as regex:(?P<year>\d{4})")
    return SpanKind("regex", Groups(argument), labelled=True)


def _thinking(argument: str) -> SpanKind:
    finder = Thinking(parse_marks(argument)) if argument else Thinking()
    return SpanKind("thinking", finder, labelled=True, can_be_cut=True)


def _answer(argument: str) -> SpanKind:
    return SpanKind("answer", Answer(parse_marks(argument)) if argument else Answer())


def _window(argument: str) -> SpanKind:
    numbers = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", argument)
    size = int(numbers[1]) if numbers else 0
    step = int(numbers[2]) if numbers and numbers[2] else size
    if size < 1 or step < 1:
        raise ToolkitError(
            f"span window, given {quoted(argument)}, needs its number of tokens and may have a step, both of 1 "
            "or more: window:32:16"
        )
    return SpanKind("window", window=Window(size, step))


FORMS = {
    "token": Form("token", "each token", _plain("token")),
    "segment": Form("segment", "text that was released together while streaming", _plain("segment")),
    "word": Form("word", "words by the Unicode rules (UAX #29)", _plain("word", find_words)),
    "sentence": Form(
        "sentence[:LANGUAGE]", "sentences; abbreviations are English, or of a language", _sentence
    ),
    "line": Form("line", "lines that are not blank", _plain("line", find_lines)),
    "paragraph": Form("paragraph", "lines without a blank one between", _plain("paragraph", find_paragraphs)),
    "field": Form("field[:PATH]", "values of the answer's JSON, by path: a.b[0].c", _field),
    "key": Form("key[:PATH]", "keys of the answer's JSON", _key),
    "regex": Form("regex:PATTERN", "groups of a regular expression, or its matches", _regex),
    "thinking": Form("thinking[:BEGIN,END]", "thinking blocks", _thinking),
    "answer": Form("answer[:BEGIN,END]", "the text after the last thinking block", _answer),
    "window": Form("window:SIZE[:STEP]", "sliding windows of tokens; STEP is SIZE if not given", _window),
    "sequence": Form("sequence", "each sequence", _plain("sequence")),
    "prompt": Form("prompt", "all sequences of a prompt that are of one kind", _plain("prompt")),
}
"""Every kind of span, by name."""


def span_kind(by: str | UserFinder | SpanKind, left_out: Collection[str] = ()) -> SpanKind:
    """The kind that a text or a function names.

    Parameters
    ----------
    by : str or callable
        As in `FORMS`; or a function from a text to (start, end) or (start, end, label) of each span, counted
        in characters.
    left_out : collection of str
        Names that are not allowed here.

    Raises
    ------
    ToolkitError
        There is no such kind or it is not allowed (the message lists those that are), or its argument is wrong.
    """
    if isinstance(by, SpanKind):
        return by
    if callable(by):
        return SpanKind("function", Checked(by), labelled=True)
    name, _, argument = by.partition(":")
    allowed = {known: form for known, form in FORMS.items() if known not in left_out}
    if name in allowed:
        return allowed[name].make(argument)
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f" (did you mean {close[0]}?)" if close and name not in FORMS else ""
    problem = f"{name} cannot be used here" if name in FORMS else f"there is no span {quoted(by)}{hint}"
    raise ToolkitError(f"{problem}; use one of {', '.join(form.usage for form in allowed.values())}")
