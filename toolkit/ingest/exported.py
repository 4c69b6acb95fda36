"""Responses that this package exported: what they carry beside the published shape is taken back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolkit.collect.fields import LARGEST_ID
from toolkit.collect.json_lines import fail
from toolkit.ingest.given import Given, GivenPrompt
from toolkit.ingest.requests import prompt_id
from toolkit.ingest.values import ids_of, list_of, object_of, text_of
from toolkit.records import FINISH_REASONS, KINDS


def restored(given: Given, choice: Mapping[str, Any], body: Mapping[str, Any]) -> Given:
    """The choice with its key, prompt and ending as they were; unchanged where this package did not write it."""
    metadata, prompt, own = body.get("metadata"), body.get("prompt"), choice.get("metadata")
    if not (isinstance(metadata, dict) and isinstance(prompt, dict) and isinstance(own, dict)):
        return given
    if not ("prompt_id" in metadata and "prompt_id" in prompt and "sample_index" in own):
        return given
    if metadata.get("kind") not in KINDS or own.get("finish_reason") not in FINISH_REASONS:
        fail(f"kind or finish_reason is none that exists; use {', '.join((*KINDS, *FINISH_REASONS))}")
    return replace(
        given,
        prompt=_prompt(prompt),
        kind=metadata["kind"],
        finish_reason=own["finish_reason"],
        stop_reason=_optional(own, "stop_reason", str),
        sample_index=_number(own, "sample_index"),
        has_end=_optional(own, "has_end", bool),
        n_bytes=_number(own, "n_bytes"),
        beam_score=_optional(own, "beam_score", int, float),
        seed=_optional(own, "seed", int),
        null_is_special="message" in choice,
        may_append=False,
    )


def _prompt(value: Mapping[str, Any]) -> GivenPrompt:
    messages = value.get("messages")
    return GivenPrompt(
        id=prompt_id(value["prompt_id"], "prompt.prompt_id"),
        text=text_of(value.get("text", ""), "prompt.text"),
        messages=None if messages is None else list_of(messages, "prompt.messages"),
        token_ids=ids_of(value.get("token_ids", []), "prompt.token_ids"),
        reference=[text_of(one, "reference") for one in list_of(value.get("reference", []), "reference")],
        metadata=object_of(value.get("metadata", {}), "prompt.metadata"),
        index=_number(value, "prompt_index"),
    )


def _optional(own: Mapping[str, Any], name: str, *kinds: type) -> Any:
    value = own.get(name)
    is_large = isinstance(value, int) and abs(value) >= 2**63
    if value is not None and (type(value) not in kinds or is_large):
        fail(f"{name} is {value!r:.40}, which is no value that was exported")
    return value


def _number(own: Mapping[str, Any], name: str) -> int:
    value = _optional(own, name, int)
    if value is None or not 0 <= value <= LARGEST_ID:
        fail(f"{name} is {value!r:.40}; use 0 to {LARGEST_ID}")
    return int(value)
