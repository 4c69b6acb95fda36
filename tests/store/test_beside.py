"""A table beside a run: whole, sealed, with its settings, and out of the way of a collection."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.store.factory import make_run
from toolkit.errors import DataFault, ToolkitError
from toolkit.store import open_run
from toolkit.store.beside import beside_settings, check_same_settings, is_beside, read_beside, write_beside
from toolkit.store.schemas import TRUTHS
from toolkit.store.validate import validate

SETTINGS = {"model": "tiny", "shown": 5}


def row(prompt_id: str, p: float | None, index: int = 0) -> dict[str, object]:
    return {
        "prompt_id": prompt_id,
        "kind": "greedy",
        "sample_index": index,
        "p_true": p,
        "mass": 0.5,
        "n_shown": 0,
    }


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), TRUTHS.schema)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


def test_rows_are_sorted_and_read_as_they_were(run: Path) -> None:
    assert not is_beside(run, "truths")
    assert read_beside(run, "truths").num_rows == 0
    write_beside(run, "truths", table(row("b", None), row("a", 0.25, 1), row("a", 0.75)), SETTINGS)
    found = read_beside(run, "truths")
    assert found.schema.equals(TRUTHS.schema)
    assert found.to_pylist() == table(row("a", 0.75), row("a", 0.25, 1), row("b", None)).to_pylist()
    assert beside_settings(run, "truths") == SETTINGS


def test_a_second_table_takes_the_place_of_the_first_and_leftovers_go(run: Path) -> None:
    write_beside(run, "truths", table(row("a", 0.75)), SETTINGS)
    left = run / "truths" / ".truths.parquet.abc.tmp"
    left.write_bytes(b"half")
    write_beside(run, "truths", table(row("b", 0.5)), {})
    assert read_beside(run, "truths")["prompt_id"].to_pylist() == ["b"]
    assert beside_settings(run, "truths") == {}
    assert not left.exists()


def test_the_table_is_one_of_the_runs_and_validate_reads_it(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*.parquet")}
    (key, *_) = sorted(open_run(run).sequence_keys())
    write_beside(run, "truths", table({**row(key[0], 0.5), "kind": key[1], "sample_index": key[2]}), SETTINGS)
    assert list(validate(run)) == []
    assert open_run(run).load("truths")["p_true"].to_pylist() == [0.5]
    assert {path: path.read_bytes() for path in before} == before


def test_other_settings_are_refused_with_what_differs(run: Path) -> None:
    check_same_settings(run, "truths", {"anything": 1})
    write_beside(run, "truths", table(row("a", 0.75)), SETTINGS)
    check_same_settings(run, "truths", dict(SETTINGS))
    with pytest.raises(
        ToolkitError, match=r'\(model: "tiny" -> "large"; seed: \(not set\) -> 1\).* overwrite'
    ):
        check_same_settings(run, "truths", {**SETTINGS, "model": "large", "seed": 1})


def test_a_damaged_file_is_a_fault_that_names_it(run: Path) -> None:
    write_beside(run, "truths", table(row("a", 0.75)), SETTINGS)
    path = run / "truths" / "truths.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    for read in (read_beside, beside_settings):
        with pytest.raises(DataFault, match=r"truths\.parquet"):
            read(run, "truths")
