"""Threads of products follow what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.models import blas
from toolkit.models.blas_threads import SECONDS_BETWEEN, VARIABLES, BlasThreads, product_seconds, set_threads


class Machine:
    """Products that take a given time by the number of threads, and a clock."""

    def __init__(self, one: float, all_: float) -> None:
        self.seconds = {1: one, 4: all_}
        self.threads = 4
        self.now = 0.0
        self.measured: list[int] = []

    def measure(self) -> float:
        self.measured.append(self.threads)
        return self.seconds[self.threads]

    def apply(self, n: int) -> None:
        self.threads = n


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    choice = blas.BlasChoice("openblas", Path("lib"), 4, True)
    monkeypatch.setattr(blas, "preload", lambda: choice)


def threads_of(machine: Machine) -> BlasThreads:
    return BlasThreads(machine.measure, lambda: machine.now, machine.apply)


def test_the_quicker_is_set_and_measured_again_later() -> None:
    machine = Machine(one=2.0, all_=1.0)
    threads = threads_of(machine)
    threads.check()
    assert (threads.threads, machine.threads) == (4, 4)
    machine.seconds[4] = 25.0  # another program has come
    machine.now = SECONDS_BETWEEN - 0.1
    threads.check()
    assert machine.threads == 4
    machine.now = SECONDS_BETWEEN
    threads.check()
    assert (threads.threads, machine.threads) == (1, 1)
    machine.seconds[4] = 1.0  # and gone
    machine.now = 2 * SECONDS_BETWEEN
    threads.check()
    assert machine.threads == 4


@pytest.mark.parametrize("name", VARIABLES)
def test_a_person_s_choice_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "4")
    machine = Machine(one=1.0, all_=25.0)
    threads_of(machine).check()
    assert machine.measured == []


@pytest.mark.parametrize(
    "choice",
    [
        blas.BlasChoice("openblas", Path("lib"), 1, True),
        blas.BlasChoice("reference", None, 1, False),
        blas.BlasChoice("accelerate", None, None, False),
    ],
)
def test_nothing_to_choose(choice: blas.BlasChoice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "preload", lambda: choice)
    machine = Machine(one=1.0, all_=25.0)
    threads_of(machine).check()
    assert machine.measured == []


def test_the_real_library_takes_the_number() -> None:
    from threadpoolctl import ThreadpoolController

    product_seconds()
    blas_libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [library.num_threads for library in blas_libraries]
    try:
        set_threads(1)
        assert {library.num_threads for library in blas_libraries} == {1}
    finally:
        for library, n in zip(blas_libraries, before, strict=True):
            library.set_num_threads(n)
    assert product_seconds() > 0
