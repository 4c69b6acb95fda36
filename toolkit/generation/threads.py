"""Work that is shared out over the processor's cores inside one process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

# Whoever limits the threads of products means all of them: several processes share the cores by it.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Cores that this process may use, or fewer where one of `VARIABLES` says so."""
    given = [os.environ.get(name, "") for name in VARIABLES]
    return max(1, min([n_cores(), *(int(value) for value in given if value.isdecimal())]))


def run_together(jobs: Sequence[Callable[[], None]]) -> None:
    """Run jobs that release the interpreter's lock, at most `n_threads` of them, the first in this thread."""
    futures = [_pool().submit(job) for job in jobs[1:]]
    try:
        jobs[0]()
    finally:
        for future in futures:
            future.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, n_threads() - 1), thread_name_prefix="toolkit-rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
