"""Thousands of sequences: memory stays flat, and no file or thread is left open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import ROOT
from tests.faults.long_run import TENTHS
from tests.faults.tally import Record, note
from toolkit.generation.threads import n_threads
from toolkit.store import open_run
from toolkit.store.validate import validate

MORE = 1.05  # memory of the last tenth over that of the second


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_five_thousand_sequences_take_no_more_memory_files_or_threads_at_the_end(
    tiny_folder: Path, tmp_path: Path, record_property: Record
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "tests.faults.long_run", str(tiny_folder), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    *tenths, after = json.loads(done.stdout)
    assert len(tenths) == TENTHS
    second, last = tenths[1], tenths[-1]
    seconds = [tenth["seconds"] for tenth in tenths[1:]]
    note(
        record_property,
        f"A long run: 5,000 sequences with a tiny random model. Memory at the end of the last tenth is "
        f"{last['memory'] / second['memory']:.3f} times that of the second; {last['files']} files and "
        f"{last['threads']} threads are open, {second['files']} and {second['threads']} before. A tenth takes "
        f"{min(seconds):.2f} to {max(seconds):.2f} s, the last one {seconds[-1]:.2f} s.",
    )
    assert last["memory"] <= MORE * second["memory"]
    assert last["files"] <= second["files"]
    assert last["threads"] <= second["threads"] + 1  # the one that commits begins with the first commit
    assert after["threads"] <= second["threads"]
    assert after["files_in_run"] == 0
    assert last["python_threads"] <= n_threads() + 1  # this one, it, and those that kernels are shared out to
    assert len(open_run(run).sequence_keys()) == 5000
    assert list(validate(run)) == []
