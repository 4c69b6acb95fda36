"""A table kept beside a run: one file with the settings it was made with, replaced whole or not at all.

    RUN/<table>/<table>.parquet

A collection that goes on neither sees these files nor removes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.characters import clip
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.store.blocks import merge_blocks
from toolkit.store.files import aside, is_temporary, writing
from toolkit.store.layout import part_path
from toolkit.store.lock import guard
from toolkit.store.parquet import read_rows, writing_file
from toolkit.store.schemas import ROW_GROUP_TOKENS, TABLES

_SETTINGS = "toolkit.settings"
_GONE = "(not set)"


def is_beside(run: Path, table: str) -> bool:
    """Whether the table is there."""
    return part_path(run, table, table).is_file()


def read_beside(run: Path, table: str) -> pa.Table:
    """Its rows, sorted by key; none where it is not there. prompt_id and kind are text.

    Raises
    ------
    DataFault
        The file cannot be read.
    """
    schema = TABLES[table].schema
    if not is_beside(run, table):
        return schema.empty_table()
    return read_rows(part_path(run, table, table), table).cast(schema)


def write_beside(run: Path, table: str, rows: pa.Table, settings: Mapping[str, Any]) -> None:
    """Put a table beside the run, in the place of what is there.

    A reader sees the old file or the new one; a crash leaves the old one.

    Parameters
    ----------
    run : Path
    table : str
    rows : pyarrow.Table
        All of its columns, in any order of rows.
    settings : mapping
        What the rows depend on; kept in the file as JSON.

    Raises
    ------
    DataFault
        The disk is full or read-only.
    """
    path, spec = part_path(run, table, table), TABLES[table]
    ordered = rows.select(spec.names).cast(spec.schema)
    block = merge_blocks([{table: ordered}], table)
    with guard(run), writing(path):
        path.parent.mkdir(exist_ok=True)
        for left in path.parent.iterdir():
            if is_temporary(left.name):  # of a process that was killed: who writes here holds the guard
                left.unlink(missing_ok=True)
        with aside(path) as temporary, writing_file(temporary, table) as writer:
            writer.add_key_value_metadata({_SETTINGS: json.dumps(settings, sort_keys=True)})
            for group in block.row_groups(ROW_GROUP_TOKENS):
                writer.write_table(group[table].cast(writer.schema))


def beside_settings(run: Path, table: str) -> dict[str, Any]:
    """The settings that the rows were made with; none where the table is not there.

    Raises
    ------
    DataFault
        The file cannot be read, or its settings are no JSON.
    """
    if not is_beside(run, table):
        return {}
    path = part_path(run, table, table)
    read_rows(path, table, [], [])  # what is wrong with the file is said as of any other
    stored = pq.read_metadata(path).metadata or {}
    try:
        return dict(json.loads(stored.get(_SETTINGS.encode(), b"{}")))
    except (ValueError, TypeError) as error:
        raise DataFault(f"{path} is damaged: its settings are no JSON object ({error}): ask again") from error


def check_same_settings(run: Path, table: str, settings: Mapping[str, Any]) -> None:
    """Refuse to add to rows that were made with other settings.

    Raises
    ------
    ToolkitError
        Settings differ; each is shown, old -> new.
    """
    if not is_beside(run, table):
        return
    before, after = beside_settings(run, table), json.loads(json.dumps(settings))
    changes = [
        f"{name}: {_shown(before, name)} -> {_shown(after, name)}"
        for name in sorted({*before, *after})
        if before.get(name, _GONE) != after.get(name, _GONE)
    ]
    if changes:
        raise ToolkitError(
            f"{run}: the table {table} was made with other settings ({'; '.join(changes)}): keep them, or "
            f"replace it with {argument('overwrite')}"
        )


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return clip(json.dumps(settings[name], sort_keys=True), 60) if name in settings else _GONE
