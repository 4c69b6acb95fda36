"""Formulas are quoted, and no two texts become one."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.spreadsheets import csv_cell, quoted_formula


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"{start}x", f"'{start}x") for start in "=+-@\t\r\n"),
        ("'=1", "''=1"),
        ("''=1", "'''=1"),
        ("'tis", "'tis"),
        ("1=1", "1=1"),
        ("", ""),
    ],
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text: str, expected: str) -> None:
    assert quoted_formula(text) == expected


@given(st.text(alphabet="'=+-@\t\r\nx ", max_size=6))
def test_the_text_comes_back(text: str) -> None:
    quoted = quoted_formula(text)
    assert not quoted.startswith(tuple("=+-@\t\r\n"))
    assert (quoted[1:] if re.match(r"'+[=+\-@\t\r\n]", quoted) else quoted) == text


@given(
    st.lists(st.lists(st.text(alphabet="a=\r\n\",' \t+x"), min_size=2, max_size=2), min_size=1, max_size=5)
)
def test_cells_are_read_back_as_as_many_rows_and_without_live_formulas(rows: list[list[str]]) -> None:
    text = "".join(",".join(map(csv_cell, row)) + "\n" for row in rows)
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [[quoted_formula(cell) for cell in row] for row in rows]
