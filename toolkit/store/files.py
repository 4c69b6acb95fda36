"""Writing files so that a crash leaves the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.errors import DataFault

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`: it is there whole and on disk when this returns, or `path` is as it was.

    Steps
    -----
    1. Write a hidden file in the same folder, so that the rename stays within one file system.
    2. fsync it; on macOS with F_FULLFSYNC, since fsync there leaves the data in the drive's cache.
    3. Rename it over `path`. A reader sees the old file or the new one.
    4. fsync the folder, so that the rename itself survives a loss of power.

    Accepted
    --------
    Each write costs two syncs, some milliseconds. A process killed between 1 and 3 leaves a hidden `.tmp`
    file behind; in a run, the next writer removes it. The file gets the permissions of the user's umask, not
    those of the file it replaces; a link at `path` is replaced, not followed.

    Raises
    ------
    DataFault
        The disk is full, read-only or broken.
    """
    with aside(path) as temporary, writing(path):
        temporary.write_bytes(data)


def write_result(path: Path, data: bytes) -> None:
    """Write what a user asked for: `write_atomically`, but into a pipe or a device, whose place nothing may take.

    Raises
    ------
    DataFault
        It cannot be written.
    """
    if is_stream(path):
        with writing(path):
            path.write_bytes(data)
    else:
        write_atomically(path, data)


def file_identity(path: Path) -> tuple[int, ...]:
    """Numbers that are others once the file was replaced."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_stream(path: Path) -> bool:
    """Whether there is a pipe or a device such as /dev/null at `path`."""
    return path.exists() and not path.is_file()


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; afterwards sync it and rename it, or remove it after an error."""
    temporary = temporary_path(path)
    try:
        yield temporary
        with writing(path):
            sync_file(temporary)
            rename(temporary, path)
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def temporary_path(path: Path) -> Path:
    """A name of its own beside `path`, hidden so that no reader of the folder takes it for a table."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")


def is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write inside into a one-line DataFault that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise DataFault(
            f"cannot write {path}: {reason}; nothing that was there is lost: make room or give "
            "permission, and run the same command again"
        ) from error


def rename(source: Path, target: Path) -> None:
    os.replace(source, target)


def sync_file(path: Path) -> None:
    """Bring a file's data to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Bring a folder's names to the disk. File systems that cannot do so for a folder are left alone."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
            return
        except OSError:  # network file systems have no full sync
            pass
    os.fsync(descriptor)
