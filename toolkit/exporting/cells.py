"""Columns of Arrow as the texts of CSV cells or of JSON values, a whole column at a time.

A float has the fewest digits that give the same value of its type back (float32 for most columns), and always
a point or an exponent, so that it stays a float where it is read. -inf is -9999.0, as the APIs write it. Bytes
are hexadecimal. Null stays null: `joined` says what it becomes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.characters import safe_json
from toolkit.spreadsheets import csv_cell, quoted_cell

MASKED = -9999.0  # stands for -inf
_STORED_AS_JSON = ("messages", "metadata")


def csv_cells(column: pa.Array) -> pa.Array:
    """A column as CSV cells: null is null; an empty text, or no bytes, is `""`.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, as
    `toolkit.spreadsheets.quoted_formula` says.
    """
    kind = column.type
    if pa.types.is_string(kind):
        return _by_value(column, csv_cell)
    if pa.types.is_list(kind):
        return _by_value(json_values(column), quoted_cell)
    if pa.types.is_binary(kind):
        return _by_value(column, lambda data: quoted_cell(data.hex()))
    return _plain(column)


def json_values(column: pa.Array) -> pa.Array:
    """A column as JSON values; null is null."""
    kind = column.type
    if pa.types.is_string(kind):
        return _by_value(column, json_text)
    if pa.types.is_list(kind):
        return lists(json_values(column.flatten()), pc.list_value_length(column).to_numpy())
    if pa.types.is_binary(kind):
        return _by_value(column, lambda data: f'"{data.hex()}"')
    return _plain(column)


def json_text(text: str) -> str:
    """A text as a JSON string on one line, whatever a reader takes for the end of one."""
    return safe_json(json.dumps(text, ensure_ascii=False))


def joined(parts: Sequence[pa.Array | str], null: str | None = None) -> pa.Array:
    """Columns and constants joined, row by row; a null makes the row null, or is written as `null`."""
    how = {"null_handling": "emit_null"} if null is None else {"null_handling": "replace"}
    return pc.binary_join_element_wise(*parts, "", null_replacement=null or "", **how)


def objects(values: Mapping[str, pa.Array]) -> pa.Array:
    """JSON objects without their closing brace, of columns that hold JSON values; null is written."""
    parts: list[pa.Array | str] = []
    for name, column in values.items():
        parts += [f'{"," if parts else "{"}"{name}":', column]
    return joined(parts, "null")


def lists(values: pa.Array, counts: NDArray[np.integer[Any]], brackets: str = "[]") -> pa.Array:
    """JSON lists of neighbouring values, the first `counts[0]` of them, the next `counts[1]`, and so on.

    With the `brackets` `{}` and values that are members, objects.
    """
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    grouped = pa.ListArray.from_arrays(pa.array(ends), values)
    return joined([brackets[0], pc.binary_join(grouped, ","), brackets[1]])


def encoded(lines: pa.Array) -> bytes:
    """Texts one after another, as UTF-8. They are never Python strings, which take up to four times as much."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return bytes(pc.binary_join(whole, "")[0].as_buffer())


def json_columns(rows: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table as JSON values, by name; what is stored as JSON is put in as it is."""
    return {
        name: _by_value(column, safe_json) if name in _STORED_AS_JSON else json_values(column)
        for name, column in plain_columns(rows).items()
    }


def plain_columns(rows: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table by name, each in one piece; dictionaries become texts."""
    found = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        coded = pa.types.is_dictionary(column.type)
        found[name] = (column.cast(pa.string()) if coded else column).combine_chunks()
    return found


def _by_value(column: pa.Array, encode: Callable[[Any], str]) -> pa.Array:
    """`encode` of every value, called once for each that is different."""
    coded = column.dictionary_encode()
    texts = pa.array([encode(value) for value in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)


def _plain(column: pa.Array) -> pa.Array:
    """Numbers and truth values, as CSV and JSON both have them."""
    if not pa.types.is_floating(column.type):
        return column.cast(pa.string())
    masked = pc.if_else(pc.is_inf(column), pc.multiply(pc.sign(column), -MASKED), column)
    texts = pc.if_else(pc.is_nan(masked), None, masked.cast(column.type)).cast(pa.string())
    return pc.replace_substring_regex(texts, r"^(-?[0-9]+)$", r"\1.0")
