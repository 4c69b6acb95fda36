"""The manifest of a run: what was collected, with what, by which processes.

`manifest.json` is written when a run is made, and again when a session ends. Each collecting process writes
its own `sessions/<id>.json`; reading merges them, so processes that collect at once never lose each other's.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.store.files import is_temporary, write_atomically, writing
from toolkit.store.layout import MANIFEST, SESSIONS, require_run
from toolkit.store.schemas import GROUPS, OPTIONAL, SCHEMA_VERSION

_ADDED = {"added": True}  # a field that was not written at first
_LARGEST = 64 << 20  # bytes; a manifest takes a few thousand


@dataclass(frozen=True)
class Session:
    """One process that wrote to the run."""

    id: str
    started: str  # ISO 8601, UTC
    command: tuple[str, ...]
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    host: str
    pid: int
    ended: str | None = None  # None: it runs, or was killed
    shard: str | None = None  # "i/n"
    prompt_file_hash: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)  # rows it committed, by table
    set_aside: tuple[str, ...] = ()  # damaged parts that it moved away
    # Sequences that earlier sessions had committed and that were gone when it began; earlier runs lack it.
    n_lost: int = field(default=0, metadata=_ADDED)


@dataclass(frozen=True)
class Manifest:
    """What a run holds. Command, config, versions and prompt_file_hash are those of its first session.

    `content_config` is the part of the configuration that decides a sequence's content: a run holds one only.
    """

    command: tuple[str, ...]
    config: Mapping[str, Any]
    content_config: Mapping[str, Any]
    model: Mapping[str, Any]  # name, hash, ...
    tokenizer: Mapping[str, Any]  # hash, chat-template hash, ...
    versions: Mapping[str, str]
    device: str
    dtype: str
    logits_dtype: str
    seed: int | None
    blas: str | None = None
    prompt_file_hash: str | None = None
    notes: tuple[str, ...] = ()
    schema_version: str = SCHEMA_VERSION
    sessions: tuple[Session, ...] = ()
    # Of the tables that a run may lack, those that it has; earlier runs have none.
    tables: tuple[str, ...] = field(default=(), metadata=_ADDED)

    @property
    def content_hash(self) -> str:
        """SHA-256 of `content_config`, hexadecimal."""
        return content_hash(self.content_config)

    def tables_of(self, group: str) -> tuple[str, ...]:
        """The tables of a group that each of its parts has a file in; the group's own is the last."""
        return tuple(name for name in GROUPS[group] if name not in OPTIONAL or name in self.tables)

    @property
    def current(self) -> Session | None:
        """The session that started last; its config says what is wanted of the run now."""
        return max(self.sessions, key=lambda session: (session.started, session.id), default=None)

    def setting(self, name: str) -> Any:
        """The setting of this name, wherever it is nested in content_config or config; None without one."""
        return next(
            (found for part in (self.content_config, self.config) for found in _find(part, name)), None
        )

    @property
    def unfinished_elsewhere(self) -> set[str]:
        """Sessions of other hosts without an end: they may be running, with locks that are not seen here."""
        here = socket.gethostname()
        return {session.id for session in self.sessions if session.ended is None and session.host != here}

    @property
    def counts(self) -> dict[str, int]:
        """Rows that ended sessions committed, by table."""
        tables = sorted({table for session in self.sessions for table in session.counts})
        return {table: sum(session.counts.get(table, 0) for session in self.sessions) for table in tables}

    @property
    def n_expected(self) -> int:
        """Sequences that ended sessions committed and that no later session found gone."""
        return self.counts.get("sequences", 0) - sum(session.n_lost for session in self.sessions)


def content_hash(content_config: Mapping[str, Any]) -> str:
    """SHA-256 of a configuration, in hexadecimal; the order of its keys does not matter."""
    return hashlib.sha256(_plain_json(content_config).encode()).hexdigest()


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Write manifest.json: deterministic JSON with sorted keys."""
    values = {
        **dataclasses.asdict(manifest),
        "content_hash": manifest.content_hash,
        "counts": manifest.counts,
    }
    write_atomically(run / MANIFEST, _pretty_json(values))


def write_session(run: Path, session: Session) -> None:
    """Write the session's own file."""
    with writing(run / SESSIONS):
        (run / SESSIONS).mkdir(exist_ok=True)
    write_atomically(run / SESSIONS / f"{session.id}.json", _pretty_json(dataclasses.asdict(session)))


