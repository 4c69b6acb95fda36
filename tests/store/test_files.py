"""A write is there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from toolkit.errors import DataFault
from toolkit.store import files
from toolkit.store.files import write_atomically


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("step", ["sync_file", "rename"])
def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"one")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, step, full)
    with pytest.raises(DataFault, match=r"cannot write .*a\.json: No space left on device"):
        write_atomically(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataFault, match="cannot write") as caught:
        write_atomically(tmp_path / "no" / "a.json", b"")
    assert "\n" not in str(caught.value)


def test_data_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    for name in ("sync_file", "rename", "sync_folder"):
        original = getattr(files, name)
        monkeypatch.setattr(files, name, lambda *a, n=name, f=original: (steps.append(n), f(*a)))
    write_atomically(tmp_path / "a", b"x")
    assert steps == ["sync_file", "rename", "sync_folder"]


def test_the_full_sync_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: asked.append(command))
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("fsync does not reach the disk on macOS"))
    write_atomically(tmp_path / "a", b"x")
    assert asked == [51, 51]


def test_permissions_are_the_users(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
