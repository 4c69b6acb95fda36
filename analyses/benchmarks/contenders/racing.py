"""The other end of a contender's process: starts it, asks for turns, and says why it does not take part."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from contenders.job import SAME_MODEL, Job, Turn, Unavailable
from contenders.table import ENGINES, Contender

WORKER = Path(__file__).with_name("worker.py")


def engines_python() -> Path:
    """The Python of the environment that `make engines` makes; this one where there is none.

    It is apart, since MLX-LM imports PyTorch wherever it is installed, and with it another BLAS and its threads.
    """
    apart = Path(sys.prefix, "engines", "bin", "python")
    return apart if apart.exists() else Path(sys.executable)


class Racer:
    """A contender that is loaded and warm.

    Raises
    ------
    Unavailable
        Something it needs is not there, it failed, or it runs another model; the message is one line.
    """

    def __init__(self, contender: Contender, job: Job) -> None:
        self.contender = contender
        self.job = contender.share(job)
        self._log = Path(job.folder, f"{contender.key}.log")
        python = engines_python() if contender.python == ENGINES else sys.executable
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [str(python), str(WORKER), contender.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **contender.environment},
            )
        try:
            self.facts = self._begin()
        except Unavailable:
            self.close()
            raise

    def turn(self) -> Turn:
        return Turn(**self._ask(""))

    def close(self) -> None:
        """Ends when nothing more comes."""
        self._process.communicate()

    def _begin(self) -> dict[str, Any]:
        found = self._ask(self.job.to_json())
        if "missing" in found:
            raise Unavailable(f"{found['missing']} is not installed; {self.contender.brings} brings it")
        if "unavailable" in found:
            raise Unavailable(found["unavailable"])
        difference = found["difference"]
        if difference is not None and not difference <= SAME_MODEL:
            raise Unavailable(f"its logits differ by {difference:.2g}: not the same model")
        return {**found["facts"], "largest_difference_of_logits": difference}

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise Unavailable(self._why_it_ended())
        return json.loads(answer)

    def _why_it_ended(self) -> str:
        status = self._process.wait()
        if status < 0:
            return f"it was ended by {signal.Signals(-status).name}"
        lines = self._log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return f"it failed: {last[:200]}"