def read_manifest(path: str | Path) -> Manifest:
    """Read the manifest of the run at `path`, its sessions merged in, the oldest first.

    Raises
    ------
    ToolkitError
        `path` is no run, or one of an unknown schema version.
    DataFault
        A file is damaged or is not what this package writes.
    """
    run = require_run(path)
    file = run / MANIFEST
    values = _read_object(file)
    _check_version(file, values.get("schema_version"))
    manifest = _build(Manifest, file, {**values, "sessions": []})
    if values.get("content_hash") != manifest.content_hash:
        raise DataFault(f"{file} was altered: content_hash is not the hash of its content_config")
    return dataclasses.replace(manifest, sessions=tuple(_read_sessions(run)))


def _read_sessions(run: Path) -> Iterator[Session]:
    folder = run / SESSIONS
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    for file in files:
        if not is_temporary(file.name):
            yield _build(Session, file, _read_object(file))


def check_same_content(old: Manifest, new: Manifest) -> None:
    """Refuse to go on in a run with another configuration than its own.

    Raises
    ------
    ToolkitError
        Settings that decide a sequence's content differ; each is shown, old -> new.
    """
    if old.content_hash == new.content_hash:
        return
    before, after = (dict(_flatten(json.loads(_plain_json(m.content_config)))) for m in (old, new))
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name, _GONE) != after.get(name, _GONE)
    )
    changes = [f"{name}: {before.get(name, _GONE)} -> {after.get(name, _GONE)}" for name in names]
    raise ToolkitError(
        f"the run was collected with other settings ({'; '.join(changes)}): "
        f"collect into another {argument('output')}, or replace the run with {argument('overwrite')}"
    )


_GONE = "(not set)"


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and JSON texts of what is inside nested objects."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flatten(inner, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix, json.dumps(value, sort_keys=True)


def _find(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if name in value:
            yield value[name]
        for inner in value.values():
            yield from _find(inner, name)


def _plain_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _pretty_json(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


def _read_object(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LARGEST:
            raise DataFault(f"{file} is damaged: it is larger than {_LARGEST >> 20} MiB")
        value = json.loads(file.read_bytes())
        _plain_json(value)  # refuses NaN and infinities, which Python reads and JSON does not have
    except OSError as error:
        raise DataFault(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or ["too deeply nested"])[0]
        raise DataFault(f"{file} is damaged: no JSON in UTF-8 ({reason})") from error
    if not isinstance(value, dict):
        raise DataFault(f"{file} is damaged: it holds a {type(value).__name__}, and must hold an object")
    return value


def _check_version(file: Path, version: Any) -> None:
    major = SCHEMA_VERSION.split(".")[0]
    if not isinstance(version, str):
        raise DataFault(f"{file} is not the manifest of a run: it has no schema_version")
    if version.split(".")[0] != major:
        raise ToolkitError(
            f"{file} has schema version {version!r:.40}, and this version of the toolkit reads {major}.x: "
            "use the version that wrote it"
        )


def _build(kind: Any, file: Path, values: Mapping[str, Any]) -> Any:
    """A dataclass of JSON values, each field there and of its type; what later versions add is left out."""
    fields = {}
    for spec in dataclasses.fields(kind):
        check, words = _CHECKS[str(spec.type)]
        if spec.name not in values and spec.metadata == _ADDED:
            continue
        if spec.name not in values:
            raise DataFault(f"{file} is damaged: {spec.name} is missing")
        value = values[spec.name]
        if not check(value):
            raise DataFault(f"{file} is damaged: {spec.name} is {value!r:.60}, and must be {words}")
        fields[spec.name] = tuple(value) if isinstance(value, list) else value
    return kind(**fields)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (_is_str, "text"),
    "int": (_is_int, "a whole number"),
    "str | None": (lambda value: value is None or _is_str(value), "text or null"),
    "int | None": (lambda value: value is None or _is_int(value), "a whole number or null"),
    "tuple[str, ...]": (
        lambda value: isinstance(value, list) and all(map(_is_str, value)),
        "a list of texts",
    ),
    "tuple[Session, ...]": (lambda value: value == [], "empty: sessions have their own files"),
    "Mapping[str, Any]": (_is_object, "an object"),
    "Mapping[str, str]": (
        lambda value: _is_object(value) and all(map(_is_str, value.values())),
        "texts by name",
    ),
    "Mapping[str, int]": (
        lambda value: _is_object(value) and all(map(_is_int, value.values())),
        "counts by name",
    ),
}
