"""Who may write to a run: a lock that dies with its process, and a mark that somebody is reading.

The locks are flock(2) on hidden files in the run, so a killed process leaves none behind. One collector
without a shard excludes all others; shards i/n of the same n exclude only themselves. On a network file
system that does not carry flock between hosts, shards stay safe: their prompts are disjoint, and nothing of an
unfinished session of another host is cleaned up. A second collector on another host is not noticed there. A
process that forks shares its lock with the child.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.store.files import writing

_LOCK_NAME = re.compile(r"\.lock(?:-(\d+)-of-(\d+))?")
GUARD = ".guard"
READERS = ".readers"


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count` of a collection."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class RunHeld(ToolkitError):
    """Another process holds a lock that excludes this one."""


class Holder(NamedTuple):
    """The process that holds a lock, as it wrote itself down."""

    pid: int
    host: str
    writer: str


class RunLock:
    """The right to write to a run, held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._close = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def acquire(cls, run: Path, writer: str, shard: Shard | None = None) -> RunLock:
        """Take the lock of `shard` (of the whole run if None), or raise at once.

        Raises
        ------
        RunHeld
            Another process holds a lock that excludes this one; the message names its pid and host.
        """
        with guard(run):
            for path, other in _lock_files(run):
                if _exclude(shard, other):
                    _refuse_if_held(run, path)
            path = run / _lock_name(shard)
            with writing(path):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                lock = cls(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                holder = Holder(os.getpid(), socket.gethostname(), writer)
                os.write(descriptor, json.dumps(holder._asdict()).encode())
            return lock

    def release(self) -> None:
        self._close()


@contextmanager
def guard(run: Path) -> Iterator[None]:
    """Hold a short lock, waited for, around a check and the write that follows from it."""
    path = run / GUARD
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with writing(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def live_writers(run: Path) -> set[str]:
    """Writer ids of the processes that hold a lock of `run` now, this one's among them.

    A run on a read-only disk has none.
    """
    try:
        with guard(run):
            held = [_holder(path) for path, _ in _lock_files(run) if _is_held(path)]
    except DataFault:
        return set()
    return {holder.writer for holder in held if holder is not None}


class ReaderMark:
    """Says that a run is being read, for as long as the mark lives.

    Files that a compaction replaced are kept while there is a mark. Where the run has no file for it, or the
    file system no locks, the run can be read all the same.
    """

    def __init__(self, run: Path) -> None:
        with suppress(OSError):
            descriptor = os.open(run / READERS, os.O_RDONLY)
            weakref.finalize(self, os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits only while replaced files are being removed


@contextmanager
def without_readers(run: Path) -> Iterator[bool]:
    """Yield whether nobody reads `run`; readers that come while inside wait."""
    try:
        descriptor = os.open(run / READERS, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def is_lock_file(name: str) -> bool:
    """Whether this module made the hidden file: it holds nothing of the run."""
    return name in (GUARD, READERS) or _LOCK_NAME.fullmatch(name) is not None


def _lock_name(shard: Shard | None) -> str:
    return ".lock" if shard is None else f".lock-{shard.index}-of-{shard.count}"


def _lock_files(run: Path) -> Iterator[tuple[Path, Shard | None]]:
    for path in sorted(run.iterdir()):
        match = _LOCK_NAME.fullmatch(path.name)
        if match:
            yield path, None if match[1] is None else Shard(int(match[1]), int(match[2]))


def _exclude(one: Shard | None, other: Shard | None) -> bool:
    """Whether two collectors exclude each other: a whole run, another n (prompts overlap), the same shard."""
    return one is None or other is None or one.count != other.count or one == other


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _holder(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _refuse_if_held(run: Path, path: Path) -> None:
    if not _is_held(path):
        return
    holder = _holder(path)
    who = "another process" if holder is None else f"process {holder.pid} on host {holder.host}"
    raise RunHeld(
        f"{run} is being written by {who} ({path.name}): wait until it ends, "
        f"or give every collector its own {argument('shard')} i/n of the same n"
    )
