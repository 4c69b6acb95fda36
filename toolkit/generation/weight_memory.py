"""Memory for weights that every step reads from end to end: large pages, where the system gives them.

With pages of 4 KiB, looking up where the next one lies takes a quarter of the time of reading half a gigabyte.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 26  # bytes asked of the system at once
PAGE = 1 << 21  # bytes of a large page
LINE = 64  # bytes of a cache line, where every array begins


class WeightMemory:
    """Arrays one after another in a few large pieces of memory, which live as long as an array of theirs."""

    def __init__(self) -> None:
        self._chunk = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
        """An array whose content nothing is said about."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        whole = -(-size // LINE) * LINE
        if whole > len(self._chunk):
            self._chunk = _chunk(max(CHUNK, -(-whole // PAGE) * PAGE))
        taken, self._chunk = self._chunk[:size], self._chunk[whole:]
        return taken.view(dtype).reshape(shape)


def _chunk(size: int) -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
