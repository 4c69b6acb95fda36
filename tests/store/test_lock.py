"""One collector at a time, or shards of the same number; a lock ends with its process."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.errors import ToolkitError
from toolkit.store.lock import ReaderMark, RunLock, Shard, live_writers, without_readers

HOLD = """
import sys
from pathlib import Path
from toolkit.store.lock import RunLock
lock = RunLock.acquire(Path(sys.argv[1]), "other")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of the run at tmp_path."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_told_who_holds_it(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with pytest.raises(ToolkitError) as caught:
        RunLock.acquire(tmp_path, "me")
    assert f"process {other.pid} on host {socket.gethostname()}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert live_writers(tmp_path) == {"other"}


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    lock = RunLock.acquire(tmp_path, "me")
    assert live_writers(tmp_path) == {"me"}
    lock.release()


def test_a_released_lock_is_free(tmp_path: Path) -> None:
    RunLock.acquire(tmp_path, "a").release()
    RunLock.acquire(tmp_path, "b").release()
    assert live_writers(tmp_path) == set()


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (None, None, True),
        (None, Shard(0, 2), True),
        (Shard(0, 2), None, True),
        (Shard(0, 2), Shard(0, 2), True),
        (Shard(0, 2), Shard(0, 3), True),
        (Shard(0, 2), Shard(1, 2), False),
    ],
)
def test_shards_of_one_number_share_a_run(
    tmp_path: Path, first: Shard | None, second: Shard | None, refused: bool
) -> None:
    held = RunLock.acquire(tmp_path, "a", first)
    if refused:
        with pytest.raises(ToolkitError, match="is being written by process"):
            RunLock.acquire(tmp_path, "b", second)
    else:
        other = RunLock.acquire(tmp_path, "b", second)
        assert live_writers(tmp_path) == {"a", "b"}
        other.release()
    held.release()


def test_a_resume_may_use_another_number_of_shards(tmp_path: Path) -> None:
    for index in range(3):
        RunLock.acquire(tmp_path, str(index), Shard(index, 3)).release()
    locks = [RunLock.acquire(tmp_path, str(index), Shard(index, 2)) for index in range(2)]
    for lock in locks:
        lock.release()


def test_readers_are_seen_for_as_long_as_they_live(tmp_path: Path) -> None:
    (tmp_path / ".readers").touch()
    mark = ReaderMark(tmp_path)
    with without_readers(tmp_path) as alone:
        assert not alone
    del mark
    with without_readers(tmp_path) as alone:
        assert alone


def test_a_run_without_a_mark_can_be_read(tmp_path: Path) -> None:
    assert ReaderMark(tmp_path)
