"""Responses have the published shape, and give back the bytes and log-probabilities that are stored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.exporting.odd_runs import LITERALS, PIECES, Odd, by_key, odd_runs
from tests.exporting.test_tables import from_json
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run, prompt_name
from toolkit.aggregation.selection import Selection
from toolkit.errors import ToolkitError
from toolkit.exporting import prompts as grouping
from toolkit.exporting import response_text, rows
from toolkit.records import SequenceRecord
from toolkit.store import Run, RunWriter, memory, open_run, open_runs
from toolkit.store.parquet import TableFile

FEW = settings(max_examples=20, deadline=None)

NUMBER, TEXT, COUNT = (int, float), str, int
TOP: dict[str, Any] = {"token": TEXT, "bytes": (list, type(None)), "logprob": NUMBER}
CHAT: dict[str, Any] = {"content": [{**TOP, "top_logprobs": [TOP]}], "refusal": type(None)}
COMPLETION: dict[str, Any] = {"tokens": [TEXT], "token_logprobs": [NUMBER], "text_offset": [COUNT]}
OWN = {"custom_id", "metadata", "prompt"}  # of a response, beside what is published


def lines_of(*runs: Run, **more: Any) -> list[dict[str, Any]]:
    text = b"".join(response_text(open_runs([run.path for run in runs]), **more)).decode()
    return [json.loads(line, object_pairs_hook=without_repeats) for line in text.splitlines()]


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def matches(value: Any, shape: Any) -> bool:
    """Whether a value has exactly the members and types of a shape."""
    if isinstance(shape, dict):
        return value.keys() == shape.keys() and all(matches(value[name], shape[name]) for name in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(matches(one, shape[0]) for one in value)
    return isinstance(value, shape) and not isinstance(value, bool)


def check_shape(response: Mapping[str, Any], shape: str) -> None:
    published = {"id": TEXT, "object": TEXT, "created": COUNT, "model": TEXT, "choices": list, "usage": dict}
    assert response.keys() == published.keys() | OWN
    assert all(isinstance(response[name], kind) for name, kind in published.items())
    assert response["object"] == {"chat": "chat.completion", "completion": "text_completion"}[shape]
    usage = response["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert [choice["index"] for choice in response["choices"]] == list(range(len(response["choices"])))
    for choice in response["choices"]:
        assert choice["finish_reason"] in ("stop", "length")
        if shape == "chat":
            assert choice.keys() == {"index", "message", "logprobs", "finish_reason", "metadata"}
            assert matches(choice["message"], {"role": TEXT, "content": TEXT, "refusal": type(None)})
            assert matches(choice["logprobs"], CHAT)
        else:
            assert choice.keys() == {"index", "text", "logprobs", "finish_reason", "metadata"}
            top = choice["logprobs"].pop("top_logprobs")
            assert top is None or all(isinstance(value, float) for one in top for value in one.values())
            assert matches(choice["logprobs"], COMPLETION)
            lengths = {len(values) for values in choice["logprobs"].values()}
            assert len(lengths | ({len(top)} if top is not None else set())) == 1
            choice["logprobs"]["top_logprobs"] = top


def number(value: float) -> np.float32:
    return np.float32(-math.inf if value == -9999.0 else value)


def listed(record: SequenceRecord, include_end: bool = True) -> list[int]:
    """Positions of the tokens that belong to the text, and of the end token."""
    n_bytes, found = record.alignment.n_bytes, []
    for i, (start, end) in enumerate(
        zip(record.alignment.byte_start, record.alignment.byte_end, strict=True)
    ):
        is_end = record.has_end and i == len(record.token_ids) - 1
        if (include_end and is_end) or (not is_end and (start < n_bytes or start == end == n_bytes)):
            found.append(i)
    return found


def choices_by_key(
    responses: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[tuple[str, str, int], dict[str, Any], Mapping[str, Any]]]:
    for response in responses:
        metadata = response["metadata"]
        for choice in response["choices"]:
            key = (metadata["prompt_id"], metadata["kind"], choice["metadata"]["sample_index"])
            yield key, choice, response


def chat_bytes(token: Mapping[str, Any]) -> bytes | None:
    return None if token["bytes"] is None else bytes(token["bytes"])


def check_chat(choice: Mapping[str, Any], record: SequenceRecord, include_end: bool = True) -> None:
    positions, content = listed(record, include_end), choice["logprobs"]["content"]
    assert [chat_bytes(token) for token in content] == [record.alignment.pieces[i] for i in positions]
    assert [number(token["logprob"]) for token in content] == record.statistics.logprob[positions].tolist()
    ids = record.statistics.alternative_ids
    for i, token in zip(positions, content, strict=True):
        assert [chat_bytes(top) for top in token["top_logprobs"]] == [PIECES[j] for j in ids[i].tolist()]
        values = [number(top["logprob"]) for top in token["top_logprobs"]]
        assert values == record.statistics.alternative_logprobs[i].tolist()
        assert token["token"] == (
            LITERALS[record.token_ids[i]]
            if token["bytes"] is None
            else bytes(token["bytes"]).decode("utf-8", "backslashreplace")
        )
    data = b"".join(chat_bytes(token) or b"" for token in content)
    kept = data[: choice["metadata"]["n_bytes"]]
    assert kept.decode("utf-8", "replace") == choice["message"]["content"] == record.alignment.text


@FEW
@given(odd_runs())
def test_a_chat_completion_gives_back_bytes_and_log_probabilities(odd: Odd) -> None:
    with odd.run(batch=1) as run:
        responses = lines_of(run)
        prompts = {row["prompt_id"]: row for row in run.load("prompts").to_pylist()}
        heads = {(r["prompt_id"], r["kind"], r["sample_index"]): r for r in run.load("sequences").to_pylist()}
    found = list(choices_by_key(responses))
    assert {key for key, _, _ in found} == {record.key for record in odd.sequences}
    for key, choice, response in found:
        check_chat(choice, by_key(odd.sequences)[key])
        stored = heads[key]
        own = {name: value for name, value in stored.items() if name not in ("prompt_id", "kind", "text")}
        assert from_json(json.dumps({**stored, **choice["metadata"]}), "sequences") == {**stored, **own}
        assert choice["metadata"].keys() == own.keys()
        assert from_json(json.dumps(response["prompt"]), "prompts") == prompts[key[0]]
        assert choice["finish_reason"] == ("stop" if stored["finish_reason"] == "stop" else "length")
    for response in responses:
        check_shape(response, "chat")
        keys = [key for key, _, own in found if own is response]
        assert keys == sorted(keys)
        counts = [len(by_key(odd.sequences)[key].token_ids) for key in keys]
        n_prompt = prompts[response["metadata"]["prompt_id"]]["n_tokens"]
        assert response["usage"]["completion_tokens"] == sum(counts)
        assert response["usage"]["prompt_tokens"] == n_prompt
        assert response["custom_id"] == f"{response['metadata']['prompt_id']}/{response['metadata']['kind']}"
    assert len({response["id"] for response in responses}) == len(responses)
    first = [prompt for prompt, _ in groupby(record.prompt_id for record in odd.sequences)]
    assert list(dict.fromkeys(r["metadata"]["prompt_id"] for r in responses)) == list(dict.fromkeys(first))


def completion_bytes(token: str) -> bytes:
    """The bytes of a token as the documentation says, which is how readers of the API do it."""
    if not token.startswith("bytes:"):
        return token.encode()
    return token.removeprefix("bytes:").encode().decode("unicode_escape").encode("latin-1")


def plain_offset(record: SequenceRecord, i: int) -> int:
    """Characters of the text before the one that the token's first byte is in."""
    data = b"".join(piece or b"" for piece in record.alignment.pieces)[: record.alignment.n_bytes]
    start = min(int(record.alignment.byte_start[i]), len(data))
    if start == len(data):
        return len(record.alignment.text)
    # The character that a byte is in is the last one of the shortest beginning that has the byte.
    return max(n for n in range(len(record.alignment.text)) if begins(data, n) <= start)


