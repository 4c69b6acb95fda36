"""Thousands of sequences: memory stays flat, and no file or thread is left open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import ROOT
from tests.faults.long_run import TENTHS
from toolkit.store import open_run
from toolkit.store.validate import validate

MORE = 1.05  # memory of the last tenth over that of the second


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_five_thousand_sequences_take_no_more_memory_files_or_threads_at_the_end(
    tiny_folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "tests.faults.long_run", str(tiny_folder), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    tenths = json.loads(done.stdout)
    assert len(tenths) == TENTHS
    second, last = tenths[1], tenths[-1]
    assert last["memory"] <= MORE * second["memory"]
    assert last["files"] <= second["files"]
    assert last["threads"] <= second["threads"]
    assert last["python_threads"] == 1
    assert len(open_run(run).sequence_keys()) == 5000
    assert list(validate(run)) == []
