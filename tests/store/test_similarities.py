"""Similarities beside a run: what is written is read, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.graded import graded_run
from toolkit.errors import DataFault, ToolkitError
from toolkit.store import open_run
from toolkit.store.compact import compact
from toolkit.store.similarities import (
    PAIRS,
    find_similarities,
    read_similarities,
    similarity_sets,
    write_similarities,
)
from toolkit.store.validate import validate

ROWS = [("p1", "sample", 0, "sample", 1, 0.25), ("p0", "greedy", 0, "sample", 0, 1.0)]


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(dict(zip(PAIRS.names, columns, strict=True)), schema=PAIRS)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return graded_run(tmp_path / "run").path


def test_rows_come_back_sorted_with_their_settings(run: Path) -> None:
    write_similarities(run, table(ROWS), "nli", {"source": "file"})
    (one,) = similarity_sets(run)
    assert (one.name, one.settings) == ("nli", {"source": "file"})
    assert read_similarities(one).to_pylist() == [
        dict(zip(PAIRS.names, row, strict=True)) for row in reversed(ROWS)
    ]


def test_a_name_is_replaced_and_others_stay(run: Path) -> None:
    write_similarities(run, table(ROWS), "a", {})
    write_similarities(run, table(ROWS), "b", {})
    write_similarities(run, table(ROWS[:1]), "a", {})
    assert [read_similarities(one).num_rows for one in similarity_sets(run)] == [1, 2]


def test_a_run_with_similarities_is_valid_and_compacting_leaves_them(run: Path) -> None:
    write_similarities(run, table(ROWS), "a", {})
    assert list(validate(run)) == []
    compact(run)
    assert len(similarity_sets(run)) == 1
    rows = open_run(run).load("similarities")
    assert rows["name"].to_pylist() == ["a", "a"]


def test_a_damaged_file_is_a_finding_and_a_fault(run: Path) -> None:
    path = write_similarities(run, table(ROWS), "a", {}).path
    path.write_bytes(path.read_bytes()[:-9])
    assert str(path) in str(next(validate(run)))
    with pytest.raises(DataFault, match=r"a\.parquet"):
        similarity_sets(run)


@pytest.mark.parametrize("name", ["", "A", "0.5", "../x", "a b", "x" * 65])
def test_a_name_is_one_of_a_file_and_no_threshold(run: Path, name: str) -> None:
    with pytest.raises(ToolkitError, match="is no name for similarities"):
        write_similarities(run, table(ROWS), name, {})
    assert similarity_sets(run) == []


def test_what_a_killed_process_left_is_removed(run: Path) -> None:
    write_similarities(run, table(ROWS), "a", {})
    left = run / "similarities" / ".a.parquet.12345678.tmp"
    left.write_bytes(b"half")
    write_similarities(run, table(ROWS), "a", {})
    assert not left.exists()


def test_one_is_found_by_its_name_or_where_it_is_alone(run: Path) -> None:
    with pytest.raises(ToolkitError, match="no similarities are stored: run toolkit similarity"):
        find_similarities([], None, "RUN")
    one, other = (write_similarities(run, table(ROWS), name, {}) for name in ("a", "b"))
    assert find_similarities([one], None, "RUN") == one
    assert find_similarities([one, other], "b", "RUN") == other
    with pytest.raises(ToolkitError, match="give one of stored:a, stored:b"):
        find_similarities([one, other], None, "RUN")
    with pytest.raises(ToolkitError, match=r"as 'c'.*stored:a"):
        find_similarities([one], "c", "RUN")
