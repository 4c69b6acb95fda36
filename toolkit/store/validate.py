"""Every invariant of a run, looked at once: what breaks one is named by file, row and rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.characters import count
from toolkit.errors import DataFault
from toolkit.store.blocks import Rows
from toolkit.store.keys import KeyCoder
from toolkit.store.layout import committed_parts, orphans, part_path, require_run, writer_of
from toolkit.store.lock import ReaderMark, live_writers
from toolkit.store.manifest import read_manifest
from toolkit.store.parquet import TableFile, read_files, read_rows
from toolkit.store.rules import CONTENT, STRUCTURE, Mask, Rule, View, nan_rows
from toolkit.store.schemas import GROUPS, OPTIONAL, TABLES


@dataclass(frozen=True)
class Finding:
    """A rule that a file breaks, and the first row that breaks it (None where it is the file as a whole)."""

    rule: str
    file: str
    row: int | None
    message: str

    def __str__(self) -> str:
        where = self.file if self.row is None else f"{self.file}, row {self.row}"
        return f"{where}: {self.rule}: {self.message}"


def validate(path: str | Path) -> Iterator[Finding]:
    """Look at all of the run at `path`, one row group at a time.

    Yields
    ------
    Finding
        One for each rule, file and row group that breaks it; its message says how many more rows do. A file
        that cannot be read is one finding, and the rules that need it are left out.

    Raises
    ------
    ToolkitError
        There is no run, or one of an unknown schema version.
    """
    run = require_run(path)
    mark = ReaderMark(run)  # noqa: F841 - lives as long as this generator
    yield from _leftovers(run)
    tables = _tables(run)
    readable: dict[str, list[str]] = {group: [] for group in GROUPS}
    for group in GROUPS:
        for part in committed_parts(run, group):
            faults = list(_file_faults(run, group, [name for name in GROUPS[group] if name in tables], part))
            yield from faults
            if not faults:
                readable[group].append(part)
    yield from _sequence_findings(run, tables, readable)
    for table in ("prompts", "prompt_tokens", "vocabulary", "grades", "similarities", "choices", "truths"):
        for part in readable[table]:
            yield from _table_findings(part_path(run, table, part), table)
    yield from _repeated_keys(run, readable, "sequences")
    yield from _repeated_keys(run, readable, "prompts")
    yield from _unknown_prompts(run, readable)
    yield from _session_findings(run, readable["sequences"])


def _tables(run: Path) -> set[str]:
    """The tables that the run has: as its manifest says, or its folders where that cannot be read."""
    try:
        optional = set(read_manifest(run).tables)
    except DataFault:
        optional = {table for table in OPTIONAL if (run / table).is_dir()}
    return (set(TABLES) - OPTIONAL) | optional


def _leftovers(run: Path) -> Iterator[Finding]:
    live = live_writers(run)
    for file in sorted(orphans(run)):
        if writer_of(file.stem) not in live:
            yield Finding(
                "orphan", str(file), None, "its part was never committed; the next collection removes it"
            )


def _file_faults(run: Path, group: str, tables: Sequence[str], part: str) -> Iterator[Finding]:
    """What keeps the files of a part from being looked at."""
    n_groups = {}
    for table in tables:
        path = part_path(run, table, part)
        try:
            with TableFile(path, table, whole=True) as file:
                if not file.schema.equals(TABLES[table].schema):
                    message = f"its columns are not those of {table}, or not of their types"
                    yield Finding("schema", str(path), None, message)
                    continue
                n_groups[table] = file.n_groups
        except DataFault as fault:
            yield Finding("readable", str(path), None, str(fault))
    for table in OPTIONAL.intersection(GROUPS[group]).difference(tables):
        if (path := part_path(run, table, part)).exists():
            yield Finding(
                "known table", str(path), None, f"the manifest does not name {table} among its tables"
            )
    for table, n in n_groups.items():
        if n != n_groups.get(group, n):
            message = f"it has {n} row groups, and {group} has {n_groups[group]}"
            yield Finding("one row group", str(part_path(run, table, part)), None, message)


def _sequence_findings(run: Path, tables: set[str], readable: dict[str, list[str]]) -> Iterator[Finding]:
    files = [part_path(run, "vocabulary", part) for part in readable["vocabulary"]]
    vocabulary = read_files(files, "vocabulary", ["token_id", "bytes"])
    for part in readable["sequences"]:
        paths = {table: part_path(run, table, part) for table in GROUPS["sequences"] if table in tables}
        offsets = dict.fromkeys(paths, 0)
        last: dict[str, pa.Table] = {}
        for rows in _row_groups(paths):
            yield from _crossings(paths, rows, last, offsets)
            yield from _judge(View(rows, vocabulary), paths, offsets)
            for table in paths:
                offsets[table] += rows[table].num_rows
                last[table] = rows[table].slice(max(rows[table].num_rows - 1, 0))


def _row_groups(paths: dict[str, Path]) -> Iterator[Rows]:
    with ExitStack() as stack:
        files = {table: stack.enter_context(TableFile(path, table)) for table, path in paths.items()}
        for group in range(files["sequences"].n_groups):
            yield {table: file.read(groups=[group]) for table, file in files.items()}


def _crossings(
    paths: dict[str, Path], rows: Rows, last: dict[str, pa.Table], offsets: dict[str, int]
) -> Iterator[Finding]:
    """Sequences that go on in the next row group."""
    for table, before in last.items():
        first = rows[table].slice(0, 1)
        if before.num_rows and first.num_rows:
            coder = KeyCoder([before, first])
            if coder.codes(before)[0] == coder.codes(first)[0]:
                message = "its sequence began in the row group before"
                yield Finding("one row group", str(paths[table]), offsets[table], message)


def _judge(view: View, paths: dict[str, Path], offsets: dict[str, int]) -> Iterator[Finding]:
    structure = list(_apply(STRUCTURE, view, paths, offsets))
    yield from structure
    if not structure:
        yield from _apply(CONTENT, view, paths, offsets)


def _apply(
    rules: Iterable[Rule], view: View, paths: dict[str, Path], offsets: dict[str, int]
) -> Iterator[Finding]:
    for rule in rules:
        for table in filter(paths.__contains__, rule.tables):
            yield from _first(rule.name, paths[table], rule.broken(view, table), rule.message, offsets[table])


def _first(rule: str, path: Path, broken: Mask, message: str, offset: int = 0) -> Iterator[Finding]:
    rows = np.flatnonzero(broken)
    if len(rows):
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        yield Finding(rule, str(path), offset + int(rows[0]), message + more)


def _table_findings(path: Path, table: str) -> Iterator[Finding]:
    """Rules of a table that stands alone."""
    rows = read_rows(path, table)
    yield from _first("no NaN", path, nan_rows(rows), "holds a NaN")
    keys = rows["token_id"].to_numpy() if table == "vocabulary" else KeyCoder([rows]).codes(rows)
    step = np.diff(keys)
    unique = not TABLES[table].position
    yield from _first(
        "sorted",
        path,
        np.concatenate([[False], (step <= 0) if unique else (step < 0)]),
        "is not after the row before",
    )
    if table == "prompts":
        lengths = pc.list_value_length(rows["token_ids"]).to_numpy()
        yield from _first(
            "counts", path, lengths != rows["n_tokens"].to_numpy(), "n_tokens is not its number of ids"
        )


def _repeated_keys(run: Path, readable: dict[str, list[str]], table: str) -> Iterator[Finding]:
    """Keys that are in two files, or twice in one."""
    parts = {
        part: read_rows(part_path(run, table, part), table, TABLES[table].key) for part in readable[table]
    }
    if not parts:
        return
    coder = KeyCoder(parts.values())
    codes = {part: coder.codes(rows) for part, rows in parts.items()}
    values, counts = np.unique(np.concatenate(list(codes.values())), return_counts=True)
    repeated = values[counts > 1]
    for part, own in codes.items():
        broken = np.isin(own, repeated)
        yield from _first("unique keys", part_path(run, table, part), broken, "its key is stored twice")


def _unknown_prompts(run: Path, readable: dict[str, list[str]]) -> Iterator[Finding]:
    files = [part_path(run, "prompts", part) for part in readable["prompts"]]
    known = set(read_files(files, "prompts", ["prompt_id"])["prompt_id"].to_pylist())
    for part in readable["sequences"]:
        path = part_path(run, "sequences", part)
        ids = read_rows(path, "sequences", ["prompt_id"])["prompt_id"].to_pylist()
        broken = np.array([prompt_id not in known for prompt_id in ids], bool)
        yield from _first("prompt known", path, broken, "its prompt is not in prompts")


def _session_findings(run: Path, parts: Sequence[str]) -> Iterator[Finding]:
    """Fewer sequences stored than ended sessions committed, or other than all of them if all have ended."""
    try:
        manifest = read_manifest(run)
    except DataFault as fault:
        yield Finding("manifest", str(run / "manifest.json"), None, str(fault))
        return
    expected = manifest.n_expected
    stored = sum(_n_rows(part_path(run, "sequences", part)) for part in parts)
    ended = all(session.ended for session in manifest.sessions)
    if stored < expected or (ended and stored != expected):
        message = f"its sessions committed {count(expected, 'sequence')}, and the run holds {stored:,}"
        yield Finding("counts", str(run / "manifest.json"), None, message)


def _n_rows(path: Path) -> int:
    with TableFile(path, "sequences") as file:
        return file.n_rows
