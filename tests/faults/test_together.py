"""Several processes on one run: writers exclude each other or share it, and readers see whole commits only."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import MockCollect, start_server
from tests.faults.mock_collection import N_PROMPTS, N_SAMPLES
from tests.faults.test_kill import stored
from toolkit.errors import ToolkitError
from toolkit.store import open_run
from toolkit.store.lock import RunLock
from toolkit.store.validate import validate


def test_a_second_collector_is_refused_until_the_first_one_ends(
    mock_collect: MockCollect, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    mock_collect(run)
    lock = RunLock.acquire(run, "first")
    refused = mock_collect(run, n_prompts=N_PROMPTS + 1)
    assert refused["status"] == 2
    assert "is being written by process" in refused["error"]
    lock.release()
    assert mock_collect(run, n_prompts=N_PROMPTS + 1)["n_sequences"] == N_SAMPLES + 1


def test_three_shards_at_once_one_killed_and_two_that_resume(
    mock_collect: MockCollect, tiny_folder: Path, tmp_path: Path
) -> None:
    alone, run = tmp_path / "alone", tmp_path / "run"
    mock_collect(alone)
    answers: dict[int, dict[str, Any]] = {}

    def collect(index: int) -> None:
        with start_server(tiny_folder) as ask:
            answers[index] = ask(run, shard=f"{index}/3", die_at=40 if index == 1 else None)

    threads = [threading.Thread(target=collect, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[index]["status"] for index in range(3)] == [0, -signal.SIGKILL, 0]
    before = stored(run)
    for index in range(2):
        assert mock_collect(run, shard=f"{index}/2")["status"] == 0
    assert before.items() <= stored(run).items()
    assert stored(run) == stored(alone)
    assert list(validate(run)) == []


def test_readers_see_whole_commits_while_a_collector_writes(
    mock_collect: MockCollect, tiny_folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    mock_collect(run, n_prompts=1)
    done = threading.Event()

    def collect() -> None:
        with start_server(tiny_folder) as ask:
            ask(run, n_prompts=40)
        done.set()

    writer = threading.Thread(target=collect)
    writer.start()
    seen = []
    while not done.is_set() or not seen:
        opened = open_run(run)
        tokens = opened.tokens_df(columns=["prompt_id", "kind", "sample_index", "logprob"])
        sequences = open_run(run).sequences_df()
        sizes = tokens.groupby(["prompt_id", "kind", "sample_index"]).size()
        assert len(sizes) <= len(sequences)
        expected = sequences.set_index(["prompt_id", "kind", "sample_index"])["n_tokens"].loc[sizes.index]
        assert (sizes.to_numpy() == expected.to_numpy()).all()
        assert [finding for finding in validate(run) if finding.rule != "counts"] == []
        seen.append(len(sequences))
    writer.join()
    assert seen == sorted(seen)
    assert len(open_run(run).sequences_df()) == 40 * (N_SAMPLES + 1)


def test_a_lock_of_this_process_is_told_to_itself(tmp_path: Path, mock_collect: MockCollect) -> None:
    mock_collect(tmp_path / "run")
    held = RunLock.acquire(tmp_path / "run", "one")
    with pytest.raises(ToolkitError, match="is being written by process"):
        RunLock.acquire(tmp_path / "run", "two")
    held.release()
