"""docs/format.md has every table as the schema says, its queries run, and its writer writes a run."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.graded import graded_run
from tests.store.factory import make_run
from toolkit.store import Run, open_run, reference
from toolkit.store.grades import write_grades
from toolkit.store.schemas import GRADES, TABLES, Column, Table
from toolkit.store.validate import validate

PAGE = Path(__file__).parents[2] / "docs" / "format.md"
TEXT = PAGE.read_text(encoding="utf-8")
KEY = ["prompt_id", "kind", "sample_index"]
COLUMNS = [(table, column) for table in TABLES.values() for column in table.columns]
NAMES = [f"{table.name}.{column.name}" for table, column in COLUMNS]


def blocks(language: str, label: str) -> Iterator[tuple[str, str]]:
    """The head of the section of each block of this label, and its code."""
    for part in re.split(r"^##+ ", TEXT, flags=re.MULTILINE)[1:]:
        for code in re.findall(rf"```{language}\n(?:#|--) {label}\n(.*?)```", part, re.DOTALL):
            yield part.partition("\n")[0], code


def test_the_page_is_up_to_date() -> None:
    assert reference.updated(TEXT) == TEXT, "run python -m toolkit.store.reference docs/format.md"


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the tables"):
        reference.updated("# Format\n")


def test_every_table_has_a_section_with_all_its_columns_in_order() -> None:
    for name, table in TABLES.items():
        own = TEXT.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert re.findall(r"^\| `(\w+)` \|", own, re.MULTILINE) == table.names


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=NAMES)
def test_every_column_has_an_example_of_its_type_and_range(table: Table, column: Column) -> None:
    value = reference.example(table, column)
    assert pa.array([value], column.type)[0].as_py() == value
    check(column, pa.chunked_array([pa.array([value], column.type)]), column.name)


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=NAMES)
def test_the_page_says_what_null_means_where_there_may_be_one(table: Table, column: Column) -> None:
    own = TEXT.partition(f"\n### {table.name}\n")[2]
    cells = re.search(rf"^\| `{column.name}` \| (.*) \|$", own, re.MULTILINE)
    assert cells is not None
    null = cells[1].split(" | ")[2]
    assert (null == "never") is not column.nullable
    assert "null" not in null


def check(column: Column, values: pa.ChunkedArray, name: str) -> None:
    """Every value is one that the page allows."""
    if column.name in reference.WORDS:
        assert set(values.cast(pa.string()).drop_null().to_pylist()) <= set(reference.WORDS[column.name]), (
            name
        )
    bounds = reference.allowed(column)
    if bounds is None:
        return
    flat = values.combine_chunks().flatten() if pa.types.is_list(values.type) else values
    found = pc.min_max(flat).as_py()
    if found["min"] is not None:
        assert bounds.low is None or found["min"] >= bounds.low - 1e-3, name
        assert bounds.high is None or found["max"] <= bounds.high + 1e-3, name


def test_stored_values_are_in_the_ranges_of_the_page(tmp_path: Path) -> None:
    run = graded_run(tmp_path / "run")
    for name, table in TABLES.items():
        rows = run.load(name)
        for column in table.columns:
            if name in ("grades", *run.manifest.tables) or run.parts(name):
                check(column, rows[column.name], f"{name}.{column.name}")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Several parts, and judgements of which some are null."""
    path = make_run(tmp_path_factory.mktemp("queries") / "run", batch=4)
    sequences = open_run(path).load("sequences", [*KEY, "text"])
    n = sequences.num_rows
    judged = {
        **{name: sequences[name].cast(pa.string() if name != "sample_index" else pa.int32()) for name in KEY},
        "span_kind": ["sequence"] * n,
        "span_start": [0] * n,
        "span_end": [len(text) for text in sequences["text"].to_pylist()],
        "grader": ["made"] * n,
        "config_hash": ["00"] * n,
        "value": [(0.0, 1.0, None)[i % 3] for i in range(n)],
        "extracted": [None] * n,
    }
    write_grades(path, pa.table(judged, GRADES.schema), "made", "00", {})
    return open_run(path)


