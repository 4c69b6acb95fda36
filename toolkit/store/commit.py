"""One commit: the files of a part in every table of its group, all of them or none."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq

from toolkit.store.blocks import Block, Rows
from toolkit.store.files import rename, sync_file, sync_folder, temporary_path, writing
from toolkit.store.layout import part_path
from toolkit.store.parquet import writing_file
from toolkit.store.schemas import GROUPS, ROW_GROUP_TOKENS


def commit_part(run: Path, group: str, part: str, block: Block) -> None:
    """Write a part: when this returns it is on disk, and when this raises readers never saw it.

    The part gets a file in each table of the block, the group's own among them.

    Steps
    -----
    1. Write every table's file aside, under a hidden name; row group i of each holds the same sequences.
    2. Sync each file, then rename it into place: the group's own table last, after the folders of the others
       are synced. That rename is the commit point.
    3. Sync the folder of the last one.

    A kill before the commit point leaves at most orphans, which readers ignore and the next writer removes;
    an error removes them at once.

    Raises
    ------
    DataFault
        The disk is full, read-only or broken.
    ValueError
        A value is null where that has no meaning.
    """
    paths = {table: part_path(run, table, part) for table in GROUPS[group] if table in block.rows}
    with ExitStack() as undo:
        staged = {}
        for table, path in paths.items():
            with writing(path):
                path.parent.mkdir(exist_ok=True)
            staged[table] = temporary_path(path)
            undo.callback(staged[table].unlink, missing_ok=True)
        with writing(paths[group]):
            _write_tables(staged, block)
        for table, path in paths.items():
            with writing(path):
                sync_file(staged[table])
                if table == group:
                    for other in paths.values():
                        if other != path:
                            sync_folder(other.parent)
                undo.callback(path.unlink, missing_ok=True)
                rename(staged[table], path)
        with writing(paths[group]):
            sync_folder(paths[group].parent)
        undo.pop_all()


def _write_tables(paths: dict[str, Path], block: Block) -> None:
    with ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {
            table: stack.enter_context(writing_file(path, table)) for table, path in paths.items()
        }
        for rows in block.row_groups(ROW_GROUP_TOKENS):
            _write_row_group(writers, rows)


def _write_row_group(writers: dict[str, pq.ParquetWriter], rows: Rows) -> None:
    for table, writer in writers.items():
        writer.write_table(rows[table].cast(writer.schema), row_group_size=max(rows[table].num_rows, 1))
