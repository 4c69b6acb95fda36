"""Texts in CSV that a spreadsheet would run as a formula."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # or such a text quoted before, so that no two texts become one


def quoted_formula(text: str) -> str:
    """A text with an apostrophe in front where a spreadsheet would run it; any other as it is.

    It would where it begins with `=`, `+`, `-`, `@`, a tab or a line break; and what begins so after
    apostrophes gets one more. Taking one apostrophe away from every text that begins with apostrophes and then
    one of these gives the text back.
    """
    return f"'{text}" if _FORMULA.match(text) else text
