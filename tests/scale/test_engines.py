"""Engines map in order, hand back what a function raises, and outlive their workers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scale.functions import Square, dies, refused, squared
from toolkit.errors import DataFault, ToolkitError
from toolkit.scale import LOCAL, Engine, Local, Processes


def test_results_come_in_the_order_of_the_tasks(engine: Engine) -> None:
    assert list(engine.map(squared, range(50))) == [number**2 for number in range(50)]
    assert list(engine.map(squared, [])) == []


def test_tasks_are_asked_for_a_few_at_a_time(engine: Engine) -> None:
    asked: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(1000):
            asked.append(number)
            yield number

    results = engine.map(squared, tasks())
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert len(asked) < 20
    results.close()  # type: ignore[attr-defined]
    assert list(engine.map(squared, [7])) == [49]  # what was waiting is out of the way


def test_an_error_of_the_function_comes_back_as_it_is(engine: Engine) -> None:
    with pytest.raises(DataFault, match=r"^workers: 3 is refused$") as caught:
        list(engine.map(refused, [3]))
    assert caught.value.spelled(lambda name: f"--{name}") == "--workers: 3 is refused"


def test_a_task_whose_worker_is_killed_is_done_again(engine: Engine, tmp_path: Path) -> None:
    marker = tmp_path / "died"
    assert list(engine.map(Square(marker), range(20))) == [number**2 for number in range(20)]
    assert marker.exists()
    assert list(engine.map(squared, range(5))) == [0, 1, 4, 9, 16]


def test_a_task_that_kills_every_worker_is_given_up_in_one_line(engine: Engine) -> None:
    with pytest.raises(DataFault, match=r"died .*same task") as caught:
        list(engine.map(dies, [1]))
    assert "\n" not in str(caught.value)
    assert list(engine.map(squared, [3])) == [9]


def test_a_function_that_cannot_be_sent_is_named_in_one_line() -> None:
    with Processes(1) as engine, pytest.raises(ToolkitError, match=r"cannot be sent.*lambda") as caught:
        list(engine.map(lambda number: number, [1]))
    assert "\n" not in str(caught.value)


def test_what_a_worker_cannot_be_given_is_named_with_dask_too(engines: dict[str, Engine]) -> None:
    with pytest.raises(ToolkitError, match="cannot be sent"):
        list(engines["dask"].map(squared, [threading.Lock()]))  # type: ignore[list-item]


def test_the_local_engine_splits_nothing_and_does_nothing_before_it_is_asked() -> None:
    assert isinstance(LOCAL, Local)
    assert not LOCAL.splits
    results = LOCAL.map(refused, [1])
    with pytest.raises(DataFault):
        next(results)


def test_no_workers_are_refused() -> None:
    with pytest.raises(ToolkitError, match="workers: 0 is below 1"):
        Processes(0)


def test_workers_end_with_a_process_that_is_killed() -> None:
    program = (
        "import sys, os\n"
        "from toolkit.scale import Processes\n"
        "if __name__ == '__main__':\n"
        "    engine = Processes(2)\n"
        "    list(engine.map(abs, range(9)))\n"
        "    print(*engine._pool._processes, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.read() == ""  # the workers have it too: it ends with the last of them
