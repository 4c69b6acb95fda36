"""What was asked: a request beside its response, the envelope of batch files, and what names a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolkit.characters import visible
from toolkit.collect.fields import MAX_ID_LENGTH
from toolkit.collect.json_lines import fail
from toolkit.collect.render import text_id
from toolkit.ingest.given import GivenPrompt
from toolkit.ingest.values import ids_of, list_of, object_of, text_of
from toolkit.records import Kind

SAMPLING = ("temperature", "top_p", "top_k", "min_p")


class Envelope(NamedTuple):
    """A line's response, with what stands around it."""

    body: Mapping[str, Any] | None  # None: the request failed
    request: Mapping[str, Any]  # empty where the file has none
    id: str | None  # custom_id
    error: str = ""


def unwrapped(line: Mapping[str, Any]) -> Envelope:
    """A response as it is, one of a batch file (`custom_id`, `response.body`), or a pair with its request."""
    request = _inner(line["request"], "request") if line.get("request") is not None else {}
    if "response" not in line:
        error = _error(line)
        return Envelope(None if error else line, request, _id(line), error)
    if not request and "messages" in object_of(line.get("body") or {}, "body"):
        request = line["body"]
    response = line["response"]
    error = _error(line) or ("no response" if response is None else _error(object_of(response, "response")))
    if error:
        return Envelope(None, request, _id(line), error)
    body = _inner(response, "response")
    error = _error(body)
    return Envelope(None if error else body, request, _id(line) or _id(body), error)


def _inner(value: Any, name: str) -> Mapping[str, Any]:
    outer = object_of(value, name)
    return object_of(outer["body"], f"{name}.body") if "body" in outer else outer


def _error(value: Mapping[str, Any]) -> str:
    """What went wrong with a request; empty where nothing did."""
    error, status = value.get("error"), value.get("status_code")
    if error and "choices" not in value:
        said = error.get("message") or error.get("code") if isinstance(error, dict) else error
        return str(said or "error")
    if isinstance(status, int) and status >= 400:
        inner = value.get("body")
        said = _error(inner) if isinstance(inner, dict) else ""
        return f"status {status}" + (f" ({said})" if said else "")
    return ""


def _id(line: Mapping[str, Any]) -> str | None:
    value = line.get("custom_id")
    return None if value is None else prompt_id(value, "custom_id")


def prompt_id(value: Any, name: str) -> str:
    """A prompt's id; numbers are written out."""
    text = str(value) if type(value) is int else text_of(value, name)
    if not 0 < len(text) <= MAX_ID_LENGTH or visible(text) != text:
        fail(f"{name} is empty, hidden or longer than {MAX_ID_LENGTH:,} characters")
    return text


def sampling_of(request: Mapping[str, Any]) -> dict[str, float]:
    """Temperature and the like, as they were asked for."""
    numbers = {name: request.get(name) for name in SAMPLING}
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def kind_of_request(sampling: Mapping[str, float]) -> Kind:
    """Greedy where the temperature was 0, else a sample."""
    return "greedy" if sampling.get("temperature", 1.0) <= 0 else "sample"


def prompt_of(
    request: Mapping[str, Any], given_id: str | None, fallback: str, part: int | None = None
) -> GivenPrompt:
    """The prompt of a request: its id is the one given, else a hash of its text, else `fallback`.

    Parameters
    ----------
    request : mapping
        With `messages` or `prompt`; may be empty.
    given_id : str or None
    fallback : str
        What the source names the response by.
    part : int, optional
        Which of the prompts, where one request has several texts; it is put behind the id.
    """
    text, messages, token_ids = asked(request, part)
    if given_id is not None:
        own = given_id if part is None else f"{given_id}/{part}"
    else:
        own = text_id(text) if text else fallback
    return GivenPrompt(own, text, messages, token_ids)


def asked(
    request: Mapping[str, Any], part: int | None = None
) -> tuple[str, Sequence[Mapping[str, Any]] | None, Sequence[int]]:
    """Text, messages and token ids of what was asked; empty where they are not known."""
    if request.get("messages") is not None:
        messages = [object_of(one, "a message") for one in list_of(request["messages"], "messages")]
        return "\n".join(filter(None, map(_content, messages))), messages, ()
    prompt = request.get("prompt")
    if part is not None and isinstance(prompt, list):
        prompt = prompt[part]
    if isinstance(prompt, list):
        return "", None, ids_of(prompt, "prompt")
    return ("" if prompt is None else text_of(prompt, "prompt")), None, ()


def n_prompts(request: Mapping[str, Any]) -> int:
    """How many prompts a request has: a list of texts, or of lists of ids, is several."""
    prompt = request.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        return len(prompt)
    return 1


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message; what is no text (images, calls) has none."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return text_of(content, "content") if content is not None else ""
