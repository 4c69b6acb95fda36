"""The setup of a run, from its manifest."""

from __future__ import annotations

import json
from pathlib import Path

from tests.answers import greedy, make_answers, prompt
from toolkit.report.reading import Source
from toolkit.report.setup import Setup, setup_of


def made(path: Path, **manifest: object) -> Setup:
    run = make_answers(path, [prompt("p")], [greedy("p", "ab", -1.0, -2.0)], **manifest)
    return setup_of(Source(0, run, "mine"))


def test_the_main_things_are_named_and_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    found = made(tmp_path / "run", prompt_file_hash="ff")
    facts = dict(found.facts)
    assert {name: facts[name] for name in ("run", "model", "weights hash", "sampler", "seed", "device")} == {
        "run": "mine",
        "model": "made",
        "weights hash": "00",
        "sampler": "temperature 0.8",
        "seed": "0",
        "device": "cpu",
    }
    assert facts["prompt file hash"] == "ff"
    assert facts["rows"] == "1 prompts, 1 sequences, 3 tokens"
    assert "BLAS" not in facts
    assert all(facts.values())


def test_the_command_can_be_typed_again(tmp_path: Path) -> None:
    command = ("toolkit", "collect", "--system-prompt", "Be brief; don't $HOME")
    assert made(tmp_path / "run", command=command).command == (
        "toolkit collect --system-prompt 'Be brief; don'\"'\"'t $HOME'"
    )


def test_settings_are_read_from_wherever_they_are(tmp_path: Path) -> None:
    config = {"max_tokens": 24, "stop": ["\n", "Q:"], "deep": {"top_logprobs": 5}}
    facts = dict(made(tmp_path / "run", config=config).facts)
    assert facts["longest answer"] == "24 tokens"
    assert facts["stop strings"] == "'\\n', 'Q:'"
    assert facts["alternatives kept"] == "5"


def test_all_of_the_configuration_is_there(tmp_path: Path) -> None:
    config = {"b": [1, {"c": None}], "a": "é"}
    found = made(tmp_path / "run", config=config, notes=("one", "two"), versions={"z": "1", "a": "2"})
    assert json.loads(found.config) == config
    assert "é" in found.config
    assert (found.notes, found.versions) == (["one", "two"], [("a", "2"), ("z", "1")])


def test_each_session_is_told_and_one_without_an_end(tmp_path: Path) -> None:
    collected = dict(made(tmp_path / "run").facts)["collected"]
    assert collected.count(" to ") == 1
    path = next((tmp_path / "run" / "sessions").glob("*.json"))
    session = json.loads(path.read_text())
    path.with_name("z.json").write_text(json.dumps({**session, "id": "z", "ended": None, "shard": "1/2"}))
    from toolkit.store import open_run

    again = dict(setup_of(Source(0, open_run(tmp_path / "run"), "mine")).facts)["collected"]
    assert again.endswith("no end (it runs, or was stopped), shard 1/2")
