"""`python -m toolkit.cli.shard`: one shard of a collection on a cluster, as `toolkit.collect.cluster` starts it.

Its job is a line of JSON on standard input: the arguments of `toolkit collect` by name, with `shard`. It says how
far it is, and at last what came of it, in lines of JSON on standard output. When its input ends, it keeps what is
finished and ends too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from toolkit.cli.collecting import stop_on_sigterm
from toolkit.cli.main import describe
from toolkit.collect.progress import Progress

if TYPE_CHECKING:
    from toolkit.collect.collector import Outcome

LOCK_SECONDS = 120.0
"""How long a shard's lock is waited for: the process of a worker that died holds it until it has ended."""

_TRY_SECONDS = 1.0


class Reported(Progress):
    """Progress as lines of JSON: sequences that were there before and are there now, and tokens."""

    def __init__(self, total: int, done: int, stream: TextIO) -> None:
        self._before = done
        super().__init__(total, done=done, stream=stream, terminal=True)
        self._show(0.0)

    def close(self) -> None:
        self._show(0.0)

    def _show(self, now: float) -> None:
        self._shown_at = now
        say(self._stream, {"before": self._before, "done": self.done, "tokens": self.tokens})


def say(stream: TextIO, what: dict[str, Any]) -> None:
    """Write a line; who read them may have gone."""
    stream.write(json.dumps(what) + "\n")
    stream.flush()


def main() -> int:
    """Do the job; the exit status is that of `toolkit collect`, and nobody looks at it."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to the worker's log
    arguments = json.loads(sys.stdin.readline())
    stop_on_sigterm()
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        outcome = _collect(arguments, stream)
        say(stream, vars(outcome))
        return 0
    except BrokenPipeError:  # the worker has died
        return 1
    except (Exception, KeyboardInterrupt) as error:
        status, message = describe(error, "collect")
        say(stream, {"error": message, "status": status})
        return status


def _collect(arguments: dict[str, Any], stream: TextIO) -> Outcome:
    from toolkit.cli.collect import make_work
    from toolkit.collect.collector import collect
    from toolkit.store.lock import RunHeld

    sys.argv = arguments.pop("command")
    args = argparse.Namespace(**arguments)
    work = make_work(args)
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return collect(
                work, Path(args.output), progress=lambda total, done: Reported(total, done, stream)
            )
        except RunHeld:
            if time.monotonic() > until:
                raise
            time.sleep(_TRY_SECONDS)


def _end_with_input() -> None:
    while sys.stdin.read(1 << 10):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
