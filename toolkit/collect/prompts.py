"""Prompts from JSON Lines: read strictly, named by line when they are wrong.

One object a line: `id` (optional), exactly one of `prompt` and `messages`, `reference` and `metadata`
(optional). Any other field goes into `metadata`. Knows nothing of tokenizers and templates.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from toolkit.characters import clip, quoted, visible
from toolkit.errors import ToolkitError

FIELDS = ("id", "prompt", "messages", "reference", "metadata")
ROLES = ("system", "user", "assistant", "tool")
MAX_LINE_BYTES = 16 * 2**20
MAX_ID_LENGTH = 1000
MAX_DEPTH = 64
_BOMS = {
    b"\xff\xfe": "UTF-16 or UTF-32",
    b"\xfe\xff": "UTF-16",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xef\xbb\xbf": "a byte order mark",
}


@dataclass(frozen=True)
class Prompt:
    """A prompt as it was given. Exactly one of `prompt`, `messages` and `token_ids` is not None."""

    index: int  # its place among the file's prompts, from 0
    line: int  # its line, from 1
    id: str | None = None
    prompt: str | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    reference: tuple[str, ...] = ()  # any of them is right
    metadata: Mapping[str, Any] = field(default_factory=dict)
    token_ids: tuple[int, ...] | None = None  # never from a file of prompts


def read_prompts(
    path: str | Path, mapping: Mapping[str, str] | None = None, limit: int | None = None
) -> list[Prompt]:
    """Prompts of a JSON Lines file, in order.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input. UTF-8 without a byte order mark; blank lines are skipped.
    mapping : Mapping, optional
        Which field of the file serves as which of ours, `{"reference": "answer"}`; see `parse_mapping`.
    limit : int, optional
        Read this many prompts and leave the rest of the file alone.

    Raises
    ------
    ToolkitError
        The file cannot be read, a line is not as described, an id is there twice, or there is no prompt.
        The message begins with the file's name and line.
    """
    if limit is not None and limit < 1:
        raise ToolkitError(f"--limit: {limit} is below 1; use 1 or more")
    name = "standard input" if str(path) == "-" else visible(str(path)) or "''"
    prompts: list[Prompt] = []
    lines_of: dict[str, int] = {}
    seen: set[str] = set()
    with _opened(path, name) as stream:
        for number, raw in _lines(stream, name):
            with _located(name, number):
                fields = _object(raw, number)
                seen.update(fields)
                prompt = _prompt(_mapped(fields, mapping or {}), len(prompts), number)
                _claim(prompt.id, number, lines_of)
            prompts.append(prompt)
            if len(prompts) == limit:
                break
    if not prompts:
        raise ToolkitError(f"{name}: there is no prompt in it; write one JSON object a line")
    _check_mapping_used(mapping or {}, seen, name)
    return prompts


def parse_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """`["reference=answer"]` as `{"reference": "answer"}`.

    Raises
    ------
    ToolkitError
        A pair has no `=` or an empty side, or names a field there is not, or one named before.
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise ToolkitError(
                f"--map: {quoted(pair)} is not FIELD=NAME; write reference=answer, for example"
            )
        if ours not in FIELDS:
            raise ToolkitError(f"--map: there is no field {quoted(ours)}; use one of {', '.join(FIELDS)}")
        if ours in mapping:
            raise ToolkitError(f"--map: {ours} is given twice; give it once")
        mapping[ours] = theirs
    return mapping


def file_hash(path: str | Path) -> str | None:
    """SHA-256 of a file's bytes as hexadecimal digits; None where it cannot be read twice (a pipe, `-`)."""
    if str(path) == "-" or not Path(path).is_file():
        return None
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _LineError(Exception):
    """What is wrong with a line, before the line is named."""


def _fail(message: str) -> NoReturn:
    raise _LineError(message)


@contextmanager
def _located(name: str, number: int) -> Iterator[None]:
    try:
        yield
    except _LineError as error:
        raise ToolkitError(f"{name}:{number}: {error}") from None


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
        with _located(name, number):
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
            _fail(f"begins with {meaning}; save the file as UTF-8 without a byte order mark")
    if len(raw) > MAX_LINE_BYTES:
        _fail(f"longer than {MAX_LINE_BYTES // 2**20} MiB; write one JSON object a line")
    if b"\0" in raw:
        _fail("has a NUL byte; save the file as UTF-8 text")


