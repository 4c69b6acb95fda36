"""Runs as responses of the OpenAI API: chat completions, or the older completions.

A line is a response; its choices are the sequences of a prompt that are of one kind. Published shapes:
https://platform.openai.com/docs/api-reference/chat/object and .../completions/object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain, groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from toolkit.aggregation.selection import EVERYTHING, Selection
from toolkit.exporting.cells import json_text
from toolkit.exporting.choices import COLUMNS, ChatChoices, Choices, CompletionChoices
from toolkit.exporting.prompts import Prompt, prompts_of, whole_prompts
from toolkit.exporting.rows import slices
from toolkit.store import Run, Runs
from toolkit.store.blocks import Rows

Shape = Literal["chat", "completion"]
_MAKERS: Mapping[Shape, type[ChatChoices] | type[CompletionChoices]] = {
    "chat": ChatChoices,
    "completion": CompletionChoices,
}
SHAPES: tuple[Shape, ...] = tuple(_MAKERS)


def response_text(
    runs: Runs, shape: Shape = "chat", selection: Selection = EVERYTHING, *, include_end: bool = True
) -> Iterator[bytes]:
    """Every selected sequence as a choice of a response; a response is a line of JSON.

    Prompts come in the order in which they first appear in the run's files; kinds, and sequences of a kind,
    in the order of their keys.

    Parameters
    ----------
    runs : Runs
    shape : {"chat", "completion"}
        `object` is chat.completion or text_completion.
    selection : Selection
    include_end : bool
        Whether the end token is among the tokens listed. The API does not list it.

    Yields
    ------
    bytes
        Pieces of lines, as UTF-8.

    Raises
    ------
    ToolkitError
        An unknown prompt; no sequence of a run is selected; a prompt's sequences would need over half of
        the free memory.
    DataFault
        A file cannot be read, or does not fit the others.
    """
    for run, labels in zip(runs, runs.labels, strict=True):
        choices: Choices = _MAKERS[shape](run, include_end)
        source = _Source(run, labels["run"], len(runs) > 1, choices)
        for rows in whole_prompts(run, COLUMNS, selection):
            yield from _responses(rows, source, prompts_of(run, rows["sequences"]))


class _Source(NamedTuple):
    """What the responses of a run have in common."""

    run: Run
    label: str
    is_one_of_several: bool
    choices: Choices


class _Sequence(NamedTuple):
    prompt_id: str
    kind: str
    n_tokens: int
    choice: bytes  # without its opening brace


def _responses(rows: Rows, source: _Source, prompts: Mapping[str, Prompt]) -> Iterator[bytes]:
    columns = (rows["sequences"][name].to_pylist() for name in ("prompt_id", "kind", "n_tokens"))
    choices = chain.from_iterable(map(source.choices.of, slices(rows)))
    sequences = map(_Sequence, *columns, choices)
    for (prompt_id, kind), own in groupby(sequences, itemgetter(0, 1)):
        yield _utf8(_head(source, prompt_id, kind))
        n_tokens = 0
        for index, sequence in enumerate(own):
            n_tokens += sequence.n_tokens
            yield _utf8(f'{"," if index else ""}{{"index":{index},')
            yield sequence.choice
        yield _utf8(_tail(source, prompt_id, kind, n_tokens, prompts[prompt_id]))


def _utf8(text: str) -> bytes:
    """A run's folder may have a name that is no UTF-8; it is escaped."""
    return text.encode("utf-8", "backslashreplace")


def _head(source: _Source, prompt_id: str, kind: str) -> str:
    manifest = source.run.manifest
    identity = json.dumps([manifest.content_hash, prompt_id, kind]).encode()
    members: dict[str, str | int] = {
        "id": source.choices.id_prefix + hashlib.sha256(identity).hexdigest()[:29],
        "object": source.choices.object_name,
        "created": _created(source.run),
        "model": str(manifest.model.get("name", "")),
    }
    return f'{_object(members)[:-1]},"choices":['


def _tail(source: _Source, prompt_id: str, kind: str, n_tokens: int, prompt: Prompt) -> str:
    usage = {
        "prompt_tokens": prompt.n_tokens,
        "completion_tokens": n_tokens,
        "total_tokens": prompt.n_tokens + n_tokens,
    }
    leading = [source.label] if source.is_one_of_several else []
    metadata = {"run": source.label, "prompt_id": prompt_id, "kind": kind}
    return (
        f'],"usage":{_object(usage)},"custom_id":{json_text("/".join([*leading, prompt_id, kind]))},'
        f'"metadata":{_object(metadata)},"prompt":{prompt.text}}}\n'
    )


def _created(run: Run) -> int:
    """When the run's first session started, in seconds of Unix time."""
    started = min((session.started for session in run.manifest.sessions), default=None)
    return int(datetime.fromisoformat(started).timestamp()) if started is not None else 0


def _object(members: Mapping[str, str | int]) -> str:
    pairs = (f'"{k}":{json_text(v) if isinstance(v, str) else v}' for k, v in members.items())
    return f"{{{','.join(pairs)}}}"
