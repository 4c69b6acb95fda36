"""What CSV and JSON Lines say of a table is what is stored, whatever a model wrote."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.exporting.odd_runs import Odd, odd_runs
from tests.graded import graded_run
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run, prompt_name
from toolkit.aggregation.selection import EVERYTHING, Selection
from toolkit.errors import ToolkitError
from toolkit.exporting import table_text
from toolkit.exporting.cells import csv_cells, json_values
from toolkit.store import Run, RunWriter, open_run, open_runs
from toolkit.store.parquet import TableFile
from toolkit.store.schemas import TABLES

FEW = settings(max_examples=15, deadline=None)
TABLES_OF_ANY_RUN = ("prompts", "sequences", "segments", "tokens", "alternatives", "vocabulary")


def text_of(run: Run, *arguments: Any, **more: Any) -> str:
    return b"".join(table_text(open_runs([run.path]), *arguments, **more)).decode()


def stored(run: Run, table: str) -> pa.Table:
    schema = TABLES[table].schema
    rows = [schema.empty_table(), *(rows.cast(schema) for rows in run.iter_row_groups(table))]
    return pa.concat_tables(rows)


def is_empty(run: Run, table: str) -> bool:
    return stored(run, table).num_rows == 0


def plain_cell(text: str) -> str:
    """A cell as it was before it was kept from being run as a formula."""
    return text[1:] if re.match(r"'+[=+\-@\t\r\n]", text) else text


def value_of(cell: str | None, kind: pa.DataType) -> Any:
    """A cell of CSV back to what is stored; -9999.0 is -inf."""
    if cell is None:
        return None
    if pa.types.is_binary(kind):
        return bytes.fromhex(cell)
    if pa.types.is_list(kind):
        return json.loads(cell)
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[cell]
    if pa.types.is_integer(kind):
        return int(cell)
    if pa.types.is_floating(kind):
        assert re.search(r"[.e]", cell)
        return -math.inf if float(cell) == -9999.0 else float(cell)
    return plain_cell(cell)


def as_stored(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else kind.to_pandas_dtype()(v) for v in values], kind)
    return pa.array(values, kind)


def from_csv(text: str, table: str) -> pa.Table:
    """A reader that tells an empty cell from an empty text."""
    columns = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(TABLES[table].names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    cells = pyarrow.csv.read_csv(io.BytesIO(text.encode()), parse_options=options, convert_options=columns)
    schema = TABLES[table].schema
    return pa.table(
        [
            as_stored([value_of(cell, field.type) for cell in cells[field.name].to_pylist()], field.type)
            for field in schema
        ],
        schema=schema,
    )


def from_json(line: str, table: str) -> dict[str, Any]:
    row = json.loads(line)
    for field in TABLES[table].schema:
        value = row[field.name]
        if pa.types.is_binary(field.type) and value is not None:
            row[field.name] = bytes.fromhex(value)
        elif pa.types.is_floating(field.type) and value is not None:
            assert isinstance(value, float)
            row[field.name] = -math.inf if value == -9999.0 else float(field.type.to_pandas_dtype()(value))
        elif field.name in ("messages", "metadata") and value is not None:
            row[field.name] = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return row


@FEW
@given(odd_runs())
def test_every_table_comes_back_from_csv_as_it_is_stored(odd: Odd) -> None:
    with odd.run() as run:
        for table in TABLES_OF_ANY_RUN:
            if not is_empty(run, table):
                expected = stored(run, table)
                if table == "vocabulary":
                    expected = expected.sort_by("token_id")
                assert from_csv(text_of(run, table, "csv"), table).equals(expected), table


@FEW
@given(odd_runs())
def test_every_table_comes_back_from_json_lines_as_it_is_stored(odd: Odd) -> None:
    with odd.run(batch=99) as run:
        for table in TABLES_OF_ANY_RUN:
            if not is_empty(run, table):
                lines = text_of(run, table, "jsonl").splitlines()  # no character of a text ends a line
                assert [from_json(line, table) for line in lines] == stored(run, table).to_pylist(), table


@pytest.mark.parametrize("table", ["tokens", "sequences", "segments", "alternatives", "prompts"])
def test_pandas_reads_the_frame_of_the_table(tmp_path: Path, table: str) -> None:
    run = open_run(make_run(tmp_path / "run"))
    (tmp_path / "x.csv").write_text(text_of(run, table, "csv"), encoding="utf-8")
    kinds = {field.name: field.type for field in TABLES[table].schema}
    texts = [name for name, kind in kinds.items() if not (pa.types.is_primitive(kind))]
    read = pd.read_csv(
        tmp_path / "x.csv",
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={name: [""] for name in kinds if name not in texts},
    )
    rows = stored(run, table)
    assert read.columns.tolist() == rows.column_names
    for name, kind in kinds.items():
        expected = rows[name].to_pylist()
        found = [None if pd.isna(cell) or cell == "" else cell for cell in read[name].tolist()]
        if name in texts:
            found = [None if cell is None else value_of(cell, kind) for cell in found]
            expected = [value if value else None for value in expected]
            found = [value if value else None for value in found]
        elif pa.types.is_floating(kind):
            found = [None if v is None else float(kind.to_pandas_dtype()(v)) for v in found]
        assert found == expected, name


@given(
    st.lists(st.one_of(st.floats(width=32), st.sampled_from([-9999.0, 1e7, 1e-7, 123456789.0])), min_size=1)
)
@example([0.1, -0.0, 2.0**-149, -3.4028234663852886e38])
def test_a_float32_has_the_fewest_digits_that_give_it_back(values: list[float]) -> None:
    column = pa.array(np.array(values, np.float32))
    for texts in (csv_cells(column).to_pylist(), json_values(column).to_pylist()):
        for value, text in zip(np.array(values, np.float32), texts, strict=True):
            if np.isfinite(value):
                assert np.float32(text) == value
                assert isinstance(json.loads(text), float)
                assert len(text.lstrip("-").split("e")[0].replace(".", "").strip("0")) <= 9
            else:
                assert text == {"nan": None, "inf": "9999.0", "-inf": "-9999.0"}[str(value)]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_double_comes_back_exactly(values: list[float]) -> None:
    assert [float(text) for text in csv_cells(pa.array(values)).to_pylist()] == values


@given(st.text(st.sampled_from("'=+-@\t\r\n a"), max_size=6))
def test_no_cell_can_be_run_as_a_formula_and_each_comes_back(text: str) -> None:
    (cell,) = csv_cells(pa.array([text])).to_pylist()
    read = cell[1:-1].replace('""', '"') if cell.startswith('"') else cell
    assert not read.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert plain_cell(read) == text


def test_what_a_cell_looks_like() -> None:
    texts = ["plain", "=1+1", "'=1", "'quoted'", 'a "b", c', "two\nlines", " x", "", None]
    assert csv_cells(pa.array(texts)).to_pylist() == [
        "plain",
        "'=1+1",
        "''=1",
        "'quoted'",
        '"a ""b"", c"',
        '"two\nlines"',
        '" x"',
        '""',
        None,
    ]
    assert csv_cells(pa.array([b"\xe2\x82", b"", None])).to_pylist() == ["e282", '""', None]
    assert csv_cells(pa.array([["a", "b"], []])).to_pylist() == ['"[""a"",""b""]"', "[]"]
    assert csv_cells(pa.array([True, None, False])).to_pylist() == ["true", None, "false"]


def test_null_is_an_empty_cell_and_a_line_of_its_own_where_there_is_but_one(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", n_prompts=1))
    text = text_of(run, "sequences", "csv", ["beam_score"])
    assert text == "beam_score\n" + '""\n' * stored(run, "sequences").num_rows
    two = text_of(run, "sequences", "csv", ["beam_score", "n_tokens"])
    assert all(re.fullmatch(r",\d+", line) for line in two.splitlines()[1:])


def test_columns_are_chosen_in_their_order(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    assert text_of(run, "tokens", "csv", ["logprob", "token_id"]).startswith("logprob,token_id\n")
    (first, *_) = text_of(run, "tokens", "jsonl", ["rank", "bytes"]).splitlines()
    assert list(json.loads(first)) == ["rank", "bytes"]


def test_only_the_selected_rows_are_written(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", watched=(3, 7), watch_at="every"))
    chosen = Selection([prompt_name(1)], ["sample"], [0, 2])
    for table in ("tokens", "segments", "alternatives", "watched", "sequences"):
        rows = [json.loads(line) for line in text_of(run, table, "jsonl", None, chosen).splitlines()]
        expected = run.load(table, None, [prompt_name(1)], ["sample"]).to_pylist()
        kept = [row for row in expected if row["sample_index"] in (0, 2)]
        assert [row["sample_index"] for row in rows] == [row["sample_index"] for row in kept]
    lines = text_of(run, "sequences", "csv", ["text"], Selection(samples=[1])).splitlines()
    assert len(lines) == 1 + 3


def test_watched_tokens_are_a_table_and_change_no_other_export(tmp_path: Path) -> None:
    watching = open_run(make_run(tmp_path / "watching", watched=(3, 7)))
    plain = open_run(make_run(tmp_path / "plain"))
    rows = [json.loads(line) for line in text_of(watching, "watched", "jsonl").splitlines()]
    expected = watching.load("watched").to_pylist()
    assert rows == [{**row, "logprob": pytest.approx(row["logprob"], rel=1e-7)} for row in expected]
    for table in TABLES_OF_ANY_RUN[:-1]:
        assert text_of(watching, table, "jsonl") == text_of(plain, table, "jsonl")


def test_grades_and_tokens_of_prompts_are_tables_too(tmp_path: Path) -> None:
    run = graded_run(tmp_path / "run")
    assert from_csv(text_of(run, "grades", "csv"), "grades").equals(stored(open_run(run.path), "grades"))


def test_the_vocabulary_has_each_id_once_where_two_processes_met_it(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_prompts=1)
    with RunWriter.open(path, make_manifest()) as writer:
        writer.add_prompts([make_prompt("more", 9)])
        writer._named.clear()  # as a process that began at the same time
        writer.commit([make_record("more")], VOCABULARY)
    ids = [int(line) for line in text_of(open_run(path), "vocabulary", "csv", ["token_id"]).splitlines()[1:]]
    assert len(stored(open_run(path), "vocabulary")) > len(ids)
    assert ids == sorted(set(ids))


def test_several_runs_carry_their_labels(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / name, n_prompts=1) for name in ("one", "two")]
    text = b"".join(table_text(open_runs(paths), "sequences", "csv", ["kind", "n_tokens"])).decode()
    head, *lines = text.splitlines()
    assert head == "run,model,temperature,top_p,kind,n_tokens"
    assert lines[0].startswith("one,made,0.8,1.0,")
    assert lines[-1].startswith("two,made,0.8,1.0,")
    assert text.count("run,model") == 1
    rows = b"".join(table_text(open_runs(paths), "tokens", "jsonl", ["rank"])).decode().splitlines()
    assert list(json.loads(rows[0])) == ["run", "model", "temperature", "top_p", "rank"]


def test_a_row_group_is_read_when_its_rows_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = open_runs([make_run(tmp_path / "run", batch=3)])
    reads: list[str] = []
    original = TableFile.read

    def spy(self: TableFile, *arguments: Any, **more: Any) -> pa.Table:
        reads.append(self.table.name)
        return original(self, *arguments, **more)

    monkeypatch.setattr(TableFile, "read", spy)
    chunks = table_text(runs, "tokens", "csv")
    assert (next(chunks)[:9], next(chunks)[:9]) == (b"prompt_id", b"question-")
    assert reads.count("tokens") == 1
    assert sum(1 for _ in chunks) == 4
    assert reads.count("tokens") == 5


@pytest.mark.parametrize(
    ("table", "columns", "selection", "message"),
    [
        ("token", None, EVERYTHING, "there is no table 'token'; there are prompts"),
        ("tokens", ["logprop"], EVERYTHING, "tokens has no column 'logprop'; it has prompt_id"),
        ("tokens", [], EVERYTHING, "no column is named; tokens has prompt_id"),
        ("tokens", None, Selection(["nobody"]), "'nobody' is not in"),
        ("tokens", None, Selection(samples=[99]), "nothing is selected"),
        ("tokens", None, Selection(kinds=["beam"]), "nothing is selected"),
        ("prompts", None, Selection(kinds=["greedy"]), "kinds: the table prompts has no kind"),
        ("prompts", None, Selection(samples=[0]), "samples: the table prompts has no sample_index"),
        ("vocabulary", None, Selection([prompt_name(0)]), "prompts: the table vocabulary has no prompt_id"),
        ("grades", None, EVERYTHING, "has no rows of it: nothing is graded; run toolkit grade first"),
        ("prompt_tokens", None, EVERYTHING, "were not scored when it was collected"),
        ("alternatives", None, EVERYTHING, "none were kept when it was collected"),
        ("watched", None, EVERYTHING, "no token was watched when it was collected"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    tmp_path: Path, table: str, columns: list[str] | None, selection: Selection, message: str
) -> None:
    runs = open_runs([make_run(tmp_path / "run", k=0 if table == "alternatives" else 5)])
    with pytest.raises(ToolkitError, match=re.escape(message)):
        next(table_text(runs, table, "csv", columns, selection))
