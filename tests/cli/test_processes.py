"""`toolkit collect --processes` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.cli.main import main
from toolkit.collect import processes
from toolkit.store import open_run


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: 2)


def call(folder: Path, tmp_path: Path, *more: str) -> int:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"id": "a", "prompt": "What is the capital of France?"}\n')
    files = ["--model", str(folder), "--prompts", str(prompts), "--output", str(tmp_path / "run")]
    return main(["collect", *files, "--max-tokens", "5", *more])


def test_two_processes(tiny_folder: Path, tmp_path: Path, capsys) -> None:
    assert call(tiny_folder, tmp_path, "-n", "6", "--processes", "2", "--json") == 0
    outcome = json.loads(capsys.readouterr().out)
    run = open_run(tmp_path / "run")
    assert outcome["n_sequences"] == 6 == len(run.sequence_keys())
    assert run.manifest.config["processes"] == 2


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--processes", "3"], "--processes: 3 is outside 1 to 2, the cores that there are; use 1 to 2"),
        (["--processes", "0"], "--processes"),
        (["--processes", "2", "--stream"], "--processes: 2 cannot be combined with --stream"),
        (
            ["--processes", "2", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"],
            "--processes: 2 cannot be combined with --engine dask",
        ),
    ],
)
def test_wrong_calls(tiny_folder: Path, tmp_path: Path, capsys, more: list[str], expected: str) -> None:
    assert call(tiny_folder, tmp_path, "-n", "2", *more) == 2
    printed = capsys.readouterr()
    assert expected in printed.err
    assert printed.out == ""
    assert not (tmp_path / "run").exists()