def _object(raw: bytes, number: int) -> dict[str, Any]:
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
        _fail(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8")
    except json.JSONDecodeError as error:
        _fail(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}")
    except RecursionError:
        _fail(f"nested deeper than {MAX_DEPTH} levels; flatten it")
    if not isinstance(value, dict):
        _fail(f'{_kind(value)}, where an object such as {{"prompt": "..."}} is wanted')
    _check_depth(value)
    _check_surrogates(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            _fail(f"the key {quoted(key)} is there twice; keep one")
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    _fail(f"{text} is not JSON; use a number, or null")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _fail(f"{clip(text, 20)} is too large; use a string")


def _integer(text: str) -> int:
    return int(text) if len(text) <= 300 else _fail(f"{clip(text, 20)} is too large; use a string")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    _fail(f"nested deeper than {MAX_DEPTH} levels; flatten it")


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _check_surrogates(value: dict[str, Any]) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        _fail(
            f"half of a surrogate pair (\\u{ord(error.object[error.start]):04x}); write the whole character"
        )


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "a string", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return kinds[type(value)]


def _mapped(fields: dict[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """Our fields under our names, and the rest of the line in metadata."""
    sources = {ours: mapping.get(ours, ours) for ours in FIELDS}
    known = {ours: fields[name] for ours, name in sources.items() if fields.get(name) is not None}
    used = set(sources.values())
    extra = {name: value for name, value in fields.items() if name not in used}
    metadata = known.get("metadata", {})
    if not isinstance(metadata, dict):
        _fail(f"metadata is {_kind(metadata)}; use an object")
    absent = [ours for ours in FIELDS if ours not in known and ours not in mapping]
    for name in extra:
        _check_extra(name, absent, metadata)
    return {**known, "metadata": {**metadata, **extra}}


def _check_extra(name: str, absent: Sequence[str], metadata: Mapping[str, Any]) -> None:
    if name in metadata:
        _fail(f"{quoted(name)} is a field and a key of metadata; keep one")
    if meant := get_close_matches(name.lower(), absent, n=1, cutoff=0.85):
        _fail(
            f"there is no field {quoted(name)}; did you mean {meant[0]}? Rename it, or put it into metadata"
        )


def _prompt(fields: dict[str, Any], index: int, line: int) -> Prompt:
    if ("prompt" in fields) == ("messages" in fields):
        both = "both prompt and messages" if "prompt" in fields else "neither prompt nor messages"
        _fail(f"has {both}; give exactly one")
    return Prompt(
        index=index,
        line=line,
        id=_id(fields.get("id")),
        prompt=_prompt_text(fields["prompt"]) if "prompt" in fields else None,
        messages=_messages(fields["messages"]) if "messages" in fields else None,
        reference=_references(fields.get("reference")),
        metadata=fields["metadata"],
    )


def _id(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        _fail(f"id is {_kind(value)} ({quoted(value, 20)}); use a string")
    if not 0 < len(value) <= MAX_ID_LENGTH:
        _fail(f"id has {len(value):,} characters; use 1 to {MAX_ID_LENGTH:,}")
    if visible(value) != value:
        _fail(f"id {quoted(value)} has a control or hidden character; leave it out")
    return value


def _prompt_text(value: Any) -> str:
    if not isinstance(value, str):
        _fail(f"prompt is {_kind(value)}; use a string")
    if not value.strip():
        _fail("prompt is empty; give it some text")
    return value


def _messages(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list):
        _fail(f'messages is {_kind(value)}; use an array of {{"role": ..., "content": ...}}')
    messages = tuple(_message(message, place) for place, message in enumerate(value, start=1))
    if not any(message["content"].strip() for message in messages):
        _fail("messages has no text; give at least one message with content")
    return messages


def _message(value: Any, place: int) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        _fail(f'message {place} is {_kind(value)}; use an object with "role" and "content"')
    role, content = value.get("role"), value.get("content")
    if role not in ROLES:
        _fail(f"message {place} has role {quoted(role)}; use one of {', '.join(ROLES)}")
    if not isinstance(content, str):
        _fail(f"message {place} has {_kind(content)} as content; use a string")
    return value


def _references(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(_reference(item) for item in values)


def _reference(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        _fail(f"reference is or has {_kind(value)}; use a string, a number, or an array of them")
    text = str(value)
    if not text.strip():
        _fail("reference is or has an empty string, which every answer would contain; leave it out")
    return text


def _claim(prompt_id: str | None, number: int, lines_of: dict[str, int]) -> None:
    if prompt_id is None:
        return
    if prompt_id in lines_of:
        _fail(f"id {quoted(prompt_id)} is on line {lines_of[prompt_id]} already; ids must differ")
    lines_of[prompt_id] = number


def _check_mapping_used(mapping: Mapping[str, str], seen: set[str], name: str) -> None:
    for ours, theirs in mapping.items():
        if theirs not in seen:
            raise ToolkitError(f"--map {ours}={quoted(theirs)}: no line read from {name} has this field")
