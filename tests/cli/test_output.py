"""Tables as text, CSV, JSON and Parquet."""

from __future__ import annotations

import io
import json
import math
import re
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.characters import width
from toolkit.cli.output import chosen_format, json_rows, text_of, text_table, write_frame
from toolkit.errors import ToolkitError

FRAME = pd.DataFrame(
    {
        "prompt_id": ["a", "漢字"],
        "n_tokens": np.array([3, 12], np.int32),
        "mean_logprob": np.array([-0.5, -math.inf], np.float32),
        "perplexity": [math.nan, 2.0],
        "text": ["=1+1", "two\nlines"],
        "rank": pd.array([7, None], "Int64"),
    }
)


def test_text_columns_are_aligned_and_numbers_stand_right() -> None:
    assert text_of(FRAME, "table", None) == (
        "prompt_id  n_tokens  mean_logprob  perplexity  text       rank\n"
        "a                 3        -0.500           -  =1+1          7\n"
        "漢字             12          -inf       2.000  two↵lines     -\n"
    )


def test_a_table_is_cut_to_the_width_at_its_widest_text() -> None:
    text = text_table(["id", "n", "text"], [["x" * 20, 1, "y" * 200], ["z", 2, "y"]], 60)
    lines = text.splitlines()
    assert max(map(width, lines)) == 60
    assert "x" * 20 in text
    assert lines[2].endswith("…")


def test_heads_of_a_table_that_is_too_wide_take_two_lines() -> None:
    rows = [["a" * 30, 1.0]]
    assert (
        text_table(["id", "mean_logprob"], rows, 44)
        == f"id{' ' * 30}mean_logprob\n{'a' * 30}         1.000\n"
    )
    assert text_table(["id", "mean_logprob"], rows, 40) == (
        f"{' ' * 34}mean_\nid{' ' * 30}logprob\n{'a' * 30}    1.000\n"
    )


@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=90), st.floats()), max_size=5),
    st.integers(40, 120),
)
def test_any_table_fits_and_has_a_line_a_row(rows: list[tuple[str, str, float]], columns: int) -> None:
    narrow = [(a, b, max(min(c, 1e4), -1e4)) for a, b, c in rows]
    lines = text_table(["a", "b", "c"], narrow, columns).split("\n")
    assert len(lines) in (len(rows) + 2, len(rows) + 3)
    assert all(width(line) <= columns for line in lines)


def test_csv_quotes_what_a_spreadsheet_would_run() -> None:
    text = text_of(FRAME, "csv", None)
    read = pd.read_csv(io.StringIO(text))
    assert list(read["text"]) == ["'=1+1", "two\nlines"]
    assert list(read["mean_logprob"]) == [-0.5, -math.inf]
    assert math.isnan(read["perplexity"][0])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_every_start_of_a_formula_is_quoted(start: str) -> None:
    frame = pd.DataFrame({"text": [f"{start}x"], "value": [-1.5]})
    assert f"'{start}x" in text_of(frame, "csv", None)
    assert ",-1.5" in text_of(frame, "csv", None)


@given(st.lists(st.text(alphabet="'=+-@\t\nx", min_size=1, max_size=4), min_size=1, max_size=6))
def test_the_texts_of_a_csv_come_back(texts: list[str]) -> None:
    read = pd.read_csv(
        io.StringIO(text_of(pd.DataFrame({"text": texts}), "csv", None)), dtype=str, keep_default_na=False
    )
    assert not any(cell.startswith(tuple("=+-@\t\n")) for cell in read["text"])
    assert [cell[1:] if re.match(r"'+[=+\-@\t\r\n]", cell) else cell for cell in read["text"]] == texts


def test_json_has_null_and_the_masked_value() -> None:
    rows = json.loads(text_of(FRAME, "json", None))
    assert rows == json_rows(FRAME)
    assert rows[0] == {
        "prompt_id": "a",
        "n_tokens": 3,
        "mean_logprob": -0.5,
        "perplexity": None,
        "text": "=1+1",
        "rank": 7,
    }
    assert (rows[1]["mean_logprob"], rows[1]["rank"]) == (-9999.0, None)


def test_parquet_has_null_for_what_was_not_computed(tmp_path: Path) -> None:
    write_frame(FRAME, "parquet", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    assert table["perplexity"].to_pylist() == [None, 2.0]
    assert table["text"].to_pylist() == ["=1+1", "two\nlines"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_the_ending_of_the_file_says_the_format() -> None:
    assert chosen_format(None, None) == "table"
    assert chosen_format(None, Path("x.CSV")) == "csv"
    assert chosen_format(None, Path("x.txt")) == "table"
    assert chosen_format(None, Path("x")) == "table"
    assert chosen_format("json", Path("x.csv")) == "json"


def test_outputs_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match=r"-o FILE\.parquet"):
        chosen_format("parquet", None)
    with pytest.raises(ToolkitError, match="is a folder"):
        chosen_format(None, tmp_path)
    with pytest.raises(
        ToolkitError, match=r"'x\.xyz' has no ending .* \.txt, \.csv, \.json, \.parquet, or give"
    ):
        chosen_format(None, tmp_path / "x.xyz")
    assert chosen_format("json", tmp_path / "x.xyz") == "json"
    assert chosen_format(None, Path("/dev/null")) == "table"
    with pytest.raises(ToolkitError, match="no folder"):
        chosen_format(None, tmp_path / "none" / "x.csv")


def test_a_file_is_replaced_and_a_device_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    write_frame(FRAME, "csv", path)
    assert path.read_text().startswith("prompt_id,")
    write_frame(FRAME, "csv", Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    write_frame(FRAME, "csv", None)
    assert capsys.readouterr().out == path.read_text()


def test_a_carriage_return_does_not_end_a_row_of_csv() -> None:
    frame = pd.DataFrame({"text": ["a\r=1+1", "b"], "value": [1.5, float("nan")]})
    assert text_of(frame, "csv", None) == 'text,value\n"a\r=1+1",1.5\nb,\n'


def test_json_has_nothing_that_acts_on_a_terminal() -> None:
    frame = pd.DataFrame({"text": ["\x1b[31m\x9b\u202e\u2066é"]})
    shown = text_of(frame, "json", None)
    assert "é" in shown
    assert not any(unicodedata.category(c) in ("Cc", "Cf") for c in shown.replace("\n", ""))
    assert json.loads(shown) == [{"text": "\x1b[31m\x9b\u202e\u2066é"}]
