"""A collection that is killed at any moment goes on, and ends as if it had never been killed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.conftest import MockCollect
from tests.faults.mock_collection import N_PROMPTS, N_SAMPLES
from tests.faults.tally import Record, tell
from toolkit.store import open_run
from toolkit.store.layout import MANIFEST
from toolkit.store.validate import validate

N_KILLS = 30

Sequences = dict[tuple[str, str, int], list[int]]


def stored(run: Path) -> Sequences:
    """Committed sequences and their token ids; none where no run was begun."""
    if not (run / MANIFEST).exists():
        return {}
    return {record.key: record.token_ids.tolist() for record in open_run(run).iter_sequences()}


@pytest.fixture(scope="module")
def whole(mock_collect: MockCollect, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sequences, int]:
    """What an uninterrupted collection gives, and how many events it has."""
    run = tmp_path_factory.mktemp("whole") / "run"
    answer = mock_collect(run)
    assert answer["status"] == 0
    return stored(run), answer["events"]


@pytest.mark.parametrize("moment", range(N_KILLS))
def test_killed_at_any_moment_and_resumed_it_is_the_same_run(
    moment: int,
    whole: tuple[Sequences, int],
    mock_collect: MockCollect,
    tmp_path: Path,
    record_property: Record,
) -> None:
    expected, n_events = whole
    run = tmp_path / "run"
    killed = mock_collect(run, die_at=int(np.linspace(1, n_events, N_KILLS)[moment]))
    assert killed["status"] == -signal.SIGKILL
    committed = stored(run)
    resumed = mock_collect(run)
    assert resumed["status"] == 0
    assert resumed["n_sequences"] == len(expected) - len(committed)
    after = stored(run)
    tell(record_property, "SIGKILL in a collection", rows_lost=len(committed.keys() - after.keys()))
    assert committed.items() <= after.items()
    assert after == expected
    assert len(open_run(run).sequences_df()) == len(expected) == N_PROMPTS * (N_SAMPLES + 1)
    assert len(open_run(run).watched_df()) == 2 * sum(map(len, expected.values()))
    assert list(validate(run)) == []
    assert not [path for path in run.rglob("*") if path.name.endswith(".tmp")]


def test_one_run_killed_again_and_again_never_loses_a_row(
    whole: tuple[Sequences, int], mock_collect: MockCollect, tmp_path: Path, record_property: Record
) -> None:
    expected, n_events = whole
    run, committed, deaths = tmp_path / "run", Sequences(), 0
    while True:
        answer = mock_collect(run, die_at=n_events // 6 + 3 * deaths)
        now = stored(run)
        assert committed.items() <= now.items()
        committed = now
        if answer["status"] == 0:
            break
        deaths += 1
    lost = len(expected.keys() - committed.keys())
    tell(record_property, "SIGKILL again and again in one run", n=deaths, rows_lost=lost)
    assert deaths >= 3
    assert committed == expected
    assert list(validate(run)) == []


def test_commits_are_spread_over_the_moments(
    whole: tuple[Sequences, int], mock_collect: Any, tmp_path: Path
) -> None:
    """Else the test above would only ever kill before or after everything."""
    expected, n_events = whole
    seen = set()
    for moment in (1, n_events // 4, n_events // 2, 3 * n_events // 4, n_events):
        run = tmp_path / str(moment)
        mock_collect(run, die_at=moment)
        seen.add(len(stored(run)))
    assert len(seen) == 5
    assert min(seen) == 0
    assert max(seen) == len(expected)
