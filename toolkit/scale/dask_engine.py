"""An engine of the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from toolkit.scale.cluster import CONNECT_SECONDS, connect, result_of, told
from toolkit.scale.engines import Engine, Result, Task, cannot_be_sent, few_ahead

if TYPE_CHECKING:
    from distributed import Future

_AHEAD = 2  # tasks a thread of the workers: one that it does, and one that waits


class Dask(Engine):
    """The workers of a Dask cluster. A task whose worker dies is done by another one.

    Parameters
    ----------
    scheduler : str
        The address that `dask scheduler` prints: tcp://HOST:8786.
    seconds : float
        How long to try to reach it.

    Raises
    ------
    ToolkitError
        Dask is not installed, no scheduler answers, there is no worker, or one has other versions.
    """

    def __init__(self, scheduler: str, seconds: float = CONNECT_SECONDS) -> None:
        self._client = connect(scheduler, seconds)

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        client, packed = self._client, _packed(function)
        with told(client):
            ahead = _AHEAD * max(1, sum(client.nthreads().values()))

        def submit(task: Task) -> Future:
            packed_task = _packed(task)
            with told(client):
                return client.submit(_call, packed, packed_task, pure=False)

        waiting: Iterable[Future] = ()
        try:
            for first, rest in few_ahead(submit, tasks, ahead):
                waiting = rest
                yield result_of(client, first)
        finally:
            for future in waiting:
                future.release()

    def close(self) -> None:
        self._client.close()


def _packed(what: Any) -> bytes:
    """As the workers get it."""
    from distributed.protocol.pickle import dumps

    try:
        return bytes(dumps(what))
    except Exception as error:
        raise cannot_be_sent(error) from error


def _call(function: bytes, task: bytes) -> Any:
    from distributed.protocol.pickle import loads

    return _unpacked(function)(loads(task))


@lru_cache(maxsize=4)
def _unpacked(function: bytes) -> Callable[[Any], Any]:
    """Once for its many tasks."""
    from distributed.protocol.pickle import loads

    try:
        return loads(function)
    except (AttributeError, ImportError) as error:
        raise cannot_be_sent(error) from None
