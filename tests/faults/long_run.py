"""A collection of many short sequences with a tiny random model, and what it took: memory, files, threads, time.

`python -m tests.faults.long_run FOLDER RUN [N]` prints JSON: for each tenth of the sequences the resident memory
at its end (bytes), the open files and threads, and the seconds that it took.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

N_SEQUENCES, N_SAMPLES, MAX_TOKENS = 5000, 50, 8
TENTHS = 10


class Watch:
    """Looks at the process whenever another tenth of the sequences has ended."""

    def __init__(self, total: int) -> None:
        self.total, self.n = total, 0
        self.began = time.monotonic()
        self.tenths: list[dict[str, float]] = []

    def __call__(self, step: Any) -> None:
        self.n += len(step.records)
        if self.n * TENTHS >= self.total * (len(self.tenths) + 1):
            now = time.monotonic()
            self.tenths.append({**usage(), "seconds": now - self.began})
            self.began = now


def usage() -> dict[str, float]:
    """Resident memory in bytes, open files and threads of this process; Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "python_threads": threading.active_count(),
    }


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
    watch = Watch(n_prompts * N_SAMPLES)
    collect(Work(model, settings, records), run, on_step=watch)
    return watch.tenths


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[3:4]]
    print(json.dumps(collect_many(Path(sys.argv[1]), Path(sys.argv[2]), *given)))
