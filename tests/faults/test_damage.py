"""A damaged file costs what it held and nothing else: it is moved aside and collected again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.conftest import MockCollect
from tests.faults.test_kill import stored
from toolkit.errors import DataFault
from toolkit.store import open_run
from toolkit.store.layout import DAMAGED, committed_parts, part_path
from toolkit.store.schemas import GROUPS
from toolkit.store.validate import validate


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"other": [1, 2]}), path)


def lost(path: Path) -> None:
    path.unlink()


DAMAGES = (truncated, flipped, emptied, foreign, lost)
TABLES = (*GROUPS["sequences"], "prompts", "vocabulary")


@pytest.fixture(scope="module")
def whole(mock_collect: MockCollect, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    mock_collect(run)
    return run


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_moved_aside_and_only_what_it_held_is_collected_again(
    damage: Callable[[Path], None], table: str, whole: Path, mock_collect: MockCollect, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    expected = stored(run)
    group = next(name for name, tables in GROUPS.items() if table in tables)
    part = committed_parts(run, group)[1 if group == "sequences" else 0]
    held = open_run(run).load("sequences").num_rows if group == "sequences" else 0
    damage(part_path(run, table, part))
    assert list(validate(run)) != []
    answer = mock_collect(run)
    assert answer["status"] == 0, answer
    if group == "sequences" and not (damage is lost and table == "sequences"):
        assert 0 < answer["n_sequences"] < held
        assert any((run / DAMAGED).rglob(f"*{part}*"))
    assert stored(run) == expected
    assert list(validate(run)) == []


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_readers_name_a_damaged_file_in_one_line(
    damage: Callable[[Path], None], table: str, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    group = next(name for name, tables in GROUPS.items() if table in tables)
    damage(part_path(run, table, committed_parts(run, group)[0]))
    for read in ("tokens_df", "segments_df", "sequences_df", "alternatives_df", "prompts_df", "spans_df"):
        try:
            getattr(open_run(run), read)()
        except DataFault as fault:
            assert "\n" not in str(fault)
            assert table in str(fault) or damage is lost
