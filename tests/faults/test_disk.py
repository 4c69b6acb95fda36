"""A disk that is full, read-only or broken at any moment: one line, a valid run, and it goes on later."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from tests.faults.conftest import MockCollect
from tests.faults.tally import Record, tell
from tests.faults.test_kill import Sequences, stored
from toolkit.store.layout import MANIFEST
from toolkit.store.validate import validate

N_MOMENTS = 12
REFUSALS = {"full": errno.ENOSPC, "read-only": errno.EROFS, "broken": errno.EIO, "over quota": errno.EDQUOT}


@pytest.fixture(scope="module")
def whole(mock_collect: MockCollect, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sequences, int]:
    """What an uninterrupted collection gives, and how many events on disk it has."""
    run = tmp_path_factory.mktemp("whole") / "run"
    answer = mock_collect(run, fail_at=0)
    return stored(run), answer["events"]


@pytest.mark.parametrize("stays", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("moment", range(N_MOMENTS))
def test_a_write_that_is_refused_is_one_line_and_the_run_goes_on_later(
    moment: int,
    stays: bool,
    whole: tuple[Sequences, int],
    mock_collect: MockCollect,
    tmp_path: Path,
    record_property: Record,
) -> None:
    expected, n_events = whole
    kind, number = list(REFUSALS.items())[moment % len(REFUSALS)]
    run = tmp_path / "run"
    at = int(np.linspace(1, n_events, N_MOMENTS)[moment])
    refused = mock_collect(run, fail_at=at, refusal=number, stays=stays)
    if "error" in refused:
        assert refused["status"] == 1, kind
        assert "\n" not in refused["error"]
        assert str(run) in refused["error"]
    committed = stored(run)
    if (run / MANIFEST).exists():
        assert list(validate(run)) == []
    assert mock_collect(run)["status"] == 0
    lost = len(committed.keys() - stored(run).keys())
    tell(record_property, "a disk that is full, read-only or broken", rows_lost=lost)
    assert committed.items() <= stored(run).items()
    assert stored(run) == expected
    assert list(validate(run)) == []
