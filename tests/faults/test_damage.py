"""A damaged file costs what it held and nothing else: it is moved aside and collected again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.conftest import MockCollect
from tests.faults.tally import Record, tell
from tests.faults.test_kill import stored
from toolkit.errors import DataFault
from toolkit.store import Run, open_run
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
    damage: Callable[[Path], None],
    table: str,
    whole: Path,
    mock_collect: MockCollect,
    tmp_path: Path,
    record_property: Record,
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
    n_lost = len(expected.keys() - stored(run).keys())
    tell(
        record_property, "a file truncated, flipped, emptied, foreign or gone, then resumed", rows_lost=n_lost
    )
    assert stored(run) == expected
    assert list(validate(run)) == []


READS: dict[str, Callable[[Run], object]] = {
    "tokens": Run.tokens_df,
    "segments": Run.segments_df,
    "alternatives": Run.alternatives_df,
    "watched": Run.watched_df,
    "sequences": Run.sequences_df,
    "prompts": Run.prompts_df,
    "vocabulary": lambda run: run.vocabulary,
}
# A file that is gone is missed beside the others of its part; alone, only the counts of the manifest tell.
NAMED = [(d, t) for t in TABLES for d in DAMAGES if not (d is lost and t in GROUPS)]


@pytest.mark.parametrize(("damage", "table"), NAMED)
def test_readers_name_a_damaged_file_in_one_line(
    damage: Callable[[Path], None], table: str, whole: Path, tmp_path: Path, record_property: Record
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    group = next(name for name, tables in GROUPS.items() if table in tables)
    damage(part_path(run, table, committed_parts(run, group)[0]))
    tell(record_property, "a damaged file, read")
    with pytest.raises(DataFault) as raised:
        READS[table](open_run(run))
    assert "\n" not in str(raised.value)
    assert table in str(raised.value)
