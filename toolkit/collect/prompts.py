"""Prompts from JSON Lines: read strictly, named by line when they are wrong.

One object a line: `id` (optional), exactly one of `prompt` and `messages`, `reference` and `metadata`
(optional). Any other field goes into `metadata`. Knows nothing of tokenizers and templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.characters import quoted
from toolkit.collect.fields import (
    exactly_one,
    id_of,
    ids_of,
    messages_of,
    prompt_text,
    read_items,
    references_of,
)
from toolkit.collect.json_lines import Line, fail

FIELDS = ("id", "prompt", "messages", "reference", "metadata")


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
    token_ids: tuple[int, ...] | None = None  # in files of completions, and from Python


def read_prompts(
    path: str | Path, mapping: Mapping[str, str] | None = None, limit: int | None = None
) -> list[Prompt]:
    """Prompts of a JSON Lines file, in order.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input. UTF-8 without a byte order mark; blank lines are skipped.
    mapping : Mapping, optional
        Which field of the file serves as which of ours, `{"reference": "answer"}`; see `fields.parse_mapping`.
    limit : int, optional
        Read this many prompts and leave the rest of the file alone.

    Raises
    ------
    ToolkitError
        The file cannot be read, a line is not as described, an id is there twice, or there is no prompt.
        The message begins with the file's name and line.
    """
    lines_of: dict[str, int] = {}

    def make(line: Line) -> Prompt:
        prompt = make_prompt(line)
        claim_id(prompt, lines_of)
        return prompt

    return read_items(path, FIELDS, make, mapping, limit)


def make_prompt(line: Line, sources: Sequence[str] = ("prompt", "messages")) -> Prompt:
    """The prompt that a line gives in one of the fields `sources`."""
    fields = line.fields
    given = exactly_one(fields, sources)
    return Prompt(
        index=line.index,
        line=line.number,
        id=id_of(fields.get("id")),
        prompt=prompt_text(fields["prompt"]) if given == "prompt" else None,
        messages=messages_of(fields["messages"]) if given == "messages" else None,
        reference=references_of(fields.get("reference")),
        metadata=fields["metadata"],
        token_ids=ids_of(fields[given], given) if given == "prompt_token_ids" else None,
    )


def claim_id(prompt: Prompt, lines_of: dict[str, int]) -> None:
    """Refuse an id that another line has, and remember whose it is."""
    if prompt.id is None:
        return
    if prompt.id in lines_of:
        fail(f"id {quoted(prompt.id)} is on line {lines_of[prompt.id]} already; ids must differ")
    lines_of[prompt.id] = prompt.line
