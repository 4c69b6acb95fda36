"""Threads of matrix products: all cores, or one where other programs keep the cores busy.

A BLAS waits for its slowest thread many times in a step. Where another program has a core, each wait takes as long as
the system lets that program run: products on two threads were seen to take 25 times as long as on one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from toolkit.models import blas

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a person's choice is left alone
N_TRIALS = 9  # products a measurement
SECONDS_BETWEEN = 5.0  # measurements; each takes about 10 ms where the cores are free


def set_threads(n: int) -> None:
    """Let every BLAS in this process use n threads."""
    for library in _libraries():
        library.set_num_threads(n)


class BlasThreads:
    """Measures from time to time whether products are quicker on all threads or on one, and sets the quicker.

    Does nothing where a person has set one of `VARIABLES`, where there is one thread only, or where MLX does not
    compute with a library that was put in front of it.

    Parameters
    ----------
    measure : gives the seconds of a product; by default MLX's at the shape of a step
    clock : seconds that pass
    """

    def __init__(
        self,
        measure: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
        apply: Callable[[int], None] = set_threads,
    ) -> None:
        choice = blas.preload()
        chosen = any(os.environ.get(name) for name in VARIABLES)
        self.most = 1 if chosen or not choice.preloaded else choice.threads or 1
        self.threads = self.most
        self._measure, self._clock, self._apply = measure or product_seconds, clock, apply
        self._due = -float("inf")

    def check(self) -> None:
        """Measure and set, if the last time was `SECONDS_BETWEEN` ago."""
        if self.most == 1 or self._clock() < self._due:
            return
        seconds = {}
        for n in (self.most, 1):
            self._apply(n)
            seconds[n] = self._measure()
        self.threads = self.most if seconds[self.most] <= seconds[1] else 1
        self._apply(self.threads)
        self._due = self._clock() + SECONDS_BETWEEN


def product_seconds() -> float:
    """The mean of a few products through MLX, `blas.DECODE_SHAPE`."""
    import mlx.core as mx

    rows, inner, columns = blas.DECODE_SHAPE
    left, right = mx.ones((rows, inner)), mx.ones((columns, inner))
    mx.eval(left @ right.T)  # the first call wakes the threads
    start = time.perf_counter()
    for _ in range(N_TRIALS):
        mx.eval(left @ right.T)
    return (time.perf_counter() - start) / N_TRIALS


def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
