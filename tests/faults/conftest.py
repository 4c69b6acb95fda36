"""Collections that die, and the table of what was injected and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.tally import Tally

TALLY = Tally()
ROOT = Path(__file__).parents[2]
MockCollect = Callable[..., dict[str, Any]]


@contextmanager
def start_server(folder: Path) -> Iterator[MockCollect]:
    """A process that collects with the mock model; gives the function that asks it."""
    command = [sys.executable, "-m", "tests.faults.mock_collection", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        requests, answers = server.stdin, server.stdout
        assert requests is not None
        assert answers is not None

        def ask(run: Path, **request: Any) -> dict[str, Any]:
            requests.write(json.dumps({"run": str(run), **request}) + "\n")
            requests.flush()
            return dict(json.loads(answers.readline()))

        yield ask
        requests.close()


@pytest.fixture(scope="session")
def mock_collect(tiny_folder: Path) -> Iterator[MockCollect]:
    """Run a collection with the mock model in a process of its own: (run, die_at=...) to its answer."""
    with start_server(tiny_folder) as ask:
        yield ask


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what each test injected."""
    if report.when == "call":
        for name, value in report.user_properties:
            if name == "fault":
                TALLY.add(value, report.passed)
            elif name == "note":
                TALLY.notes.append(value)


def pytest_sessionfinish() -> None:
    """Write the table where it is wanted: `make faults`."""
    if path := os.environ.get("TOOLKIT_FAULTS_TABLE"):
        Path(path).write_text(TALLY.table(), encoding="utf-8")
