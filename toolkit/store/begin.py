"""Beginning to write: take the lock, make the folder or check the run in it, clean up after dead writers."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import ToolkitError, argument
from toolkit.store.files import is_temporary, writing
from toolkit.store.layout import DAMAGED, MANIFEST, REPLACED, SESSIONS, new_session_id, remove_leftovers
from toolkit.store.lock import READERS, RunLock, Shard, guard, is_lock_file, live_writers
from toolkit.store.manifest import Manifest, Session, check_same_content, read_manifest, write_manifest
from toolkit.store.recover import Damage, move_damage_aside
from toolkit.store.schemas import TABLES


class Begun(NamedTuple):
    """A run that is ready to be written to."""

    session: Session
    lock: RunLock
    damage: list[Damage]  # parts that could not be read and were moved aside


def begin(
    path: Path, manifest: Manifest, shard: Shard | None, *, create: bool, go_on: bool, overwrite: bool
) -> Begun:
    """Lock the run at `path`, and make it (`create`), go on with it (`go_on`) or replace it (`overwrite`).

    Raises
    ------
    ToolkitError
        What is at `path` does not fit what is asked for, or another process writes there.
    DataFault
        It cannot be written to.
    """
    if overwrite and shard is not None:
        raise ToolkitError(
            f"{argument('overwrite')} with {argument('shard')} would remove what other shards wrote: "
            "remove the run first"
        )
    foreign = _foreign_name(path, overwrite)  # looked for first: another shard may be making the run just now
    exists = (path / MANIFEST).is_file()
    if exists and not (go_on or overwrite):
        raise _there_already(path)
    if not exists and not create:
        raise ToolkitError(f"no run at {path}: it has no {MANIFEST}")
    if not exists and foreign is not None:
        raise ToolkitError(f"{path} is in use: it holds {foreign!r} and no run; name a new folder")
    made = not exists and _make_folder(path)
    try:
        return _lock_and_prepare(path, manifest, shard, go_on, overwrite)
    except BaseException:
        if made and not (path / MANIFEST).exists() and not live_writers(path):
            shutil.rmtree(path, ignore_errors=True)
        raise


def _there_already(path: Path) -> ToolkitError:
    return ToolkitError(
        f"{path} already holds a run: resume it, name another folder, or replace it with "
        f"{argument('overwrite')}"
    )


def _foreign_name(path: Path, overwrite: bool) -> str | None:
    """A file or folder at `path` that no writer made before its manifest, or, to overwrite, that no run has."""
    ours = {*TABLES, SESSIONS, REPLACED, DAMAGED} if overwrite else set()
    names = sorted(os.listdir(path)) if path.is_dir() else []
    return next((name for name in names if name not in ours and not _is_ours(name)), None)


def _make_folder(path: Path) -> bool:
    """Whether the folder was made here, and not before or by another shard meanwhile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
    except OSError as error:
        if path.is_dir():
            return False
        raise ToolkitError(f"cannot make the folder {path}: {error.strerror}; name another one") from error
    return True


def _is_ours(name: str) -> bool:
    return is_lock_file(name) or is_temporary(name) or name == ".DS_Store"


def _lock_and_prepare(
    path: Path, manifest: Manifest, shard: Shard | None, go_on: bool, overwrite: bool
) -> Begun:
    session = _new_session(manifest, shard)
    lock = RunLock.acquire(path, session.id, shard)
    try:
        if overwrite:
            _erase(path)
        with guard(path):
            if (path / MANIFEST).is_file():
                if not (go_on or overwrite):
                    raise _there_already(path)  # made meanwhile
                check_same_content(read_manifest(path), manifest)
            else:
                with writing(path):
                    (path / READERS).touch()
                write_manifest(path, dataclasses.replace(manifest, sessions=()))
        remove_leftovers(path, session.id, read_manifest(path).unfinished_elsewhere)
        damage = move_damage_aside(path)
    except BaseException:
        lock.release()
        raise
    moved = tuple(sorted({item.part for item in damage}))
    return Begun(dataclasses.replace(session, set_aside=moved), lock, damage)


def _new_session(manifest: Manifest, shard: Shard | None) -> Session:
    return Session(
        id=new_session_id(),
        started=now(),
        command=manifest.command,
        config=manifest.config,
        versions=manifest.versions,
        host=socket.gethostname(),
        pid=os.getpid(),
        shard=None if shard is None else str(shard),
        prompt_file_hash=manifest.prompt_file_hash,
    )


def now() -> str:
    """The time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _erase(path: Path) -> None:
    """Remove a run's files, the manifest first: from then on it is no run."""
    with writing(path):
        (path / MANIFEST).unlink(missing_ok=True)
        for name in (SESSIONS, *TABLES, REPLACED, DAMAGED):
            if (path / name).is_dir():
                shutil.rmtree(path / name)
