"""How many sequences run at once: a number, or the number at which tokens a second stop rising.

A step of more rows takes longer, but less than in proportion, until the processor is full. So the batch grows while
the measured rate does, within what memory allows.
"""

from __future__ import annotations

import statistics
from typing import Protocol

FIRST_ROWS = 128
MOST_ROWS = 1024
N_STEPS = 8  # full steps from which a rate is found
GAIN = 1.05  # a doubling that gives less was not worth its memory


class RowLimit(Protocol):
    """How many rows a batch may have.

    Attributes
    ----------
    most : the most that it will ever be
    now : what it is now
    """

    most: int
    now: int

    def observe(self, rows: int, seconds: float) -> None:
        """Take note of a step: its rows, and how long it took with its draw."""


class FixedRows:
    """Always the same number."""

    def __init__(self, rows: int) -> None:
        self.most = self.now = rows

    def observe(self, rows: int, seconds: float) -> None:
        """Nothing follows from it."""


class GrowingRows:
    """Doubles while a doubling raises the rate by `GAIN`; goes back where the last one did not.

    Parameters
    ----------
    most : what memory allows, or all there is to do
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.now = min(FIRST_ROWS, most)
        self._seconds: list[float] = []
        self._rate_before = 0.0
        self._settled = self.now == most

    def observe(self, rows: int, seconds: float) -> None:
        """As `RowLimit.observe`; only full steps count."""
        if self._settled or rows < self.now:
            return
        self._seconds.append(seconds)
        if len(self._seconds) < N_STEPS:
            return
        rate = self.now / statistics.median(self._seconds)
        self._seconds = []
        if rate < GAIN * self._rate_before:
            self.now = max(1, self.now // 2)
            self._settled = True
        else:
            self._rate_before = rate
            self.now = min(2 * self.now, self.most)
            # A last step of less than a doubling is taken without being judged.
            self._settled = self.now == self.most
