"""Responses of the OpenAI API and of those that follow it: chat completions, and the older completions.

https://platform.openai.com/docs/api-reference/chat/object and .../completions/object; vLLM and llama.cpp add
`token_ids`, `prompt_logprobs`, `stop_reason` and an `id` a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.collect.json_lines import fail, located
from toolkit.ingest import exported
from toolkit.ingest.by_id import prompt_positions
from toolkit.ingest.given import Given, GivenPrompt, Items, LeftOut, Likely, Position, Tally, Token
from toolkit.ingest.reading import read_objects
from toolkit.ingest.requests import Envelope, kind_of_request, n_prompts, prompt_of, sampling_of, unwrapped
from toolkit.ingest.values import (
    bytes_of,
    found_fields,
    id_of,
    ids_of,
    list_of,
    logprob_of,
    logprob_of_probability,
    object_of,
    reason_of,
    text_of,
)

EXPECTED = "a chat completion or a completion (an object with choices), or a line of a batch's output"
CALL = "a tool call without log-probabilities"
_AS_ID = re.compile(r"token_id:(\d{1,10})")
_ASK_CHAT = "ask with logprobs true, and top_logprobs 5, say, for the likely tokens"
_ASK_COMPLETION = "ask with logprobs 5, say"


def read(path: Path, tally: Tally) -> Items:
    """The choices of every response of a file.

    Raises
    ------
    ToolkitError
        A line that is no response, or one without log-probabilities; it names file and line.
    """
    for where, line in read_objects(path):
        with located(where):
            found = responses(line, where, tally)
        yield from found


def responses(line: Mapping[str, Any], where: str, tally: Tally) -> Iterable[Given | LeftOut]:
    """What a line gives: the choices of its response, or why it has none."""
    envelope = unwrapped(line)
    if envelope.body is None:
        return [LeftOut(where, f"a request that failed: {envelope.error}")]
    return list(_choices(_Response(envelope.body, envelope, where, tally)))


class _Response(NamedTuple):
    """A response, and what its choices have in common."""

    body: Mapping[str, Any]
    envelope: Envelope
    where: str
    tally: Tally

    def logprob(self, value: Any, name: str) -> float:
        return nan if value is None else logprob_of(value, name, self.tally, self.where)


def _choices(response: _Response) -> Iterable[Given | LeftOut]:
    body = response.body
    if str(body.get("object", "")).endswith(".chunk"):
        fail("a chunk of a streamed response, where a whole one is wanted; ask with stream false")
    if not isinstance(body.get("choices"), list):
        fail(f"expected {EXPECTED}, and found {found_fields(body)}")
    for place, value in enumerate(body["choices"]):
        choice = object_of(value, f"choices[{place}]")
        if "delta" in choice:
            fail("a chunk of a streamed response, where a whole one is wanted; ask with stream false")
        if "message" in choice:
            made = _chat_choice(choice, response)
        elif "text" in choice:
            made = _completion_choice(choice, response)
        else:
            fail(f"expected message or text in choices[{place}], and found {found_fields(choice)}")
        yield exported.restored(made, choice, body) if isinstance(made, Given) else made


def _chat_choice(choice: Mapping[str, Any], response: _Response) -> Given | LeftOut:
    message = object_of(choice["message"], "message")
    listed = choice.get("logprobs")
    entries = _entries(object_of(listed, "logprobs")) if listed is not None else None
    content, refusal = message.get("content"), message.get("refusal")
    is_call = bool(message.get("tool_calls") or message.get("function_call"))
    if entries is None:
        if is_call and not content:
            return LeftOut(response.where, CALL)
        fail(f"a response without log-probabilities (logprobs is null); {_ASK_CHAT}")
    # Of a call, and of thoughts that a server takes out, the tokens are more than the content.
    text = content if content is not None else None if is_call else refusal or ""
    positions = [entry(one, response.tally, response.where) for one in entries]
    return _given(choice, response, positions, None if text is None else _content_text(text))


def _entries(listed: Mapping[str, Any]) -> list[Any] | None:
    """The tokens of the content, then those of a refusal; None where neither is given."""
    parts = [listed.get(name) for name in ("content", "refusal")]
    if all(part is None for part in parts):
        return None
    return [one for part in parts if part is not None for one in list_of(part, "logprobs.content")]


def _content_text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(text_of(object_of(one, "content").get("text", ""), "content") for one in value)
    return text_of(value, "content")


def entry(value: Any, tally: Tally, where: str) -> Position:
    """A token with its log-probability, or its probability after sampling, and the likely ones beside it."""
    own = object_of(value, "a token")
    if "prob" in own and "logprob" not in own:
        likely = own.get("top_probs")
        logprob = sampling = logprob_of_probability(own["prob"], "prob", tally, where)
    else:
        likely, sampling = own.get("top_logprobs"), nan
        if own.get("logprob") is None:
            fail(f"a token has no logprob, and the fields {found_fields(own)}; ask for log-probabilities")
        logprob = logprob_of(own["logprob"], "logprob", tally, where)
    others = [object_of(one, "a likely token") for one in list_of(likely or [], "top_logprobs")]
    return Position(
        _token(own),
        logprob,
        likely=tuple(Likely(_token(one), _value(one, tally, where)) for one in others),
        sampling_logprob=sampling,
    )


def _value(one: Mapping[str, Any], tally: Tally, where: str) -> float:
    if "prob" in one and "logprob" not in one:
        return logprob_of_probability(one["prob"], "prob", tally, where)
    return logprob_of(one.get("logprob"), "logprob of a likely token", tally, where)


def _token(value: Mapping[str, Any]) -> Token:
    text = text_of(value.get("token", value.get("tok_str")), "token")
    token_id = id_of(value.get("id"), "id")
    if (match := _AS_ID.fullmatch(text)) is not None:  # its bytes are those of this text, not the token's
        return Token(id=id_of(match[1], "token"))
    return Token(text, bytes_of(value.get("bytes"), "bytes"), token_id)


def _completion_choice(choice: Mapping[str, Any], response: _Response) -> Given | LeftOut:
    text, listed = text_of(choice["text"], "text"), choice.get("logprobs")
    if listed is None:
        fail(f"a response without log-probabilities (logprobs is null); {_ASK_COMPLETION}")
    listed = object_of(listed, "logprobs")
    if listed.get("content") is not None:  # llama.cpp gives both shapes the tokens of a chat
        positions = [entry(one, response.tally, response.where) for one in _entries(listed) or ()]
        return _given(choice, response, positions, text)
    positions = _completion_positions(listed, response)
    n_prompt = _n_echoed(positions, text, choice, response)
    given = _given(choice, response, positions[n_prompt:], text)
    if n_prompt == 0:
        return given
    shown = given.prompt.text or _prefix(text, positions[:n_prompt])
    prompt = replace(given.prompt, text=shown, positions=positions[:n_prompt])
    return replace(given, prompt=prompt, text=text.removeprefix(shown))


def _completion_positions(listed: Mapping[str, Any], response: _Response) -> list[Position]:
    """Lists of the same length, one value a token."""
    tokens = list_of(listed.get("tokens"), "logprobs.tokens")
    values = list_of(listed.get("token_logprobs"), "logprobs.token_logprobs")
    top = listed.get("top_logprobs")
    likely = [None] * len(tokens) if top is None else list_of(top, "logprobs.top_logprobs")
    if not len(tokens) == len(values) == len(likely):
        fail(
            f"logprobs has {len(tokens)} tokens, {len(values)} token_logprobs and {len(likely)} top_logprobs; "
            "they must be as many"
        )
    return [
        Position(_named(token), response.logprob(value, "token_logprobs"), likely=_by_text(some, response))
        for token, value, some in zip(tokens, values, likely, strict=True)
    ]


def _by_text(value: Any, response: _Response) -> tuple[Likely, ...]:
    if value is None:
        return ()
    pairs = object_of(value, "top_logprobs").items()
    return tuple(Likely(_named(text), response.logprob(one, "top_logprobs")) for text, one in pairs)


def _named(value: Any) -> Token:
    return _token({"token": value})


def _n_echoed(
    positions: Sequence[Position], text: str, choice: Mapping[str, Any], response: _Response
) -> int:
    """How many of the first tokens are the prompt's; the first of them has no log-probability."""
    if not positions or positions[0].logprob == positions[0].logprob:
        return 0
    asked = prompt_of(response.envelope.request, "-", "-", _part(choice, response)).text
    if asked and text.startswith(asked):
        size = 0
        for i, position in enumerate(positions):
            if size >= len(asked):
                return i
            size += len(position.token.text or "")
        return len(positions)
    usage = response.body.get("usage")
    n = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if type(n) is not int or not 0 < n <= len(positions):
        fail(
            "the prompt is echoed (the first token has no log-probability), and nothing says where it ends; "
            "ask with echo false, or give the request beside the response"
        )
    return n


