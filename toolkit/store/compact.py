"""Many small parts into few.

Parts are merged in groups, each into one new part. The new part's files are written first; a record says
which parts it stands for; then its last file is renamed into place, and with that the switch has happened.
A reader that lists the folder before sees the old parts, after it the new one, never both. Killed anywhere,
the run is whole, and the next writer removes what is left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.store.blocks import cuts, merge_blocks
from toolkit.store.commit import commit_part
from toolkit.store.layout import (
    committed_parts,
    new_session_id,
    part_name,
    part_path,
    record_replacement,
    remove_leftovers,
    remove_replaced,
    require_run,
)
from toolkit.store.lock import RunLock
from toolkit.store.manifest import Manifest, read_manifest
from toolkit.store.parquet import TableFile, read_rows
from toolkit.store.schemas import GROUPS

TARGET_TOKENS = 1 << 20
"""A new part has at most about this many tokens: it is the most that compacting holds in memory."""

_GROUPS = ("sequences", "prompts", "prompt_tokens", "vocabulary")


class Compaction(NamedTuple):
    """What a compaction did. Parts are those of sequences, as `Run.parts` has them; files are of all tables."""

    n_before: int  # parts
    n_after: int
    n_files_before: int
    n_files_after: int
    n_files_kept: int  # replaced, but somebody reads the run: the next writer removes them


def compact(path: str | Path, target_tokens: int = TARGET_TOKENS) -> Compaction:
    """Merge the small parts of the run at `path`, sorted by key.

    Parameters
    ----------
    path : str or Path
    target_tokens : int
        Parts of under half as many tokens (rows, for prompts and vocabulary) are merged up to this many.

    Raises
    ------
    ToolkitError
        There is no run, or somebody writes to it.
    DataFault
        A part cannot be read, or the disk is full; the run is as it was.
    """
    run = require_run(path)
    writer = new_session_id()
    lock = RunLock.acquire(run, writer)
    try:
        manifest = read_manifest(run)
        remove_leftovers(run, writer, manifest.unfinished_elsewhere)
        before = _counted(run, manifest)
        replaced = 0
        plans = [(group, old) for group in _GROUPS for old in _plan(run, group, target_tokens)]
        for number, (group, old) in enumerate(plans, 1):
            tables = manifest.tables_of(group)
            _merge(run, group, tables, part_name(writer, number), old)
            replaced += len(old) * len(tables)
        removed = len(remove_replaced(run))
    finally:
        lock.release()
    after = _counted(run, manifest)
    return Compaction(before.parts, after.parts, before.files, after.files, replaced - removed)


class _Counted(NamedTuple):
    parts: int
    files: int


def _counted(run: Path, manifest: Manifest) -> _Counted:
    parts = {group: len(committed_parts(run, group)) for group in _GROUPS}
    return _Counted(parts["sequences"], sum(n * len(manifest.tables_of(group)) for group, n in parts.items()))


def _plan(run: Path, group: str, target: int) -> Iterator[list[str]]:
    """Small parts to be merged with each other: neighbours by their first prompt, `target` rows together."""
    small = []
    for part in committed_parts(run, group):
        size, first = _size_and_start(run, group, part)
        if size < target / 2:
            small.append((first, part, size))
    small.sort()
    for start, end in cuts(np.array([size for *_, size in small], np.int64), target):
        if end - start > 1:
            yield [part for _, part, _ in small[start:end]]


def _size_and_start(run: Path, group: str, part: str) -> tuple[int, str]:
    table = GROUPS[group][0]
    with TableFile(part_path(run, table, part), table) as file:
        return file.n_rows, file.least


def _merge(run: Path, group: str, tables: Sequence[str], new: str, old: Sequence[str]) -> None:
    parts = [{table: read_rows(part_path(run, table, part), table) for table in tables} for part in old]
    block = merge_blocks(parts, group)
    record_replacement(run, group, new, old)
    commit_part(run, group, new, block)