def begins(data: bytes, n: int) -> int:
    """The byte where the n-th character begins: how much has to be there before there are n characters."""
    text = data.decode("utf-8", "replace")
    for size in range(len(data) + 1):
        whole = data[:size].decode("utf-8", "replace") + data[size:].decode("utf-8", "replace")
        if whole == text and len(data[:size].decode("utf-8", "replace")) == n:
            return size
    raise AssertionError


@FEW
@given(odd_runs())
def test_a_completion_gives_back_bytes_log_probabilities_and_places(odd: Odd) -> None:
    with odd.run(batch=2) as run:
        responses = lines_of(run, shape="completion")
    for response in responses:
        check_shape(response, "completion")
    for key, choice, _ in choices_by_key(responses):
        record = by_key(odd.sequences)[key]
        positions, logprobs = listed(record), choice["logprobs"]
        assert choice["text"] == record.alignment.text
        pieces = [record.alignment.pieces[i] for i in positions]
        for token, piece in zip(logprobs["tokens"], pieces, strict=True):
            assert token in LITERALS[:2] if piece is None else completion_bytes(token) == piece
        values = record.statistics.logprob[positions].tolist()
        assert [number(value) for value in logprobs["token_logprobs"]] == values
        assert logprobs["text_offset"] == [plain_offset(record, i) for i in positions]
        check_top(logprobs["top_logprobs"], record, positions)


