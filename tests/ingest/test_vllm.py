"""Outputs of vLLM: dictionaries by token id, with ranks, and the responses of its server."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ingest.sources import PARIS, chat, ingested, rows, token
from tests.ingest.test_openai import refused


def logprob(value: float, rank: int | None, text: str | None) -> dict[str, Any]:
    return {"logprob": value, "rank": rank, "decoded_token": text}


def output(**more: Any) -> dict[str, Any]:
    """A RequestOutput of two completions; the second token of the first was unlikely."""
    first = {
        "index": 0,
        "text": " Paris!",
        "token_ids": [10, 11],
        "cumulative_logprob": -9.1,
        "logprobs": [
            {"12": logprob(-3.0, 2, " Lyon"), "10": logprob(-0.1, 1, " Paris")},
            {"11": logprob(-9.0, 40, "!"), "13": logprob(-0.2, 1, "."), "14": logprob(-2.0, 2, ",")},
        ],
        "finish_reason": "length",
        "stop_reason": None,
    }
    second = {**first, "index": 1, "text": " Paris", "token_ids": [10], "logprobs": first["logprobs"][:1]}
    return {
        "request_id": "7",
        "prompt": "The capital is",
        "prompt_token_ids": [1, 2, 3, 4],
        "prompt_logprobs": [
            None,
            {"2": logprob(-5.0, 30, "The"), "9": logprob(-1.0, 1, "A")},
            {"3": logprob(-4.0, 2, " capital")},
            {"4": logprob(-0.5, 1, " is")},
        ],
        "outputs": [first, {**second, "finish_reason": "stop", "stop_reason": 2}],
        "finished": True,
        **more,
    }


def test_ids_ranks_and_texts_are_the_sources(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [output()], "vllm")
    assert rows(run, "tokens", "token_id", "bytes", "rank") == [
        (10, b" Paris", 1),
        (11, b"!", 40),
        (10, b" Paris", 1),
    ]
    assert rows(run, "sequences", "sample_index", "finish_reason", "stop_reason") == [
        (0, "length", None),
        (1, "stop", "2"),
    ]
    assert run.manifest.tokenizer["ids"] == "given"


def test_a_token_that_was_only_drawn_is_no_alternative(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [output()], "vllm")
    assert rows(run, "alternatives", "token_index", "alternative_rank", "token_id") == [
        (0, 1, 10),
        (0, 2, 12),
        (1, 1, 13),
        (1, 2, 14),
        (0, 1, 10),
        (0, 2, 12),
    ]
    assert rows(run, "tokens", "top1_logprob")[1] == np.float32(-0.2)


def test_the_prompts_own_tokens_are_scored(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [output()], "vllm")
    assert rows(run, "prompt_tokens", "token_id", "bytes", "logprob", "rank") == [
        (1, b"", None, None),
        (2, b"The", -5.0, 30),
        (3, b" capital", -4.0, 2),
        (4, b" is", -0.5, 1),
    ]
    assert rows(run, "prompts", "text", "token_ids") == [("The capital is", [1, 2, 3, 4])]


def test_the_first_token_of_a_prompt_is_what_the_others_leave(tmp_path: Path) -> None:
    given = output(prompt="> The capital is")
    run, _ = ingested(tmp_path, [given], "vllm")
    assert rows(run, "prompt_tokens", "bytes") == [b"> ", b"The", b" capital", b" is"]


def test_numbers_alone_are_read_as_log_probabilities(tmp_path: Path) -> None:
    """Older versions gave a number an id, and no text of the tokens."""
    bare = {"index": 0, "text": "ab", "token_ids": [5, 6], "logprobs": [{"5": -0.5}, {"6": -math.inf}]}
    run, outcome = ingested(tmp_path, [{"outputs": [bare], "request_id": "1"}], "vllm")
    assert rows(run, "sequences", "text", "finish_reason") == [("ab", "cancelled")]
    assert rows(run, "tokens", "logprob") == [-0.5, -math.inf]
    assert outcome.n_masked == 1
    assert rows(run, "alternatives", "token_id") == []


def test_an_id_that_stands_for_two_texts_gets_one_of_its_own(tmp_path: Path) -> None:
    """A part of a character is written as an empty text, or as the whole character, by where it stands."""

    def one(*texts: str) -> dict[str, Any]:
        listed = [{str(20 + i): logprob(-1.0, 1, text)} for i, text in enumerate(texts)]
        ids = [20 + i for i in range(len(texts))]
        return {"outputs": [{"text": "".join(texts), "token_ids": ids, "logprobs": listed}], "prompt": "p"}

    run, outcome = ingested(tmp_path, [one("", "é"), one("a", "é")], "vllm")
    assert rows(run, "tokens", "bytes") == [b"", "é".encode(), b"a", "é".encode()]
    ids = rows(run, "tokens", "token_id")
    assert ids[:2] == [20, 21]
    assert ids[3] == 21
    assert ids[2] not in (20, 21)
    assert any("1 tokens have an id made from their bytes" in note for note in outcome.notes)


def test_a_response_of_its_server_is_read_too(tmp_path: Path) -> None:
    body = chat(*PARIS, token_ids=[5, 6], stop_reason=2)
    body["prompt_logprobs"] = [None, {"8": logprob(-2.0, 3, "Hi")}]
    body["prompt_token_ids"] = [1, 8]
    run, _ = ingested(tmp_path, [{**body, "prompt": None}], "vllm")
    assert rows(run, "tokens", "token_id") == [5, 6]
    assert rows(run, "prompt_tokens", "token_id", "logprob") == [(1, None), (8, -2.0)]
    assert rows(run, "sequences", "stop_reason") == ["2"]


def test_the_least_likely_of_a_chats_list_may_only_be_there_for_being_drawn(tmp_path: Path) -> None:
    """Its server cuts the list after putting the token drawn first, so that its place says nothing."""
    drawn = token("c", -9.0, ("c", -9.0), ("a", -0.1), ("b", -3.0))
    run, _ = ingested(tmp_path, [chat(drawn, token("a", -0.2, ("a", -0.2), ("b", -2.0)))], "vllm")
    assert rows(run, "tokens", "rank") == [None, 1]
    assert rows(run, "alternatives", "token_index", "logprob") == [
        (0, np.float32(-0.1)),
        (0, -3.0),
        (1, np.float32(-0.2)),
        (1, -2.0),
    ]


def test_tokens_written_as_ids_keep_the_id(tmp_path: Path) -> None:
    """return_tokens_as_token_ids gives bytes of the text token_id:7, not of the token."""
    odd = {"token": "token_id:7", "logprob": -0.1, "bytes": list(b"token_id:7"), "top_logprobs": []}
    run, _ = ingested(tmp_path, [chat(odd, content="hello")], "vllm")
    assert rows(run, "tokens", "logprob") == [np.float32(-0.1)]
    assert rows(run, "sequences", "text") == ["hello"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"outputs": [{"text": "a", "token_ids": [1], "logprobs": None}]}, "SamplingParams(logprobs=5)"),
        (
            {"outputs": [{"text": "a", "token_ids": [1], "logprobs": []}]},
            "logprobs has 0 positions, and there are 1",
        ),
        (
            {"outputs": [{"text": "a", "token_ids": [1], "logprobs": [{"2": -1.0}]}]},
            "token 0 has no log-probability",
        ),
        (
            {"outputs": [{"text": "a", "token_ids": [-1], "logprobs": [{}]}]},
            "a token id is a whole number from 0",
        ),
        (
            {"outputs": [{"text": "a", "token_ids": [1], "logprobs": [{"1": {"logprob": -1, "rank": 0}}]}]},
            "a rank is 1 or more",
        ),
        (
            {"generated": "a"},
            "expected outputs of vLLM (an object with outputs), or a response of its server",
        ),
    ],
)
def test_a_bad_output_is_refused_with_its_line(tmp_path: Path, line: Any, said: str) -> None:
    message = refused(tmp_path, line, source="vllm")
    assert said in message
    assert "bad.jsonl:1: " in message
