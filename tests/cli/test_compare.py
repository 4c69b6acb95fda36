"""`toolkit compare` from the command line, on made runs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from tests.answers import greedy
from tests.graded import made
from toolkit.cli.main import main
from toolkit.judging.comparing import compare

Captured = pytest.CaptureFixture[str]
QUICK = ("--bootstrap", "20", "--estimators", "mean_logprob,min_prob")
FIRST = [greedy(f"p{i}", text, -0.1 * (i + 1)) for i, text in enumerate(("Yes", "Yes", "No", "No", "Yes"))]
SECOND = [greedy(f"p{i}", text, -0.3 * (i + 1)) for i, text in enumerate(("Yes", "No", "No", "=1+1", "Yes"))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("compare")
    return [str(made(folder / name, answers).path) for name, answers in (("one", FIRST), ("two", SECOND))]


def shown(capsys: Captured, *arguments: object, err: str = "") -> str:
    assert main([str(argument) for argument in arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == err
    return captured.out


def refused(capsys: Captured, *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def test_the_tables_for_people(runs: list[str], capsys: Captured) -> None:
    text = shown(capsys, "compare", *runs, *QUICK, "--limit", 2)
    lines = text.splitlines()
    assert lines[0] == "a: one: made, temperature 0.8"
    assert lines[2].startswith("5 prompts in both; difference is b less a, 95 % intervals; target greedy")
    (accuracy,) = (line.split() for line in lines if line.startswith("accuracy"))
    assert accuracy[:5] == ["accuracy", "-", "0.600", "0.400", "-0.200"]
    (head,) = (line for line in lines if line.startswith("The prompts that differ most"))
    assert (
        head
        == "The prompts that differ most, by right and wrong, then by mean_logprob; 3 more in csv and json:"
    )
    assert [line.split()[0] for line in lines[lines.index(head) + 3 :]] == ["p1", "p4"]


def test_json_has_both_tables_and_what_was_compared(runs: list[str], capsys: Captured) -> None:
    found = json.loads(shown(capsys, "compare", *runs, *QUICK, "--json"))
    expected = compare(*runs, bootstrap=20, estimators=["mean_logprob", "min_prob"])
    assert [row["metric"] for row in found["differences"]] == list(expected.differences["metric"])
    for row, one in zip(found["differences"], expected.differences.to_dict("records"), strict=True):
        assert row["difference"] == pytest.approx(one["difference"])
        assert row["difference_low"] == pytest.approx(one["difference_low"])
    assert [row["prompt_id"] for row in found["prompts"]] == list(expected.prompts["prompt_id"])
    assert found["prompts"][0]["flip"] == "right to wrong"
    assert (found["n_prompts"], found["notes"], found["target"]) == (5, [], "greedy")
    assert [run["run"] for run in found["runs"]] == ["one", "two"]


def test_csv_parquet_and_markdown_hold_the_same(runs: list[str], capsys: Captured, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shown(capsys, "compare", *runs, *QUICK, "--format", "csv"))))
    shown(capsys, "compare", *runs, *QUICK, "-o", tmp_path / "d.parquet")
    stored = pd.read_parquet(tmp_path / "d.parquet")
    assert [row["metric"] for row in rows] == list(stored["metric"])
    assert [float(row["difference"]) for row in rows] == pytest.approx(list(stored["difference"]))
    prompts = shown(capsys, "compare", *runs, *QUICK, "--format", "csv", "--table", "prompts")
    assert {row["text_b"] for row in csv.DictReader(io.StringIO(prompts))} == {"Yes", "No", "'=1+1"}
    markdown = shown(capsys, "compare", *runs, *QUICK, "--format", "markdown")
    assert "| accuracy | - | 0.600 | 0.400 | -0.200 |" in markdown


def test_a_page_is_written_and_its_path_printed(runs: list[str], capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    assert shown(capsys, "compare", *runs, *QUICK, "--no-figures", "-o", path) == f"{path}\n"
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert 'id="differences"' in page
    assert 'id="figures"' not in page


def test_notes_go_to_stderr(runs: list[str], capsys: Captured, tmp_path: Path) -> None:
    other = made(tmp_path / "three", [*SECOND, greedy("x\x1b[31m", "No", -0.1)]).path
    said = "toolkit compare: 1 prompt only in three, left out: 'x␛[31m'\n"
    shown(capsys, "compare", runs[0], other, *QUICK, err=said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{one}"], "RUN: 1 given; compare takes two"),
        (["{one}", "{two}", "{one}"], "RUN: 3 given; compare takes two"),
        (["{one}", "{one}"], "is named twice"),
        (["{one}", "{one}/nowhere"], "nowhere"),
        (["{one}", "{two}", "--level", "1"], "--level: 1 is not below 1"),
        (["{one}", "{two}", "--level", "0"], "--level: 0 is not above 0"),
        (["{one}", "{two}", "--format", "html"], "give a file with -o FILE.html"),
        (["{one}", "{two}", "--format", "pdf"], "there is no 'pdf'"),
        (["{one}", "{two}", "--no-figures"], "--no-figures: table has none"),
        (["{one}", "{two}", "--table", "prompts"], "--table prompts: table has both"),
        (["{one}", "{two}", "-o", "{one}"], "is a folder"),
        (["{one}", "{two}", "-o", "{one}/none/x.html"], "there is no folder"),
        (["{one}", "{two}", "--json", "--format", "csv"], "give one of them"),
        (["{one}", "{two}", "--grader", "contains"], "there are no grades by 'contains'"),
        (["{one}", "{two}", "--confidence", "nothing"], "nothing"),
        (["{one}", "{two}", "--limit", "0"], "--limit: 0 is below 1"),
    ],
)
def test_wrong_usage_is_one_line(
    runs: list[str], capsys: Captured, arguments: list[str], message: str
) -> None:
    named = [argument.format(one=runs[0], two=runs[1]) for argument in arguments]
    assert message in refused(capsys, "compare", *named)
