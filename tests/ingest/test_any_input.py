"""Whatever a file holds, it becomes a valid run or is refused in one line that names it, and leaves nothing."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ingest.sources import PARIS, chat, completion
from tests.ingest.test_llamacpp import newer, older
from tests.ingest.test_polygraph import STATS
from tests.ingest.test_vllm import output
from toolkit.errors import ToolkitError
from toolkit.ingest import ingest
from toolkit.store.validate import validate

PAIR = {
    "custom_id": "q",
    "request": {"messages": [{"role": "user", "content": "Capital?"}], "temperature": 0.5, "n": 1},
    "response": {"status_code": 200, "body": chat(*PARIS)},
    "error": None,
}
PROMPTS = {
    "request": {"prompt": ["a", "b"]},
    "response": completion(["a", "b"], [None, -1.0], [None, {"b": -1.0}]),
}
EXPORTED = {
    **chat(
        *PARIS,
        metadata={"sample_index": 0, "finish_reason": "stop", "n_bytes": 5, "has_end": False, "seed": 1},
    ),
    "metadata": {"prompt_id": "q", "kind": "sample"},
    "prompt": {"prompt_id": "q", "prompt_index": 0, "text": "?", "token_ids": [1], "reference": ["Paris"]},
}
PLAIN_STATS = {name: value for name, value in STATS.items() if name != "greedy_log_likelihoods"}
PLAIN_STATS["greedy_log_likelihoods"] = [[-0.5, -0.25], [-1.0]]
ARRAYS = {
    "sequences": [[1, 4, 2], [1, 5, 0]],
    "logits": [[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 2] * 2,
    "token_logprobs": [[-1.0, -2.0], [-1.0, -2.0]],
    "tokens": [["a", "b"], ["c", "d"]],
    "texts": ["ab", "cd"],
    "prompts": ["x"],
    "prompt_ids": ["y"],
    "eos_token_id": [2],
    "pad_token_id": 0,
    "temperature": 0.5,
}
SAMPLES: list[tuple[Any, Any]] = [
    ("openai", PAIR),
    ("openai", PROMPTS),
    ("openai", EXPORTED),
    ("openai", completion(["a", "bytes:\\xe2"], [-1.0, -2.0], [{"a": -1.0, "b": -2.0}, None])),
    ("vllm", output()),
    ("vllm", chat(*PARIS, token_ids=[5, 6])),
    ("llamacpp", newer()),
    ("llamacpp", older()),
    ("transformers", ARRAYS),
    ("polygraph", {"stats": json.loads(json.dumps(PLAIN_STATS))}),
]
JUNK = st.sampled_from(
    [
        *(None, True, 0, -1, 7, 2**40, -(10**30), 0.5, 1e300, -9999.0, float("nan"), float("-inf")),
        *("", "x", "é", "\ud800", "\x1b[2J", "9" * 60),
        *([], {}, [[]], [None], [1, 2], {"x": 1}, [{"token": "a"}]),
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], junk: Any, drop: bool) -> Any:
    found = copy.deepcopy(value)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = junk
    return found


@pytest.mark.parametrize(
    ("source", "sample"), SAMPLES, ids=lambda value: value if isinstance(value, str) else ""
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_response_with_something_wrong_in_it(
    tmp_path: Path, source: Any, sample: Any, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(list(places(sample))))
    value = changed(sample, path, data.draw(JUNK), data.draw(st.booleans()))
    check(tmp_path, source, json.dumps([value]).encode())


@pytest.mark.parametrize("source", ["openai", "vllm", "llamacpp", "transformers", "polygraph"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=60), st.text('{}[]",:0aé\n ', max_size=40).map(str.encode)))
def test_a_file_of_anything(tmp_path: Path, source: Any, content: bytes) -> None:
    check(tmp_path, source, content)


def check(folder: Path, source: Any, content: bytes) -> None:
    file, run = folder / "in.json", folder / "run"
    file.write_bytes(content)
    shutil.rmtree(run, ignore_errors=True)
    refusal = said(file, source, run)
    if refusal is None:
        assert [str(finding) for finding in validate(run)] == []
    else:
        assert "\n" not in refusal
        assert "in.json" in refusal
        assert not run.exists()


def said(file: Path, source: Any, run: Path) -> str | None:
    """Why the file is refused; None where it is not."""
    with patch("toolkit.store.files._sync"):
        try:
            ingest(file, source, run)
        except ToolkitError as error:
            return str(error)
    return None
