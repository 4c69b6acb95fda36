"""Collecting on a Dask cluster: each worker with the resource MLX collects a shard of one run.

A shard is collected by a process of its own, which the worker starts, hears and stops: MLX wants a main thread
and its own BLAS, and what it leaves behind goes with it. The process is told its job in a line of JSON on its
standard input, says what it does in lines of JSON on its standard output, and stops when its input ends, so that
none outlives its worker. A shard whose worker dies is collected again by another one: the run is resumed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.collect.collector import Outcome
from toolkit.collect.on_worker import collect_shard, stop_shards
from toolkit.collect.progress import Progress
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.scale.cluster import LOOK_SECONDS, Patience, outcome_of, told, workers_with
from toolkit.store.lock import Shard

if TYPE_CHECKING:
    from distributed import Client, Future

RESOURCE = "MLX"
STOP_SECONDS = 120.0  # for the shards to keep what is finished


@dataclass(frozen=True)
class Job:
    """What the process of a shard is started with.

    Attributes
    ----------
    module : str
        Run with `python -m`; it speaks as this module's docstring says.
    arguments : mapping
        For that module, as JSON has them.
    n_sequences : int
        Of all shards together.
    """

    module: str
    arguments: Mapping[str, Any]
    n_sequences: int


def collect_on_workers(
    client: Client, address: str, job: Job, progress: Callable[[int, int], Progress] | None = None
) -> Outcome:
    """Let each worker with the resource `MLX` collect its shard.

    Parameters
    ----------
    client : Client
    address : str
        Of the scheduler, for messages.
    job : Job
    progress : as in `collect`

    Returns
    -------
    Outcome
        Of all shards together.

    Raises
    ------
    ToolkitError
        No worker has the resource, or a shard ended with an error: the others are stopped, and keep what they
        finished.
    DataFault
        All workers that have the resource are gone.
    """
    workers = workers_with(client, RESOURCE)
    if not workers:
        raise ToolkitError(
            f"{argument('engine')} dask: no worker has the resource {RESOURCE}: start one on each machine with "
            f"dask worker {address} --nworkers 1 --resources {RESOURCE}=1"
        )
    return _Collection(client, job, len(workers), progress).outcome()


class _Collection:
    """The shards that workers collect."""

    def __init__(
        self, client: Client, job: Job, count: int, progress: Callable[[int, int], Progress] | None
    ) -> None:
        self.client, self.job, self.name = client, job, os.urandom(8).hex()
        self.ended = threading.Event()
        self.states: dict[str, dict[str, int]] = {}
        client.subscribe_topic(self.name, self._hear)
        self.patience = Patience(lambda: workers_with(client, RESOURCE))
        self.shown = _Sum(job.n_sequences, progress)
        self.futures = {
            str(Shard(index, count)): self._submit(str(Shard(index, count))) for index in range(count)
        }

    def outcome(self) -> Outcome:
        began, interrupted = time.monotonic(), False
        try:
            found = self._wait(None)
        except KeyboardInterrupt:
            interrupted = True
            found = self._stop()
        except BaseException:
            self._stop()
            raise
        finally:
            self.client.unsubscribe_topic(self.name)
            self.shown.close()
        return Outcome(
            **{name: sum(one[name] for one in found) for name in _COUNTS},
            interrupted=interrupted or any(one["interrupted"] for one in found),
            seconds=time.monotonic() - began,
        )

    def _submit(self, shard: str) -> Future:
        future = self.client.submit(
            collect_shard,
            self.job.module,
            {**self.job.arguments, "shard": shard},
            self.name,
            resources={RESOURCE: 1},
            pure=False,
        )
        future.add_done_callback(lambda _: self.ended.set())
        return future

    def _wait(self, until: float | None) -> list[dict[str, Any]]:
        """What the shards said at their end; of those that have not ended `until` then, nothing."""
        found: dict[str, dict[str, Any]] = {}
        while len(found) < len(self.futures) and (until is None or time.monotonic() < until):
            self.ended.wait(LOOK_SECONDS)
            self.ended.clear()
            with told(self.client):
                self.patience.check()
            for shard, future in self.futures.items():
                if shard not in found and future.done():
                    found[shard] = _checked(shard, outcome_of(self.client, future))
            states = {**self.states, **{shard: _last(one) for shard, one in found.items()}}
            self.shown.update(states, len(self.futures))
        return list(found.values())

    def _stop(self) -> list[dict[str, Any]]:
        """Let the shards keep what is finished, and wait for it."""
        try:
            self.client.run(stop_shards, self.name, on_error="ignore")
            return self._wait(time.monotonic() + STOP_SECONDS)
        except (ToolkitError, OSError):  # the first error is the one to be told
            return []

    def _hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Take what a worker says of a shard; this is another thread."""
        _, said = event
        self.states[said["shard"]] = dict(said["state"])


_COUNTS = ("n_sequences", "n_tokens", "n_before", "n_errors")


def _checked(shard: str, said: dict[str, Any]) -> dict[str, Any]:
    if "error" in said:
        kind = DataFault if said["status"] == DataFault.exit_status else ToolkitError
        raise kind(f"shard {shard} on host {said['host']}: {said['error']}")
    return said


def _last(said: Mapping[str, Any]) -> dict[str, int]:
    """The state of a shard that has ended."""
    done = said["n_before"] + said["n_sequences"]
    return {"before": said["n_before"], "done": done, "tokens": said["n_tokens"]}


class _Sum:
    """One display of the progress of all shards."""

    def __init__(self, total: int, progress: Callable[[int, int], Progress] | None) -> None:
        self._total, self._make = total, progress
        self._display: Progress | None = None
        self._tokens = 0

    def update(self, states: Mapping[str, Mapping[str, int]], count: int) -> None:
        """Show what is new; nothing before every shard has said what was there before."""
        if self._make is None or len(states) < count:
            return
        sums = {name: sum(state[name] for state in states.values()) for name in ("before", "done", "tokens")}
        if self._display is None:
            if sums["before"] == self._total:
                return
            self._display = self._make(self._total, sums["before"])
            return
        # A shard that is collected again has lost what its worker had not kept.
        new, tokens = max(0, sums["done"] - self._display.done), max(0, sums["tokens"] - self._tokens)
        self._tokens += tokens
        self._display.update(new, tokens)

    def close(self) -> None:
        if self._display is not None:
            self._display.close()
