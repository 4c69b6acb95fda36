"""Reading runs. Opening one lists folders only; Parquet files are opened when rows are asked for."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.records import KINDS, SequenceRecord
from toolkit.scale.engines import LOCAL, Engine
from toolkit.store.blocks import Rows
from toolkit.store.keys import Key, in_key_order, key_tuples
from toolkit.store.layout import committed_parts, part_path, require_run
from toolkit.store.lock import ReaderMark
from toolkit.store.manifest import Manifest, read_manifest
from toolkit.store.memory import refuse_large_load
from toolkit.store.parquet import TableFile, keep_rows, no_rows
from toolkit.store.restore import sequence_records
from toolkit.store.rows import VocabularyEntry
from toolkit.store.schemas import GROUP_OF, GROUPS, TABLES

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.spans import SpanKind, UserFinder

Names = str | Sequence[str] | None
"""One name, several, or None for all."""

_FRAME_COPIES = 2  # the Arrow table and the frame made from it


class Frames:
    """The data frames of one run or several; `toolkit.tables` says what each holds."""

    def tokens_df(self, columns: Names = None, prompts: Names = None, kinds: Names = None) -> pd.DataFrame:
        """A row a token; see `toolkit.tables.tokens_df`."""
        return _tables().tokens_df(self, columns, prompts, kinds)

    def segments_df(self, columns: Names = None, prompts: Names = None, kinds: Names = None) -> pd.DataFrame:
        """A row a segment; see `toolkit.tables.segments_df`."""
        return _tables().segments_df(self, columns, prompts, kinds)

    def sequences_df(self, columns: Names = None, prompts: Names = None, kinds: Names = None) -> pd.DataFrame:
        """A row a sequence; see `toolkit.tables.sequences_df`."""
        return _tables().sequences_df(self, columns, prompts, kinds)

    def alternatives_df(
        self, columns: Names = None, prompts: Names = None, kinds: Names = None
    ) -> pd.DataFrame:
        """A row a likely token; see `toolkit.tables.alternatives_df`."""
        return _tables().alternatives_df(self, columns, prompts, kinds)

    def watched_df(self, columns: Names = None, prompts: Names = None, kinds: Names = None) -> pd.DataFrame:
        """A row a watched token at a position; see `toolkit.tables.watched_df`."""
        return _tables().watched_df(self, columns, prompts, kinds)

    def prompts_df(self, columns: Names = None, prompts: Names = None) -> pd.DataFrame:
        """A row a prompt; see `toolkit.tables.prompts_df`."""
        return _tables().prompts_df(self, columns, prompts)

    def prompt_tokens_df(self, columns: Names = None, prompts: Names = None) -> pd.DataFrame:
        """A row a token of a prompt; see `toolkit.tables.prompt_tokens_df`."""
        return _tables().prompt_tokens_df(self, columns, prompts)

    def segment_tokens_df(self, prompts: Names = None, kinds: Names = None) -> pd.DataFrame:
        """A row a (segment, token); see `toolkit.tables.segment_tokens_df`."""
        return _tables().segment_tokens_df(self, prompts, kinds)

    def grades_df(
        self, grader: str | None = None, prompts: Names = None, kinds: Names = None
    ) -> pd.DataFrame:
        """A row a judgement that `toolkit grade` made; see `toolkit.tables.grades_df`."""
        return _tables().grades_df(self, grader, prompts, kinds)

    def spans_df(
        self,
        by: str | UserFinder | SpanKind = "sentence",
        metrics: Names = None,
        prompts: Names = None,
        kinds: Names = None,
        *,
        weights: str = "whole",
        include_end: bool = True,
    ) -> pd.DataFrame:
        """A row a span, such as a word or a JSON field, with statistics; see `toolkit.tables.spans_df`."""
        return _tables().spans_df(self, by, metrics, prompts, kinds, weights=weights, include_end=include_end)


class Run(Frames):
    """One run, as it was when it was opened: open it again to see what was committed since.

    Attributes
    ----------
    path : Path
    manifest : Manifest
    engine : Engine
        What reads and aggregates the run a piece at a time.
    """

    def __init__(self, path: str | Path, engine: Engine = LOCAL) -> None:
        self.path = require_run(path)
        self.engine = engine
        self.manifest: Manifest = read_manifest(self.path)
        self._snapshot = secrets.token_hex(8)
        self._mark: ReaderMark | None = ReaderMark(self.path)
        self._parts = {group: tuple(committed_parts(self.path, group)) for group in GROUPS}

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {count(len(self.parts()), 'part')})"

    def _repr_html_(self) -> str:
        from toolkit.report.notebook import run_html

        return run_html(self)

    def parts(self, table: str = "sequences") -> tuple[str, ...]:
        """Names of the parts of a table; each is a file, and each sequence is in one part only.

        A table that the run lacks has none.
        """
        group = GROUP_OF[_known_table(table)]
        return self._parts[group] if table in self.manifest.tables_of(group) else ()

    def part_path(self, table: str, part: str) -> Path:
        """Where the file of `part` is."""
        return part_path(self.path, table, part)

    def of_parts(self, parts: Sequence[str]) -> Run:
        """The same run with these parts of its sequences only. It is read where it is, without an engine."""
        found = Run.__new__(Run)
        found.__dict__.update(self.__dict__)
        found.engine = LOCAL
        found._parts = {**self._parts, "sequences": tuple(parts)}
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the run itself, at the same path, and sees the same parts of its sequences."""
        return _reopened, (str(self.path.resolve()), self._snapshot, self.parts())

    def sequence_keys(self) -> set[Key]:
        """(prompt_id, kind, sample_index) of every sequence; reads the key columns only."""
        keys: set[Key] = set()
        for rows in self.iter_row_groups("sequences", TABLES["sequences"].key):
            keys.update(key_tuples(rows))
        return keys

    def iter_row_groups(
        self, table: str, columns: Names = None, prompts: Names = None, kinds: Names = None
    ) -> Iterator[pa.Table]:
        """Go through a table a row group at a time, in the order of the files.

        Parameters
        ----------
        table : str
        columns : sequence of str, optional
            All by default.
        prompts, kinds : sequence of str, optional
            Keep rows of these only; row groups without any are not read.

        Yields
        ------
        pyarrow.Table
            Whole sequences. prompt_id, kind and finish_reason are dictionaries.

        Raises
        ------
        ToolkitError
            Unknown table, column or kind, or prompts or kinds of a table that has no such column.
        DataFault
            A file cannot be read.
        """
        for rows in self.iter_groups({table: columns}, prompts, kinds):
            yield rows[table]

    def iter_groups(
        self, tables: Mapping[str, Names], prompts: Names = None, kinds: Names = None
    ) -> Iterator[Rows]:
        """As `iter_row_groups`, of several tables of one group: the same sequences of each at a time.

        A table that the run lacks has no rows.

        Parameters
        ----------
        tables : mapping of str to sequence of str or None
            The columns wanted of each table.
        """
        only, of_kinds = as_names(prompts), check_kinds(kinds)
        for table in tables:
            check_filters(table, prompts, kinds)
        wanted = {table: check_columns(table, columns) for table, columns in tables.items()}
        there = [table for table in wanted if self.parts(table)]
        lacking = {table: no_rows(table, wanted[table]) for table in wanted if table not in there}
        for part in self.parts(there[0]) if there else ():
            with ExitStack() as stack:
                files = [
                    stack.enter_context(TableFile(self.part_path(table, part), table)) for table in there
                ]
                for group in files[0].groups_with(only):
                    yield lacking | {
                        file.table.name: _read(file, wanted[file.table.name], group, only, of_kinds)
                        for file in files
                    }

    def iter_sequences(self, prompts: Names = None, kinds: Names = None) -> Iterator[SequenceRecord]:
        """Go through the sequences as records, holding one row group at a time.

        The way through a run that is larger than memory. Order is that of the files; within one, of the keys.
        """
        for rows in self.iter_groups(dict.fromkeys(GROUPS["sequences"]), prompts, kinds):
            yield from sequence_records(rows)

    def iter_spans(self, *arguments: Any, **options: Any) -> Iterator[pa.Table]:
        """The rows of `spans_df`, with the same arguments, as Arrow tables of a row group at a time.

        For runs larger than memory. Order is that of the files; within one, of the keys.
        """
        return _tables().iter_spans(self, *arguments, **options)

    def load(self, table: str, columns: Names = None, prompts: Names = None, kinds: Names = None) -> pa.Table:
        """Rows of a table of the whole run, sorted by key and position.

        Raises
        ------
        ToolkitError
            It would need over half of the free memory; or as in `iter_row_groups`.
        """
        names = check_columns(table, columns)
        key = [name for name in TABLES[table].key if name not in names]
        self.refuse_large(table, [*names, *key], prompts)
        rows = list(self.iter_row_groups(table, [*names, *key], prompts, kinds))
        return in_key_order(pa.concat_tables(rows or [no_rows(table, [*names, *key])])).select(names)

    def refuse_large(self, table: str, columns: Sequence[str], prompts: Names = None) -> None:
        """Raise a ToolkitError if these columns of the table would fill over half of the free memory."""
        check_filters(table, prompts, None)
        only, needed = as_names(prompts), 0
        for part in self.parts(table):
            with TableFile(self.part_path(table, part), table) as file:
                needed += file.estimate_bytes(columns, file.groups_with(only))
        refuse_large_load(
            needed * _FRAME_COPIES,
            f"the table {table} of {self.path}",
            "name fewer columns= or prompts=, or go through run.iter_sequences(), a file at a time",
        )

    @cached_property
    def vocabulary(self) -> dict[int, VocabularyEntry]:
        """What each token id that occurs stands for: (bytes, literal, is_special)."""
        entries: dict[int, VocabularyEntry] = {}
        for rows in self.iter_row_groups("vocabulary"):
            ids, *values = (rows[name].to_pylist() for name in TABLES["vocabulary"].names)
            entries.update(zip(ids, map(VocabularyEntry, *values), strict=True))
        return entries


