"""Work that is shared out over the processor's cores inside one process."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from toolkit.cores import usable_cores

# Whoever limits the threads of products means all of them: several processes share the cores by it.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MIN_USED = 0.8  # of the time that threads had, from which they are said to have had their cores
N_SHORT = 3  # rounds without, after which one thread works alone
SECONDS_ALONE = 5.0
MIN_WORK = 1 << 19  # multiplications from which a thread of its own pays


def n_threads() -> int:
    """Cores that this process may use, or fewer where one of `VARIABLES` says so."""
    given = [os.environ.get(name, "") for name in VARIABLES]
    return max(1, min([usable_cores(), *(int(value) for value in given if value.isdecimal())]))


def run_together(jobs: Sequence[Callable[[], None]], give_up: Callable[[], None] | None = None) -> None:
    """Run jobs that release the interpreter's lock, at most `n_threads` of them, the first in this thread.

    Parameters
    ----------
    jobs : one or more
    give_up : where jobs wait for each other, lets those go on that wait for one that failed or was interrupted
    """
    futures: list[Future[None]] = []
    try:
        for job in jobs[1:]:
            futures.append(_pool().submit(_run, job, give_up))
        jobs[0]()
    except BaseException:
        if give_up is not None:
            give_up()
        raise
    finally:
        for future in futures:
            future.result()


def _run(job: Callable[[], None], give_up: Callable[[], None] | None) -> None:
    try:
        job()
    except BaseException:
        if give_up is not None:
            give_up()
        raise


def share_range(kernel: Callable[[int, int], None], n: int, work: int) -> None:
    """Call a kernel that releases the interpreter's lock with parts, first to last, of range(n).

    There is one part a thread, and fewer where one would have less than `MIN_WORK` of all `work` multiplications.
    """
    parts = max(1, min(n_threads(), n, work // MIN_WORK))
    edges = [n * i // parts for i in range(parts + 1)]
    run_together([functools.partial(kernel, first, last) for first, last in itertools.pairwise(edges)])


class TeamSize:
    """How many threads work together: all cores, or one where other programs keep the cores busy.

    Threads that wait for each other all the time are as slow as the one that has to wait for a core. They were not on
    their cores where they used less processor time than the time that passed.

    Parameters
    ----------
    clock : seconds that pass
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._short = 0  # rounds one after another that went without a core
        self._alone_until = -float("inf")

    @property
    def n(self) -> int:
        """The threads of the next round."""
        return 1 if self._clock() < self._alone_until else n_threads()

    def tell(self, n: int, seconds: float, used: float) -> None:
        """What a round of n threads took, and the processor time that it used."""
        if n == 1:
            return
        self._short = self._short + 1 if used < MIN_USED * n * seconds else 0
        if self._short == N_SHORT:
            self._short, self._alone_until = 0, self._clock() + SECONDS_ALONE


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, n_threads() - 1), thread_name_prefix="toolkit-rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
