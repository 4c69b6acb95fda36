"""A collection of many short sequences with a tiny random model, and what it took: memory, files, threads, time.

`python -m tests.faults.long_run FOLDER RUN [N]` prints JSON: for each tenth of the sequences the resident memory
at its end (bytes), the open files and threads, and the seconds that it took; and the same after the collection.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

N_SEQUENCES, N_SAMPLES, MAX_TOKENS = 5000, 50, 8
TENTHS = 10


class Watch:
    """Looks at the process whenever another tenth of the sequences has ended."""

    def __init__(self, total: int, run: Path) -> None:
        self.total, self.n, self.run = total, 0, run
        self.began = time.monotonic()
        self.tenths: list[dict[str, float]] = []

    def __call__(self, step: Any) -> None:
        self.n += len(step.records)
        if self.n * TENTHS >= self.total * (len(self.tenths) + 1):
            now = time.monotonic()
            self.tenths.append({**usage(self.run), "seconds": now - self.began})
            self.began = now


def usage(run: Path) -> dict[str, float]:
    """Resident memory in bytes, open files and threads of this process; Linux.

    What is open in the run is counted apart: a commit may be on its way.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "files": sum(not inside for inside in _open_in(run)),
        "files_in_run": sum(_open_in(run)),
        "threads": len(os.listdir("/proc/self/task")),
        "python_threads": threading.active_count(),
    }


def _open_in(run: Path) -> list[bool]:
    """Of each open file, whether it is in the run."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own, and what was closed meanwhile
            found.append(Path(os.readlink(f"/proc/self/fd/{number}")).is_relative_to(run))
    return found


def collect_many(folder: Path, run: Path, n_sequences: int = N_SEQUENCES) -> list[dict[str, float]]:
    """Collect, and say what each tenth took."""
    from toolkit.collect.collector import Work, collect
    from toolkit.collect.prompts import Prompt
    from toolkit.collect.render import render_prompts
    from toolkit.collect.settings import RenderSettings, Settings
    from toolkit.models import load

    model = load(folder, quiet=True)
    n_prompts = n_sequences // N_SAMPLES
    prompts = [Prompt(i, i + 1, id=f"q{i}", prompt=f"Question {i} of many?") for i in range(n_prompts)]
    records = render_prompts(model.tokenizer, prompts, RenderSettings())
    settings = Settings(num_samples=N_SAMPLES, max_tokens=MAX_TOKENS)
    watch = Watch(n_prompts * N_SAMPLES, run)
    collect(Work(model, settings, records), run, on_step=watch)
    return [*watch.tenths, usage(run)]


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[3:4]]
    print(json.dumps(collect_many(Path(sys.argv[1]), Path(sys.argv[2]), *given)))
