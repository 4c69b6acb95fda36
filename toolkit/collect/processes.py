"""A collection by several processes of one machine, each with its part of the cores, into one run.

Small products use the cores better in processes of a thread each than in one process of many threads. The first
process is this one. It deals out what is missing, so that no two collect the same sequence; each commits its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from toolkit.collect.collector import Outcome, Part, Work, collect_part, prepare
from toolkit.collect.plan import deal
from toolkit.collect.progress import Progress
from toolkit.cores import usable_cores
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.generation.plans import PromptPlan
from toolkit.generation.threads import VARIABLES, n_threads
from toolkit.models.blas_threads import set_threads
from toolkit.store.lock import Shard

REPORT_SECONDS = 0.2  # between two words of a process on how far it is
NOTHING = Outcome(0, 0, 0, 0, True, 0.0)  # of a process that was stopped before it had begun
PRECISIONS = ("float32", "float16", "bfloat16")


def collect_in_processes(
    work: Work,
    output: str | Path,
    n: int,
    *,
    resume: bool = True,
    overwrite: bool = False,
    progress: Callable[[int, int], Progress] | None = None,
) -> Outcome:
    """Collect what is missing of `work` by n processes; parameters as of `toolkit.collect.collector.collect`.

    A script that calls this is imported again by the other processes: what it does stands under
    `if __name__ == "__main__"`.

    Raises
    ------
    ToolkitError
        As `collect`; or n is below 1 or above the number of cores.
    DataFault
        A process died. What the others collected is kept, and the same call collects the rest.
    """
    check_processes(n)
    work = replace(work, processes=n)
    lacking, n_before = prepare(work, output, resume=resume, overwrite=overwrite)
    shares = [share for share in deal(lacking, n) if share]
    missing = sum(len(plan.sequences) for plan in lacking)
    display = progress(n_before + missing, n_before) if progress is not None and missing else None
    began = time.monotonic()
    try:
        with _few_threads(max(1, min(n_threads(), usable_cores() // n))):
            others = [_Other(work, output, _part(work, i, n, share)) for i, share in enumerate(shares) if i]
            outcomes = _all_outcomes(
                work, output, _part(work, 0, n, shares[0] if shares else []), others, display
            )
    finally:
        if display is not None:
            display.close()
    return _together(outcomes, n_before, time.monotonic() - began)


def check_processes(n: int) -> None:
    """Raise ToolkitError where so many processes are not possible or not sensible."""
    if not 1 <= n <= usable_cores():
        raise ToolkitError(
            f"{argument('processes')}: {n} is outside 1 to {usable_cores()}, the cores that there are; "
            f"use 1 to {usable_cores()}"
        )


def _part(work: Work, index: int, n: int, plans: Sequence[PromptPlan]) -> Part:
    """What one process collects, and its lock: the n-th part of the shard's, so that shards and parts exclude no
    other of the same numbers."""
    shard = work.shard or Shard(0, 1)
    return Part(plans, Shard(shard.index * n + index, shard.count * n))


def _all_outcomes(
    work: Work, output: str | Path, part: Part, others: list[_Other], display: Progress | None
) -> list[Outcome]:
    listener = _Listener(others, display)
    try:
        mine = collect_part(
            work, output, part, display=_Shared(display), on_step=lambda _: listener.listen(0)
        )
    except BaseException:
        listener.finish(stop=True)
        raise
    return [mine, *listener.finish(stop=mine.interrupted)]


@dataclass(frozen=True)
class _Job:
    """What another process is told."""

    model: str
    dtype: str | None
    work: dict[str, Any]  # the fields of Work but its model
    output: str
    part: Part


class _Other:
    """Another process, and what it has said."""

    def __init__(self, work: Work, output: str | Path, part: Part) -> None:
        fields = {name: value for name, value in vars(work).items() if name not in ("model", "prompts")}
        dtype = work.model.dtype if work.model.dtype in PRECISIONS else None
        job = _Job(str(work.model.path), dtype, {**fields, "prompts": []}, str(output), part)
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_collect_job, args=(job, theirs), daemon=False)
        with _unheard(
            signal.SIGINT
        ):  # Ctrl-C goes to all of a terminal's processes: this one tells the others
            self.process.start()
        theirs.close()
        self.stopped = False
        self.outcome: Outcome | None = None
        self.error: ToolkitError | None = None

    def told(self, display: Progress | None) -> bool:
        """Take one thing that it says; whether it may say more."""
        try:
            kind, said = self.connection.recv()
        except (EOFError, OSError):
            self.connection.close()
            return False
        if kind == "progress" and display is not None:
            display.update(*said)
        elif kind == "outcome":
            self.outcome = Outcome(**said)
        elif kind == "error":
            status, message = said
            self.error = (DataFault if status == DataFault.exit_status else ToolkitError)(message)
        return True

    def stop(self) -> None:
        """Let it keep what is finished, and end."""
        self.stopped = True
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGTERM)


class _Listener:
    """Hears the other processes."""

    def __init__(self, others: list[_Other], display: Progress | None) -> None:
        self._others = others
        self._display = display

    def listen(self, seconds: float | None) -> bool:
        """Take what they have said, waiting for the first of it; whether anybody may say more."""
        open_ = {other.connection: other for other in self._others if not other.connection.closed}
        for connection in wait(list(open_), seconds) if open_ else ():
            assert isinstance(connection, Connection)
            open_[connection].told(self._display)
        return bool(open_)

    def finish(self, *, stop: bool) -> list[Outcome]:
        """Wait for all to end; an interrupt meanwhile stops them."""
        if stop:
            self._stop()
        interrupted = False
        while True:
            try:
                if not self.listen(None):
                    break
            except KeyboardInterrupt:
                interrupted = True
                self._stop()
        outcomes = [self._ended(place, other) for place, other in enumerate(self._others, 1)]
        return [replace(one, interrupted=one.interrupted or interrupted) for one in outcomes]

    def _stop(self) -> None:
        for other in self._others:
            other.stop()

    def _ended(self, place: int, other: _Other) -> Outcome:
        other.process.join()
        if other.error is not None:
            raise other.error
        if other.outcome is None and other.stopped and other.process.exitcode == -signal.SIGTERM:
            return NOTHING  # it had not begun
        if other.outcome is None:
            status = other.process.exitcode or 0
            how = f"signal {-status}" if status < 0 else f"status {status}"
            raise DataFault(
                f"process {place + 1} of {len(self._others) + 1} ended with {how} before its sequences were "
                "collected; the others' are kept: the same command collects the rest"
            )
        return other.outcome


class _Shared:
    """The display as one process sees it: others go on when it has ended."""

    def __init__(self, display: Progress | None) -> None:
        self._display = display

    def update(self, sequences: int = 0, tokens: int = 0) -> None:
        if self._display is not None:
            self._display.update(sequences, tokens)

    def close(self) -> None:
        """Left to who made it."""


class _Told:
    """A display that tells the first process, now and then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._new = [0, 0]
        self._told_at = time.monotonic()

    def update(self, sequences: int = 0, tokens: int = 0) -> None:
        self._new[0] += sequences
        self._new[1] += tokens
        if time.monotonic() - self._told_at >= REPORT_SECONDS:
            self._tell()

    def close(self) -> None:
        try:
            self._tell()
        except OSError:
            return  # the first process is gone: what is finished is kept all the same

    def _tell(self) -> None:
        self._connection.send(("progress", tuple(self._new)))
        self._new, self._told_at = [0, 0], time.monotonic()