def answers(run: Run) -> dict[str, dict[str, pd.DataFrame]]:
    """What each engine's block of each query gives."""
    import duckdb

    found: dict[str, dict[str, pd.DataFrame]] = {}
    for label in ("pandas", "Polars"):
        for head, code in blocks("python", label):
            space: dict[str, Any] = {}
            exec(code.replace("data/raw/demo", str(run.path)), space)
            frame = space["result"]
            found.setdefault(head, {})[label] = frame if label == "pandas" else to_pandas(frame)
    for head, code in blocks("sql", "DuckDB"):
        with duckdb.connect() as connection:
            found.setdefault(head, {})["DuckDB"] = connection.sql(
                code.replace("data/raw/demo", str(run.path))
            ).df()
    return found


def to_pandas(frame: Any) -> pd.DataFrame:
    return pd.DataFrame(frame.to_dict(as_series=False))


def check_same(mine: pd.DataFrame, theirs: pd.DataFrame, name: str) -> None:
    """The same columns and rows in the same order; means may differ in their last bits."""
    assert list(mine.columns) == list(theirs.columns), name
    for column in mine.columns:
        if mine[column].dtype.kind == "f":
            np.testing.assert_allclose(mine[column], theirs[column], rtol=1e-5, err_msg=f"{name}: {column}")
        else:
            assert mine[column].tolist() == theirs[column].tolist(), (name, column)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_query_runs_and_the_engines_agree(run: Run) -> None:
    found = answers(run)
    assert len(found) == 3
    for head, by_engine in found.items():
        assert by_engine.keys() == {"pandas", "Polars", "DuckDB"}, head
        first = by_engine["pandas"]
        assert len(first), head
        for frame in by_engine.values():
            check_same(first, frame, head)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_queries_say_what_the_package_says(run: Run) -> None:
    found = answers(run)
    means = found["Mean log-probability of each sequence"]["DuckDB"].set_index(KEY)["mean_logprob"]
    for record in run.iter_sequences():
        kept = record.statistics.logprob[record.alignment.byte_start < record.alignment.n_bytes]
        if len(kept):
            assert means[record.key] == pytest.approx(float(np.mean(kept, dtype=np.float64)), rel=1e-6)
    likely = found["The likely tokens at each position, with what a person reads"]["DuckDB"]
    assert len(likely) == run.load("alternatives").num_rows
    graded = found["Confidence of right and of wrong answers"]["DuckDB"]
    assert graded["size"].sum() == pc.count(run.load("grades")["value"]).as_py()


def test_the_writer_of_the_page_writes_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [(_, code)] = blocks("python", "a writer")
    assert "toolkit." not in re.sub(r"[\"']toolkit\.\w+[^\n]*", "", code)
    (tmp_path / "data" / "raw").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    path = tmp_path / "data" / "raw" / "mine"
    assert [str(finding) for finding in validate(path)] == []
    run = open_run(path)
    [record] = list(run.iter_sequences())
    assert (record.alignment.text, record.statistics.logprob.tolist()) == ("Paris", [-0.5, -0.125, -0.25])
    assert run.manifest.model["name"] == "mine-7b"
    assert [path.name for path in path.parent.iterdir()] == ["mine"]


def test_the_writer_of_the_page_has_the_version_and_columns_of_today() -> None:
    [(_, code)] = blocks("python", "a writer")
    assert f'VERSION, SESSION = "{reference.SCHEMA_VERSION}"' in code
    space: dict[str, Any] = {}
    exec(code.partition("\ndef write(")[0], space)
    for name, text in space["COLUMNS"].items():
        schema = pa.schema([space["field"](one) for one in text.split()])
        assert schema == TABLES[name].schema, name
        assert space["ORDER"][name] == ",".join(TABLES[name].order)


def test_a_folder_is_read_whole_by_any_reader(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=5)
    (path / "tokens" / ".hidden.parquet.tmp").write_bytes(b"half")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pd.read_parquet(path / "tokens")
    assert len(frame) == open_run(path).load("tokens").num_rows
