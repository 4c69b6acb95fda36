"""Where a run keeps what, and which of its files count.

    RUN/manifest.json
    RUN/sessions/<session id>.json        one a collecting process
    RUN/<table>/part-<session id>-<counter>.parquet
    RUN/replaced/<part>.json              the parts that a compaction put into <part>
    RUN/damaged/<table>/...               what a resume moved aside

A part has a file of the same name in every table of its group (`schemas.GROUPS`). It exists as soon as the
file in the group's last table does, and that file is renamed into place last. Files of other tables without
it are orphans of a crash: readers never look at them, and the next writer removes them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from toolkit.errors import DataFault, ToolkitError
from toolkit.store.files import is_temporary, sync_folder, write_atomically, writing
from toolkit.store.lock import live_writers, without_readers
from toolkit.store.schemas import GROUP_OF, GROUPS, TABLES

MANIFEST = "manifest.json"
SESSIONS = "sessions"
REPLACED = "replaced"
DAMAGED = "damaged"

_SUFFIX = ".parquet"
_PART = re.compile(r"part-(?P<writer>\d{8}T\d{6}-[0-9a-f]{8})-\d{6,}")


def new_session_id() -> str:
    """A name for a writing process that no other process has, and that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def part_name(session_id: str, counter: int) -> str:
    return f"part-{session_id}-{counter:06d}"


def writer_of(part: str) -> str | None:
    """The session id in a part's name; None for a name that this package did not make."""
    match = _PART.fullmatch(part)
    return match["writer"] if match else None


def part_path(run: Path, table: str, part: str) -> Path:
    return run / table / f"{part}{_SUFFIX}"


def require_run(path: str | Path) -> Path:
    """`path` as a Path.

    Raises
    ------
    ToolkitError
        It is not there, not a folder, or not a run.
    """
    run = Path(path)
    if not run.exists():
        raise ToolkitError(f"no run at {run}: the path does not exist")
    if not run.is_dir():
        raise ToolkitError(f"no run at {run}: it is a file, and a run is a folder with a {MANIFEST}")
    if not (run / MANIFEST).is_file():
        raise ToolkitError(f"no run at {run}: it has no {MANIFEST}; name the folder of a collected run")
    return run


def committed_parts(run: Path, group: str) -> list[str]:
    """Names of the parts of `group` that count, sorted. Lists folders and opens no Parquet file."""
    names = set(_file_parts(run, group))
    if names:
        for new, old in _replacements(run, group):
            if new in names:
                names.difference_update(old)
    return sorted(names)


def remove_leftovers(run: Path, own: str, spared: Iterable[str] = ()) -> list[Path]:
    """Remove what dead writers left: temporary files, orphans, and parts that a compaction replaced.

    The caller, whose session id is `own`, holds a lock of the run. Files of other live writers are left
    alone: a file listed here was made before the live writers are counted, so its writer is among them, has
    committed it, or is dead. `spared` are writers whose locks may not be seen from here.
    """
    tables = [path for table in TABLES for path in _files(run / table)]
    others = [path for folder in (run, run / SESSIONS, run / REPLACED) for path in _files(folder)]
    live = live_writers(run).union(spared)
    committed = {group: set(_file_parts(run, group)) for group in GROUPS}
    removed = [path for path in tables if _is_dead(path, live) and not _is_committed(path, committed)]
    if live <= {own}:
        removed += [path for path in others if is_temporary(path.name)]
    with writing(run):
        for path in removed:
            path.unlink(missing_ok=True)
        return removed + remove_replaced(run)


def record_replacement(run: Path, group: str, new: str, old: Iterable[str]) -> None:
    """Write down that part `new`, once it exists, stands for the parts `old`."""
    with writing(run / REPLACED):
        (run / REPLACED).mkdir(exist_ok=True)
    record = {"group": group, "old": sorted(old)}
    write_atomically(run / REPLACED / f"{new}.json", json.dumps(record, indent=1).encode())


def remove_replaced(run: Path) -> list[Path]:
    """Remove the files of replaced parts, and the record of it; nothing while somebody reads the run."""
    removed: list[Path] = []
    with without_readers(run) as alone:
        if not alone:
            return removed
        for group in GROUPS:
            names = set(_file_parts(run, group))
            for new, old in _replacements(run, group):
                if new in names:
                    removed += _remove_parts(run, group, old)
                    sync_folder(run / group)  # before the record goes, or a loss of power doubles the rows
                (run / REPLACED / f"{new}.json").unlink(missing_ok=True)
    return removed


def _remove_parts(run: Path, group: str, parts: Iterable[str]) -> list[Path]:
    paths = [part_path(run, table, part) for part in sorted(parts) for table in reversed(GROUPS[group])]
    existing = [path for path in paths if path.exists()]
    for path in existing:
        path.unlink(missing_ok=True)
    return existing


def set_aside(run: Path, group: str, part: str) -> None:
    """Move all files of a part into `damaged/`, the one that makes it count first."""
    for table in reversed(GROUPS[group]):
        path = part_path(run, table, part)
        target = run / DAMAGED / table / path.name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                os.replace(path, target)


def orphans(run: Path) -> list[Path]:
    """Files of tables whose part was never committed."""
    committed = {group: set(_file_parts(run, group)) for group in GROUPS}
    files = [path for table in TABLES for path in _files(run / table)]
    return [path for path in files if path.suffix == _SUFFIX and not _is_committed(path, committed)]


def _files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _file_parts(run: Path, group: str) -> Iterator[str]:
    try:
        names = os.listdir(run / group)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(_SUFFIX) and not name.startswith("."):
            yield name.removesuffix(_SUFFIX)


def _is_dead(path: Path, live: set[str]) -> bool:
    """Whether a writer of this package made the file and lives no more."""
    match = _PART.search(path.name)
    return match is not None and match["writer"] not in live


def _is_committed(path: Path, committed: dict[str, set[str]]) -> bool:
    return path.suffix == _SUFFIX and path.stem in committed[GROUP_OF[path.parent.name]]


def _replacements(run: Path, group: str) -> Iterator[tuple[str, list[str]]]:
    for path in _files(run / REPLACED):
        if path.suffix != ".json":
            continue
        try:
            record = json.loads(path.read_bytes())
            if record["group"] == group:
                yield path.stem, [str(part) for part in record["old"]]
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataFault(
                f"{path} is damaged: it does not say which parts were replaced; move it away"
            ) from error
