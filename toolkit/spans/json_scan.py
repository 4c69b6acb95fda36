"""Where the values and keys of JSON stand in a text, also of JSON that the text's end cuts off.

The values themselves are `json`'s business: text[start:end] of a field, in quotes if it was a string, can be
parsed by it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from toolkit.spans.base import Span

_CHARACTERS = r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_STRING = re.compile(rf'"{_CHARACTERS}"')
_CUT_STRING = re.compile(rf'"{_CHARACTERS}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z')
_WHOLE = r"-?(?:0|[1-9][0-9]*+)"
_NUMBER = re.compile(rf"{_WHOLE}(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_CUT_NUMBER = re.compile(rf"(?:-|{_WHOLE}(?:\.[0-9]*+|(?:\.[0-9]++)?[eE][+-]?[0-9]*+)?)\Z")
_LITERALS = ("true", "false", "null")
_SPACE = re.compile(r"[ \t\n\r]*+")
_OPENING = re.compile(r'\{(?=\s*(?:["}]|\Z))|\[(?=\s*(?:[-\["{\]\dtfn]|\Z))')
_MOST_TRIED = 200  # openings that turn out to be no JSON; each may cost a pass over the rest of the text
_DEEPEST = 500  # a path names every level, so that no end of brackets would fill the memory


class Document(NamedTuple):
    """An object or a list in a text. Spans are labelled with their paths and stand in order."""

    start: int
    end: int
    complete: bool  # False where the text's end cuts it off
    keys: list[Span]  # without their quotes
    values: list[Span]  # text without its quotes; lists and objects only where they are empty


def find_document(text: str, start: int = 0) -> Document | None:
    """The longest JSON object or list in a text, so that words and code fences around it do not matter.

    Control characters are let pass in strings, as `json.loads(strict=False)` does. What is otherwise no JSON,
    or is nested deeper than 500 levels, is passed over.

    Parameters
    ----------
    text : str
    start : int
        Where to begin to look.

    Returns
    -------
    Document or None
    """
    best: Document | None = None
    failed = 0
    while failed < _MOST_TRIED and (opening := _OPENING.search(text, start)) is not None:
        found = scan(text, opening.start())
        if found is None:
            failed += 1
            start = opening.start() + 1
            continue
        if best is None or found.end - found.start > best.end - best.start:
            best = found
        start = found.end
    return best


def scan(text: str, start: int) -> Document | None:
    """The object or list that opens at `start`; None if what follows is no JSON."""
    scanner = _Scanner(text, start)
    try:
        scanner.run()
    except _CutError:
        return Document(start, len(text), False, scanner.keys, scanner.values)
    except _DamagedError:
        return None
    return Document(start, scanner.at, True, scanner.keys, scanner.values)


class _CutError(Exception):
    """The text ends inside."""


class _DamagedError(Exception):
    """It is no JSON."""


@dataclass
class _Level:
    """An object or list that is open."""

    path: str
    start: int
    is_object: bool
    count: int = 0  # of members begun
    after_comma: bool = False

    @property
    def close(self) -> str:
        return "}" if self.is_object else "]"


@dataclass
class _Scanner:
    """Goes through JSON, without recursion."""

    text: str
    at: int
    keys: list[Span] = field(default_factory=list)
    values: list[Span] = field(default_factory=list)
    stack: list[_Level] = field(default_factory=list)

    def run(self) -> None:
        self._open("")
        while self.stack:
            level = self.stack[-1]
            mark = self._next()
            if mark == level.close and not level.after_comma:
                self._close()
            elif level.count and not level.after_comma:
                self._expect(",")
                level.after_comma = True
            else:
                path = self._key(level) if level.is_object else f"{level.path}[{level.count}]"
                level.count += 1
                level.after_comma = False
                self._value(path)

    def _next(self) -> str:
        """The character after white space, which is not yet taken."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.at == len(self.text):
            raise _CutError
        return self.text[self.at]

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise _DamagedError
        self.at += 1

    def _open(self, path: str) -> None:
        if len(self.stack) == _DEEPEST:
            raise _DamagedError
        self.stack.append(_Level(path, self.at, self.text[self.at] == "{"))
        self.at += 1

    def _close(self) -> None:
        level = self.stack.pop()
        self.at += 1
        if not level.count:
            self.values.append(Span(level.start, self.at, level.path or "$"))

    def _key(self, level: _Level) -> str:
        """Take a key and its colon, up to where its value begins."""
        start, end = self._string()
        path = level.path + _step(json.loads(self.text[start:end], strict=False))
        path = path.removeprefix(".")
        self.keys.append(Span(*_inside(start, end), path))
        self._expect(":")
        self._next()
        return path

    def _value(self, path: str) -> None:
        mark = self.text[self.at]
        if mark in "{[":
            self._open(path)
        elif mark == '"':
            start, end = self._string(path)
            self.values.append(Span(*_inside(start, end), path))
        else:
            start = self.at
            self.at = self._number_end(path) if mark in "-0123456789" else self._literal_end(path)
            self.values.append(Span(start, self.at, path))

    def _string(self, value_of: str | None = None) -> tuple[int, int]:
        """Take a string, its quotes included."""
        whole = _STRING.match(self.text, self.at)
        if whole is not None:
            self.at = whole.end()
            return whole.span()
        if not _CUT_STRING.match(self.text, self.at):
            raise _DamagedError
        raise self._cut(self.at + 1, value_of)

    def _number_end(self, path: str) -> int:
        if _CUT_NUMBER.match(self.text, self.at):
            raise self._cut(self.at, path)
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise _DamagedError
        return number.end()

    def _literal_end(self, path: str) -> int:
        for word in _LITERALS:
            if self.text.startswith(word, self.at):
                return self.at + len(word)
        rest = self.text[self.at : self.at + max(map(len, _LITERALS))]
        if any(word.startswith(rest) for word in _LITERALS):
            raise self._cut(self.at, path)
        raise _DamagedError

    def _cut(self, start: int, value_of: str | None) -> _CutError:
        """Keep what there is of a value that the text's end cuts off."""
        if value_of is not None and start < len(self.text):
            self.values.append(Span(start, len(self.text), value_of, complete=False))
        return _CutError()


def _inside(start: int, end: int) -> tuple[int, int]:
    """A string without its quotes; an empty one keeps them, since it has no other byte."""
    return (start + 1, end - 1) if end - start > 2 else (start, end)


def _step(key: str) -> str:
    """How a key goes on a path: .name, or ["two words"]."""
    if key.isidentifier():
        return f".{key}"
    # A half of a surrogate pair, which JSON can spell, is no character: it stays spelled.
    halves = any("\ud800" <= character <= "\udfff" for character in key)
    return f"[{json.dumps(key, ensure_ascii=halves)}]"