class Runs(Frames):
    """Several runs: frames one below the other, with columns run, model, temperature and top_p first."""

    def __init__(self, paths: Sequence[str | Path], engine: Engine = LOCAL) -> None:
        if not paths:
            raise ToolkitError("no run was named: name one or more folders")
        resolved = [Path(path).resolve() for path in paths]
        for path, place in zip(paths, resolved, strict=True):
            if resolved.count(place) > 1:
                raise ToolkitError(f"run {str(path)!r} is named twice: name each once")
        self.runs = tuple(Run(path, engine) for path in paths)

    def _repr_html_(self) -> str:
        from toolkit.report.notebook import runs_html

        return runs_html(self)

    def __repr__(self) -> str:
        return f"Runs({[str(run.path) for run in self.runs]})"

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def labels(self) -> list[dict[str, Any]]:
        """Values of the leading columns by run; `run` is the folder's name, or its path if two share it."""
        names = [run.path.resolve().name for run in self.runs]
        labels = names if len(set(names)) == len(names) else [str(run.path) for run in self.runs]
        return [
            {
                "run": label,
                "model": run.manifest.model.get("name"),
                "temperature": run.manifest.setting("temperature"),
                "top_p": run.manifest.setting("top_p"),
            }
            for label, run in zip(labels, self.runs, strict=True)
        ]


