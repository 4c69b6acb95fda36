"""Judgements kept beside a run: one file for each grader with its settings, replaced whole or not at all.

    RUN/grades/<grader>-<config hash>.parquet

A collection that goes on neither sees these files nor removes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.errors import DataFault, ToolkitError
from toolkit.store.blocks import merge_blocks
from toolkit.store.files import aside, is_temporary, writing
from toolkit.store.keys import Key, key_tuples
from toolkit.store.layout import committed_parts, part_path
from toolkit.store.lock import guard
from toolkit.store.parquet import TableFile, read_files, writing_file
from toolkit.store.schemas import GRADES, ROW_GROUP_TOKENS

_TABLE = "grades"
_SETTINGS = "toolkit.grading"


class GradeSet(NamedTuple):
    """The judgements that one grader, with its settings, made of a run."""

    grader: str
    config_hash: str
    settings: Mapping[str, Any]  # what the hash is of, and how a person named it
    path: Path

    @property
    def label(self) -> str:
        """Name and settings for people, so that two of one grader can be told apart."""
        said = ", ".join(
            f"{name} {self.settings[name]}" for name in ("over", "by") if self.settings.get(name)
        )
        return f"{self.grader}@{self.config_hash[:6]}" + (f" ({said})" if said else "")


def grade_sets(run: Path) -> list[GradeSet]:
    """What is stored beside the run now, by name of the grader.

    Raises
    ------
    DataFault
        A file cannot be read.
    """
    return [_grade_set(part_path(run, _TABLE, part)) for part in committed_parts(run, _TABLE)]


def read_grades(sets: Iterable[GradeSet], columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of grade sets, one after the other; each is sorted by key and place. prompt_id, kind are text."""
    names = GRADES.names if columns is None else list(columns)
    rows = read_files([one.path for one in sets], _TABLE, names)
    return rows.cast(pa.schema([GRADES.schema.field(name) for name in names]))


def graded_keys(one: GradeSet) -> set[Key]:
    """(prompt_id, kind, sample_index) of the sequences that were judged."""
    return set(key_tuples(read_grades([one], GRADES.key)))


def write_grades(
    run: Path, rows: pa.Table, grader: str, config_hash: str, settings: Mapping[str, Any]
) -> GradeSet:
    """Put a grade set beside the run, in the place of the one with the same hash.

    A reader sees the old file or the new one; a crash leaves the old one.

    Parameters
    ----------
    run : Path
    rows : pyarrow.Table
        Columns of the table grades, in any order of rows.
    grader, config_hash : str
    settings : mapping
        Kept in the file as JSON.

    Raises
    ------
    DataFault
        The disk is full or read-only.
    """
    path = part_path(run, _TABLE, f"{grader}-{config_hash}")
    ordered = rows.cast(GRADES.schema).sort_by([(name, "ascending") for name in GRADES.position])
    block = merge_blocks([{_TABLE: ordered}], _TABLE)
    with guard(run), writing(path):
        path.parent.mkdir(exist_ok=True)
        _remove_leftovers(path.parent)
        with aside(path) as temporary, writing_file(temporary, _TABLE) as writer:
            writer.add_key_value_metadata({_SETTINGS: json.dumps(settings, sort_keys=True)})
            for group in block.row_groups(ROW_GROUP_TOKENS):
                table = group[_TABLE]
                writer.write_table(table.cast(writer.schema), row_group_size=max(table.num_rows, 1))
    return GradeSet(grader, config_hash, settings, path)


def find_grades(sets: Sequence[GradeSet], name: str | None, where: str) -> GradeSet:
    """The grade set that a name means.

    Parameters
    ----------
    sets : sequence of GradeSet
    name : str, optional
        Of the grader, as it was given to be graded with or plain; NAME@HASH with the first digits of its
        hash. Not needed where there is one set only.
    where : str
        The run, for messages.

    Raises
    ------
    ToolkitError
        There is none of this name, or several; the message lists what there is.
    """
    if not sets:
        raise ToolkitError(f"{where}: nothing is graded: run toolkit grade {where}, or toolkit.grade, first")
    found = [one for one in sets if name is None or _is_named(one, name)]
    if len(found) == 1:
        return found[0]
    labels = ", ".join(one.label for one in found or sets)
    if not found:
        raise ToolkitError(f"{where}: there are no grades by {name!r:.80}: there are {labels}")
    asked = "no grader is named" if name is None else f"{name!r:.80} names several grade sets"
    raise ToolkitError(f"{where}: {asked}: give one of {labels}, as NAME@HASH")


def _is_named(one: GradeSet, name: str) -> bool:
    plain, _, digits = name.partition("@")
    by_name = plain.replace("-", "_") == one.grader and one.config_hash.startswith(digits)
    return by_name or name == one.settings.get("named")


def _grade_set(path: Path) -> GradeSet:
    with TableFile(path, _TABLE):
        stored = pq.read_metadata(path).metadata or {}
    grader, _, config_hash = path.stem.rpartition("-")
    try:
        settings = json.loads(stored.get(_SETTINGS.encode(), b"{}"))
    except ValueError as error:
        raise DataFault(f"{path} is damaged: its settings are no JSON ({error}): grade again") from error
    return GradeSet(grader, config_hash, settings, path)


def _remove_leftovers(folder: Path) -> None:
    """Temporary files of a process that was killed; whoever writes here now holds the guard."""
    for path in folder.iterdir():
        if is_temporary(path.name):
            path.unlink(missing_ok=True)
