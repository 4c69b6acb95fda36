"""Similarities from a file: CSV, JSON Lines or Parquet, each row checked and named where it is wrong."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from toolkit.aggregation.answer_pairs import Answers
from toolkit.aggregation.similarity_files import read_pairs
from toolkit.errors import ToolkitError

SAMPLES = [("sample", 0), ("sample", 1), ("sample", 3)]
ANSWERS = [
    Answers("p0", "", [("greedy", 0), *SAMPLES], ["a", "b", "c", "d"]),
    Answers("7", "", SAMPLES, ["a", "b", "c"]),
]
ROWS: list[dict[str, Any]] = [
    {"prompt_id": name, "i": i, "j": j, "value": (i + j) / 10}
    for name in ("p0", "7")
    for i, j in combinations((0, 1, 3), 2)
]
OF_GREEDY: list[dict[str, Any]] = [
    {"prompt_id": "p0", "i": "greedy", "j": j, "value": 0.5} for j in (0, 1, 3)
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pd.DataFrame([{**row, "i": str(row["i"])} for row in rows]).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in read_pairs(write(path, rows), ANSWERS).to_pylist()]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".ndjson", ".parquet"])
def test_the_pairs_of_samples_come_back(ending: str, tmp_path: Path) -> None:
    expected = [(row["prompt_id"], "sample", row["i"], "sample", row["j"], row["value"]) for row in ROWS]
    assert read(tmp_path / f"pairs{ending}", ROWS) == expected


def test_pairs_with_the_greedy_answer_are_all_there_or_none(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.csv", [*ROWS, *OF_GREEDY])
    assert ("p0", "greedy", 0, "sample", 3, 0.5) in found
    assert len(found) == len(ROWS) + 3
    with pytest.raises(ToolkitError, match="no value of greedy and sample 3 of prompt 'p0'"):
        read(tmp_path / "pairs.csv", [*ROWS, *OF_GREEDY[:2]])


def test_either_order_both_with_one_value_and_a_sample_with_itself(tmp_path: Path) -> None:
    turned = [{**row, "i": row["j"], "j": row["i"]} for row in ROWS]
    itself = {"prompt_id": "7", "i": 1, "j": 1, "value": 1}
    plain = read(tmp_path / "pairs.jsonl", ROWS)
    assert read(tmp_path / "pairs.jsonl", turned) == plain
    assert read(tmp_path / "pairs.jsonl", [*ROWS, *turned, itself]) == plain


def changed(number: int, **values: Any) -> list[dict[str, Any]]:
    return [{**row, **values} if i == number else row for i, row in enumerate(ROWS)]


WRONG = {
    "unknown prompt": (changed(2, prompt_id="p9"), r":3: prompt_id 'p9' is not in the run"),
    "unknown sample": (changed(1, j=2), r":2: j '2' is no sample of prompt 'p0': .* 0 to 3 or greedy"),
    "no greedy answer": (changed(3, i="greedy"), r":4: i 'greedy' is no sample of prompt '7'"),
    "a word": (changed(0, i="first"), r":1: i 'first' is no sample"),
    "half a sample": (changed(0, i=0.5), r":1: i '0\.5' is no sample"),
    "above 1": (changed(4, value=1.01), r":5: value '1\.01' is no similarity: give a number from 0 to 1"),
    "below 0": (changed(4, value=-0.01), r":5: value '-0\.01' is no similarity"),
    "no number": (changed(0, value="high"), r":1: value 'high' is no similarity"),
    "NaN": (changed(0, value="nan"), r":1: value 'nan' is no similarity"),
    "null": (changed(0, value=None), r":1: there is no value: give prompt_id, i, j, value"),
    "a switch": (changed(0, value=True), r":1: value 'True' is no similarity"),
    "a missing pair": (ROWS[:-1], r": there is no value of sample 1 and sample 3 of prompt '7'"),
    "a missing prompt": (ROWS[:3], r": there is no value of sample 0 and sample 1 of prompt '7'"),
    "two values": (
        [*ROWS, {"prompt_id": "p0", "i": 1, "j": 0, "value": 0.7}],
        r":7: value 0\.7 of sample 1 and sample 0 .* which have 0\.1 at .*:1: give one value a pair",
    ),
    "itself": (
        [*ROWS, {"prompt_id": "p0", "i": 1, "j": 1, "value": 0.9}],
        r":7: value 0\.9 of a sample with itself: give 1",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_row_that_cannot_be_is_named_by_its_line(case: str, tmp_path: Path) -> None:
    rows, message = WRONG[case]
    path = tmp_path / "pairs.jsonl"
    with pytest.raises(ToolkitError, match=f"^{re.escape(str(path))}{message}") as raised:
        read(path, rows)
    assert "\n" not in str(raised.value)


def test_lines_of_csv_count_from_its_head_and_rows_of_parquet_from_1(tmp_path: Path) -> None:
    rows = changed(2, prompt_id="p9")
    with pytest.raises(ToolkitError, match=r"pairs\.csv:4: prompt_id 'p9'"):
        read(tmp_path / "pairs.csv", rows)
    with pytest.raises(ToolkitError, match=r"pairs\.parquet, row 3: prompt_id 'p9'"):
        read(tmp_path / "pairs.parquet", rows)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", r"ends in '\.txt': give one of \.csv, \.jsonl"),
        ("a.csv", b"prompt_id,i,j\np0,0,1\n", "no column value: give prompt_id, i, j, value"),
        ("a.csv", b"\xff\xfe", "not UTF-8"),
        ("a.csv", b"prompt_id,i,j,value\n" + b'p0,0,1,"' + b"x" * 200_000 + b'"\n', "not CSV"),
        ("a.jsonl", b"{\n", r"a\.jsonl:1: not JSON"),
        ("a.jsonl", b"\n[1]\n", r"a\.jsonl:2: '\[1\]' is no object with prompt_id"),
        ("a.parquet", b"PAR1", "is no Parquet file"),
    ],
)
def test_a_file_that_is_none_is_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ToolkitError, match=message) as raised:
        read_pairs(path, ANSWERS)
    assert "\n" not in str(raised.value)


def test_a_parquet_file_needs_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame(ROWS).drop(columns="j").to_parquet(path)
    with pytest.raises(ToolkitError, match="no column j"):
        read_pairs(path, ANSWERS)
    with pytest.raises(ToolkitError, match="cannot be read"):
        read_pairs(tmp_path / "none.csv", ANSWERS)
