"""Room for the tokens and statistics of the sequences that are being generated, a slot each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolkit.records import TokenStatistics

_FIRST_CAPACITY = 64


class TokenBuffer:
    """Token ids and statistics, written a position a step for many slots at once.

    Parameters
    ----------
    slots : sequences at once
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._columns: list[np.ndarray] = []  # (slots, capacity, ...), token ids first

    def write(
        self,
        slots: NDArray[np.intp],
        positions: NDArray[np.intp],
        token_ids: NDArray[np.int32],
        statistics: TokenStatistics,
    ) -> None:
        """Put one token of each slot at its position."""
        new = (token_ids, *statistics)
        if not self._columns:
            self._columns = [self._room(values, _FIRST_CAPACITY) for values in new]
        while int(positions.max(initial=0)) >= self._columns[0].shape[1]:
            self._columns = [np.concatenate([c, np.zeros_like(c)], axis=1) for c in self._columns]
        for column, values in zip(self._columns, new, strict=True):
            column[slots, positions] = values

    def read(self, slot: int, n: int) -> tuple[NDArray[np.int32], TokenStatistics]:
        """A copy of a slot's first n tokens."""
        token_ids, *columns = (column[slot, :n].copy() for column in self._columns)
        return token_ids, TokenStatistics(*columns)

    def copy_slots(self, source: NDArray[np.intp], target: NDArray[np.intp], n: int) -> None:
        """The first n positions of slots `target` become copies of those of `source`, as they were before."""
        for column in self._columns:
            column[target, :n] = column[source, :n]

    def _room(self, values: np.ndarray, capacity: int) -> np.ndarray:
        return np.zeros((self._slots, capacity, *values.shape[1:]), values.dtype)
