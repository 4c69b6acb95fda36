"""This project in two processes, through its command line.

A command loads, compiles and warms up inside its own time. So each turn runs it twice, once for one token a sample,
and counts the tokens and seconds that the longer one has more.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contenders.job import Job, Prepared, Turn, Unavailable

PROCESSES = 2
COLLECT = (sys.executable, "-m", "toolkit", "collect")


def prepare(job: Job) -> Prepared:
    options = subprocess.run([*COLLECT, "--help"], check=True, capture_output=True, text=True).stdout
    if "--processes" not in options:
        raise Unavailable("this version's toolkit collect has no --processes")
    return Prepared(lambda: _turn(job), facts={"processes": PROCESSES})


def _turn(job: Job) -> Turn:
    start = _collect(job, 1)
    whole = _collect(job, job.max_tokens)
    return Turn(whole.n_tokens - start.n_tokens, whole.seconds - start.seconds)


def _collect(job: Job, max_tokens: int) -> Turn:
    folder = Path(tempfile.mkdtemp())
    options = {
        "--model": job.model,
        "--prompts": job.prompt_file,
        "--output": folder / "run",
        "--num-samples": job.samples,
        "--max-tokens": max_tokens,
        "--processes": PROCESSES,
    }
    arguments = [str(part) for option in options.items() for part in option]
    try:
        start = time.perf_counter()
        done = subprocess.run([*COLLECT, *arguments, "--json"], check=True, stdout=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - start
    finally:
        shutil.rmtree(folder)
    return Turn(json.loads(done.stdout)["n_tokens"], seconds)
