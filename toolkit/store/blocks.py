"""Rows of several tables that belong together: cut into row groups, and merged by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import DataFault
from toolkit.store.keys import KeyCoder
from toolkit.store.schemas import GROUPS, TABLES

Rows = Mapping[str, pa.Table]
"""Rows of several tables, by the table's name."""


@dataclass(frozen=True)
class Block:
    """Whole sequences (prompts, ids) in the tables of a group, all in the order of their keys."""

    rows: Rows
    counts: Mapping[str, NDArray[np.int64]]  # rows of each key in each table, (keys,)

    def row_groups(self, limit: int) -> Iterator[Rows]:
        """Cut into row groups of at most `limit` tokens (rows, in other groups) or of one longer sequence."""
        ends = {name: np.concatenate([[0], np.cumsum(counts)]) for name, counts in self.counts.items()}
        weights = self.counts.get("tokens", next(iter(self.counts.values())))
        for first, last in cuts(weights, limit):
            yield {
                name: rows.slice(ends[name][first], ends[name][last] - ends[name][first])
                for name, rows in self.rows.items()
            }


def cuts(weights: NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Neighbours first:last whose weights stay within `limit` together; one alone may pass it."""
    total = np.concatenate([[0], np.cumsum(weights)])
    first = 0
    while first < len(weights):
        last = int(np.searchsorted(total, total[first] + limit, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def single_block(table: str, columns: Mapping[str, Any]) -> Block:
    """A block of one table with a row a key."""
    rows = pa.table(dict(columns), schema=TABLES[table].schema)
    return Block({table: rows}, {table: np.ones(rows.num_rows, np.int64)})


def merge_blocks(parts: Sequence[Rows], group: str) -> Block:
    """Rows of several parts of a group as one block, sorted by key; a repeated vocabulary id is kept once.

    All parts have the same tables.

    Raises
    ------
    DataFault
        A row belongs to no sequence of these parts.
    """
    tables = [name for name in GROUPS[group] if name in parts[0]]
    rows = {name: pa.concat_tables([part[name] for part in parts]) for name in tables}
    codes = _codes(rows, group)
    keys, first = np.unique(codes[group], return_index=True)
    if group == "vocabulary":
        return Block({group: rows[group].take(first)}, {group: np.ones(len(keys), np.int64)})
    counts = {}
    for name, own in codes.items():
        place = np.minimum(np.searchsorted(keys, own), max(len(keys) - 1, 0))
        if len(own) and (len(keys) == 0 or (keys[place] != own).any()):
            raise DataFault(f"rows of {name} belong to no row of {group}: run `toolkit validate`")
        counts[name] = np.bincount(place, minlength=len(keys))
        rows[name] = rows[name].take(np.argsort(own, kind="stable"))
    return Block(rows, counts)


def _codes(rows: Rows, group: str) -> dict[str, NDArray[np.int64]]:
    if group == "vocabulary":
        return {group: rows[group]["token_id"].to_numpy()}
    coder = KeyCoder([rows[group]])
    return {name: coder.codes(table) for name, table in rows.items()}
