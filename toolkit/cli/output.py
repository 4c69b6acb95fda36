"""Results on stdout or in a file: a text table, CSV, JSON or Parquet.

A text cell can hold anything a model wrote: control characters are made visible in the text table, and in
CSV a cell that a spreadsheet would run as a formula gets an apostrophe in front.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import clip, pad, quoted, safe_json, visible, visible_lines, width
from toolkit.cli.arguments import one_of
from toolkit.errors import ToolkitError
from toolkit.spreadsheets import csv_cell, quoted_cell

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("table", "csv", "json", "parquet")
_ENDINGS = {"": "table", ".txt": "table", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
MASKED = -9999.0  # -inf in JSON, as the APIs write it
_SMALLEST_COLUMN = 8
_SMALL = 0.0005  # below, three decimals would say nothing


def add_output(parser: argparse.ArgumentParser) -> None:
    """`--format` and `-o/--output`: how a table is written, and where."""
    parser.add_argument(
        "--format",
        type=one_of(FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; by default what the ending of --output says, else table",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to this file, not to stdout")


def chosen_format(name: str | None, output: Path | None) -> str:
    """The format asked for, else that of the file's ending; a text table where there is none.

    Raises
    ------
    ToolkitError
        An ending that is not known, Parquet without a file to write it to, or a file that cannot be: a folder,
        or in none.
    """
    if output is not None and output.is_dir():
        raise ToolkitError(f"--output: {quoted(str(output))} is a folder; give the path of a file")
    if output is not None and not output.parent.is_dir():
        raise ToolkitError(f"--output: there is no folder {quoted(str(output.parent))}; make it first")
    chosen = name or _format_of(output)
    if chosen == "parquet" and output is None:
        raise ToolkitError("--format parquet: it is not text; give a file with -o FILE.parquet")
    return chosen


def _format_of(output: Path | None) -> str:
    ending = output.suffix.lower() if output is not None else ""
    if output is not None and ending not in _ENDINGS and (output.is_file() or not output.exists()):
        endings = ", ".join(filter(None, _ENDINGS))
        raise ToolkitError(
            f"--output: {quoted(output.name)} has no ending that says its format; use one of {endings}, or give "
            "--format"
        )
    return _ENDINGS.get(ending, "table")


def write_frame(frame: pd.DataFrame, chosen: str, output: Path | None) -> None:
    """Write a frame in one of `FORMATS`, to a file (at once or not at all) or to stdout."""
    if output is None:
        terminal_columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        text = text_of(frame, chosen, terminal_columns)
        # A file or a pipe gets what the model wrote; a terminal would obey it.
        shown = visible_lines(text) if chosen == "csv" and sys.stdout.isatty() else text
        print(shown, end="")
        return
    content = _parquet(frame) if chosen == "parquet" else text_of(frame, chosen, None).encode()
    from toolkit.store.files import write_result

    write_result(output, content)


def text_of(frame: pd.DataFrame, chosen: str, columns: int | None) -> str:
    """A frame as text. `columns` is the width that a text table may take; None is no limit."""
    if chosen == "csv":
        return csv_text(frame)
    if chosen == "json":
        return json_text(json_rows(frame)) + "\n"
    return text_table(list(frame.columns), frame.itertuples(index=False, name=None), columns)


def json_text(value: Any) -> str:
    """A value as indented JSON in which nothing can act on a terminal."""
    return safe_json(json.dumps(value, ensure_ascii=False, indent=2))


def csv_text(frame: pd.DataFrame, *, head: bool = True) -> str:
    """A frame as CSV, with the names of its columns or without."""
    rows = [*([list(frame.columns)] if head else []), *frame.itertuples(index=False, name=None)]
    return "".join(",".join(map(_csv_value, row)) + "\n" for row in rows)


def _csv_value(value: Any) -> str:
    """A cell; what is missing is empty, and a text is quoted where it has to be."""
    if _missing(value):
        return ""
    return csv_cell(value) if isinstance(value, str) else quoted_cell(str(value))


def json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows for JSON: NaN and missing values are null, -inf is -9999.0."""
    return [
        {name: json_value(value) for name, value in zip(frame.columns, row, strict=True)}
        for row in frame.itertuples(index=False, name=None)
    ]


def text_table(names: Sequence[str], rows: Iterable[Sequence[Any]], columns: int | None = None) -> str:
    """Aligned columns, numbers to the right, two spaces between.

    Parameters
    ----------
    names : sequence of str
        The heads of the columns.
    rows : iterable of sequences
        Floats get three decimals, and one digit with an exponent where these would be zeros; what is missing is `-`.
    columns : int, optional
        Width of the whole. Where the table is wider, its heads take two lines, and its text columns are cut,
        the widest first.
    """
    values = list(rows)
    numeric = [all(isinstance(row[i], Real) or _missing(row[i]) for row in values) for i in range(len(names))]
    cells = [[_cell(value) for value in row] for row in values]
    heads = [list(names)]
    if columns is not None and _total(_widths(heads + cells)) > columns:
        heads = [list(head) for head in zip(*map(_stacked, names), strict=True)]
    widths = _widths(heads + cells)
    if columns is not None:
        _narrow(widths, [i for i, is_number in enumerate(numeric) if not is_number], columns)
    return "".join(_line(row, widths, numeric) for row in heads + cells)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*rows, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _stacked(name: str) -> tuple[str, str]:
    """A name over two lines: `mean_` and `logprob`."""
    first, underscore, last = name.rpartition("_")
    return first + underscore, last


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (pad(clip(c, w), w, right=n) for c, w, n in zip(cells, widths, numeric, strict=True))
    return "  ".join(padded).rstrip() + "\n"


def _narrow(widths: list[int], texts: list[int], columns: int) -> None:
    """Take columns from the widest texts until the table fits or none can give any more."""
    excess = _total(widths) - columns
    while excess > 0 and texts:
        widest = max(texts, key=lambda i: widths[i])
        if widths[widest] <= _SMALLEST_COLUMN:
            return
        others = [widths[i] for i in texts if widths[i] < widths[widest]]
        target = max(_SMALLEST_COLUMN, max(others, default=0), widths[widest] - excess)
        cut = max(1, widths[widest] - target)
        widths[widest] -= cut
        excess -= cut


def _cell(value: Any) -> str:
    if _missing(value):
        return "-"
    if isinstance(value, Real) and not isinstance(value, Integral):
        number = float(value)
        return f"{number:.0e}" if 0 < number < _SMALL else f"{number:z.3f}"
    return visible(str(value))


def _missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, Real) and math.isnan(value)) or type(value).__name__ == "NAType"
    )


def json_value(value: Any) -> Any:
    """A value for JSON: NaN is null, and an infinity is 9999.0 with its sign."""
    if _missing(value):
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and math.isinf(plain):
        return math.copysign(MASKED, plain)
    return plain


def _parquet(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), sink, compression="zstd")
    return bytes(sink.getvalue())
