"""Threads that work together inside one process."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from toolkit.generation import threads
from toolkit.generation.compiled_addresses import GIVEN_UP, TEAM_SIZE, YIELD, wait_for_all
from toolkit.generation.compiled_math import compiled
from toolkit.generation.threads import TeamSize


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_barrier_lets_no_thread_pass_before_all_are_there(n: int) -> None:
    team, seen = np.zeros(TEAM_SIZE, np.int64), np.zeros((3000, n), np.int64)
    with ThreadPoolExecutor(n) as pool:
        jobs = [pool.submit(_meet, worker, n, team.ctypes.data, YIELD, seen) for worker in range(n)]
        assert [job.result() for job in jobs] == [0] * n
    assert (seen == np.arange(1, 3001)[:, None]).all()


@compiled(cache=False)  # else it would be kept with kernels that change
def _meet(worker: int, n: int, team: int, give_way: int, seen: np.ndarray) -> int:
    """Write rounds down, and count the rounds in which another thread's was not there after waiting."""
    missing = 0
    for turn in range(len(seen)):
        seen[turn, worker] = turn + 1
        wait_for_all(team, n, give_way)
        for other in range(n):
            missing += seen[turn, other] != turn + 1
    return missing


def test_one_thread_works_alone_while_the_others_do_not_get_their_cores() -> None:
    now = [0.0]
    size = TeamSize(lambda: now[0])
    everyone = threads.n_threads()
    size.tell(2, 1.0, 1.9)
    assert size.n == everyone
    for used in (1.2, 1.2, 1.9, 1.2, 1.2):  # never three short rounds in a row
        size.tell(2, 1.0, used)
    assert size.n == everyone
    size.tell(2, 1.0, 1.2)
    assert size.n == 1
    size.tell(1, 1.0, 0.5)
    now[0] = threads.SECONDS_ALONE - 0.1
    assert size.n == 1
    now[0] = threads.SECONDS_ALONE
    assert size.n == everyone


def test_work_is_shared_out_in_parts_that_are_worth_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_threads", lambda: 4)
    parts: list[tuple[int, int]] = []
    for n, work, expected in (
        (10, 4 * threads.MIN_WORK, [(0, 2), (2, 5), (5, 7), (7, 10)]),
        (10, threads.MIN_WORK, [(0, 10)]),
        (3, 4 * threads.MIN_WORK, [(0, 1), (1, 2), (2, 3)]),
        (0, 0, [(0, 0)]),
    ):
        parts.clear()
        threads.share_range(lambda first, last: parts.append((first, last)), n, work)
        assert sorted(parts) == expected


@pytest.mark.parametrize("failing", [0, 1])
def test_who_waits_for_a_thread_that_failed_goes_on(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_pool", functools.cache(lambda: ThreadPoolExecutor(1)))
    team, seen = np.zeros(TEAM_SIZE, np.int64), np.zeros((3, 2), np.int64)

    def give_up() -> None:
        team[GIVEN_UP] = 1

    def work(worker: int) -> None:
        if worker == failing:
            raise KeyboardInterrupt
        _meet(worker, 2, team.ctypes.data, YIELD, seen)

    with pytest.raises(KeyboardInterrupt):
        threads.run_together([functools.partial(work, worker) for worker in range(2)], give_up)
    assert seen[:, 1 - failing].all()  # it went through to its end


def test_a_pool_that_takes_no_work_lets_those_go_on_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        n = 0
        pool = ThreadPoolExecutor(1)

        def submit(self, *given: Any) -> Any:
            self.n += 1
            if self.n == 2:
                raise RuntimeError("can't start new thread")
            return self.pool.submit(*given)

    pool = Full()
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    team, seen = np.zeros(TEAM_SIZE, np.int64), np.zeros((3, 3), np.int64)

    def give_up() -> None:
        team[GIVEN_UP] = 1

    jobs = [functools.partial(_meet, worker, 3, team.ctypes.data, YIELD, seen) for worker in range(3)]
    with pytest.raises(RuntimeError, match="can't start"):
        threads.run_together(jobs, give_up)
    assert seen[:, 1].all()
