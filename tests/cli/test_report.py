"""`toolkit report` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.answers import greedy, make_answers, prompt
from tests.graded import graded_run
from tests.report.hostile import read_page
from toolkit.cli.main import main
from toolkit.store import Run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("report") / "run")


def refused(capsys: Captured, *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def test_the_paths_of_the_pages_are_printed(
    run: Run, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.report.paging.PAGE_SEQUENCES", 24)
    output = tmp_path / "r.html"
    arguments = ["report", str(run.path), "-o", str(output), "--no-figures", "--bootstrap", "0"]
    assert main([*arguments, "--title", "Mine", "--seed", "3"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{output}\n{tmp_path / 'r-2.html'}\n"
    assert captured.err == ""
    page = read_page(output)
    assert page.island["title"] == "Mine"
    assert "without intervals" in page.text


def test_options_choose_sequences_and_grades(run: Run, tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "r.html"
    chosen = ["--prompt", "p1", "--prompt", "p2", "--kind", "sample", "--sample", "3", "--grader", "exact"]
    assert (
        main(["report", str(run.path), "-o", str(output), "--no-figures", "--bootstrap", "5", *chosen]) == 0
    )
    island = read_page(output).island
    assert [prompt["id"] for prompt in island["prompts"]] == ["p1", "p2"]
    assert {(one["kind"], one["sample"]) for one in island["sequences"]} == {("sample", 3)}
    assert {one["grade"] for one in island["sequences"]} <= {0.0, 1.0}


def test_what_is_too_large_is_said_beside_the_result(
    run: Run, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.report.writing.PAGE_BYTES", 1000)
    output = tmp_path / "r.html"
    assert main(["report", str(run.path), "-o", str(output), "--no-figures", "--bootstrap", "0"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{output}\n"
    assert captured.err.startswith(f"toolkit report: {output}: ")
    assert "bytes, over 1,000: " in captured.err


def test_a_report_needs_a_file_that_can_be_written(run: Run, tmp_path: Path, capsys: Captured) -> None:
    assert "required: -o/--output" in refused(capsys, "report", run.path)
    assert "no HTML file; give a name that ends in .html" in refused(
        capsys, "report", run.path, "-o", tmp_path / "report.txt"
    )
    assert "is a folder" in refused(capsys, "report", run.path, "-o", tmp_path)
    assert "there is no folder" in refused(capsys, "report", run.path, "-o", tmp_path / "no" / "r.html")


def test_errors_name_the_options_of_the_command(run: Run, tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "r.html"
    assert "--prompt: 'nobody' is not in" in refused(
        capsys, "report", run.path, "-o", output, "--prompt", "nobody"
    )
    assert "name other --prompt, --kind or --sample" in refused(
        capsys, "report", run.path, "-o", output, "--sample", "77"
    )
    assert "there are no grades by 'number'" in refused(
        capsys, "report", run.path, "-o", output, "--grader", "number"
    )
    assert not output.exists()


def test_a_run_without_grades_needs_none(tmp_path: Path, capsys: Captured) -> None:
    make_answers(tmp_path / "run", [prompt("p")], [greedy("p", "a", -1.0)])
    output = tmp_path / "r.HTM"
    assert main(["report", str(tmp_path / "run"), "-o", str(output), "--no-figures"]) == 0
    assert len(read_page(output).island["sequences"]) == 1
    capsys.readouterr()
    assert "nothing is graded" in refused(
        capsys, "report", tmp_path / "run", "-o", output, "--grader", "exact"
    )