def _prefix(text: str, positions: Sequence[Position]) -> str:
    joined = "".join(one.token.text or "" for one in positions)
    return joined if text.startswith(joined) else ""


def _part(choice: Mapping[str, Any], response: _Response) -> int | None:
    """Which prompt a choice answers, where the request has several."""
    request = response.envelope.request
    several, index = n_prompts(request), choice.get("index")
    if several == 1 or type(index) is not int:
        return None
    each = max(1, len(response.body["choices"]) // several)
    return max(0, min(index // each, several - 1))


def _given(
    choice: Mapping[str, Any], response: _Response, positions: Sequence[Position], text: str | None
) -> Given:
    body, envelope = response.body, response.envelope
    request, model = envelope.request, body.get("model")
    fallback = str(body.get("id") or response.where.rpartition("/")[2])
    prompt = prompt_of(request, envelope.id, fallback, _part(choice, response))
    sampling = sampling_of(request)
    reason, word = reason_of(choice.get("finish_reason"))
    stop = choice.get("stop_reason")
    n_likely = request.get("logprobs") if "text" in choice else None
    return Given(
        where=response.where,
        prompt=_with_own_tokens(prompt, choice, response),
        positions=_with_ids(positions, choice),
        text=text,
        finish_reason=reason,
        stop_reason=word if stop is None else str(stop),
        kind=kind_of_request(sampling),
        model=None if model is None else text_of(model, "model"),
        sampling=sampling,
        null_is_special=any(one.token.data is not None for one in positions),
        n_likely=n_likely if type(n_likely) is int else None,
        may_append="text" in choice,
    )


def _with_ids(positions: Sequence[Position], choice: Mapping[str, Any]) -> Sequence[Position]:
    """The ids that a server put beside the tokens, where there are as many."""
    ids = choice.get("token_ids")
    if not isinstance(ids, list) or len(ids) != len(positions):
        return positions
    pairs = zip(positions, ids_of(ids, "token_ids"), strict=True)
    return [one._replace(token=one.token._replace(id=token_id)) for one, token_id in pairs]


def _with_own_tokens(prompt: GivenPrompt, choice: Mapping[str, Any], response: _Response) -> GivenPrompt:
    """The prompt with its ids and their log-probabilities, which vLLM gives where it is asked."""
    places = (choice, response.body)
    ids = next((ids_of(v, "prompt_token_ids") for p in places if (v := p.get("prompt_token_ids"))), [])
    listed = next((v for p in places if (v := p.get("prompt_logprobs"))), None)
    prompt = replace(prompt, token_ids=ids or prompt.token_ids)
    if listed is None:
        return prompt
    return replace(prompt, positions=prompt_positions(listed, ids, response.tally, response.where))
