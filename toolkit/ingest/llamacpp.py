r"""Responses of llama.cpp's server: `completion_probabilities` in both shapes, and those like OpenAI's.

Newer ones give a token's `id`, `bytes` and `logprob` with `top_logprobs`, or, after sampling (`post_sampling_probs`),
`prob` with `top_probs`. Older ones give `content` and its `probs`, after sampling, where the token drawn may be
missing; a byte that is no character by itself is `byte: \xe2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import Any

from toolkit.collect.json_lines import fail, located
from toolkit.ingest.given import Given, Items, LeftOut, Likely, Position, Tally, Token
from toolkit.ingest.openai import entry, responses
from toolkit.ingest.reading import read_objects
from toolkit.ingest.requests import Envelope, kind_of_request, prompt_of, sampling_of, unwrapped
from toolkit.ingest.values import (
    found_fields,
    list_of,
    logprob_of_probability,
    object_of,
    reason_of,
    text_of,
)
from toolkit.records import FinishReason

UNLISTED = "a token that is not among its probs, so that its probability is not given; ask with more n_probs"
_NAME = "completion_probabilities"


def read(path: Path, tally: Tally) -> Items:
    """The completion of every response of a file.

    Raises
    ------
    ToolkitError
        A line that is no response, or one without probabilities; it names file and line.
    """
    for where, line in read_objects(path):
        with located(where):
            envelope = unwrapped(line)
            body = envelope.body
            found: Iterable[Given | LeftOut]
            if body is None or "choices" in body or str(body.get("object", "")).endswith(".chunk"):
                found = responses(line, where, tally)
            else:
                found = [_completion(body, envelope, where, tally)]
        yield from found


def _completion(body: Mapping[str, Any], envelope: Envelope, where: str, tally: Tally) -> Given | LeftOut:
    if "content" not in body:
        fail(f"expected content and {_NAME}, or choices, and found {found_fields(body)}")
    if body.get("stop") is False:
        fail("a chunk of a streamed response, where a whole one is wanted; ask with stream false")
    listed, text = body.get(_NAME), text_of(body["content"], "content")
    if not listed and text:
        fail(f"a response without log-probabilities ({_NAME} is missing or empty); ask with n_probs 5, say")
    values = [object_of(one, _NAME) for one in list_of(listed or [], _NAME)]
    is_old = any("probs" in one for one in values)
    positions = [_old(one, tally, where) if is_old else entry(one, tally, where) for one in values]
    if any(one.logprob != one.logprob for one in positions):
        return LeftOut(where, UNLISTED)
    return _given(body, envelope, positions, text, where)


def _old(value: Mapping[str, Any], tally: Tally, where: str) -> Position:
    token = Token(text_of(value.get("content"), "content"))
    listed = [object_of(one, "probs") for one in list_of(value.get("probs"), "probs")]
    likely = tuple(
        Likely(
            Token(text_of(one.get("tok_str"), "tok_str")),
            logprob_of_probability(one.get("prob"), "prob", tally, where),
        )
        for one in listed
    )
    own = next((one.logprob for one in likely if one.token == token), nan)
    return Position(token, own, likely=likely, sampling_logprob=own)


def _given(
    body: Mapping[str, Any], envelope: Envelope, positions: list[Position], text: str, where: str
) -> Given:
    asked = object_of(body.get("generation_settings") or {}, "generation_settings")
    request = {**asked, "prompt": body.get("prompt"), **envelope.request}
    sampling = sampling_of(request)
    reason, word = _ending(body)
    model = body.get("model") or asked.get("model")
    fallback = str(body.get("id") or where.rpartition("/")[2])
    return Given(
        where=where,
        prompt=prompt_of(request, envelope.id, fallback),
        positions=positions,
        text=text,
        finish_reason=reason,
        stop_reason=word,
        kind=kind_of_request(sampling),
        model=None if model is None else text_of(model, "model"),
        sampling=sampling,
        null_is_special=any(one.token.data is not None for one in positions),
    )


def _ending(body: Mapping[str, Any]) -> tuple[FinishReason, str | None]:
    """Why it ended: a word in newer responses, truth values in older ones."""
    stopped = text_of(body.get("stopping_word") or "", "stopping_word") or None
    if "stop_type" in body:
        reason, word = reason_of(body["stop_type"], "stop_type")
        return reason, stopped or word
    if body.get("stopped_limit"):
        return "length", None
    if body.get("stopped_eos") or body.get("stopped_word"):
        return "stop", stopped
    return reason_of(None)
