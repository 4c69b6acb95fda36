"""`toolkit ingest` writes a run that every other verb reads, and tells what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.sources import PARIS, chat, token, write_lines
from toolkit.cli import ingest as verb
from toolkit.cli.main import main
from toolkit.ingest import SOURCES


def test_the_verb_offers_every_source() -> None:
    assert verb.SOURCES == SOURCES


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    lines = []
    for place, name in enumerate(("fr", "it", "de", "es")):
        said = PARIS if place % 2 else (token("Lyon", -1.0 - place, ("Lyon", -1.0 - place)),)
        lines += [{"custom_id": name, "response": {"status_code": 200, "body": chat(*said)}}] * 2
    return write_lines(tmp_path / "answers.jsonl", lines)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    lines = [
        {"id": name, "prompt": f"Capital of {name}?", "answer": "Paris"} for name in ("fr", "it", "de", "es")
    ]
    return write_lines(tmp_path / "prompts.jsonl", lines)


def call(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    return (status, *capsys.readouterr())


def test_a_foreign_run_is_graded_evaluated_and_validated(
    tmp_path: Path, answers: Path, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    status, out, err = call(
        capsys,
        "ingest",
        answers,
        "--from",
        "openai",
        "--output",
        run,
        "--prompts",
        prompts,
        "--map",
        "reference=answer",
    )
    assert (status, out) == (0, "")
    assert err.splitlines()[-1] == f"toolkit ingest: 8 sequences of 12 tokens and 4 prompts: {run}"
    assert "What the source does not give is null" in err
    assert call(capsys, "validate", run)[0] == 0
    assert call(capsys, "grade", run, "--grader", "contains")[0] == 0
    status, out, _ = call(capsys, "evaluate", run, "--target", "each", "--json")
    found = {one["estimator"]: one for one in json.loads(out)}
    assert status == 0
    assert (found["mean_entropy"]["n"], found["mean_entropy"]["n_undefined"]) == (0, 8)
    assert found["mean_entropy"]["auroc"] is None
    assert found["sum_logprob"]["n_undefined"] == 0
    for grain in ("token", "segment", "word", "sequence", "prompt"):
        assert call(capsys, "summarize", run, "--by", grain)[0] == 0, grain
    assert call(capsys, "show", run)[0] == 0
    assert call(capsys, "status", run)[0] == 0
    assert call(capsys, "export", run, "--format", "openai", "-o", tmp_path / "back.jsonl")[0] == 0


def test_json_says_what_was_made(tmp_path: Path, answers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    status, out, _ = call(capsys, "ingest", answers, "--from", "openai", "--output", run, "--json")
    facts = json.loads(out)
    assert status == 0
    assert (facts["run"], facts["n_sequences"], facts["n_left_out"], facts["n_masked"]) == (str(run), 8, 0, 0)


def test_answers_that_are_left_out_make_the_result_partial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [chat(*PARIS), {"custom_id": "b", "response": None, "error": {"message": "too late"}}]
    path = write_lines(tmp_path / "a.jsonl", lines)
    status, _, err = call(capsys, "ingest", path, "--from", "openai", "--output", tmp_path / "run")
    assert status == 1
    assert f"left out 1 answer: a request that failed: too late (first at {path}:2)" in err


def test_sentinels_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(tmp_path / "a.jsonl", [chat(token("a", -9999.0))])
    _, _, err = call(capsys, "ingest", path, "--from", "openai", "--output", tmp_path / "run")
    assert "1 log-probabilities were sentinels" in err


def test_a_run_that_is_there_is_kept_unless_it_may_be_replaced(
    tmp_path: Path, answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("ingest", answers, "--from", "openai", "--output", tmp_path / "run")
    assert call(capsys, *command)[0] == 0
    status, _, err = call(capsys, *command)
    assert status == 2
    assert "--overwrite" in err
    assert call(capsys, *command, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--from", "ollama"],
            "there is no 'ollama'; use one of openai, vllm, llamacpp, transformers, polygraph",
        ),
        (
            ["--from", "openai", "--tokenizer", "nowhere"],
            "--tokenizer: nowhere is not there; give tokenizer.json",
        ),
        (["--from", "openai", "--map", "answer"], "--map: 'answer' is not FIELD=NAME"),
        (["--from", "vllm", "--prompts", "nowhere"], "--prompts: 'nowhere' is not there"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, answers: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = call(capsys, "ingest", answers, "--output", tmp_path / "run", *arguments)
    assert status == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_file_of_prompts_without_the_ids_is_refused_by_its_option(
    tmp_path: Path, answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_lines(tmp_path / "other.jsonl", [{"id": "x", "prompt": "y"}])
    status, _, err = call(
        capsys, "ingest", answers, "--from", "openai", "--output", tmp_path / "run", "--prompts", other
    )
    assert status == 2
    assert err.startswith("toolkit ingest: --prompts: ")
