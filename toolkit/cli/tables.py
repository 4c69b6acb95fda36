"""Tables with lines above them: as Markdown or text, on stdout or in a file."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from toolkit.characters import visible


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A pipe table: floats with three decimals, what is missing as `-`, numbers to the right.

    Text is escaped, so that no cell can end the table or be taken for markup of a link or of HTML.
    """
    values = list(rows)
    right = [all(isinstance(row[i], Real) for row in values) for i in range(len(names))]
    lines = [names, ["---:" if number else "---" for number in right]]
    lines += [[_cell(value) for value in row] for row in values]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return "-"
    if isinstance(value, Real) and not isinstance(value, Integral):
        return f"{float(value):z.3f}"
    text = visible(str(value))
    for mark in "\\|`*_[]<>":
        text = text.replace(mark, f"\\{mark}")
    return text


def terminal_columns() -> int | None:
    """The width that a text table may take on stdout; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write_text(text: str, output: Path | None) -> None:
    """Text to stdout, or to a file at once or not at all."""
    from toolkit.store.files import write_result

    if output is None:
        print(text, end="")
    else:
        write_result(output, text.encode())
