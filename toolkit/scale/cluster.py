"""A Dask cluster: reaching it, whether its workers fit, and waiting for what they do."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolkit.characters import quoted
from toolkit.errors import DataFault, ToolkitError, argument

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0
"""How long there may be no worker before the work is given up; one that died may come back."""

LOOK_SECONDS = 2.0  # between two looks at the workers while nothing is done
_LARGE = "1 GiB"  # of what is sent with a task, before Dask warns: arrays of an evaluation are meant
_SAME_PACKAGES = ("token-confidence-toolkit", "numpy", "scipy", "pandas", "pyarrow", "distributed")
"""What a result depends on, to the last bit, and how it is sent."""

_SCHEDULERS = ("Python", "token-confidence-toolkit", "distributed")  # it imports what it hands to workers


def connect(address: str, seconds: float = CONNECT_SECONDS) -> Client:
    """A client of the scheduler at an address, whose workers are checked.

    Parameters
    ----------
    address : str
        As `dask scheduler` prints it: tcp://HOST:8786.
    seconds : float
        How long to try.

    Raises
    ------
    ToolkitError
        Dask is not installed, no scheduler answers, there is no worker, or one has other versions.
    """
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise ToolkitError(
            f"{argument('engine')}: dask needs the packages dask and distributed, which are not installed: "
            "pip install 'token-confidence-toolkit[scale]'"
        ) from None
    _probe(address, seconds)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions are compared below, and said in one line
        client = Client(address, timeout=seconds, set_as_default=False)
    try:
        _check_workers(client, address)
    except BaseException:
        client.close()
        raise
    return client


def workers_with(client: Client, resource: str | None = None) -> list[str]:
    """Addresses of the workers, of those with a resource where one is named; sorted."""
    workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return sorted(
        address for address, one in workers.items() if resource is None or one["resources"].get(resource, 0)
    )


def result_of(client: Client, future: Future) -> Any:
    """The result of a task, waited for as long as there are workers that could do it.

    Raises
    ------
    DataFault
        The scheduler or all workers are gone, or the task's worker died again and again.
    """
    patience = Patience(lambda: workers_with(client))
    while True:
        try:
            return outcome_of(client, future, LOOK_SECONDS)
        except TimeoutError:
            if future.status != "pending":
                return outcome_of(client, future)  # it is the task's own error, or it has just ended
        with told(client):
            patience.check()


def outcome_of(client: Client, future: Future, seconds: float | None = None) -> Any:
    """The result of a task that has ended, or ends in so many seconds.

    Raises
    ------
    TimeoutError
        It has not ended.
    DataFault
        The scheduler is gone, or the task's worker died again and again.
    """
    try:
        return future.result(timeout=seconds)
    except CancelledError as error:
        raise _lost(client) from error
    except Exception as error:
        died = _died(error)
        if died is error:
            raise
        raise died from error


class Patience:
    """Gives up when there has been no worker for `PATIENCE_SECONDS`."""

    def __init__(self, present: Callable[[], Any]) -> None:
        self._present = present
        self._seen = time.monotonic()

    def check(self) -> None:
        """Look again.

        Raises
        ------
        DataFault
            There has been none for too long.
        """
        now = time.monotonic()
        if self._present():
            self._seen = now
        elif now - self._seen > PATIENCE_SECONDS:
            raise DataFault(
                f"no worker has been there for {PATIENCE_SECONDS:.0f} s: start workers, and run the command again"
            )


@contextmanager
def told(client: Client) -> Iterator[None]:
    """Turn a lost connection inside into one line."""
    try:
        yield
    except ToolkitError:
        raise
    except Exception as error:
        if client.status == "running" and not isinstance(error, (CancelledError, OSError)):
            raise
        raise _lost(client) from error


def _lost(client: Client) -> DataFault:
    address = getattr(client.scheduler, "address", None) or "the cluster"
    return DataFault(
        f"the scheduler at {address} is gone: start it and its workers, and run the command again"
    )


def _died(error: Exception) -> Exception:
    """What is said of an error of a task: its own, or that its workers died."""
    from distributed.scheduler import KilledWorker

    if not isinstance(error, KilledWorker):
        return error
    return DataFault(
        f"{error.allowed_failures + 1} workers died with the same task, the last at {error.last_worker.address}, "
        "killed perhaps for want of memory: their logs say more"
    )


def _probe(address: str, seconds: float) -> None:
    """Raise where no scheduler answers: a client that was refused would try for long to close itself."""
    try:
        with ThreadPoolExecutor(1) as pool:  # with a loop of its own: here there may be one that runs
            kind = pool.submit(asyncio.run, _kind_of(address, seconds)).result()
    except Exception as error:
        raise _unreachable(address, seconds, error) from error
    if kind != "Scheduler":
        raise ToolkitError(
            f"{argument('scheduler')}: at {quoted(address)} is no scheduler but a {kind.lower()}: give the address "
            "that dask scheduler prints"
        )


async def _kind_of(address: str, seconds: float) -> str:
    from distributed.core import rpc

    async with rpc(address, timeout=seconds) as server:
        return str((await asyncio.wait_for(server.identity(), seconds))["type"])


def _unreachable(address: str, seconds: float, error: Exception) -> ToolkitError:
    if isinstance(error, OSError):  # a timeout is one
        return ToolkitError(
            f"{argument('scheduler')}: no scheduler answers at {quoted(address)} within {seconds:g} s: "
            "start one with dask scheduler, or give the address that it prints, as tcp://HOST:8786"
        )
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ToolkitError(
        f"{argument('scheduler')}: {quoted(address)} cannot be used ({reason}): give the address that "
        "dask scheduler prints, as tcp://HOST:8786"
    )


def _check_workers(client: Client, address: str) -> None:
    """Refuse a cluster without workers, or with one whose results might be others."""
    versions: Any = client.get_versions(packages=list(_SAME_PACKAGES))
    if not versions["workers"]:
        raise ToolkitError(
            f"{argument('scheduler')}: no worker is at the scheduler {quoted(address)}: start some with "
            f"dask worker {address}"
        )
    own = _versions_of(versions["client"])
    scheduler = _versions_of(versions["scheduler"])
    _check_versions("the scheduler", {name: scheduler[name] for name in _SCHEDULERS}, own)
    for worker, found in sorted(versions["workers"].items()):
        _check_versions(f"the worker {worker}", _versions_of(found), own)


def _check_versions(whose: str, theirs: Mapping[str, str], own: Mapping[str, str]) -> None:
    for name, version in theirs.items():
        if version != own[name]:
            raise ToolkitError(
                f"{argument('scheduler')}: {whose} has {name} {version or 'not installed'}, and here it is "
                f"{own[name]}: install the same versions everywhere"
            )


def _versions_of(found: Mapping[str, Any]) -> dict[str, str]:
    python = ".".join(str(found["host"]["python"]).split(".")[:2])
    packages = {name: str(found["packages"].get(name) or "") for name in _SAME_PACKAGES}
    return {"Python": python, **packages}
