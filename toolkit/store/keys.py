"""Keys as numbers: order and membership of (prompt_id, kind, sample_index) without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.records import KINDS

Key = tuple[str, str, int]

_KEY = ["prompt_id", "kind", "sample_index"]
_SAMPLE_BITS = 31
_KIND_BITS = 3


class KeyCoder:
    """Numbers for keys that compare as the keys do: by prompt_id (its UTF-8 bytes), kind, then sample_index.

    Parameters
    ----------
    tables : iterable of pyarrow.Table
        Tables with prompt_id whose keys will be compared.
    """

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        values = [chunk for table in tables for chunk in _dictionaries(table["prompt_id"])]
        found = pa.concat_arrays(values).unique() if values else pa.array([], pa.string())
        self._prompts = found.take(pc.sort_indices(found))

    def codes(self, table: pa.Table) -> NDArray[np.int64]:
        """A number for each row of `table`, shape (n,).

        A table without kind and sample_index is numbered by prompt_id. A key that no table of this coder has
        gets a number that none of them has.
        """
        codes = _places(table["prompt_id"], self._prompts)
        if "kind" not in table.column_names:
            return codes
        kinds = _places(table["kind"], _kinds()) + 1  # an unknown kind, in a damaged file, is 0
        samples = table["sample_index"].to_numpy().astype(np.int64)
        return (codes << (_SAMPLE_BITS + _KIND_BITS)) | (kinds << _SAMPLE_BITS) | samples


def match_rows(rows: pa.Table, sequences: pa.Table) -> NDArray[np.int64]:
    """For each row, which row of `sequences` has its key; -1 where none has. Shape (rows,)."""
    keys = rows.select(_KEY)
    firsts = _run_starts(keys)
    coder = KeyCoder([sequences])
    wanted, present = coder.codes(keys.take(pa.array(firsts))), coder.codes(sequences)
    if len(present) == 0:
        return np.full(rows.num_rows, -1, np.int64)
    order = np.argsort(present, kind="stable")
    place = np.minimum(np.searchsorted(present[order], wanted), len(present) - 1)
    found = np.where(present[order][place] == wanted, order[place], -1)
    return np.repeat(found, np.diff(firsts, append=rows.num_rows))


def in_key_order(rows: pa.Table) -> pa.Table:
    """Rows sorted by key, those of a key in the order they came in: files follow each other by name."""
    coded = "prompt_id" in rows.column_names
    codes = KeyCoder([rows]).codes(rows) if coded else rows["token_id"].to_numpy()
    if (np.diff(codes) < 0).any():
        return rows.take(np.argsort(codes, kind="stable"))
    return rows


def key_tuples(table: pa.Table) -> list[Key]:
    """The keys of `table` as tuples, in its order."""
    columns = (table[name].to_pylist() for name in _KEY)
    return list(zip(*columns, strict=True))


def _run_starts(keys: pa.Table) -> NDArray[np.int64]:
    """Where neighbours with one key begin: files have the rows of a sequence one after another."""
    changes = [column[1:] != column[:-1] for column in map(_numbers, keys.columns)]
    return np.flatnonzero(
        np.concatenate([np.ones(min(1, keys.num_rows), bool), np.logical_or.reduce(changes)])
    )


@cache
def _kinds() -> pa.Array:
    return pa.array(sorted(KINDS), pa.string())  # not at import: the first pyarrow.array imports pandas


def _dictionaries(column: pa.ChunkedArray) -> list[pa.Array]:
    """Arrays that have each value of the column."""
    coded = pa.types.is_dictionary(column.type)
    return [chunk.dictionary if coded else chunk.unique() for chunk in column.chunks]


def _places(column: pa.ChunkedArray, values: pa.Array) -> NDArray[np.int64]:
    """Index of each element in `values`, -1 where it is not there."""
    places = [np.zeros(0, np.int64)]
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            found = pc.index_in(chunk.dictionary, value_set=values)
            lookup = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            places.append(lookup[chunk.indices.to_numpy(zero_copy_only=False)])
        else:
            found = pc.fill_null(pc.index_in(chunk, value_set=values), -1)
            places.append(found.to_numpy(zero_copy_only=False).astype(np.int64))
    return np.concatenate(places)


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """(n,) numbers that differ where the values do."""
    if pa.types.is_integer(column.type):
        return column.to_numpy()
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = coded.unify_dictionaries().chunks
    return np.concatenate([np.zeros(0, np.int32), *(chunk.indices.to_numpy() for chunk in chunks)])
