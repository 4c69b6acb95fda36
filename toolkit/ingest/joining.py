"""Prompts and references of a file of their own, by the ids that responses have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from toolkit.collect.fields import mapped, messages_of
from toolkit.collect.json_lines import fail, located, read_lines
from toolkit.collect.prompts import FIELDS, Prompt, make_prompt
from toolkit.errors import ToolkitError, argument
from toolkit.ingest.given import GivenPrompt
from toolkit.ingest.requests import asked


def read_known(path: Path, mapping: Mapping[str, str] | None = None) -> dict[str, GivenPrompt]:
    """The prompts of a file as `toolkit collect` reads it, or of the input of a batch, by id.

    Raises
    ------
    ToolkitError
        A line is wrong, or has no id, or one that is there twice.
    """
    found: dict[str, GivenPrompt] = {}
    for line in read_lines(path):
        with located(line.where):
            fields = dict(line.fields)
            if "custom_id" in fields and isinstance(fields.get("body"), dict):
                text, messages, ids = asked(fields["body"])
                prompt = GivenPrompt(str(fields["custom_id"]), text, messages, ids, index=line.index)
            else:
                prompt = _given(make_prompt(replace(line, fields=mapped(fields, mapping or {}, FIELDS))))
            if prompt.id in found:
                fail(f"id {prompt.id!r} is there twice; ids must differ")
            found[prompt.id] = prompt
    return found


def _given(prompt: Prompt) -> GivenPrompt:
    if prompt.id is None:
        fail("has no id; responses are joined with prompts by their ids")
    messages = None if prompt.messages is None else messages_of(list(prompt.messages))
    text = prompt.prompt if prompt.prompt is not None else "\n".join(m["content"] for m in messages or ())
    return GivenPrompt(
        prompt.id, text, messages, reference=prompt.reference, metadata=prompt.metadata, index=prompt.index
    )


def joined(prompt: GivenPrompt, known: Mapping[str, GivenPrompt]) -> GivenPrompt:
    """The prompt with what the file says of it; what the response says itself stays."""
    other = known.get(prompt.id)
    if other is None:
        return prompt
    return replace(
        prompt,
        text=prompt.text or other.text,
        messages=prompt.messages if prompt.messages is not None or prompt.text else other.messages,
        token_ids=prompt.token_ids or other.token_ids,
        reference=prompt.reference or other.reference,
        metadata={**other.metadata, **prompt.metadata},
        index=other.index,
    )


def check_joined(found: set[str], known: Mapping[str, GivenPrompt], path: Path) -> list[str]:
    """The ids that the file does not have.

    Raises
    ------
    ToolkitError
        It has none of them.
    """
    lacking = sorted(found - known.keys())
    if found and len(lacking) == len(found):
        raise ToolkitError(
            f"{argument('prompts')}: {path} has no prompt of these responses: they are of {lacking[0]!r}, say, "
            f"and it has {next(iter(known), '')!r}; its ids must be those of the responses (custom_id)"
        )
    return lacking
