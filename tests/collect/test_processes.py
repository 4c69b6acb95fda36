"""Collecting by several processes: the same run, whole whatever ends one of them."""

from __future__ import annotations

import copy
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.collect import processes
from toolkit.collect.collector import Outcome, Work, collect
from toolkit.collect.plan import deal
from toolkit.collect.processes import collect_in_processes
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings, Settings
from toolkit.errors import DataFault, ToolkitError
from toolkit.generation.beam_settings import BeamSettings
from toolkit.generation.plans import PromptPlan
from toolkit.generation.threads import VARIABLES
from toolkit.store import open_run
from toolkit.store.validate import validate

QUESTIONS = ["What is the capital of France?", "How many legs?", "да!"]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: 2)


@pytest.fixture
def work(tiny_model: Any) -> Callable[..., Work]:
    def make(**settings: Any) -> Work:
        prompts = [Prompt(i, i + 1, id=f"q{i}", prompt=text) for i, text in enumerate(QUESTIONS)]
        records = render_prompts(tiny_model.tokenizer, prompts, RenderSettings())
        return Work(tiny_model, Settings(**{"num_samples": 6, "max_tokens": 8, **settings}), records, 4)

    return make


class Display:
    """A progress display that counts, and does something once."""

    def __init__(self, total: int, done: int, once: Callable[[], None] = lambda: None) -> None:
        self.total, self.done, self.closed = total, done, False
        self._once = once

    def update(self, sequences: int = 0, tokens: int = 0) -> None:
        self.done += sequences
        once, self._once = self._once, lambda: None
        once()

    def close(self) -> None:
        self.closed = True


def ids_of(path: Path) -> dict[tuple[str, str, int], list[int]]:
    return {record.key: record.token_ids.tolist() for record in open_run(path).iter_sequences()}


def is_whole(path: Path, n: int) -> None:
    assert len(ids_of(path)) == len(open_run(path).sequence_keys()) == n
    assert not list(validate(path))


def test_two_processes_collect_what_one_does(work: Callable[..., Work], tmp_path: Path) -> None:
    shown: list[Display] = []
    given = work(greedy=True, beam=BeamSettings(2))
    before = {name: os.environ.get(name) for name in VARIABLES}
    outcome = collect_in_processes(
        given,
        tmp_path / "two",
        2,
        progress=lambda total, done: shown.append(Display(total, done)) or shown[-1],  # type: ignore[return-value]
    )
    collect(given, tmp_path / "one")
    assert ids_of(tmp_path / "two") == ids_of(tmp_path / "one")
    is_whole(tmp_path / "two", 27)
    assert (outcome.n_sequences, outcome.n_before, outcome.interrupted) == (27, 0, False)
    assert outcome.n_tokens == open_run(tmp_path / "two").sequences_df()["n_tokens"].sum()
    assert (shown[0].total, shown[0].done, shown[0].closed) == (27, 27, True)
    assert {name: os.environ.get(name) for name in VARIABLES} == before
    assert len({path.name.split("-")[1] for path in (tmp_path / "two" / "sequences").iterdir()}) == 2


def test_a_run_goes_on_with_another_number_of_processes(work: Callable[..., Work], tmp_path: Path) -> None:
    collect(work(num_samples=2), tmp_path / "run")
    outcome = collect_in_processes(work(), tmp_path / "run", 2)
    assert (outcome.n_before, outcome.n_sequences) == (6, 12)
    again = collect_in_processes(work(), tmp_path / "run", 2)
    assert (again.n_before, again.n_sequences) == (18, 0)
    is_whole(tmp_path / "run", 18)


def test_a_process_that_dies_is_told_and_the_rest_is_kept(work: Callable[..., Work], tmp_path: Path) -> None:
    def kill() -> None:
        for child in multiprocessing.active_children():
            os.kill(child.pid or 0, signal.SIGKILL)

    with pytest.raises(
        DataFault, match=r"process 2 of 2 ended with signal 9 .* the same command collects the rest"
    ):
        collect_in_processes(
            work(),
            tmp_path / "run",
            2,
            progress=lambda total, done: Display(total, done, kill),  # type: ignore[arg-type, return-value]
        )
    assert len(ids_of(tmp_path / "run")) >= 9  # the first process's half
    collect_in_processes(work(), tmp_path / "run", 2)
    is_whole(tmp_path / "run", 18)
    collect(work(), tmp_path / "one")
    assert ids_of(tmp_path / "run") == ids_of(tmp_path / "one")


def test_an_interrupt_stops_all_and_keeps_what_is_finished(work: Callable[..., Work], tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    outcome = collect_in_processes(
        work(max_tokens=40),
        tmp_path / "run",
        2,
        progress=lambda total, done: Display(total, done, interrupt),  # type: ignore[arg-type, return-value]
    )
    assert outcome.interrupted
    assert not multiprocessing.active_children()
    kept = ids_of(tmp_path / "run")
    assert len(kept) == outcome.n_sequences < 18
    collect_in_processes(work(max_tokens=40), tmp_path / "run", 2)
    is_whole(tmp_path / "run", 18)
    assert kept.items() <= ids_of(tmp_path / "run").items()


def test_an_error_of_another_process_is_raised_here(work: Callable[..., Work], tmp_path: Path) -> None:
    given = work()
    model = copy.copy(given.model)
    object.__setattr__(model, "path", tmp_path / "no-such-model")
    given = replace(given, model=model)
    with pytest.raises(ToolkitError, match="no-such-model"):
        collect_in_processes(given, tmp_path / "run", 2)
    assert len(ids_of(tmp_path / "run")) == 9


@pytest.mark.parametrize("n", [0, 3, -1])
def test_a_number_that_makes_no_sense_is_refused(n: int, work: Callable[..., Work], tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match=f"processes.*: {n} is outside 1 to 2, the cores that there are"):
        collect_in_processes(work(), tmp_path / "run", n)
    assert not (tmp_path / "run").exists()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 4)), max_size=12), st.integers(1, 5)
)
def test_every_sequence_is_dealt_once_in_about_equal_shares(
    sizes: list[tuple[int, bool, int]], n: int
) -> None:
    plans = [
        PromptPlan(
            f"p{i}",
            [1],
            [("greedy", 0)] * greedy
            + [("sample", j) for j in range(samples)]
            + [("beam", j) for j in range(beams)],
        )
        for i, (samples, greedy, beams) in enumerate(sizes)
        if samples or greedy or beams
    ]
    shares = deal(plans, n)
    assert len(shares) == n
    dealt = Counter((plan.prompt_id, one) for share in shares for plan in share for one in plan.sequences)
    assert dealt == Counter((plan.prompt_id, one) for plan in plans for one in plan.sequences)
    for share in shares:
        for plan in share:
            beams = [one for one in plan.sequences if one[0] == "beam"]
            everything = next(one for one in plans if one.prompt_id == plan.prompt_id).sequences
            assert beams in ([], [one for one in everything if one[0] == "beam"])
    totals = [sum(len(plan.sequences) for plan in share) for share in shares]
    largest = max((len(plan.sequences) for plan in plans), default=0)
    assert max(totals) - min(totals) <= largest


def test_outcomes_are_added_up() -> None:
    one, other = Outcome(3, 30, 0, 1, False, 9.0), Outcome(4, 40, 0, 0, True, 8.0)
    assert processes._together([one, other], 5, 10.0) == Outcome(7, 70, 5, 1, True, 10.0)
