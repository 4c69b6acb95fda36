"""Responses of llama.cpp's server, in its newer and its older shape."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ingest.sources import PARIS, chat, ingested, rows
from tests.ingest.test_openai import refused


def entry(
    token_id: int, text: str, value: float, *likely: dict[str, Any], data: bytes | None = None
) -> dict[str, Any]:
    own = {
        "id": token_id,
        "token": text,
        "bytes": list(text.encode() if data is None else data),
        "logprob": value,
    }
    return {**own, "top_logprobs": list(likely)} if likely else own


def newer(**more: Any) -> dict[str, Any]:
    paris = entry(5, " Paris", -0.2)
    return {
        "index": 0,
        "content": " Paris€",
        "model": "small.gguf",
        "prompt": "The capital is",
        "stop": True,
        "stop_type": "eos",
        "stopping_word": "",
        "truncated": False,
        "generation_settings": {"temperature": 0.8, "top_p": 0.95, "n_probs": 2, "seed": 4294967295},
        "completion_probabilities": [
            entry(5, " Paris", -0.2, paris, entry(6, " Lyon", -2.5)),
            entry(7, "", -0.3, entry(7, "", -0.3, data=b"\xe2\x82"), data=b"\xe2\x82"),
            entry(8, "", -0.1, entry(8, "", -0.1, data=b"\xac"), data=b"\xac"),
        ],
        **more,
    }


def older(**more: Any) -> dict[str, Any]:
    return {
        "content": " Paris",
        "model": "small.gguf",
        "prompt": "The capital is",
        "stop": True,
        "stopped_eos": False,
        "stopped_limit": True,
        "stopped_word": False,
        "stopping_word": "",
        "completion_probabilities": [
            {
                "content": " Par",
                "probs": [{"tok_str": " Lyon", "prob": 0.25}, {"tok_str": " Par", "prob": 0.75}],
            },
            {"content": "is", "probs": [{"tok_str": "is", "prob": 1.0}, {"tok_str": "ma", "prob": 0.0}]},
        ],
        **more,
    }


def test_the_newer_shape_keeps_ids_bytes_and_log_probabilities(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [newer()], "llamacpp")
    assert rows(run, "tokens", "token_id", "bytes") == [(5, b" Paris"), (7, b"\xe2\x82"), (8, b"\xac")]
    assert rows(run, "sequences", "text", "finish_reason", "kind") == [(" Paris€", "stop", "sample")]
    assert rows(run, "alternatives", "token_id") == [5, 6, 7, 8]
    assert rows(run, "prompts", "text") == ["The capital is"]
    assert run.manifest.model["name"] == "small.gguf"
    assert run.manifest.setting("temperature") == 0.8


def test_the_older_shape_gives_probabilities_by_text(tmp_path: Path) -> None:
    run, outcome = ingested(tmp_path, [older()], "llamacpp")
    assert rows(run, "tokens", "bytes", "logprob", "rank") == [
        (b" Par", np.float32(math.log(0.75)), 1),
        (b"is", 0.0, 1),
    ]
    assert rows(run, "tokens", "sampling_logprob") == rows(run, "tokens", "logprob")
    assert rows(run, "sequences", "finish_reason") == ["length"]
    assert len(rows(run, "alternatives", "token_id")) == 3
    assert outcome.n_masked == 1


def test_a_byte_of_the_older_shape_is_a_byte(tmp_path: Path) -> None:
    probs = [
        {"content": text, "probs": [{"tok_str": text, "prob": 0.5}]}
        for text in ("byte: \\xe2", "byte: \\x82", "byte: \\xac")
    ]
    run, _ = ingested(tmp_path, [older(content="€", completion_probabilities=probs)], "llamacpp")
    assert rows(run, "tokens", "bytes") == [b"\xe2", b"\x82", b"\xac"]


def test_a_token_that_its_probs_lack_leaves_the_answer_out(tmp_path: Path) -> None:
    odd = [{"content": " Nice", "probs": [{"tok_str": " Par", "prob": 0.75}]}]
    lines = [older(), older(content=" Nice", completion_probabilities=odd)]
    run, outcome = ingested(tmp_path, lines, "llamacpp")
    assert len(rows(run, "sequences", "text")) == 1
    [reason] = outcome.left_out
    assert "ask with more n_probs" in reason
    assert "answers.jsonl:2" in reason


def test_probabilities_after_sampling_are_both(tmp_path: Path) -> None:
    after = [
        {
            "id": 5,
            "token": " Paris",
            "bytes": list(b" Paris"),
            "prob": 0.5,
            "top_probs": [{"id": 6, "token": " Lyon", "bytes": list(b" Lyon"), "prob": 0.5}],
        }
    ]
    run, _ = ingested(tmp_path, [newer(content=" Paris", completion_probabilities=after)], "llamacpp")
    half = np.float32(math.log(0.5))
    assert rows(run, "tokens", "logprob", "sampling_logprob") == [(half, half)]


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ({"stop_type": "limit"}, ("length", None)),
        ({"stop_type": "word", "stopping_word": "\n"}, ("stop", "\n")),
        ({"stop_type": "none"}, ("cancelled", "none")),
    ],
)
def test_the_ending_is_kept(tmp_path: Path, ending: dict[str, str], expected: tuple[str, str | None]) -> None:
    run, _ = ingested(tmp_path, [newer(**ending)], "llamacpp")
    assert rows(run, "sequences", "finish_reason", "stop_reason") == [expected]


def test_temperature_zero_is_greedy(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [newer(generation_settings={"temperature": 0.0})], "llamacpp")
    assert rows(run, "sequences", "kind") == ["greedy"]


def test_its_responses_like_openais_are_read_too(tmp_path: Path) -> None:
    run, _ = ingested(tmp_path, [chat(*PARIS)], "llamacpp")
    assert rows(run, "sequences", "text") == ["Paris"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            newer(completion_probabilities=None),
            "a response without log-probabilities (completion_probabilities is missing or empty); ask with n_probs 5",
        ),
        (newer(stop=False), "a chunk of a streamed response"),
        ({"data": 1}, "expected content and completion_probabilities, or choices, and found 'data'"),
        (
            older(completion_probabilities=[{"content": "a", "probs": [{"tok_str": "a", "prob": 7}]}]),
            "prob is 7; a probability is from 0 to 1",
        ),
    ],
)
def test_a_bad_response_is_refused_with_its_line(tmp_path: Path, line: Any, said: str) -> None:
    message = refused(tmp_path, line, source="llamacpp")
    assert said in message
    assert "bad.jsonl:1: " in message
