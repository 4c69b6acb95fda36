"""The process of one contender: loads, warms up, then does a turn for every line that arrives on stdin.

`python worker.py MODULE`, the job as the first line of stdin. It answers each line with one of JSON on stdout:
first what it found out about itself, then each turn. What libraries print goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # this folder as a package, whichever Python runs it

from contenders.job import Job, Prepared, Unavailable  # noqa: E402


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(found: dict[str, Any]) -> None:
        answers.write(json.dumps(found) + "\n")
        answers.flush()

    job = Job.from_json(sys.stdin.readline())
    try:
        prepared = importlib.import_module(f"contenders.{sys.argv[1]}").prepare(job)
    except ModuleNotFoundError as error:
        answer({"missing": error.name})
    except Unavailable as error:
        answer({"unavailable": str(error)})
    else:
        answer({"difference": difference(prepared, job), "facts": prepared.facts})
        for _ in sys.stdin:
            answer(prepared.turn()._asdict())


def difference(prepared: Prepared, job: Job) -> float | None:
    """The largest between the contender's logits after the first prompt and the reference; None: it has none."""
    if prepared.logits is None:
        return None
    import numpy as np

    return float(np.abs(prepared.logits - np.load(job.reference)).max())


if __name__ == "__main__":
    main()
