"""One Parquet file of a table: written with its encodings, read with its checksums, refused when damaged.

Knows the schemas, and nothing of runs or records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toolkit.errors import DataFault, ToolkitError
from toolkit.store.schemas import SCHEMA_VERSION, TABLES
from toolkit.store.seal import KEY, UNSEALED, check_seal, seal

_MAJOR = SCHEMA_VERSION.split(".")[0]
_CODED = ("prompt_id", "kind", "finish_reason")  # read as dictionaries: few values, many rows


@contextmanager
def writing_file(path: Path, table: str) -> Iterator[pq.ParquetWriter]:
    """Open a new file of `table` for writing, with the encodings of its columns; seal it afterwards."""
    spec = TABLES[table]
    with pq.ParquetWriter(path, spec.schema, **spec.writer_options) as writer:
        writer.add_key_value_metadata({**spec.metadata, KEY: UNSEALED})
        yield writer
    seal(path)


class TableFile:
    """A file of a table, open for reading; use it as a context manager.

    The footer's checksum is looked at when it is opened, and the pages' as they are read. Whatever is wrong
    with the file becomes one line that names it.

    Parameters
    ----------
    path : Path
    table : str
    whole : bool
        Check all of the file now.

    Raises
    ------
    DataFault
        The file is empty, cut off, altered, gone or no file of this table.
    ToolkitError
        Its schema has a major version that is not known here.
    """

    def __init__(self, path: Path, table: str, whole: bool = False) -> None:
        self.path = path
        self.table = TABLES[table]
        with _faults(path):
            sealed = check_seal(path, whole)
            metadata = pq.read_metadata(path)
        _check_identity(path, metadata.metadata or {}, table, sealed)
        with _faults(path):
            self._file = pq.ParquetFile(
                path,
                metadata=metadata,
                read_dictionary=[name for name in _CODED if name in self.table.names],
                pre_buffer=False,  # so that reading stays in this thread: handing over a small file costs more
                page_checksum_verification=True,
            )

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def n_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def n_groups(self) -> int:
        return int(self._file.num_row_groups)

    @property
    def schema(self) -> pa.Schema:
        """As it is stored, without dictionaries."""
        return self._file.schema.to_arrow_schema()

    @property
    def least(self) -> str:
        """The smallest value of the first column in the first row group; empty if there is none."""
        if not self.n_groups:
            return ""
        statistics = self._file.metadata.row_group(0).column(0).statistics
        return str(statistics.min) if statistics is not None and statistics.has_min_max else ""

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows; prompt_id, kind and finish_reason are dictionaries.

        Parameters
        ----------
        columns : sequence of str, optional
            In this order; all of the table's by default.
        groups : sequence of int, optional
            Row groups; all by default.
        """
        names = self.table.names if columns is None else list(columns)
        with _faults(self.path):
            missing = [name for name in names if name not in self._file.schema_arrow.names]
            if missing:
                raise ValueError(f"it has no column {missing[0]}")
            if groups is None:
                return self._file.read(columns=names, use_threads=False).select(names)
            return self._file.read_row_groups(list(groups), columns=names, use_threads=False).select(names)

    def groups_with(self, prompts: Sequence[str] | None) -> list[int]:
        """Row groups that may hold one of `prompts`, by the minima and maxima in the footer."""
        everything = list(range(self.n_groups))
        if prompts is None:
            return everything
        index = self._file.schema_arrow.names.index("prompt_id")
        chunks = [self._file.metadata.row_group(group).column(index) for group in everything]
        return [group for group, chunk in zip(everything, chunks, strict=True) if _may_hold(chunk, prompts)]

    def estimate_bytes(self, columns: Sequence[str], groups: Sequence[int]) -> int:
        """Memory that row groups take: by type and row count; text by its size before compression."""
        total = 0
        for index, name in enumerate(self._file.schema_arrow.names):
            if name in columns:
                kind = self.table.schema.field(name).type
                for group in groups:
                    rows = self._file.metadata.row_group(group)
                    total += _column_bytes(kind, rows.num_rows, rows.column(index).total_uncompressed_size)
        return total


def read_rows(
    path: Path, table: str, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> pa.Table:
    """Rows of a file, as `TableFile.read`."""
    with TableFile(path, table) as file:
        return file.read(columns, groups)


def read_files(paths: Iterable[Path], table: str, columns: Sequence[str]) -> pa.Table:
    """Columns of several files of a table, one after the other; without files, no rows."""
    rows = [read_rows(path, table, columns) for path in paths]
    return pa.concat_tables(rows) if rows else TABLES[table].schema.empty_table().select(columns)


def no_rows(table: str, columns: Sequence[str]) -> pa.Table:
    """No rows, of the types that `TableFile.read` gives."""
    fields = [TABLES[table].schema.field(name) for name in columns]
    coded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([f.with_type(coded) if f.name in _CODED else f for f in fields]).empty_table()


def keep_rows(
    rows: pa.Table, prompts: Sequence[str] | None = None, kinds: Sequence[str] | None = None
) -> pa.Table:
    """The rows of these prompts and kinds; None is all of them."""
    for name, wanted in (("prompt_id", prompts), ("kind", kinds)):
        if wanted is not None:
            rows = rows.filter(pc.is_in(rows[name], value_set=pa.array(wanted, pa.string())))
    return rows


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turn what goes wrong while reading into a DataFault."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataFault(f"{path} is gone: open the run again, or run `toolkit validate`") from error
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataFault(
            f"{path} is damaged or is no Parquet file ({reason}): "
            "resume its collection, which moves it aside and collects its rows again"
        ) from error


def _may_hold(chunk: pq.ColumnChunkMetaData, prompts: Sequence[str]) -> bool:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return bool(chunk.num_values > 0)
    return any(statistics.min <= prompt <= statistics.max for prompt in prompts)


def _column_bytes(kind: pa.DataType, n_rows: int, uncompressed: int) -> int:
    try:
        return n_rows * max(kind.bit_width, 8) // 8
    except ValueError:  # of varying length: an offset or pointer, and its own bytes
        return n_rows * 16 + uncompressed


def _check_identity(path: Path, metadata: dict[bytes, bytes], table: str, sealed: bool) -> None:
    found = metadata.get(b"toolkit.table", b"").decode(errors="replace")
    version = metadata.get(b"toolkit.schema_version", b"").decode(errors="replace")
    if found != table:
        says = f"it says {found!r}" if found else "this package did not write it"
        raise DataFault(f"{path} is not a file of the table {table} ({says}): move it away")
    if version.split(".")[0] != _MAJOR:
        raise ToolkitError(
            f"{path} has schema version {version!r}, and this version of the toolkit reads {_MAJOR}.x: "
            "use the version that wrote it"
        )
    if not sealed:
        raise DataFault(f"{path} is damaged (its footer has no checksum): resume its collection")