def open_run(path: str | Path, engine: Engine = LOCAL) -> Run:
    """Open the run at `path`.

    Parameters
    ----------
    path : str or Path
    engine : Engine
        What reads and aggregates it: this process by default; `toolkit.scale.Processes` and
        `toolkit.scale.Dask` give the same results.

    Raises
    ------
    ToolkitError
        There is no run, or one of an unknown schema version.
    DataFault
        Its manifest is damaged.
    """
    return Run(path, engine)


def open_runs(paths: Sequence[str | Path], engine: Engine = LOCAL) -> Runs:
    """Open several runs as one; as `open_run`."""
    return Runs([paths] if isinstance(paths, str | Path) else list(paths), engine)


def as_names(names: Names) -> list[str] | None:
    """One name or several, as a list; None stays."""
    return [names] if isinstance(names, str) else None if names is None else list(names)


def check_kinds(kinds: Names) -> list[str] | None:
    """`kinds` as a list, all of them known."""
    for kind in as_names(kinds) or ():
        if kind not in KINDS:
            raise ToolkitError(f"kinds: {kind!r} is no kind of sequence; allowed are {', '.join(KINDS)}")
    return as_names(kinds)


def check_columns(table: str, columns: Names) -> list[str]:
    """`columns` as a list, all of them the table's; None is all of them."""
    known = TABLES[_known_table(table)].names
    names = known if columns is None else as_names(columns) or []
    for name in names:
        if name not in known:
            raise ToolkitError(f"columns: {table} has no column {name!r}; it has {', '.join(known)}")
    return list(dict.fromkeys(names))


def check_filters(table: str, prompts: Names, kinds: Names) -> None:
    """Refuse prompts or kinds of a table whose rows belong to none."""
    known = TABLES[_known_table(table)].names
    for argument, column, given in (("prompts", "prompt_id", prompts), ("kinds", "kind", kinds)):
        if given is not None and column not in known:
            raise ToolkitError(
                f"{argument}: {table} has no column {column} to choose by; leave {argument} out"
            )


def _read(
    file: TableFile, columns: list[str], group: int, prompts: list[str] | None, kinds: list[str] | None
) -> pa.Table:
    filtered = {"prompt_id": prompts, "kind": kinds}
    extra = [name for name, values in filtered.items() if values is not None and name not in columns]
    rows = file.read([*columns, *extra], [group])
    return keep_rows(rows, prompts, kinds).select(columns)


def _known_table(table: str) -> str:
    if table not in TABLES:
        raise ToolkitError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    return table


def _reopened(path: str, snapshot: str, parts: Sequence[str]) -> Run:
    """A run that another process has open, as that process sees it."""
    return _opened_once(path, snapshot).of_parts(parts)


@lru_cache(maxsize=8)
def _opened_once(path: str, snapshot: str) -> Run:
    """Opened for the first of many pieces of it; a run that is opened anew has another snapshot."""
    try:
        run = Run(path)
    except ToolkitError as error:
        raise type(error)(
            f"{error} (on host {socket.gethostname()}: workers have to find the run at the same path)"
        ) from None
    run._mark = None  # that process marks it; here it would stay marked for as long as it is kept
    _ = run.vocabulary  # the pieces share it
    return run


def _tables() -> Any:
    import toolkit.tables  # pandas takes a third of a second: it comes when a frame is asked for

    return toolkit.tables
