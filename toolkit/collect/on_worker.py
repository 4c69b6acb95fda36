"""A shard of a collection on a worker of a Dask cluster: its process is started, heard and stopped.

Imports little: a scheduler has to import it too, on a machine that may have no MLX.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


_RUNNING: dict[tuple[str, str], subprocess.Popen[str]] = {}
"""The processes of shards, by the name of the collection and the shard."""


def collect_shard(module: str, arguments: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Collect a shard in a process.

    Parameters
    ----------
    module : str
        Run with `python -m`.
    arguments : mapping
        Its job; `shard` among them.
    name : str
        Of the collection: the topic under which it is said how far the shard is, and for `stop_shards`.

    Returns
    -------
    dict
        What the process said at its end, and the host.
    """
    from distributed import get_worker

    worker = get_worker()
    threads, shard = str(worker.state.nthreads), arguments["shard"]
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **dict.fromkeys(_THREADS, threads)},
    ) as process:
        _RUNNING[name, shard] = process
        try:
            said = _listen(
                process, arguments, lambda state: worker.log_event(name, {"shard": shard, "state": state})
            )
        finally:
            del _RUNNING[name, shard]
            _end_input(process)
    return {**said, "host": socket.gethostname()}


def stop_shards(name: str) -> None:
    """Let the shards of a collection on this worker end."""
    for (of, _), process in [*_RUNNING.items()]:
        if of == name:
            _end_input(process)


def _listen(
    process: subprocess.Popen[str], arguments: Mapping[str, Any], on_state: Callable[[Any], None]
) -> dict[str, Any]:
    """Tell the process its job, and follow what it says to the end."""
    requests, answers = _pipes(process)
    last: dict[str, Any] = {}
    with suppress(OSError):  # it may have ended already, and said why in the worker's log
        requests.write(json.dumps(arguments) + "\n")
        requests.flush()
    for line in answers:
        said = json.loads(line)
        if "before" in said:
            on_state(said)
        else:
            last = said
    if not last:
        last = {
            "error": f"its process ended with status {process.wait()}; the worker's log says more",
            "status": 1,
        }
    return last


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None  # they were asked for
    assert process.stdout is not None
    return process.stdin, process.stdout


def _end_input(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):  # it has ended
        _pipes(process)[0].close()
