"""Collections that die, and the table of what was injected and what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MockCollect = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def mock_collect(tiny_folder: Path) -> Iterator[MockCollect]:
    """Run a collection with the mock model in a process of its own: (run, die_at=...) to its answer."""
    command = [sys.executable, "-m", "tests.faults.mock_collection", str(tiny_folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def ask(run: Path, **request: Any) -> dict[str, Any]:
            server.stdin.write(json.dumps({"run": str(run), **request}) + "\n")
            server.stdin.flush()
            return dict(json.loads(server.stdout.readline()))

        yield ask
        server.stdin.close()
