"""How large a stream of differences is, in constant memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_DROPPED_BITS = 17  # of a float32's 23: 64 bins an octave
_N_BINS = 1 << (31 - _DROPPED_BITS)
_INFINITE = 0x7F800000 >> _DROPPED_BITS  # the bin of infinity


class Differences(NamedTuple):
    """What there is to say of n differences, none of them below 0; nats."""

    n: int
    median: float  # within 1 %, as is p99
    mean: float
    p99: float  # 99 of 100 are no larger
    largest: float


class Tally:
    """Counts float32 values from 0 to infinity in bins, each at most a 64th of its value wide.

    The bits of a float32 that is not negative grow with it, so the upper ones of them number its bin.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_N_BINS, np.int64)
        self._sum = 0.0
        self._largest = 0.0

    def add(self, values: NDArray[np.floating[Any]]) -> None:
        """Count more values, any shape; NaN stands for no value."""
        found = np.ravel(values).astype(np.float32)
        found = np.abs(found[~np.isnan(found)])  # also turns -0.0 into 0.0
        if len(found):
            bins = found.view(np.int32) >> _DROPPED_BITS
            self._counts += np.bincount(bins, minlength=_N_BINS)
            self._sum += float(found.sum(dtype=np.float64))
            self._largest = max(self._largest, float(found.max()))

    def differences(self) -> Differences | None:
        """What was counted; None where nothing was."""
        n = int(self._counts.sum())
        if not n:
            return None
        return Differences(n, self._quantile(0.5), self._sum / n, self._quantile(0.99), self._largest)

    def _quantile(self, share: float) -> float:
        """The smallest value that `share` of all do not exceed."""
        running = np.cumsum(self._counts)
        index = int(np.searchsorted(running, share * running[-1]))
        if index == 0:
            return 0.0
        half = 0 if index == _INFINITE else 1 << (_DROPPED_BITS - 1)
        middle = np.array([(index << _DROPPED_BITS) | half], np.int32).view(np.float32)
        return float(min(middle[0], self._largest))
