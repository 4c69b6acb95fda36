"""The JSON values of a file, each with its line: JSON Lines, an array, or values one after another.

Read more leniently than prompts are: other programs wrote it, and Python writes -Infinity into JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.characters import quoted
from toolkit.collect.json_lines import fail, kind_of, located, source_name
from toolkit.errors import ToolkitError

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


class Item(NamedTuple):
    """A value and where it begins."""

    where: str  # file:line
    value: dict[str, Any]


def read_objects(path: Path) -> Iterator[Item]:
    """The objects of a file, in order; those of arrays at its top one by one.

    Raises
    ------
    ToolkitError
        The file cannot be read, is not UTF-8 or no JSON, holds something else than objects, or nothing. The
        message begins with file and line.
    """
    name = source_name(path)
    found = False
    for where, value in _values(path, name):
        for inner in value if isinstance(value, list) else [value]:
            with located(where):
                if not isinstance(inner, dict):
                    fail(f"{kind_of(inner)}, where an object is wanted: a response of the source named")
            found = True
            yield Item(where, inner)
    if not found:
        raise ToolkitError(f"{name}: there is nothing in it; give a file of responses")


def _values(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """A line at a time while lines are values; from the first one that is not, the rest of the file at once."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        number, line = 0, ""
        try:
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                value = _whole(line)
                if value is None:
                    yield from _one_after_another(line + stream.read(), name, number)
                    return
                yield f"{name}:{number}", value[0]
        except UnicodeDecodeError:
            raise ToolkitError(f"{name}:{number + 1}: not UTF-8; save the file as UTF-8") from None


def _whole(line: str) -> tuple[Any] | None:
    """The value of a line; None where the line is no whole value."""
    try:
        return (json.loads(line),)
    except (ValueError, RecursionError):
        return None


def _one_after_another(text: str, name: str, first_line: int) -> Iterator[tuple[str, Any]]:
    """The values of a text: elements of arrays at its top one by one, so that each has its line."""
    place = depth = 0
    while True:
        while place < len(text) and text[place] in _SPACE + ",[]":
            depth += {"[": 1, "]": -1}.get(text[place], 0)
            place += 1
        if place == len(text):
            if depth:
                raise ToolkitError(f"{name}: an array is not closed; the file was cut off")
            return
        where = f"{name}:{first_line + text.count(chr(10), 0, place)}"
        with located(where):
            value, place = _decoded(text, place, where)
        yield where, value


def _decoded(text: str, place: int, where: str) -> tuple[Any, int]:
    if text.startswith("data:", place):
        fail(
            "a stream of events (data: ...), where whole responses are wanted; "
            "ask with stream false, and save the response"
        )
    try:
        return _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as error:
        end = text.find("\n", place)
        shown = quoted(text[place : end if end >= 0 else None], 40)
        fail(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} in {shown}")
    except ValueError as error:
        fail(f"not JSON: {str(error)[:60]}")
    except RecursionError:
        fail("nested too deeply; flatten it")
