"""A cluster of two worker processes on this machine, and runs of many parts."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.answers import make_answers
from tests.conftest import ROOT
from tests.graded import ANSWERS, PROMPTS
from tests.store.factory import make_run
from toolkit.judging.grades import grade
from toolkit.scale import LOCAL, Dask, Engine, Processes

ENGINES = ("processes", "dask")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, each with one thread and the resource MLX.

    They are started anew where they die. All are processes of their own: a scheduler leaves sockets open.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    folder = tmp_path_factory.mktemp("dask")
    with started(folder, "--resources", "MLX=1") as address:
        yield address


@contextmanager
def started(folder: Path, *options: str, workers: int = 2) -> Iterator[str]:
    """Start a scheduler and workers with options; their files are in a folder."""
    from distributed import Client

    where = ["--scheduler-file", str(folder / "scheduler.json")]
    local = ["--local-directory", str(folder), "--no-dashboard"]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show", "--no-dashboard", *where]
    with process(folder, *scheduler), Client(scheduler_file=where[1], set_as_default=False) as client:
        address = client.scheduler.address
        if not workers:
            yield address
            return
        with process(
            folder, "worker", address, *local, "--nworkers", str(workers), "--nthreads", "1", *options
        ):
            client.wait_for_workers(workers)
            client.close()
            yield address


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[None]:
    """A command of Dask, ended afterwards."""
    with open(folder / f"{arguments[0]}.log", "wb") as log:
        command = [sys.executable, "-m", "dask", *arguments]
        with subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT) as running:
            try:
                yield
            finally:
                running.terminate()


@pytest.fixture(scope="session")
def engines(cluster: str) -> Iterator[dict[str, Engine]]:
    """Every engine by name."""
    with Processes(2) as processes, Dask(cluster) as dask:
        yield {"local": LOCAL, "processes": processes, "dask": dask}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, engines: dict[str, Engine]) -> Engine:
    """An engine of other processes."""
    return engines[request.param]


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small runs give many tasks: a part, two prompts, or some tokens each."""
    from toolkit.aggregation import pieces, selection, targets
    from toolkit.report import reading

    monkeypatch.setattr(pieces, "PIECE_BYTES", 1)
    monkeypatch.setattr(selection, "WHOLE_TOKENS", 60)
    monkeypatch.setattr(targets, "PROMPTS_A_TASK", 2)
    monkeypatch.setattr(reading, "CHUNK_TOKENS", 60)


@pytest.fixture(scope="session")
def many_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight prompts, greedy and four samples each, in parts of seven whose keys interleave."""
    return make_run(tmp_path_factory.mktemp("many") / "run", n_prompts=8, batch=7, shuffled=True)


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graded run."""
    run = make_answers(tmp_path_factory.mktemp("graded") / "run", PROMPTS, ANSWERS)
    grade(run, "exact")
    return run.path
