"""JSON Lines, read strictly: one object a line, and a line that is wrong is named.

Knows nothing of what the objects are for.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from toolkit.characters import clip, quoted, visible
from toolkit.errors import ToolkitError

MAX_LINE_BYTES = 16 * 2**20
MAX_DEPTH = 64
_BOMS = {
    b"\xff\xfe": "UTF-16 or UTF-32",
    b"\xfe\xff": "UTF-16",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xef\xbb\xbf": "a byte order mark",
}


@dataclass(frozen=True)
class Line:
    """A line's object."""

    where: str  # its file and number, for messages
    number: int  # from 1
    index: int  # among the lines with an object, from 0
    fields: dict[str, Any]


def read_lines(path: str | Path) -> Iterator[Line]:
    """The objects of a JSON Lines file, in order.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input. UTF-8 without a byte order mark; blank lines are skipped.

    Raises
    ------
    ToolkitError
        The file cannot be read, or a line holds anything but one object that JSON allows. The message begins
        with the file's name and line.
    """
    name = source_name(path)
    with _opened(path, name) as stream:
        for index, (number, raw) in enumerate(_lines(stream, name)):
            where = f"{name}:{number}"
            with located(where):
                fields = _object(raw)
            yield Line(where, number, index, fields)


def source_name(path: str | Path) -> str:
    """What messages call a file."""
    return "standard input" if str(path) == "-" else visible(str(path)) or "''"


def file_hash(path: str | Path) -> str | None:
    """SHA-256 of a file's bytes as hexadecimal digits; None where it cannot be read twice (a pipe, `-`)."""
    if str(path) == "-" or not Path(path).is_file():
        return None
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class LineError(Exception):
    """What is wrong with a line, before the line is named."""


def fail(message: str) -> NoReturn:
    """Say what is wrong with a line; `located` names it."""
    raise LineError(message)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put `where` before what `fail` says inside, as a ToolkitError."""
    try:
        yield
    except LineError as error:
        raise ToolkitError(f"{where}: {error}") from None


@contextmanager
def _opened(path: str | Path, name: str) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(path, "rb")  # noqa: SIM115  (closed below; an error while reading is not one of opening)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolkitError(f"{name}: cannot be read: {reason}") from None
    with stream:
        yield stream


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    while raw := _next_line(stream, name, number + 1):
        number += 1
        with located(f"{name}:{number}"):
            _check_bytes(raw, number)
        if raw.strip():
            yield number, raw


def _next_line(stream: BinaryIO, name: str, number: int) -> bytes:
    try:
        return stream.readline(MAX_LINE_BYTES + 1)
    except OSError as error:
        raise ToolkitError(f"{name}:{number}: cannot be read: {error.strerror}") from None


def _check_bytes(raw: bytes, number: int) -> None:
    for bom, meaning in _BOMS.items():
        if number == 1 and raw.startswith(bom):
            fail(f"begins with {meaning}; save the file as UTF-8 without a byte order mark")
    if len(raw) > MAX_LINE_BYTES:
        fail(f"longer than {MAX_LINE_BYTES // 2**20} MiB; write one JSON object a line")
    if b"\0" in raw:
        fail("has a NUL byte; save the file as UTF-8 text")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except UnicodeDecodeError as error:
        fail(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8")
    except json.JSONDecodeError as error:
        fail(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}")
    except RecursionError:
        fail(f"nested deeper than {MAX_DEPTH} levels; flatten it")
    if not isinstance(value, dict):
        fail(f'{kind_of(value)}, where an object such as {{"prompt": "..."}} is wanted')
    _check_depth(value)
    _check_surrogates(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            fail(f"the key {quoted(key)} is there twice; keep one")
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    fail(f"{text} is not JSON; use a number, or null")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else fail(f"{clip(text, 20)} is too large; use a string")


def _integer(text: str) -> int:
    return int(text) if len(text) <= 300 else fail(f"{clip(text, 20)} is too large; use a string")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    fail(f"nested deeper than {MAX_DEPTH} levels; flatten it")


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _check_surrogates(value: dict[str, Any]) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        fail(f"half of a surrogate pair (\\u{ord(error.object[error.start]):04x}); write the whole character")


def kind_of(value: Any) -> str:
    """What a value of JSON is called in messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "a string", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return kinds[type(value)]
