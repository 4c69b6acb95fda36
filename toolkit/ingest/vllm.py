"""Outputs of vLLM saved as JSON: RequestOutput with its CompletionOutputs, and responses of its server.

Log-probabilities are a dictionary a position, from token id to logprob, rank and text; the token drawn is in it
whether it was likely or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.collect.json_lines import fail, located
from toolkit.ingest.by_id import positions_of, prompt_positions
from toolkit.ingest.given import Given, GivenPrompt, Items, LeftOut, Tally
from toolkit.ingest.openai import responses
from toolkit.ingest.reading import read_objects
from toolkit.ingest.requests import kind_of_request, prompt_id, prompt_of, sampling_of
from toolkit.ingest.values import found_fields, ids_of, list_of, object_of, reason_of, text_of

EXPECTED = "outputs of vLLM (an object with outputs), or a response of its server (with choices)"


def read(path: Path, tally: Tally) -> Items:
    """The completions of every output of a file.

    Raises
    ------
    ToolkitError
        A line that is no output, or one without log-probabilities; it names file and line.
    """
    for where, line in read_objects(path):
        with located(where):
            if "outputs" in line:
                yield from _outputs(line, where, tally)
                continue
            if not {"choices", "response", "object", "error"} & line.keys():
                fail(f"expected {EXPECTED}, and found {found_fields(line)}")
            found = [_of_server(one) for one in responses(line, where, tally)]
        yield from found


def _of_server(given: Given | LeftOut) -> Given | LeftOut:
    """A choice of a chat, whose list of likely tokens has the token drawn in the place of a likelier one.

    So the least likely of a list, where it is the one drawn, may have been put there for being drawn.
    """
    if isinstance(given, LeftOut) or given.may_append or given.sample_index is not None:
        return given
    return replace(given, may_append=True, n_likely=0)


def _outputs(line: Mapping[str, Any], where: str, tally: Tally) -> Iterable[Given]:
    sampling = sampling_of(object_of(line.get("sampling_params") or {}, "sampling_params"))
    model = line.get("model")
    prompt = _prompt(line, where, tally)
    found = []
    for value in list_of(line["outputs"], "outputs"):
        output = object_of(value, "outputs")
        reason, word = reason_of(output.get("finish_reason"))
        stop = output.get("stop_reason")
        ids = ids_of(output.get("token_ids"), "token_ids")
        if output.get("logprobs") is None:
            fail(
                "an output without log-probabilities (logprobs is null); ask with "
                "SamplingParams(logprobs=5), say"
            )
        found.append(
            Given(
                where=where,
                prompt=prompt,
                positions=positions_of(output["logprobs"], ids, "logprobs", tally, where),
                text=text_of(output.get("text"), "text"),
                finish_reason=reason,
                stop_reason=word if stop is None else str(stop),
                kind=kind_of_request(sampling),
                model=None if model is None else text_of(model, "model"),
                sampling=sampling,
                may_append=True,
            )
        )
    return found


def _prompt(line: Mapping[str, Any], where: str, tally: Tally) -> GivenPrompt:
    given = next((line[name] for name in ("custom_id", "id") if line.get(name) is not None), None)
    fallback = str(line.get("request_id") or where.rpartition("/")[2])
    asked = {"prompt": line.get("prompt"), "messages": line.get("messages")}
    found = prompt_of(asked, None if given is None else prompt_id(given, "id"), fallback)
    ids = ids_of(line.get("prompt_token_ids") or [], "prompt_token_ids")
    listed = line.get("prompt_logprobs")
    return GivenPrompt(
        found.id,
        found.text,
        found.messages,
        ids or found.token_ids,
        positions=() if listed is None else prompt_positions(listed, ids, tally, where),
    )
