"""Samples of each shape, written by hand from the published formats, and a run made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.ingest import Outcome, Source, ingest
from toolkit.store import Run, open_run
from toolkit.store.validate import validate


def write_lines(path: Path, values: Sequence[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def ingested(
    folder: Path, values: Sequence[Any], source: Source = "openai", **more: Any
) -> tuple[Run, Outcome]:
    """The run that a file of these lines becomes; every rule of runs holds in it."""
    outcome = ingest(write_lines(folder / "answers.jsonl", values), source, folder / "run", **more)
    assert list(validate(folder / "run")) == []
    return open_run(folder / "run"), outcome


def rows(run: Run, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as tuples, or as values where it is one column."""
    found = [tuple(row.values()) for row in run.load(table, list(columns)).to_pylist()]
    return found if len(columns) > 1 else [row[0] for row in found]


def token(text: str, logprob: float, *likely: tuple[str, float], data: Any = ...) -> dict[str, Any]:
    """A token of a chat completion."""
    return {
        "token": text,
        "logprob": logprob,
        "bytes": list(text.encode()) if data is ... else data,
        "top_logprobs": [
            {"token": one, "logprob": value, "bytes": list(one.encode())} for one, value in likely
        ],
    }


def chat(*tokens: dict[str, Any], content: Any = ..., **choice: Any) -> dict[str, Any]:
    """A chat completion of one choice."""
    said = "".join(one["token"] for one in tokens) if content is ... else content
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-x",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": said},
                "logprobs": {"content": list(tokens), "refusal": None},
                "finish_reason": "stop",
                **choice,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": len(tokens)},
    }


def completion(
    tokens: Sequence[str],
    values: Sequence[float | None],
    top: Any = None,
    text: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A legacy completion of one choice."""
    said = "".join(tokens) if text is None else text
    listed = {
        "tokens": tokens,
        "token_logprobs": values,
        "top_logprobs": top,
        "text_offset": [0] * len(tokens),
    }
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "model": "davinci",
        "choices": [{"index": 0, "text": said, "logprobs": listed, "finish_reason": "length", **more}],
    }


PARIS = (
    token("Par", -0.1, ("Lyon", -3.0), ("Par", -0.1)),
    token("is", -0.01, ("is", -0.01), ("ma", -5.0)),
)
