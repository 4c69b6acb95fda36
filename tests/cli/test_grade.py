"""`toolkit grade` from the command line, on made runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.answers import greedy, make_answers, prompt, sample
from toolkit.cli.main import main
from toolkit.store import open_run
from toolkit.store.grades import grade_sets

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    answers = [
        greedy("france", "Paris", -0.1),
        sample("france", 0, "Lyon 7.2", -1.0),
        sample("italy", 0, "rome", -1.0),
        sample("nowhere", 0, "x", -1.0),
    ]
    prompts = [prompt("france", "Paris", "7"), prompt("italy", "Róme"), prompt("nowhere")]
    return make_answers(tmp_path / "run", prompts, answers).path


def status(*arguments: object) -> int:
    return main(["grade", *map(str, arguments)])


def test_it_prints_counts_and_means_by_kind_and_keeps_the_grades(path: Path, capsys: Captured) -> None:
    assert status(path, "--grader", "exact", "--json") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    (one,) = grade_sets(path)
    assert json.loads(shown.out) == [
        {
            "run": str(path),
            "grader": "exact",
            "config_hash": one.config_hash,
            "over": "answer",
            "by": None,
            "kind": kind,
            "n": n,
            "n_undefined": undefined,
            "value": value,
        }
        for kind, n, undefined, value in [("greedy", 1, 0, 1.0), ("sample", 2, 1, 0.0)]
    ]
    assert len(open_run(path).grades_df("exact")) == 4


def test_people_get_a_table(path: Path, tmp_path: Path, capsys: Captured) -> None:
    other = shutil.copytree(path, tmp_path / "other")
    assert status(path, other, "--grader", "any-of") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "run",
        "grader",
        "config_hash",
        "over",
        "by",
        "kind",
        "n",
        "n_undefined",
        "value",
    ]
    assert len(lines) == 5


def test_settings_of_the_grader_can_be_given(path: Path, capsys: Captured) -> None:
    def value(*arguments: str) -> float:
        assert status(path, *arguments, "--json") == 0
        (row,) = [row for row in json.loads(capsys.readouterr().out) if row["kind"] == "sample"]
        return float(row["value"])

    assert value("--grader", "exact") == 0
    assert value("--grader", "exact", "--set", "accents=false") == 0.5
    assert value("--grader", "number", "--set", "absolute=0.5", "--over", "sequence") == 1
    assert value("--grader", "number", "--set", "which=first", "--line", "first") == 0
    assert value("--grader", "exact", "--over", "regex:(Lyon|rome)", "--match", "first") == 0


def test_answers_that_were_cut_off_are_warned_of(tmp_path: Path, capsys: Captured) -> None:
    answers = [sample("p", i, "Yes", -1.0, finish_reason="length") for i in range(3)]
    path = make_answers(tmp_path / "run", [prompt("p", "Yes")], answers).path
    assert status(path, "--grader", "exact") == 0
    shown = capsys.readouterr()
    assert "100.0% of the sequences (3 of 3) ended by length" in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grader", "magic"], "unknown grader 'magic': give one of exact, contains, any-of, number"),
        (["--grader", "exact", "--over", "al"], "there is no 'al': give sequence, answer, regex:PATTERN"),
        (["--grader", "exact", "--by", "word"], "there is no 'word'; use one of field"),
        (["--grader", "exact", "--set", "x"], "'x' is no setting; write NAME=VALUE"),
        (["--grader", "exact", "--set", "x=1"], "grader exact has no setting 'x'"),
        (["--grader", "exact", "--by", "field"], "reference 'Paris' is not JSON"),
        (["--grader", "labels:/no/such"], "/no/such: cannot be read"),
        ([], "--grader"),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(
    path: Path, capsys: Captured, arguments: list[str], message: str
) -> None:
    assert status(path, *arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_grading_without_references_says_what_to_do(tmp_path: Path, capsys: Captured) -> None:
    path = make_answers(tmp_path / "run", [prompt("p")], [sample("p", 0, "x", -1.0)]).path
    assert status(path, "--grader", "exact") == 2
    assert "no prompt has a reference: collect with a field reference, or grade with labels:FILE" in (
        capsys.readouterr().err
    )


def test_a_run_of_another_schema_version_is_refused(path: Path, capsys: Captured) -> None:
    manifest = path / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "schema_version": "9.0"}))
    for verb in (["grade", str(path), "--grader", "exact"], ["evaluate", str(path)], ["vote", str(path)]):
        assert main(verb) == 2
        assert "schema version '9.0'" in capsys.readouterr().err
