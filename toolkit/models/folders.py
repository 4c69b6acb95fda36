"""Where models are kept, and how a model folder comes to be: whole, or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.errors import ToolkitError

MODELS_VARIABLE = "TOOLKIT_MODELS"
CACHE_NAME = "token-confidence-toolkit"


def models_folder() -> Path:
    """The folder of fetched and imported models: $TOOLKIT_MODELS, else one in the user's cache folder."""
    named = os.environ.get(MODELS_VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / CACHE_NAME / "models"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / CACHE_NAME / "models"


def is_model_folder(path: Path) -> bool:
    """Whether a folder looks like a model that MLX-LM can load."""
    return (path / "config.json").is_file() and any(path.glob("model*.safetensors"))


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """A temporary folder in the folder of `beside`, so on the same disk; gone afterwards, whatever happens.

    Raises
    ------
    ToolkitError
        If the folder cannot be made, or writing into it fails.
    """
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{beside.name}-", dir=beside.parent))
    except OSError as error:
        raise ToolkitError(f"{beside.parent}: cannot write there: {error.strerror or error}") from error
    try:
        yield scratch
    except OSError as error:
        raise ToolkitError(f"{beside.parent}: writing failed: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Fill a folder aside; it gets the name `target` only when the block ends without an error.

    The files are flushed to disk, then the folder is renamed, so `target` is whole where it exists. Of
    two processes that fill the same target, the first to end gives it its content and the other's is dropped.

    Raises
    ------
    ToolkitError
        If `target` is there already when the block is entered, or cannot be written.
    """
    refuse_existing(target)
    with scratch_folder(target) as scratch:
        inner = scratch / target.name
        inner.mkdir()
        yield inner
        for path in inner.iterdir():
            flush(path)
        try:
            inner.rename(target)
        except OSError:
            if not is_model_folder(target):
                raise
        flush(target.parent)


def refuse_existing(target: Path) -> None:
    """A ToolkitError if there is anything at `target` but an empty folder."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists():
        raise ToolkitError(f"{target}: is there already; name a folder that does not exist, or remove it")


def flush(path: Path) -> None:
    """Have the system write a file's bytes, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Let one process at a time make `target`; others wait. The lock ends with the process that has it.

    Raises
    ------
    ToolkitError
        If the folder of `target` cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = open(target.parent / f".{target.name}.lock", "w")  # noqa: SIM115
    except OSError as error:
        raise ToolkitError(f"{target.parent}: cannot write there: {error.strerror or error}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
