"""Reading completions: what is taken, and what each wrong line is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolkit.collect.completions import read_completions
from toolkit.errors import ToolkitError

QUESTION = {"role": "user", "content": "Why?"}
FINE = {"prompt": "a", "completion": "b"}


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "x", "prompt": "Hi", "completion": " there", "reference": 7, "level": 1},
        {"messages": [QUESTION], "completion_token_ids": [0, 2**31 - 1], "metadata": {"k": None}},
        {"prompt_token_ids": [3], "completion": ""},
    )
    first, second, third = read_completions(path)
    assert (first.prompt.id, first.prompt.prompt, first.text, first.token_ids) == ("x", "Hi", " there", None)
    assert (first.prompt.reference, first.prompt.metadata) == (("7",), {"level": 1})
    assert first.where == f"{path}:1"
    assert (second.prompt.messages, second.text, second.token_ids) == ((QUESTION,), None, (0, 2**31 - 1))
    assert (third.prompt.index, third.prompt.line, third.prompt.token_ids, third.text) == (2, 3, (3,), "")


def test_a_mapping_and_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "a", "answer": "b"}, {"prompt": "a", "answer": "c"}, {})
    given = read_completions(path, {"completion": "answer"}, limit=2)
    assert [completion.text for completion in given] == ["b", "c"]


BAD_LINES: dict[str, tuple[dict[str, Any], str]] = {
    "no prompt": ({"completion": "b"}, "has neither prompt nor messages nor prompt_token_ids"),
    "two prompts": ({**FINE, "messages": [QUESTION]}, "has both prompt and messages"),
    "three prompts": (
        {**FINE, "messages": [QUESTION], "prompt_token_ids": [1]},
        "has prompt and messages and prompt_token_ids",
    ),
    "no completion": ({"prompt": "a"}, "has neither completion nor completion_token_ids"),
    "completion null": ({"prompt": "a", "completion": None}, "has neither completion"),
    "two completions": (
        {**FINE, "completion_token_ids": [1]},
        "has both completion and completion_token_ids",
    ),
    "completion number": ({"prompt": "a", "completion": 4}, "completion is a number; use a string"),
    "ids string": ({"prompt": "a", "completion_token_ids": "1 2"}, "completion_token_ids is a string"),
    "id float": ({"prompt": "a", "completion_token_ids": [1, 2.0]}, "completion_token_ids has 2.0"),
    "id true": ({"prompt": "a", "completion_token_ids": [True]}, "completion_token_ids has True"),
    "id negative": ({"prompt": "a", "completion_token_ids": [-1]}, "completion_token_ids has -1"),
    "id huge": ({"prompt": "a", "completion_token_ids": [2**31]}, "completion_token_ids has 2147483648"),
    "id list": ({"prompt": "a", "completion_token_ids": [[1]]}, "completion_token_ids has an array"),
    "id text": ({"prompt": "a", "completion_token_ids": ["1"]}, "completion_token_ids has '1'"),
    "prompt id": ({"prompt_token_ids": [None], "completion": "b"}, "prompt_token_ids has None"),
    "prompt blank": ({"prompt": " ", "completion": "b"}, "prompt is empty"),
    "near miss": ({"prompt": "a", "completions": "b"}, "did you mean completion?"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_with_its_fault(tmp_path: Path, name: str) -> None:
    line, fault = BAD_LINES[name]
    path = write(tmp_path, FINE, line)
    with pytest.raises(ToolkitError) as caught:
        read_completions(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:2: ")
    assert fault in message
    assert "\n" not in message


def test_a_file_without_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match=r"given\.jsonl: there is no"):
        read_completions(write(tmp_path))
