"""Similarities of a prompt's sequences kept beside a run: one file a name, replaced whole or not at all.

    RUN/similarities/<name>.parquet

A collection that goes on neither sees these files nor removes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.characters import quoted
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.store.blocks import merge_blocks
from toolkit.store.files import aside, is_temporary, writing
from toolkit.store.layout import committed_parts, part_path
from toolkit.store.lock import guard
from toolkit.store.parquet import TableFile, read_rows, writing_file
from toolkit.store.schemas import ROW_GROUP_TOKENS, SIMILARITIES

_TABLE = "similarities"
_SETTINGS = "toolkit.similarity"
PAIRS = SIMILARITIES.schema.remove(SIMILARITIES.names.index("name"))
"""Columns of the rows of one set."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class SimilaritySet(NamedTuple):
    """The similarities that are stored under one name."""

    name: str
    settings: Mapping[str, Any]  # where the values come from
    path: Path


def check_name(name: str) -> str:
    """The name, if a set can have it.

    Raises
    ------
    ToolkitError
        It is no name for a file, or could be read as a threshold.
    """
    if not _NAME.fullmatch(name):
        raise ToolkitError(
            f"{argument('name')}: {quoted(name)} is no name for similarities: give small letters, digits, - and "
            "_, a letter first, as nli"
        )
    return name


def similarity_sets(run: Path) -> list[SimilaritySet]:
    """What is stored beside the run now, by name.

    Raises
    ------
    DataFault
        A file cannot be read.
    """
    return [_similarity_set(part_path(run, _TABLE, name)) for name in committed_parts(run, _TABLE)]


def read_similarities(one: SimilaritySet) -> pa.Table:
    """All rows of a set, with the columns of `PAIRS`, prompt by prompt. prompt_id is text."""
    return read_rows(one.path, _TABLE, PAIRS.names).cast(PAIRS)


def write_similarities(run: Path, rows: pa.Table, name: str, settings: Mapping[str, Any]) -> SimilaritySet:
    """Put similarities beside the run, in the place of those of the same name.

    A reader sees the old file or the new one; a crash leaves the old one.

    Parameters
    ----------
    run : Path
    rows : pyarrow.Table
        Columns of `PAIRS`, in any order of rows.
    name : str
    settings : mapping
        Kept in the file as JSON.

    Raises
    ------
    ToolkitError
        It is no name for a set.
    DataFault
        The disk is full or read-only.
    """
    path = part_path(run, _TABLE, check_name(name))
    named = rows.cast(PAIRS).append_column("name", pa.repeat(name, rows.num_rows)).select(SIMILARITIES.names)
    ordered = named.cast(SIMILARITIES.schema).sort_by(
        [(column, "ascending") for column in SIMILARITIES.order]
    )
    block = merge_blocks([{_TABLE: ordered}], _TABLE)
    with guard(run), writing(path):
        path.parent.mkdir(exist_ok=True)
        for left in filter(lambda file: is_temporary(file.name), path.parent.iterdir()):
            left.unlink(missing_ok=True)  # of a process that was killed: who writes here holds the guard
        with aside(path) as temporary, writing_file(temporary, _TABLE) as writer:
            writer.add_key_value_metadata({_SETTINGS: json.dumps(settings, sort_keys=True)})
            for group in block.row_groups(ROW_GROUP_TOKENS):
                writer.write_table(group[_TABLE].cast(writer.schema))
    return SimilaritySet(name, settings, path)


def find_similarities(sets: Sequence[SimilaritySet], name: str | None, where: str) -> SimilaritySet:
    """The set of a name; without one, the only set there is.

    Parameters
    ----------
    sets : sequence of SimilaritySet
    name : str, optional
    where : str
        The run, for messages.

    Raises
    ------
    ToolkitError
        There is none of this name, or no name is given and there are several.
    """
    if not sets:
        raise ToolkitError(f"{where}: no similarities are stored: run toolkit similarity {where} first")
    found = [one for one in sets if name in (None, one.name)]
    names = ", ".join(f"stored:{one.name}" for one in sets)
    if not found:
        raise ToolkitError(f"{where}: no similarities are stored as {quoted(str(name))}: there are {names}")
    if len(found) > 1:
        raise ToolkitError(f"{where}: several similarities are stored: give one of {names}")
    return found[0]


def _similarity_set(path: Path) -> SimilaritySet:
    with TableFile(path, _TABLE):
        stored = pq.read_metadata(path).metadata or {}
    try:
        settings = json.loads(stored.get(_SETTINGS.encode(), b"{}"))
    except ValueError as error:
        raise DataFault(f"{path} is damaged: its settings are no JSON ({error}): compare again") from error
    return SimilaritySet(path.stem, settings, path)
