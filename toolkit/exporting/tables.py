"""The rows of a table as CSV or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pyarrow as pa

from toolkit.aggregation.selection import EVERYTHING, Selection
from toolkit.errors import ToolkitError, argument
from toolkit.exporting.cells import csv_cells, encoded, joined, json_columns, objects, plain_columns
from toolkit.exporting.rows import check_prompts, labelled, nothing_selected, of_samples, with_labels
from toolkit.store import Run, Runs
from toolkit.store.parquet import TableFile
from toolkit.store.reader import check_columns
from toolkit.store.schemas import TABLES

TableFormat = Literal["csv", "jsonl"]
TABLE_FORMATS: tuple[TableFormat, ...] = ("csv", "jsonl")

_ROWS = 1 << 14  # text of as many rows is in memory at a time
_WHERE_FROM = {
    "alternatives": "none were kept when it was collected",
    "watched": "no token was watched when it was collected",
    "prompt_tokens": "the prompts' own tokens were not scored when it was collected",
    "grades": "nothing is graded; run toolkit grade first",
    "similarities": "nothing is compared; run toolkit similarity first",
    "choices": "its prompts are no questions with choices; toolkit ask makes such a run",
    "truths": "no model was asked; run toolkit p-true first",
}


def table_text(
    runs: Runs,
    table: str,
    form: TableFormat,
    columns: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
) -> Iterator[bytes]:
    """The rows of a table of several runs, one run after the other.

    Rows are in the order of the run's files; within one, of key and position. Those of the vocabulary are in
    the order of the ids.

    Parameters
    ----------
    runs : Runs
        Where there are several, the columns run, model, temperature and top_p come first.
    table : str
        tokens, sequences, segments, alternatives, watched, prompts, prompt_tokens, grades, similarities,
        choices, truths or vocabulary.
    form : {"csv", "jsonl"}
        CSV with a line of names and cells as of `toolkit.exporting.cells.csv_cells`, or a JSON object a line.
    columns : sequence of str, optional
        In this order; all of the table's by default.
    selection : Selection
        Which rows; samples and kinds only where the table's key has them.

    Yields
    ------
    bytes
        Whole lines, as UTF-8.

    Raises
    ------
    ToolkitError
        An unknown table, column or prompt; a selection that the table cannot have; a table that has no rows
        in a run, or none that is selected.
    """
    names = check_columns(table, columns)
    _check_selection(table, selection)
    if not names:
        raise ToolkitError(
            f"{argument('columns')}: no column is named; {table} has {', '.join(TABLES[table].names)}"
        )
    for run in runs:
        _check_filled(run, table)
        check_prompts(run, selection)
    first = True
    for run, labels in labelled(runs):
        empty = True
        for rows in _rows(run, table, names, selection):
            if first and form == "csv":
                yield f"{','.join([*labels, *names])}\n".encode()
            first = empty = False
            yield _lines(with_labels(rows, labels), form)
        if empty:
            raise nothing_selected(run)


def _check_selection(table: str, selection: Selection) -> None:
    columns = {"prompts": "prompt_id", "kinds": "kind", "samples": "sample_index"}
    for name, wanted in selection._asdict().items():
        if wanted is not None and columns[name] not in TABLES[table].key:
            raise ToolkitError(
                f"{argument(name)}: the table {table} has no {columns[name]}; leave {argument(name)} out"
            )


def _check_filled(run: Run, table: str) -> None:
    for part in run.parts(table):
        with TableFile(run.part_path(table, part), table) as file:
            if file.n_rows:
                return
    why = _WHERE_FROM.get(table, "nothing was collected yet")
    raise ToolkitError(f"{argument('table')} {table}: {run.path} has no rows of it: {why}")


def _rows(run: Run, table: str, names: list[str], selection: Selection) -> Iterator[pa.Table]:
    """Some rows at a time, never none."""
    if table == "vocabulary":
        yield _vocabulary(run).select(names)
        return
    read = dict.fromkeys([*names, *(() if selection.samples is None else ("sample_index",))])
    for group in run.iter_row_groups(table, list(read), selection.prompts, selection.kinds):
        rows = of_samples(group, selection).select(names)
        for start in range(0, rows.num_rows, _ROWS):
            yield rows.slice(start, _ROWS)


def _vocabulary(run: Run) -> pa.Table:
    """Sorted by id. Processes that collected at once each stored the ids that they met: here once each."""
    entries = sorted(run.vocabulary.items())
    columns = [[token_id for token_id, _ in entries], *zip(*(entry for _, entry in entries), strict=True)]
    schema = TABLES["vocabulary"].schema
    return pa.table(dict(zip(schema.names, map(list, columns), strict=True)), schema=schema)


def _lines(rows: pa.Table, form: TableFormat) -> bytes:
    if form == "jsonl":
        lines = joined([objects(json_columns(rows)), "}\n"])
    else:
        cells = [csv_cells(column) for column in plain_columns(rows).values()]
        # A line with nothing on it would be skipped by who reads it.
        null = '""' if len(cells) == 1 else ""
        parts = [part for cell in cells for part in (",", cell)][1:]
        lines = joined([*parts, "\n"], null)
    return encoded(lines)
