"""Responses of OpenAI's shape become the rows they carry, and what they lack is null or is refused by its line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ingest.sources import PARIS, chat, completion, ingested, rows, token, write_lines
from toolkit.errors import ToolkitError
from toolkit.ingest import ingest
from toolkit.store import open_run

EURO = "€".encode()
PARTY = "🎉".encode()


def refused(folder: Path, *lines: Any, source: Any = "openai") -> str:
    """What is said of a file; nothing is written."""
    with pytest.raises(ToolkitError) as error:
        ingest(write_lines(folder / "bad.jsonl", lines), source, folder / "run")
    assert not (folder / "run").exists()
    return str(error.value)


def test_a_chat_completion_keeps_tokens_alternatives_and_ending(tmp_path: Path) -> None:
    run, outcome = ingested(tmp_path, [chat(*PARIS)])
    assert (outcome.n_prompts, outcome.n_sequences, outcome.n_tokens, outcome.n_masked) == (1, 1, 2, 0)
    assert rows(run, "sequences", "prompt_id", "kind", "text", "finish_reason", "seed") == [
        ("chatcmpl-1", "sample", "Paris", "stop", None)
    ]
    assert rows(run, "tokens", "bytes", "rank", "is_special") == [(b"Par", 1, False), (b"is", 1, False)]
    got = run.load("tokens").to_pylist()
    assert [row["logprob"] for row in got] == [np.float32(-0.1), np.float32(-0.01)]
    assert [row["top1_logprob"] for row in got] == [np.float32(-0.1), np.float32(-0.01)]
    assert [row["top2_logprob"] for row in got] == [-3.0, -5.0]
    names = {i: entry.bytes for i, entry in run.vocabulary.items()}
    listed = rows(run, "alternatives", "token_index", "alternative_rank", "token_id")
    assert [(i, rank, names[token_id]) for i, rank, token_id in listed] == [
        (0, 1, b"Par"),
        (0, 2, b"Lyon"),
        (1, 1, b"is"),
        (1, 2, b"ma"),
    ]


def test_what_the_source_lacks_is_null(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(*PARIS)])
    given = {"logprob", "rank", "top1_logprob", "top2_logprob"}
    for column in run.load("tokens").to_pydict().items():
        name, values = column
        if name.endswith(("entropy", "logprob", "_logit", "_prob", "finite", "half", "quarter", "exp")):
            assert (None in values) == (name not in given), name


def test_the_rank_is_null_where_the_token_is_not_among_the_likely_ones(tmp_path: Path) -> None:
    odd = token("Nice", -7.0, ("Par", -0.1), ("Lyon", -3.0))
    run, _ = ingested(tmp_path, [chat(odd)])
    assert rows(run, "tokens", "rank", "top1_logprob") == [(None, np.float32(-0.1))]


def test_sentinels_are_minus_infinity_and_counted(tmp_path: Path) -> None:
    lines = [chat(*(token("a", value, ("b", -9999.0)) for value in (-9999.0, -100.0, -math.inf, -99.5)))]
    run, outcome = ingested(tmp_path, lines)
    assert rows(run, "tokens", "logprob") == [-math.inf, -math.inf, -math.inf, -99.5]
    assert rows(run, "alternatives", "logprob") == []
    assert outcome.n_masked == 7
    assert any("7 log-probabilities were sentinels" in note for note in run.manifest.notes)


def test_parts_of_characters_are_joined_from_their_bytes(tmp_path: Path) -> None:
    parts = [token("\\xe2\\x82", -1.0, data=[0xE2, 0x82]), token("\\xac", -0.5, data=[0xAC])]
    run, _ = ingested(tmp_path, [chat(*parts, content="€")])
    assert rows(run, "tokens", "bytes") == [EURO[:2], EURO[2:]]
    assert rows(run, "segments", "text", "token_start", "token_end") == [("€", 0, 2)]


def test_replacement_characters_give_way_to_the_text(tmp_path: Path) -> None:
    """Servers that decode a token alone write U+FFFD and its bytes for a part of a character."""
    parts = [token("\ufffd", -1.0) for _ in range(3)]
    run, outcome = ingested(tmp_path, [chat(token("so ", -1.0), *parts, token("!", -1.0), content="so 🎉!")])
    assert rows(run, "tokens", "bytes") == [b"so ", b"", b"", PARTY, b"!"]
    assert rows(run, "sequences", "text") == ["so 🎉!"]
    assert any("3 tokens came as parts of characters" in note for note in outcome.notes)


def test_empty_tokens_stay_rows(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(token("", -0.2), token("a", -0.3), token("", -0.4))])
    assert rows(run, "tokens", "bytes", "is_special") == [(b"", False), (b"a", False), (b"", False)]
    assert rows(run, "sequences", "text", "n_tokens") == [("a", 3)]


def test_an_answer_without_tokens_is_a_sequence_without_rows(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(content="")])
    assert rows(run, "sequences", "text", "n_tokens") == [("", 0)]


def test_an_end_token_without_bytes_is_special(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(*PARIS, token("<|im_end|>", -0.2, data=None), content="Paris")])
    assert rows(run, "tokens", "bytes")[-1] is None
    assert rows(run, "sequences", "has_end", "stop_reason") == [(True, "<|im_end|>")]


def test_a_server_that_gives_no_bytes_is_read_by_its_text(tmp_path: Path) -> None:
    texts = [token("Pa", -0.1, data=None), token("ris", -0.1, data=None), token("</s>", -0.1, data=None)]
    run, _ = ingested(tmp_path, [chat(*texts, content="Paris")])
    assert rows(run, "tokens", "bytes") == [b"Pa", b"ris", None]


def test_a_stop_string_cuts_inside_a_token(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(token("Paris", -0.1), token(".\n\n", -0.2), content="Paris.")])
    assert rows(run, "sequences", "text", "n_bytes", "n_tokens") == [("Paris.", 6, 2)]
    assert rows(run, "tokens", "bytes")[-1] == b".\n\n"


def test_a_text_that_tokens_do_not_spell_is_told_and_the_bytes_are_kept(tmp_path: Path) -> None:
    run, outcome = ingested(tmp_path, [chat(*PARIS, content="Rome")])
    assert rows(run, "sequences", "text") == ["Paris"]
    assert any("the bytes of 1 sequences do not spell" in note for note in outcome.notes)


def test_several_choices_are_samples_and_lines_of_one_prompt_go_on_counting(tmp_path: Path) -> None:
    first = chat(*PARIS)
    first["choices"].append({**first["choices"][0], "index": 1})
    lines = [
        {"custom_id": "q1", "response": {"status_code": 200, "body": body}} for body in (first, chat(*PARIS))
    ]
    run, _ = ingested(tmp_path, lines)
    assert rows(run, "sequences", "prompt_id", "sample_index") == [("q1", 0), ("q1", 1), ("q1", 2)]
    assert rows(run, "prompts", "prompt_id", "text", "n_tokens") == [("q1", "", 0)]


def test_a_request_beside_its_response_gives_the_prompt_and_the_sampling(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Short."}, {"role": "user", "content": "Capital?"}]
    request = {"model": "gpt-x", "messages": messages, "temperature": 0}
    run, _ = ingested(tmp_path, [{"request": {"body": request}, "response": {"body": chat(*PARIS)}}])
    [(prompt_id, text, stored)] = rows(run, "prompts", "prompt_id", "text", "messages")
    assert (text, json.loads(stored)) == ("Short.\nCapital?", messages)
    assert len(prompt_id) == 16
    assert rows(run, "sequences", "kind") == ["greedy"]
    assert run.manifest.setting("temperature") == 0.0
    assert run.manifest.model["name"] == "gpt-x"


def test_a_tool_call_with_log_probabilities_is_kept(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
    run, _ = ingested(tmp_path, [chat(*PARIS, message=call, finish_reason="tool_calls")])
    assert rows(run, "sequences", "text", "finish_reason", "stop_reason") == [("Paris", "stop", "tool_calls")]


def test_a_tool_call_without_them_is_left_out_and_told(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
    run, outcome = ingested(tmp_path, [chat(*PARIS), chat(message=call, logprobs=None)])
    assert (outcome.n_sequences, outcome.n_left_out) == (1, 1)
    [reason] = outcome.left_out
    assert reason.startswith("a tool call without log-probabilities")
    assert reason.endswith("answers.jsonl:2)")
    assert len(rows(run, "sequences", "text")) == 1


def test_a_refusal_has_its_own_tokens(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": None, "refusal": "Paris"}
    body = chat(message=message, logprobs={"content": None, "refusal": list(PARIS)})
    run, _ = ingested(tmp_path, [body])
    assert rows(run, "sequences", "text", "n_tokens") == [("Paris", 2)]


def test_failed_requests_of_a_batch_are_left_out(tmp_path: Path) -> None:
    lines = [
        {"custom_id": "a", "response": {"status_code": 200, "body": chat(*PARIS)}, "error": None},
        {"custom_id": "b", "response": None, "error": {"code": "expired", "message": "too late"}},
        {"custom_id": "c", "response": {"status_code": 429, "body": {"error": {"message": "slow down"}}}},
    ]
    run, outcome = ingested(tmp_path, lines)
    assert rows(run, "prompts", "prompt_id") == ["a"]
    assert outcome.n_left_out == 2
    assert [reason.split(" (")[0] for reason in outcome.left_out] == [
        "a request that failed: too late",
        "a request that failed: status 429",
    ]


def test_legacy_completions_have_texts_for_tokens(tmp_path: Path) -> None:
    top = [{" Paris": -0.1, " Lyon": -4.0}, {"bytes: \\xe2\\x82": -0.5, "bytes:\\xf0\\x9f": -2.0}, None]
    tokens = [" Paris", "bytes: \\xe2\\x82", "bytes:\\xac"]
    run, _ = ingested(tmp_path, [completion(tokens, [-0.1, -0.5, -0.2], top, text=" Paris €")])
    assert rows(run, "tokens", "bytes") == [b" Paris", b" \xe2\x82", b"\xac"]
    assert rows(run, "sequences", "text", "finish_reason") == [(" Paris €", "length")]
    names = run.vocabulary
    likely = [names[i].bytes for i in rows(run, "alternatives", "token_id")]
    assert likely == [b" Paris", b" Lyon", b" \xe2\x82", b"\xf0\x9f"]


def test_offsets_that_count_bytes_change_nothing(tmp_path: Path) -> None:
    """Offsets are characters in one server and bytes in another; the tokens themselves say where they are."""
    found = []
    for name, offsets in (("characters", [0, 1, 2]), ("bytes", [0, 2, 5])):
        (tmp_path / name).mkdir()
        body = completion(["é", "日", "!"], [-0.1, -0.2, -0.3])
        body["choices"][0]["logprobs"]["text_offset"] = offsets
        run, _ = ingested(tmp_path / name, [body])
        found.append(rows(run, "tokens", "byte_start", "byte_end"))
    assert found[0] == found[1] == [(0, 2), (2, 5), (5, 6)]


def test_the_token_itself_is_no_alternative_where_it_was_only_appended(tmp_path: Path) -> None:
    top = [{"a": -0.1, "b": -3.0}, {"a": -0.1, "b": -3.0, "c": -9.0}]
    run, _ = ingested(tmp_path, [completion(["a", "c"], [-0.1, -9.0], top)])
    assert rows(run, "alternatives", "token_index", "alternative_rank") == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert rows(run, "tokens", "rank") == [1, None]


def test_an_echoed_prompt_is_scored_as_a_prompt(tmp_path: Path) -> None:
    body = completion(["The", " capital", ":", " Paris"], [None, -4.0, -1.0, -0.1])
    body["usage"] = {"prompt_tokens": 3, "completion_tokens": 1}
    run, _ = ingested(tmp_path, [body])
    assert rows(run, "sequences", "text", "n_tokens") == [(" Paris", 1)]
    assert rows(run, "prompts", "text") == ["The capital:"]
    assert rows(run, "prompt_tokens", "bytes", "logprob") == [
        (b"The", None),
        (b" capital", -4.0),
        (b":", -1.0),
    ]


def test_an_echo_is_cut_where_the_request_says_the_prompt_ends(tmp_path: Path) -> None:
    body = completion(["The", " capital", ":", " Paris"], [None, -4.0, -1.0, -0.1])
    run, _ = ingested(tmp_path, [{"request": {"prompt": "The capital"}, "response": body}])
    assert rows(run, "sequences", "text") == [": Paris"]


def test_an_echo_that_ends_nowhere_is_refused(tmp_path: Path) -> None:
    assert "bad.jsonl:1: the prompt is echoed" in refused(tmp_path, completion(["The", " a"], [None, -1.0]))


def test_several_prompts_of_one_request_get_their_own_answers(tmp_path: Path) -> None:
    body = completion(["x"], [-0.1])
    body["choices"] = [{**body["choices"][0], "index": i} for i in range(4)]
    line = {"custom_id": "r", "request": {"prompt": ["one", "two"], "n": 2}, "response": body}
    run, _ = ingested(tmp_path, [line])
    assert rows(run, "sequences", "prompt_id", "sample_index") == [
        ("r/0", 0),
        ("r/0", 1),
        ("r/1", 0),
        ("r/1", 1),
    ]
    assert rows(run, "prompts", "text") == ["one", "two"]


def test_ids_that_a_server_gives_are_kept(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(*PARIS, token_ids=[41, 42])])
    assert rows(run, "tokens", "token_id") == [41, 42]


def test_made_ids_are_the_same_in_every_run(tmp_path: Path) -> None:
    found = []
    for name, tokens in (("a", PARIS), ("b", PARIS[::-1])):
        (tmp_path / name).mkdir()
        run, _ = ingested(tmp_path / name, [chat(*tokens)])
        found.append(dict(rows(run, "tokens", "bytes", "token_id")))
        assert run.manifest.tokenizer["ids"] == "made from bytes"
    assert found[0] == found[1]


def test_an_array_of_responses_is_read_and_its_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps([chat(*PARIS), chat(*PARIS)], indent=1), encoding="utf-8")
    assert ingest(path, "openai", tmp_path / "run").n_sequences == 2
    assert rows(open_run(tmp_path / "run"), "sequences", "sample_index") == [0, 1]
    path.write_text(json.dumps([chat(*PARIS), {"a": 1}], indent=1), encoding="utf-8")
    line = 1 + json.dumps([chat(*PARIS)], indent=1).count("\n")
    with pytest.raises(ToolkitError, match=rf"all.json:{line}: expected a chat completion"):
        ingest(path, "openai", tmp_path / "other")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            chat(*PARIS, logprobs=None),
            "bad.jsonl:2: a response without log-probabilities (logprobs is null); ask with logprobs true",
        ),
        (chat(*PARIS, logprobs={"content": None}), "ask with logprobs true"),
        (
            completion(["a"], [-1.0], logprobs=None),
            "bad.jsonl:2: a response without log-probabilities (logprobs is null); ask with logprobs 5",
        ),
        (
            {"text": "hello"},
            "bad.jsonl:2: expected a chat completion or a completion (an object with choices), or a "
            "line of a batch's output, and found 'text'",
        ),
        ({"object": "chat.completion.chunk", "choices": [{"delta": {}}]}, "a chunk of a streamed response"),
        ({"choices": [{"delta": {"content": "a"}}]}, "a chunk of a streamed response"),
        ({"choices": [{"index": 0}]}, "expected message or text in choices[0], and found 'index'"),
        ({**chat(*PARIS), "model": "other"}, "bad.jsonl:2 is of the model 'other', and"),
        (chat(token("a", 0.5)), "logprob is 0.5, above 0"),
        (chat({"token": "a", "logprob": "x"}), "logprob is a string"),
        (chat({"token": "a", "logprob": math.nan}), "logprob is NaN"),
        (chat(token("a", -1.0, data=[300])), "bytes has something else than whole numbers from 0 to 255"),
        (completion(["a", "b"], [-1.0]), "2 tokens, 1 token_logprobs and 2 top_logprobs"),
        ({"custom_id": "", "response": chat(*PARIS)}, "custom_id is empty"),
        ([1, 2], "a number, where an object is wanted"),
    ],
)
def test_a_bad_line_is_named_with_what_was_expected_and_found(tmp_path: Path, line: Any, said: str) -> None:
    assert said in refused(tmp_path, chat(*PARIS), line)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is nothing in it"),
        ("data: {}\n", "bad.jsonl:1: a stream of events"),
        ("{}\n{\n", "bad.jsonl:1: expected a chat completion"),
        ('{"choices": []}\n{oh\n', "bad.jsonl:2: not JSON"),
        ('{"choices": []}\n', "there is no answer to store in it"),
        ("[[1]]", "an array, where an object is wanted"),
    ],
)
def test_a_file_that_is_no_json_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ToolkitError) as error:
        ingest(path, "openai", tmp_path / "run")
    assert said in str(error.value)


def test_two_texts_under_one_id_are_refused(tmp_path: Path) -> None:
    lines = [
        {
            "custom_id": "q",
            "request": {"messages": [{"role": "user", "content": text}]},
            "response": chat(*PARIS),
        }
        for text in ("one", "two")
    ]
    assert "prompt 'q' has another text than on" in refused(tmp_path, *lines)