def check_top(found: list[dict[str, float]] | None, record: SequenceRecord, positions: list[int]) -> None:
    ids, logprobs = record.statistics.alternative_ids, record.statistics.alternative_logprobs
    assert (found is None) == (ids.size == 0)
    for one, i in zip(found or [], positions, strict=found is not None):
        expected: dict[bytes, np.float32] = {}
        for token_id, logprob in zip(ids[i].tolist(), logprobs[i], strict=True):
            piece = PIECES[token_id]
            expected.setdefault(LITERALS[token_id].encode() if piece is None else piece, logprob)
        assert {completion_bytes(token): number(value) for token, value in one.items()} == expected


def test_tokens_that_are_no_utf_8_are_written_as_the_api_does(tmp_path: Path) -> None:
    from toolkit.exporting.choices import completion_token
    from toolkit.store import VocabularyEntry

    def written(data: bytes | None, literal: str = "") -> str:
        return str(json.loads(completion_token(VocabularyEntry(data, literal, data is None))))

    # As published: HELM's tests, and answers of text-davinci-003 that are on GitHub.
    assert written(b"\xe2\x80") == r"bytes:\xe2\x80"
    assert written(b"\x99") == r"bytes:\x99"
    assert written(b" \xe6\x9e") == r"bytes: \xe6\x9e"
    assert written("’".encode()) == "’"
    assert written(None, "<|endoftext|>") == "<|endoftext|>"
    # Ours, so that no two tokens are written alike.
    assert written(b"bytes:") == "bytes:bytes:"
    assert written(rb"bytes:\xe2") == r"bytes:bytes:\\xe2"
    assert written(b"\xff\n\\") == r"bytes:\xff\x0a\\"


