"""Completions from JSON Lines, each with its prompt: read strictly, named by line when they are wrong.

One object a line: `id` (optional), exactly one of `prompt`, `messages` and `prompt_token_ids`, exactly one of
`completion` and `completion_token_ids`, `reference` and `metadata` (optional). Any other field goes into
`metadata`. Knows nothing of tokenizers and templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.collect.fields import exactly_one, ids_of, read_items, text_of
from toolkit.collect.json_lines import Line
from toolkit.collect.prompts import Prompt, make_prompt

FIELDS = (
    "id",
    "prompt",
    "messages",
    "prompt_token_ids",
    "completion",
    "completion_token_ids",
    "reference",
    "metadata",
)


@dataclass(frozen=True)
class Completion:
    """A completion as it was given. Exactly one of `text` and `token_ids` is not None."""

    where: str  # its file and line, for messages
    prompt: Prompt
    text: str | None = None
    token_ids: tuple[int, ...] | None = None


def read_completions(
    path: str | Path, mapping: Mapping[str, str] | None = None, limit: int | None = None
) -> list[Completion]:
    """Completions of a JSON Lines file, in order.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input. UTF-8 without a byte order mark; blank lines are skipped.
    mapping : Mapping, optional
        Which field of the file serves as which of ours, `{"completion": "answer"}`; see `fields.parse_mapping`.
    limit : int, optional
        Read this many completions and leave the rest of the file alone.

    Raises
    ------
    ToolkitError
        The file cannot be read, a line is not as described, or there is none. The message begins with the
        file's name and line.
    """
    return read_items(path, FIELDS, _completion, mapping, limit)


def _completion(line: Line) -> Completion:
    prompt = make_prompt(line, ("prompt", "messages", "prompt_token_ids"))
    given = exactly_one(line.fields, ("completion", "completion_token_ids"))
    if given == "completion":
        return Completion(line.where, prompt, text=text_of(line.fields[given], given))
    return Completion(line.where, prompt, token_ids=ids_of(line.fields[given], given))
