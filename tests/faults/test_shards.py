"""Shards of one run: collected at once, killed at any moment, and taken up by another number of them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.faults.conftest import MockCollect, start_server
from tests.faults.mock_collection import N_SAMPLES
from tests.faults.tally import Record, tell
from toolkit.errors import ToolkitError
from toolkit.store import open_run
from toolkit.store.lock import RunHeld, RunLock, Shard
from toolkit.store.validate import validate

N_PROMPTS = 8
TABLES = ("prompts_df", "sequences_df", "segments_df", "tokens_df", "alternatives_df")


@pytest.fixture(scope="module")
def servers(tiny_folder: Path) -> Iterator[list[MockCollect]]:
    """Three processes that collect."""
    with ExitStack() as stack:
        yield [stack.enter_context(start_server(tiny_folder)) for _ in range(3)]


@pytest.fixture(scope="module")
def whole(servers: list[MockCollect], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that one process collects without shards."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert servers[0](run, n_prompts=N_PROMPTS)["status"] == 0
    return run


def collect_at_once(
    servers: Sequence[MockCollect], run: Path, count: int, die_at: dict[int, int] | None = None
) -> list[dict[str, Any]]:
    """What each of `count` shards answers that collect into a run at the same time."""
    answers: dict[int, dict[str, Any]] = {}

    def collect(index: int) -> None:
        dies = (die_at or {}).get(index)
        answers[index] = servers[index](run, n_prompts=N_PROMPTS, shard=f"{index}/{count}", die_at=dies)

    threads = [threading.Thread(target=collect, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[index] for index in range(count)]


def assert_same_tables(found: Path, expected: Path) -> None:
    for table in TABLES:
        a, b = (getattr(open_run(path), table)() for path in (found, expected))
        pd.testing.assert_frame_equal(a, b, check_exact=True)
        assert len(a)
    assert list(validate(found)) == []
    assert not list(found.glob("*/.*.parquet.*.tmp"))


@pytest.mark.parametrize("die_at", [1, 40])
def test_three_shards_at_once_one_killed_then_two_give_the_run_of_one_process(
    die_at: int, servers: list[MockCollect], whole: Path, tmp_path: Path, record_property: Record
) -> None:
    run = tmp_path / "run"
    answers = collect_at_once(servers, run, 3, {1: die_at})
    assert [answer["status"] for answer in answers] == [0, -signal.SIGKILL, 0]
    before = open_run(run).sequence_keys()
    assert 0 < len(before) < N_PROMPTS * (N_SAMPLES + 1)
    resumed = collect_at_once(servers, run, 2)
    assert [answer["status"] for answer in resumed] == [0, 0]
    after = open_run(run).sequence_keys()
    tell(record_property, "SIGKILL of one of three shards", rows_lost=len(before - after))
    assert before <= after
    assert sum(answer["n_sequences"] for answer in resumed) == len(after) - len(before)
    assert_same_tables(run, whole)
    assert {session.shard for session in open_run(run).manifest.sessions} >= {"0/2", "1/2", "0/3", "2/3"}


def test_all_shards_killed_at_once_lose_no_commit(
    servers: list[MockCollect], whole: Path, tmp_path: Path, record_property: Record
) -> None:
    run = tmp_path / "run"
    answers = collect_at_once(servers, run, 3, {0: 30, 1: 40, 2: 50})
    assert {answer["status"] for answer in answers} == {-signal.SIGKILL}
    before = open_run(run).sequence_keys()
    assert collect_at_once(servers, run, 1)[0]["status"] == 0
    after = open_run(run).sequence_keys()
    tell(record_property, "SIGKILL of three shards", n=3, rows_lost=len(before - after))
    assert before <= after
    assert_same_tables(run, whole)


def test_another_number_of_shards_waits_until_the_first_have_ended(
    servers: list[MockCollect], whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    collect_at_once(servers, run, 3, {1: 30})
    lock = RunLock.acquire(run, "living", Shard(2, 3))
    refused = servers[0](run, n_prompts=N_PROMPTS, shard="0/2")
    assert refused["status"] == ToolkitError.exit_status
    assert "give every collector its own shard i/n of the same n" in refused["error"]
    assert servers[1](run, n_prompts=N_PROMPTS, shard="1/3")["status"] == 0
    lock.release()
    assert_same_tables(run, whole)


def test_the_lock_of_a_shard_is_told_from_other_errors(servers: list[MockCollect], tmp_path: Path) -> None:
    run = tmp_path / "run"
    collect_at_once(servers, run, 1)
    lock = RunLock.acquire(run, "one", Shard(0, 2))
    with pytest.raises(RunHeld, match=r"\.lock-0-of-2"):
        RunLock.acquire(run, "two", Shard(0, 2))
    other = RunLock.acquire(run, "three", Shard(1, 2))
    lock.release()
    other.release()
