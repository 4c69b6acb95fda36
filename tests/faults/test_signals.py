"""Ctrl-C, SIGTERM and a reader that goes: what was finished is committed, and the exit status says partial."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.tally import Record, tell
from tests.faults.test_kill import stored
from toolkit.cli.main import main
from toolkit.collect import collector
from toolkit.collect.interrupts import deferred
from toolkit.store.validate import validate

N_PROMPTS = 400


@pytest.fixture
def command(tiny_folder: Path, tmp_path: Path) -> list[str]:
    """A collection with the tiny model that takes long enough to be interrupted."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"id": "q{i}", "prompt": "Question {i}?"}}\n' for i in range(N_PROMPTS)))
    return [
        *("collect", "--model", str(tiny_folder), "--prompts", str(prompts)),
        *(
            "--output",
            str(tmp_path / "run"),
            "-n",
            "4",
            "--max-tokens",
            "16",
            "--batch-size",
            "8",
            "--stream",
        ),
    ]


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "toolkit", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_commits_what_was_finished(
    number: signal.Signals, command: list[str], tmp_path: Path, record_property: Record
) -> None:
    with start(command) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(60)]  # lines of several sequences
        process.send_signal(number)
        errors = process.communicate()[1]
    tell(record_property, "Ctrl-C and SIGTERM", tracebacks=errors.count("Traceback"))
    assert process.returncode == 1
    assert "interrupted; the same command goes on from here" in errors
    assert "Traceback" not in errors
    committed = stored(tmp_path / "run")
    last_lines = {tuple(line.split(":")[0].split(" ")) for line in seen}
    assert 0 < len(committed) < 4 * N_PROMPTS
    assert len(committed) >= len(last_lines) - 8  # all but those that were in the batch
    assert list(validate(tmp_path / "run")) == []


def test_a_reader_that_goes_ends_the_collection_as_partial(command: list[str], tmp_path: Path) -> None:
    with start(command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == 1
    assert "interrupted" in errors
    assert list(validate(tmp_path / "run")) == []


def test_a_signal_in_the_middle_of_a_commit_waits_for_it(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the sequences of that commit, up to hundreds, would be dropped."""
    commits = []
    original = collector.RunWriter.commit

    def commit(writer: Any, records: Any, vocabulary: Any) -> Any:
        commits.append(len(records))
        if len(commits) == 2:
            signal.raise_signal(signal.SIGINT)
        return original(writer, records, vocabulary)

    monkeypatch.setattr(collector.RunWriter, "commit", commit)
    monkeypatch.setattr(collector, "COMMIT_SEQUENCES", 4)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"id": "q{i}", "prompt": "Question {i}?"}}\n' for i in range(12)))
    arguments = ["collect", "--model", str(tiny_folder), "--prompts", str(prompts), "--batch-size", "4"]
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        status = main([*arguments, "--output", str(tmp_path / "run"), "-n", "2", "--max-tokens", "6"])
    finally:
        signal.signal(signal.SIGTERM, handlers[1])
    assert status == 1
    assert signal.getsignal(signal.SIGINT) == handlers[0]
    assert len(stored(tmp_path / "run")) == sum(commits)
    assert commits[1] > 0
    assert "interrupted" in capsys.readouterr().err


def test_a_deferred_signal_comes_when_the_block_is_left() -> None:
    done = []

    def interrupted() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]
