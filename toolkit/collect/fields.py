"""What the fields of a line may hold: the checks that prompts and completions share.

Each check answers with the value, or raises what `json_lines.located` turns into one line of message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from toolkit.characters import quoted, visible
from toolkit.collect.json_lines import Line, fail, kind_of, located, read_lines, source_name
from toolkit.errors import ToolkitError, argument

ROLES = ("system", "user", "assistant", "tool")
MAX_ID_LENGTH = 1000
LARGEST_ID = 2**31 - 1  # ids are stored in 32 bits

Item = TypeVar("Item")


def read_items(
    path: str | Path,
    names: Sequence[str],
    make: Callable[[Line], Item],
    mapping: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> list[Item]:
    """What `make` makes of each line's fields, in order.

    Parameters
    ----------
    path : str or Path
        JSON Lines, see `json_lines.read_lines`.
    names : sequence of str
        The fields there are; what else a line has is put into its metadata.
    make : callable
        Calls `fail` where a field does not hold what it should.
    mapping : Mapping, optional
        Which field of the file serves as which of ours; see `parse_mapping`.
    limit : int, optional
        Read this many lines and leave the rest of the file alone.

    Raises
    ------
    ToolkitError
        The file cannot be read, has no objects, or a line is not as it should be. The message begins with the
        file's name and line.
    """
    if limit is not None and limit < 1:
        raise ToolkitError(f"{argument('limit')}: {limit} is below 1; use 1 or more")
    items: list[Item] = []
    seen: set[str] = set()
    for line in read_lines(path):
        seen.update(line.fields)
        with located(line.where):
            items.append(make(replace(line, fields=mapped(line.fields, mapping or {}, names))))
        if len(items) == limit:
            break
    if not items:
        raise ToolkitError(f"{source_name(path)}: there is no prompt in it; write one JSON object a line")
    check_mapping_used(mapping or {}, seen, source_name(path))
    return items


def parse_mapping(pairs: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """`["reference=answer"]` as `{"reference": "answer"}`; `names` are the fields there are.

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
                f"{argument('map')}: {quoted(pair)} is not FIELD=NAME; write reference=answer, for example"
            )
        if ours not in names:
            raise ToolkitError(
                f"{argument('map')}: there is no field {quoted(ours)}; use one of {', '.join(names)}"
            )
        if ours in mapping:
            raise ToolkitError(f"{argument('map')}: {ours} is given twice; give it once")
        mapping[ours] = theirs
    return mapping


def mapped(fields: Mapping[str, Any], mapping: Mapping[str, str], names: Sequence[str]) -> dict[str, Any]:
    """The fields called `names` that are not null, and the rest of the line in metadata."""
    sources = {ours: mapping.get(ours, ours) for ours in names}
    known = {ours: fields[name] for ours, name in sources.items() if fields.get(name) is not None}
    used = set(sources.values())
    extra = {name: value for name, value in fields.items() if name not in used}
    metadata = known.get("metadata", {})
    if not isinstance(metadata, dict):
        fail(f"metadata is {kind_of(metadata)}; use an object")
    absent = [ours for ours in names if ours not in known and ours not in mapping]
    for name in extra:
        _check_extra(name, absent, metadata)
    return {**known, "metadata": {**metadata, **extra}}


def _check_extra(name: str, absent: Sequence[str], metadata: Mapping[str, Any]) -> None:
    if name in metadata:
        fail(f"{quoted(name)} is a field and a key of metadata; keep one")
    if meant := get_close_matches(name.lower(), absent, n=1, cutoff=0.85):
        fail(f"there is no field {quoted(name)}; did you mean {meant[0]}? Rename it, or put it into metadata")


def exactly_one(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    """The one of `names` that is among the fields."""
    found = [name for name in names if name in fields]
    if not found:
        fail(f"has neither {' nor '.join(names)}; give exactly one")
    if len(found) > 1:
        fail(f"has {'both ' if len(found) == 2 else ''}{' and '.join(found)}; give exactly one")
    return found[0]


def id_of(value: Any) -> str | None:
    """A prompt's id, where one is given."""
    if value is None:
        return None
    if not isinstance(value, str):
        fail(f"id is {kind_of(value)} ({quoted(value, 20)}); use a string")
    if not 0 < len(value) <= MAX_ID_LENGTH:
        fail(f"id has {len(value):,} characters; use 1 to {MAX_ID_LENGTH:,}")
    if visible(value) != value:
        fail(f"id {quoted(value)} has a control or hidden character; leave it out")
    return value


def text_of(value: Any, name: str) -> str:
    """Any string."""
    return value if isinstance(value, str) else fail(f"{name} is {kind_of(value)}; use a string")


def prompt_text(value: Any) -> str:
    """A text that is not blank."""
    if not text_of(value, "prompt").strip():
        fail("prompt is empty; give it some text")
    return value


def messages_of(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Messages with a role and content each."""
    if not isinstance(value, list):
        fail(f'messages is {kind_of(value)}; use an array of {{"role": ..., "content": ...}}')
    messages = tuple(_message(message, place) for place, message in enumerate(value, start=1))
    if not any(message["content"].strip() for message in messages):
        fail("messages has no text; give at least one message with content")
    return messages


def _message(value: Any, place: int) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        fail(f'message {place} is {kind_of(value)}; use an object with "role" and "content"')
    role, content = value.get("role"), value.get("content")
    if role not in ROLES:
        fail(f"message {place} has role {quoted(role)}; use one of {', '.join(ROLES)}")
    if not isinstance(content, str):
        fail(f"message {place} has {kind_of(content)} as content; use a string")
    return value


def references_of(value: Any) -> tuple[str, ...]:
    """A reference or several, as texts."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(_reference(item) for item in values)


def _reference(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        fail(f"reference is or has {kind_of(value)}; use a string, a number, or an array of them")
    text = str(value)
    if not text.strip():
        fail("reference is or has an empty string, which every answer would contain; leave it out")
    return text


def ids_of(value: Any, name: str) -> tuple[int, ...]:
    """Token ids: whole numbers from 0. Which of them a model has is not known here."""
    if not isinstance(value, list):
        fail(f"{name} is {kind_of(value)}; use an array of token ids")
    for token_id in value:
        if type(token_id) is not int or not 0 <= token_id <= LARGEST_ID:
            shown = kind_of(token_id) if isinstance(token_id, list | dict) else quoted(token_id, 20)
            fail(f"{name} has {shown}, which is no token id; use whole numbers from 0")
    return tuple(value)


def check_mapping_used(mapping: Mapping[str, str], seen: set[str], name: str) -> None:
    """Refuse a mapping from a field that no line has."""
    for ours, theirs in mapping.items():
        if theirs not in seen:
            raise ToolkitError(
                f"{argument('map')} {ours}={quoted(theirs)}: no line read from {name} has this field"
            )
