"""A collection with a mock model in a process of its own: it can be made to die, or to fail, at any event.

An event is a step of the model, a piece of a file written, a sync or a rename.
`python -m tests.faults.mock_collection FOLDER` reads one JSON request a line and answers each with one: the
collection runs in a fork, so that the imports are paid once.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

VOCABULARY = 320
N_PROMPTS, N_SAMPLES, MAX_TOKENS = 6, 4, 12


class Request(NamedTuple):
    """What to do in the fork."""

    run: str
    die_at: int | None = None  # the number of the event, from 1; None: live
    fail_at: int | None = None  # the number of the event that the system refuses
    refusal: int = errno.ENOSPC
    stays: bool = False  # the events that follow are refused too
    n_prompts: int = N_PROMPTS
    shard: str | None = None


def tokenizer_only_model(folder: Path) -> Any:
    """The tiny model without its network: nothing of MLX is computed, so that the process may fork."""
    from toolkit.models import Model, blas

    blas.preload()
    from mlx_lm.utils import load_tokenizer

    config = json.loads((folder / "config.json").read_text())
    return Model(None, load_tokenizer(folder), config, "mock", folder, "float32")


class Events:
    """Counts events; at the chosen one the process dies or the system refuses, in the middle where it can."""

    def __init__(self, request: Request) -> None:
        self.n, self.request = 0, request

    def happen(self, half: Callable[[], Any] | None = None, *, on_disk: bool = True) -> None:
        """An event begins; `half` does the first half of it."""
        if not (on_disk or self.request.fail_at is None):
            return  # the system refuses what touches the disk, and only that is counted then
        self.n += 1
        dies, fails = self.n == self.request.die_at, self._fails()
        if (dies or fails) and half is not None:
            half()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if fails:
            raise OSError(self.request.refusal, os.strerror(self.request.refusal))

    def _fails(self) -> bool:
        at = self.request.fail_at
        return at is not None and (self.n >= at if self.request.stays else self.n == at)

    def before(self, owner: Any, name: str) -> None:
        """Let every call of `owner.name` be an event, which is then not done."""
        original = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.happen()
            return original(*arguments, **options)

        setattr(owner, name, counted)

    def before_writing(self) -> None:
        """Let every whole file that is written be an event, which is then half done."""
        original = Path.write_bytes

        def counted(path: Path, data: bytes) -> int:
            self.happen(lambda: original(path, data[: len(data) // 2]))
            return original(path, data)

        Path.write_bytes = counted  # type: ignore[method-assign]


def install(events: Events) -> None:
    """Put the mock model into the collector, and the events into everything that touches the disk."""
    import pyarrow.parquet as pq
    from numba.core.caching import IndexDataCacheFile

    from tests.at_once import AtOnce
    from tests.generation.mock import MockBatch, hashed_logits, numpy_statistics
    from toolkit.collect import collector, steps

    class Batch(MockBatch):
        def step(self, token_ids: Any) -> Any:
            events.happen(on_disk=False)
            return super().step(token_ids)

    forward = type("Forward", (), {"logits_dtype": "float32"})()
    steps.prepared = lambda model: (forward, lambda slots: Batch(hashed_logits(VOCABULARY)))
    steps.BlasThreads = lambda: SimpleNamespace(check=lambda: None)  # it would compute with MLX in a fork
    steps.choose_statistics = lambda sampler, k: numpy_statistics(sampler, k)
    collector.COMMIT_SEQUENCES = 3
    collector.ThreadPoolExecutor = AtOnce  # type: ignore[assignment, misc]
    IndexDataCacheFile.save = lambda *given: None  # machine code that is kept would count as files of the run
    for owner, name in ((os, "replace"), (os, "fsync"), (pq.ParquetWriter, "write_table")):
        events.before(owner, name)
    events.before(pq.ParquetWriter, "close")
    events.before_writing()


def collect(model: Any, request: Request, events: Events) -> dict[str, Any]:
    """Collect what is missing."""
    from toolkit.cli.collecting import parse_shard
    from toolkit.collect.collector import Work, collect
    from toolkit.collect.prompts import Prompt
    from toolkit.collect.render import render_prompts
    from toolkit.collect.settings import RenderSettings, Settings
    from toolkit.collect.watching import WatchSettings
    from toolkit.errors import ToolkitError

    install(events)
    watch = WatchSettings(("A", "B"), "every")
    settings = Settings(num_samples=N_SAMPLES, max_tokens=MAX_TOKENS, greedy=True, seed=5, watch=watch)
    prompts = [Prompt(i, i + 1, id=f"q{i}", prompt=f"Question {i}?") for i in range(request.n_prompts)]
    records = render_prompts(model.tokenizer, prompts, RenderSettings())
    work = Work(model, settings, records, 4, parse_shard(request.shard), "hash")
    try:
        outcome = collect(work, request.run)
    except ToolkitError as error:
        return {"error": str(error), "status": error.exit_status, "events": events.n}
    return {"n_sequences": outcome.n_sequences, "events": events.n}


def _load_kernels() -> None:
    """Load all compiled kernels once: each fork would else take a second for them, and keep their code on disk.

    Two rows start no thread.
    """
    import numpy as np

    from toolkit.generation.sampler import Sampler
    from toolkit.generation.statistics import step

    watched = np.array([1, 2], np.int32)
    for sampler in (Sampler(), Sampler(0.5)):
        for size in (VOCABULARY, 100):  # the latter so few that all are likely
            step(np.zeros((2, size), np.float32), sampler, np.zeros(2), watched_ids=watched)


def serve(folder: Path) -> None:
    """Answer requests until there are no more."""
    model = tokenizer_only_model(folder)
    _load_kernels()
    for line in sys.stdin:
        request = Request(**json.loads(line))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            answer = collect(model, request, Events(request))
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"status": status, **json.loads(said or b"{}")}), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
