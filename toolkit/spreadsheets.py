"""Texts as cells of CSV: what a spreadsheet would run as a formula is quoted, and nothing ends a row early."""

from __future__ import annotations

import re

_QUOTED = re.compile(r'[",\r\n]|^\s|\s$|^$')

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # or such a text quoted before, so that no two texts become one


def quoted_formula(text: str) -> str:
    """A text with an apostrophe in front where a spreadsheet would run it; any other as it is.

    It would where it begins with `=`, `+`, `-`, `@`, a tab or a line break; and what begins so after
    apostrophes gets one more. Taking one apostrophe away from every text that begins with apostrophes and then
    one of these gives the text back.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def csv_cell(text: str) -> str:
    """A text as a cell: a formula quoted, and in quotation marks where it needs them."""
    return quoted_cell(quoted_formula(text))


def quoted_cell(text: str) -> str:
    """What is no formula as a cell: in quotation marks where a reader would end it early, or it is empty."""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