def test_the_end_token_is_left_out_where_that_is_asked(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    for shape, place in (("chat", "content"), ("completion", "tokens")):
        with_end = [choice for _, choice, _ in choices_by_key(lines_of(run, shape=shape))]
        without = [choice for _, choice, _ in choices_by_key(lines_of(run, shape=shape, include_end=False))]
        assert {choice["metadata"]["has_end"] for choice in with_end} == {True, False}
        for a, b in zip(with_end, without, strict=True):
            n = len(a["logprobs"][place]) - a["metadata"]["has_end"]
            assert b["logprobs"][place] == a["logprobs"][place][:n]


def test_what_came_after_a_stop_string_is_not_listed(tmp_path: Path) -> None:
    record = make_record(n_tokens=12, has_end=False, n_bytes=9)
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        writer.commit([record], VOCABULARY)
    ((_, choice, response),) = choices_by_key(lines_of(open_run(tmp_path / "run")))
    n = int((record.alignment.byte_start < 9).sum())
    assert len(choice["logprobs"]["content"]) == n < 12
    assert response["usage"]["completion_tokens"] == choice["metadata"]["n_tokens"] == 12


def test_samples_of_a_prompt_are_one_response_wherever_they_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(make_run(tmp_path / "run", n_samples=5, batch=2, shuffled=True))
    whole = lines_of(run)
    found = {(r["metadata"]["prompt_id"], r["metadata"]["kind"]): len(r["choices"]) for r in whole}
    assert found == {
        (prompt_name(i), kind): n for i in range(3) for kind, n in (("greedy", 1), ("sample", 5))
    }
    rows_stored = pa.concat_tables(run.iter_row_groups("sequences", ["prompt_id"]))["prompt_id"].to_pylist()
    assert list(dict.fromkeys(name for name, _ in found)) == list(dict.fromkeys(rows_stored))
    monkeypatch.setattr(rows, "SLICE_TOKENS", 20)
    monkeypatch.setattr(grouping, "ROW_GROUP_TOKENS", 30)
    assert lines_of(run) == whole


def test_only_files_with_the_prompts_in_hand_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = open_runs([make_run(tmp_path / "run", n_prompts=4, batch=5)])
    reads: list[str] = []
    original = TableFile.read

    def spy(self: TableFile, *arguments: Any, **more: Any) -> pa.Table:
        reads.append(self.table.name)
        return original(self, *arguments, **more)

    monkeypatch.setattr(TableFile, "read", spy)
    monkeypatch.setattr(grouping, "ROW_GROUP_TOKENS", 1)
    assert b"question-00000" in b"".join(response_text(runs))
    assert reads.count("tokens") == 4  # each file holds one prompt, and is read once


def test_only_the_selected_sequences_are_choices(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    chosen = Selection([prompt_name(2)], ["sample"], [1, 3])
    (response,) = lines_of(run, selection=chosen)
    assert [choice["metadata"]["sample_index"] for choice in response["choices"]] == [1, 3]
    for wrong, message in (
        (Selection(["nobody"]), "'nobody' is not in"),
        (Selection(samples=[9]), "is selected"),
    ):
        with pytest.raises(ToolkitError, match=message):
            lines_of(run, selection=wrong)


def test_several_runs_are_told_apart(tmp_path: Path) -> None:
    runs = [open_run(make_run(tmp_path / name, n_prompts=1, seed=i)) for i, name in enumerate(("one", "two"))]
    found = lines_of(*runs)
    assert [r["metadata"]["run"] for r in found] == ["one", "one", "two", "two"]
    assert found[0]["custom_id"] == f"one/{prompt_name(0)}/greedy"
    assert found[0]["created"] > 1_700_000_000
    assert {r["model"] for r in found} == {"made"}


def test_a_prompt_that_is_too_much_for_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(make_run(tmp_path / "run"))
    monkeypatch.setattr(memory, "free_memory_bytes", lambda: 20_000)
    with pytest.raises(ToolkitError, match=r"over half of the free .*: select fewer with prompts"):
        lines_of(run)


@pytest.mark.parametrize(("shape", "name"), [("chat", "ChatCompletion"), ("completion", "Completion")])
def test_the_openai_package_takes_the_responses(tmp_path: Path, shape: str, name: str) -> None:
    types = pytest.importorskip("openai.types" if shape == "completion" else "openai.types.chat")
    run = open_run(make_run(tmp_path / "run"))
    for response in lines_of(run, shape=shape):
        published = {key: value for key, value in response.items() if key not in OWN}
        for choice in published["choices"]:
            del choice["metadata"]
        checked = getattr(types, name).model_validate(published, strict=True)
        assert checked.model_dump(exclude_unset=True) == published


def test_no_line_holds_what_a_reader_of_lines_would_take_for_an_end(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    text = b"".join(response_text(open_runs([run.path]))).decode()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", text)
