"""Questions with choices from JSON Lines: read strictly, named by line when they are wrong.

One object a line: `id` (optional), exactly one of `prompt` and `messages`, `choices`, `reference` and `metadata`
(optional). Any other field goes into `metadata`. Knows nothing of tokenizers and templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from toolkit.characters import clip, quoted
from toolkit.collect.fields import read_items, text_of
from toolkit.collect.json_lines import Line, fail, kind_of
from toolkit.collect.prompts import Prompt, claim_id, make_prompt

FIELDS = ("id", "prompt", "messages", "choices", "reference", "metadata")
LETTERS = ascii_uppercase


@dataclass(frozen=True)
class Question:
    """A question as it was given; its prompt's reference has the texts of the right choices."""

    where: str  # its file and line, for messages
    prompt: Prompt
    choices: tuple[str, ...]
    right: frozenset[int] = frozenset()  # places among the choices; empty where nobody said


def read_questions(
    path: str | Path, mapping: Mapping[str, str] | None = None, limit: int | None = None
) -> list[Question]:
    """Questions of a JSON Lines file, in order.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input. UTF-8 without a byte order mark; blank lines are skipped.
    mapping : Mapping, optional
        Which field of the file serves as which of ours, `{"reference": "answer"}`; see `fields.parse_mapping`.
    limit : int, optional
        Read this many questions and leave the rest of the file alone.

    Raises
    ------
    ToolkitError
        The file cannot be read, a line is not as described, choices are fewer than 2, more than 26 or repeated, a
        reference is none of them, or an id is there twice. The message begins with the file's name and line.
    """
    lines_of: dict[str, int] = {}

    def make(line: Line) -> Question:
        question = make_question(line)
        claim_id(question.prompt, lines_of)
        return question

    return read_items(path, FIELDS, make, mapping, limit)


def make_question(line: Line) -> Question:
    """The question that a line's fields give."""
    fields = line.fields
    choices = _choices(fields.get("choices"))
    given = fields.get("reference")
    values = given if isinstance(given, list) else [] if given is None else [given]
    right = [_place(value, choices) for value in values]
    prompt = make_prompt(replace(line, fields={**fields, "reference": [choices[i] for i in right]}))
    if prompt.messages is not None and prompt.messages[-1]["role"] != "user":
        fail("the last of messages is not the user's; end with the question")
    return Question(line.where, prompt, choices, frozenset(right))


def _choices(value: Any) -> tuple[str, ...]:
    if value is None:
        fail('has no choices; give an array of texts, as "choices": ["Paris", "Lyon"]')
    if not isinstance(value, list):
        fail(f"choices is {kind_of(value)}; use an array of texts")
    if not 2 <= len(value) <= len(LETTERS):
        fail(f"there are {len(value)} choices; give 2 to {len(LETTERS)}, one a letter")
    choices = tuple(text_of(item, f"choice {place}") for place, item in enumerate(value, start=1))
    seen: dict[str, int] = {}
    for place, choice in enumerate(choices, start=1):
        if not choice.strip():
            fail(f"choice {place} is empty; give it some text")
        if choice.strip() in seen:
            fail(
                f"choice {place} is {quoted(choice)}, as is choice {seen[choice.strip()]}; choices must differ"
            )
        seen[choice.strip()] = place
    return choices


def _place(value: Any, choices: Sequence[str]) -> int:
    """Which choice a reference means: a text is a choice or else its letter, a number its place from 0."""
    if isinstance(value, str):
        if value in choices:
            return choices.index(value)
        letter = LETTERS[: len(choices)].find(value.strip()) if len(value.strip()) == 1 else -1
        if letter >= 0:
            return letter
    elif type(value) is int and 0 <= value < len(choices):
        return value
    elif isinstance(value, bool) or not isinstance(value, int | float):
        fail(f"reference is or has {kind_of(value)}; use a choice, its letter, or its place from 0")
    fail(
        f"reference {quoted(str(value))} is none of the choices; give one of "
        f"{clip(', '.join(map(quoted, choices)), 200)}, its letter (A to {LETTERS[len(choices) - 1]}), "
        f"or its place (0 to {len(choices) - 1})"
    )