def _collect_job(job: _Job, connection: Connection) -> None:
    """What another process does."""
    signal.signal(signal.SIGTERM, _interrupt_once)
    try:
        from toolkit.models import load

        model = load(job.model, dtype=job.dtype, quiet=True)
        work = Work(model=model, **job.work)
        outcome = collect_part(work, job.output, job.part, display=_Told(connection))
        connection.send(("outcome", asdict(outcome)))
    except ToolkitError as error:
        connection.send(("error", (error.exit_status, str(error))))
    except KeyboardInterrupt:  # before it had begun
        connection.send(("outcome", asdict(NOTHING)))
    finally:
        connection.close()


def _interrupt_once(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _unheard(number: signal.Signals) -> Iterator[None]:
    """Ignore a signal; a process that is started meanwhile ignores it for good. Only a main thread can do that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _few_threads(n: int) -> Iterator[None]:
    """Products and kernels of this process, and of those that it starts, on n threads."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, str(n)))
    set_threads(n)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        set_threads(n_threads())


def _together(outcomes: Sequence[Outcome], n_before: int, seconds: float) -> Outcome:
    return Outcome(
        n_sequences=sum(one.n_sequences for one in outcomes),
        n_tokens=sum(one.n_tokens for one in outcomes),
        n_before=n_before,
        n_errors=sum(one.n_errors for one in outcomes),
        interrupted=any(one.interrupted for one in outcomes),
        seconds=seconds,
    )
