"""Tables on stdout or in a file as they come, one held at a time: CSV, JSON or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from toolkit.cli.output import csv_text, json_rows, json_text

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_ROWS = 1 << 16  # of a row group in a Parquet file, unless it has
_GROUP_BYTES = 1 << 24  # so many before


def write_tables(tables: Iterable[pa.Table], chosen: str, output: Path | None) -> int:
    """Write the rows of tables as they come, as `write_frame` would write them all: csv, json or parquet.

    Parameters
    ----------
    tables : iterable of pyarrow.Table
        At least one, all with the same columns. One is held at a time.
    chosen : str
    output : Path, optional

    Returns
    -------
    int
        Number of rows.
    """
    n_rows = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal n_rows
        for table in tables:
            n_rows += table.num_rows
            yield table

    if chosen == "parquet" and output is not None:
        _write_parquet(counted(), output)
    else:
        from toolkit.exporting.output import write_export

        chunks = _csv_chunks(counted()) if chosen == "csv" else _json_chunks(counted())
        write_export((chunk.encode() for chunk in chunks), output)
    return n_rows


def _csv_chunks(tables: Iterator[pa.Table]) -> Iterator[str]:
    from toolkit.aggregation.frames import to_pandas

    for number, table in enumerate(tables):
        yield csv_text(to_pandas(table), head=number == 0)


def _json_chunks(tables: Iterator[pa.Table]) -> Iterator[str]:
    """The list that `json_text` makes, row by row."""
    from toolkit.aggregation.frames import to_pandas

    before = "["
    for table in tables:
        rows = [json_text(row).replace("\n", "\n  ") for row in json_rows(to_pandas(table))]
        if rows:
            yield before + "\n  " + ",\n  ".join(rows)
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _write_parquet(tables: Iterator[pa.Table], output: Path) -> None:
    """Row groups as they come; a file is there whole or not at all, a pipe gets it as it is."""
    from toolkit.store.files import aside, is_stream, writing

    if is_stream(output):
        with writing(output), output.open("wb") as stream:
            _write_groups(tables, stream)
        return
    with aside(output) as temporary, writing(output):
        _write_groups(tables, temporary)


def _write_groups(tables: Iterator[pa.Table], sink: Path | BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(tables)
    texts = [field.name for field in first.schema if not pa.types.is_primitive(field.type)]
    floats = [field.name for field in first.schema if pa.types.is_floating(field.type)]
    options = {
        "compression": "zstd",
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
        "store_schema": False,  # Arrow's: ids, which are coded here, are texts for whoever reads them
    }
    with pq.ParquetWriter(sink, first.schema, **options) as writer:
        for table in _row_groups(chain([first], tables)):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables joined to about `_GROUP_ROWS` or `_GROUP_BYTES`: a run of many small files gives many small ones."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    n_rows = n_bytes = 0
    for table in tables:
        waiting.append(table)
        n_rows, n_bytes = n_rows + table.num_rows, n_bytes + table.nbytes
        if n_rows >= _GROUP_ROWS or n_bytes >= _GROUP_BYTES:
            yield pa.concat_tables(waiting).unify_dictionaries()
            waiting, n_rows, n_bytes = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()
