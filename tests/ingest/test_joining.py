"""Prompts and references of a file of their own come to the responses by their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingest.sources import PARIS, chat, ingested, rows, write_lines
from toolkit.errors import ToolkitError


def line(prompt_id: str) -> dict[str, Any]:
    return {"custom_id": prompt_id, "response": {"status_code": 200, "body": chat(*PARIS)}}


def test_references_are_joined_by_id(tmp_path: Path) -> None:
    prompts = write_lines(
        tmp_path / "prompts.jsonl",
        [
            {"id": "it", "prompt": "Italy?", "answer": ["Rome", "Roma"]},
            {"id": "fr", "messages": [{"role": "user", "content": "France?"}], "answer": "Paris", "level": 2},
        ],
    )
    run, outcome = ingested(tmp_path, [line("fr")], prompts=prompts, mapping={"reference": "answer"})
    names = ("prompt_id", "prompt_index", "text", "reference", "metadata")
    assert rows(run, "prompts", *names) == [("fr", 1, "France?", ["Paris"], '{"level": 2}')]
    assert outcome.without_reference == ()


def test_the_input_of_a_batch_gives_the_prompts(tmp_path: Path) -> None:
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": "France?"}]}
    asked = {"custom_id": "fr", "method": "POST", "url": "/v1/chat/completions", "body": body}
    prompts = write_lines(tmp_path / "batch.jsonl", [asked])
    run, _ = ingested(tmp_path, [line("fr")], prompts=prompts)
    assert rows(run, "prompts", "text") == ["France?"]


def test_prompts_that_the_file_lacks_are_told(tmp_path: Path) -> None:
    prompts = write_lines(tmp_path / "prompts.jsonl", [{"id": "fr", "prompt": "France?"}])
    _, outcome = ingested(tmp_path, [line("fr"), line("de")], prompts=prompts)
    assert outcome.without_reference == ("de",)


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        (
            [{"id": "de", "prompt": "Germany?"}],
            "has no prompt of these responses: they are of 'fr', say, and it has 'de'",
        ),
        (
            [{"prompt": "France?"}],
            "prompts.jsonl:1: has no id; responses are joined with prompts by their ids",
        ),
        (
            [{"id": "fr", "prompt": "a"}, {"id": "fr", "prompt": "b"}],
            "prompts.jsonl:2: id 'fr' is there twice",
        ),
        ([{"id": "fr"}], "prompts.jsonl:1: has neither prompt nor messages"),
    ],
)
def test_a_file_of_prompts_that_does_not_fit_is_refused(tmp_path: Path, prompts: Any, said: str) -> None:
    with pytest.raises(ToolkitError) as error:
        ingested(tmp_path, [line("fr")], prompts=write_lines(tmp_path / "prompts.jsonl", prompts))
    assert said in str(error.value)
    assert not (tmp_path / "run").exists()
