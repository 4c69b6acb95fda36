"""An engine of several processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from functools import lru_cache
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from toolkit.cores import usable_cores
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.scale.engines import Engine, Result, Task, cannot_be_sent, few_ahead

MOST_DEATHS = 3
"""So often workers may die with the same task before it is given up."""

_AHEAD = 2  # tasks a worker: one that it does, and one that waits


class Processes(Engine):
    """A pool of processes. They are started with the first task, and end with this one.

    Parameters
    ----------
    workers : int, optional
        How many; as many as there are cores by default.

    Raises
    ------
    ToolkitError
        Fewer than one.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        if self.workers < 1:
            raise ToolkitError(f"{argument('workers')}: {self.workers} is below 1; use 1 or more")
        self._pool: ProcessPoolExecutor | None = None

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        packed = _packed(function)
        waiting: Iterable[_Sent] = ()
        try:
            for first, waiting in few_ahead(
                lambda task: self._send(packed, task), tasks, _AHEAD * self.workers
            ):
                self._finish(first, waiting)
                yield first.future.result()
        finally:
            for one in waiting:
                one.future.cancel()

    def close(self) -> None:
        self._end_pool(wait=True)

    def _finish(self, first: _Sent, waiting: Iterable[_Sent]) -> None:
        """Wait for a task. Where a worker dies, the pool is gone: what it had not done is handed to a new one."""
        deaths = 0
        while isinstance(first.future.exception(), BrokenExecutor):
            deaths += 1
            if deaths > MOST_DEATHS:
                raise DataFault(
                    f"worker processes died {deaths} times with the same task, killed perhaps for want of "
                    f"memory: give fewer {argument('workers')}, or use the local engine. A script that starts "
                    "them does so under if __name__ == '__main__'"
                )
            if first.pool is self._pool:
                self._end_pool(wait=False)
            for one in (first, *waiting):
                if isinstance(one.future.exception(), BrokenExecutor):
                    self._hand_in(one)

    def _send(self, packed: bytes, task: Any) -> _Sent:
        one = _Sent(packed, _packed(task))
        self._hand_in(one)
        return one

    def _hand_in(self, one: _Sent) -> None:
        try:
            one.pool = self._started()
            one.future = one.pool.submit(_call, one.packed, one.task)
        except BrokenExecutor:  # a worker died while nothing was waited for
            self._end_pool(wait=False)
            self._hand_in(one)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Not forked: threads of Arrow and of the BLAS do not live on in a fork.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, _begin_worker)
        return self._pool

    def _end_pool(self, *, wait: bool) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=True)
            self._pool = None


class _Sent:
    """A task that was handed in, and what is needed to hand it in again."""

    pool: ProcessPoolExecutor
    future: Future[Any]

    def __init__(self, packed: bytes, task: bytes) -> None:
        self.packed, self.task = packed, task


def _packed(what: Any) -> bytes:
    """As the other processes get it."""
    try:
        return bytes(ForkingPickler.dumps(what))
    except Exception as error:
        raise cannot_be_sent(error) from error


def _call(function: bytes, task: bytes) -> Any:
    return _unpacked(function)(ForkingPickler.loads(task))


@lru_cache(maxsize=4)
def _unpacked(function: bytes) -> Callable[[Any], Any]:
    """Once for its many tasks."""
    try:
        return ForkingPickler.loads(function)
    except (AttributeError, ImportError) as error:
        raise cannot_be_sent(error) from None


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's matter
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed says nothing, and its queue stays open: the workers hold it too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
