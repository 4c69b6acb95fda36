"""Reading prompts: what is taken, what each wrong line is told, and that no input gets past the errors."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.collect import json_lines
from toolkit.collect.fields import parse_mapping
from toolkit.collect.json_lines import MAX_DEPTH, file_hash
from toolkit.collect.prompts import FIELDS, read_prompts
from toolkit.errors import ToolkitError

QUESTION = {"role": "user", "content": "Why?"}


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "questions.jsonl"
    texts = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path.write_bytes(b"\n".join(texts) + b"\n")
    return path


def refused(path: Path | str, **options: Any) -> str:
    with pytest.raises(ToolkitError) as caught:
        read_prompts(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 2
    return message


def test_every_field_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "id": "a/../b",
            "prompt": "Hi",
            "reference": ["x", 2, 0.5],
            "metadata": {"topic": "t"},
            "level": [1],
        },
        b"   ",
        {"messages": [{"role": "system", "content": ""}, QUESTION], "reference": 7, "id": None},
    )
    first, second = read_prompts(path)
    assert (first.index, first.line, first.id, first.prompt, first.messages) == (0, 1, "a/../b", "Hi", None)
    assert first.reference == ("x", "2", "0.5")
    assert first.metadata == {"topic": "t", "level": [1]}
    assert (second.index, second.line, second.id, second.prompt) == (1, 3, None, None)
    assert second.messages == ({"role": "system", "content": ""}, QUESTION)
    assert second.reference == ("7",)


def test_a_mapping_renames_fields_and_keeps_what_it_displaces(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "Hi", "answer": "x", "reference": "no"})
    (prompt,) = read_prompts(path, mapping=parse_mapping(["prompt=question", "reference=answer"], FIELDS))
    assert (prompt.prompt, prompt.reference, prompt.metadata) == ("Hi", ("x",), {"reference": "no"})


def test_a_mapping_that_no_line_has_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "Hi"})
    assert "map reference='answer'" in refused(path, mapping={"reference": "answer"})


@pytest.mark.parametrize("pair", ["reference", "=answer", "reference=", "answers=x", ""])
def test_a_mapping_that_is_not_field_equals_name_is_refused(pair: str) -> None:
    with pytest.raises(ToolkitError, match=r"^map: "):
        parse_mapping([pair], FIELDS)
    with pytest.raises(ToolkitError, match="twice"):
        parse_mapping(["id=a", "id=b"], FIELDS)


def test_a_limit_stops_before_what_follows(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "a"}, {"prompt": "b"}, b"not JSON")
    assert [prompt.prompt for prompt in read_prompts(path, limit=2)] == ["a", "b"]
    assert "questions.jsonl:3:" in refused(path, limit=3)
    assert "limit: 0" in refused(path, limit=0)


def test_carriage_returns_before_newlines_are_taken(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"prompt": "a"}\r', b"\r", b'{"prompt": "b"}\r')
    assert [prompt.line for prompt in read_prompts(path)] == [1, 3]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"prompt": "a"}\n{}')))
    assert refused("-").startswith("standard input:2: ")


def test_an_id_twice_names_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "x", "prompt": "a"}, {"prompt": "b"}, {"id": "x", "prompt": "c"})
    message = refused(path)
    assert "questions.jsonl:3:" in message
    assert "line 1" in message


BAD_LINES: dict[str, tuple[Any, str]] = {
    "cut off": (b'{"prompt": "a"', "not JSON"),
    "two objects": (b'{"prompt": "a"} {"prompt": "b"}', "not JSON"),
    "array": ([1], "an array"),
    "string": ("prompt", "a string"),
    "null": (None, "null"),
    "nan": (b'{"prompt": "a", "metadata": {"x": NaN}}', "NaN"),
    "infinity": (b'{"prompt": "a", "x": -Infinity}', "-Infinity"),
    "overflow": (b'{"prompt": "a", "reference": 1e999}', "too large"),
    "huge integer": (b'{"prompt": "a", "x": ' + b"9" * 5000 + b"}", "too large"),
    "duplicate key": (b'{"prompt": "a", "prompt": "b"}', "twice"),
    "duplicate inner key": (b'{"prompt": "a", "metadata": {"k": 1, "k": 2}}', "twice"),
    "half a surrogate": (b'{"prompt": "\\ud800"}', "surrogate"),
    "half a surrogate in a key": (b'{"prompt": "a", "\\udfff": 1}', "surrogate"),
    "raw control character": (b'{"prompt": "a\x01"}', "not JSON"),
    "NUL": (b'{"prompt": "a\x00"}', "NUL"),
    "latin-1": ('{"prompt": "é"}'.encode("latin-1"), "not UTF-8"),
    "overlong": (b'{"prompt": "\xc0\xaf"}', "not UTF-8"),
    "nested bomb": (b"[" * 100_000, "nested"),
    "nested objects": (b'{"a":' * 100_000, "nested"),
    "nested metadata": ({"prompt": "a", "m": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)}, "nested"),
    "neither": ({"id": "a"}, "neither"),
    "both": ({"prompt": "a", "messages": [QUESTION]}, "both"),
    "prompt null": ({"prompt": None}, "neither"),
    "prompt empty": ({"prompt": ""}, "prompt is empty"),
    "prompt blank": ({"prompt": " \n"}, "prompt is empty"),
    "prompt number": ({"prompt": 3}, "prompt is a number"),
    "prompt list": ({"prompt": ["a"]}, "prompt is an array"),
    "messages object": ({"messages": QUESTION}, "messages is an object"),
    "messages empty": ({"messages": []}, "no text"),
    "messages blank": ({"messages": [{"role": "user", "content": " "}]}, "no text"),
    "message string": ({"messages": ["hi"]}, "message 1 is a string"),
    "role unknown": (
        {"messages": [QUESTION, {"role": "robot", "content": "x"}]},
        "message 2 has role 'robot'",
    ),
    "role list": ({"messages": [{"role": [], "content": "x"}]}, "role"),
    "role missing": ({"messages": [{"content": "x"}]}, "role"),
    "content null": ({"messages": [{"role": "user", "content": None}]}, "null as content"),
    "content parts": ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "an array as content"),
    "id number": ({"id": 7, "prompt": "a"}, "id is a number (7)"),
    "id true": ({"id": True, "prompt": "a"}, "id is true or false"),
    "id list": ({"id": ["a"], "prompt": "a"}, "id is an array"),
    "id empty": ({"id": "", "prompt": "a"}, "0 characters"),
    "id long": ({"id": "x" * 10_000, "prompt": "a"}, "10,000 characters"),
    "id newline": ({"id": "a\nb", "prompt": "a"}, "control"),
    "id escape": ({"id": "a\x1b[31m", "prompt": "a"}, "control"),
    "id bidi": ({"id": "a\u202eb", "prompt": "a"}, "hidden"),
    "reference true": ({"prompt": "a", "reference": True}, "reference is or has true"),
    "reference object": ({"prompt": "a", "reference": {}}, "reference is or has an object"),
    "reference null inside": ({"prompt": "a", "reference": [None]}, "null"),
    "reference nested": ({"prompt": "a", "reference": [["x"]]}, "an array"),
    "reference empty string": ({"prompt": "a", "reference": ["x", ""]}, "empty string"),
    "metadata list": ({"prompt": "a", "metadata": []}, "metadata is an array"),
    "metadata string": ({"prompt": "a", "metadata": "x"}, "metadata is a string"),
    "metadata clash": ({"prompt": "a", "metadata": {"k": 1}, "k": 2}, "keep one"),
    "near miss": ({"prompt": "a", "references": ["x"]}, "did you mean reference?"),
    "near miss in capitals": ({"prompt": "a", "Reference": "x"}, "did you mean reference?"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_with_its_fault(tmp_path: Path, name: str) -> None:
    line, fault = BAD_LINES[name]
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    message = refused(write(tmp_path, {"prompt": "fine"}, b"", raw))
    assert f"{tmp_path}/questions.jsonl:3: " in message
    assert fault in message
    assert len(message) < 400


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_other_encodings_are_refused_on_line_1(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, '{"prompt": "a"}'.encode(encoding))
    message = refused(path)
    assert "questions.jsonl:1: " in message
    assert "UTF-8" in message


def test_a_line_over_the_limit_is_refused_without_reading_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 2**20)
    path = write(tmp_path, {"prompt": "a"}, {"prompt": "x" * 2**20})
    assert "questions.jsonl:2: longer than 1 MiB" in refused(path)
    assert "longer than 1 MiB" in refused("/dev/zero")


def test_paths_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "no-such.jsonl: cannot be read: No such file" in refused(tmp_path / "no-such.jsonl")
    assert "cannot be read: Is a directory" in refused(tmp_path)
    assert "''" in refused("")
    assert "cannot be read" in refused("a\0b")
    assert "\x1b" not in refused("\x1b[31m")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"   \n\t\n"])
def test_a_file_without_prompts_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    assert "no prompt" in refused(path)


def test_the_hash_is_that_of_the_bytes_and_none_for_a_pipe(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "a"})
    assert file_hash(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_hash("-") is None
    assert file_hash(tmp_path) is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELD_NAMES = st.sampled_from(
    ["id", "prompt", "messages", "reference", "metadata", "role", "Prompt"]
) | st.text(max_size=6)
ROWS = st.dictionaries(FIELD_NAMES, JSON_VALUES, max_size=5).map(lambda row: json.dumps(row).encode())
fuzzing = settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fuzzing
@given(lines=st.lists(ROWS | st.binary(max_size=40), max_size=4))
def test_any_input_gives_prompts_that_hold_or_one_line(tmp_path: Path, lines: list[bytes]) -> None:
    path = write(tmp_path, *lines)
    with contextlib.suppress(ToolkitError):
        for prompt in read_prompts(path):
            assert (prompt.prompt is None) != (prompt.messages is None)
            assert prompt.id is None or 0 < len(prompt.id) <= 1000
            assert all(isinstance(text, str) and text for text in prompt.reference)
            assert isinstance(prompt.metadata, dict)
            json.dumps([prompt.prompt, prompt.messages, prompt.metadata], allow_nan=False).encode()
        return
    assert "\n" not in refused(path)


@fuzzing
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), min_size=1
    ),
    references=st.lists(st.integers(), max_size=3),
)
def test_any_text_comes_back_as_it_was(tmp_path: Path, texts: list[str], references: list[int]) -> None:
    path = write(tmp_path, *({"prompt": text, "reference": references} for text in texts))
    read = read_prompts(path)
    assert [prompt.prompt for prompt in read] == texts
    assert all(prompt.reference == tuple(map(str, references)) for prompt in read)
