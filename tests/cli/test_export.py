"""`toolkit export` from the command line: formats, files that are whole or not there, wrong calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.store.factory import make_run, prompt_name
from toolkit.cli import export
from toolkit.cli.main import main
from toolkit.exporting import SHAPES, response_text, sequence_text, table_text
from toolkit.store import files, open_run, open_runs
from toolkit.store.schemas import TABLES

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("export") / "run", batch=4)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_DEBUG", raising=False)


def shown(capsys: Captured, *arguments: object) -> str:
    assert main(["export", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: Captured, *arguments: object, status: int = 2) -> str:
    assert main(["export", *map(str, arguments)]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def test_the_names_are_those_of_the_library() -> None:
    assert sorted(export.TABLES) == sorted(TABLES)
    assert export.SHAPES == SHAPES


def test_each_format_is_what_the_library_makes(capsys: Captured, run_path: Path) -> None:
    runs = open_runs([run_path])
    assert shown(capsys, run_path, "--format", "csv").encode() == b"".join(table_text(runs, "tokens", "csv"))
    assert shown(capsys, run_path, "--format", "jsonl").encode() == b"".join(sequence_text(runs))
    assert shown(capsys, run_path, "--format", "openai").encode() == b"".join(response_text(runs))
    older = shown(capsys, run_path, "--format", "openai", "--shape", "completion", "--no-end")
    assert older.encode() == b"".join(response_text(runs, "completion", include_end=False))


def test_tables_columns_and_sequences_are_chosen(capsys: Captured, run_path: Path) -> None:
    chosen = ["--prompt", prompt_name(1), "--kind", "sample", "--sample", 1, "--sample", 2]
    text = shown(
        capsys,
        run_path,
        "--format",
        "csv",
        "--table",
        "sequences",
        "--columns",
        "sample_index, kind",
        *chosen,
    )
    assert text == "sample_index,kind\n1,sample\n2,sample\n"
    rows = [json.loads(x) for x in shown(capsys, run_path, "--format", "jsonl", *chosen).splitlines()]
    assert [(row["prompt_id"], row["sample_index"]) for row in rows] == [
        (prompt_name(1), 1),
        (prompt_name(1), 2),
    ]
    (response,) = shown(capsys, run_path, "--format", "openai", *chosen).splitlines()
    assert len(json.loads(response)["choices"]) == 2


@pytest.mark.parametrize(("name", "format_"), [("x.csv", "csv"), ("x.JSONL", "jsonl"), ("x.ndjson", "jsonl")])
def test_the_ending_of_the_file_says_the_format(
    capsys: Captured, run_path: Path, tmp_path: Path, name: str, format_: str
) -> None:
    expected = shown(capsys, run_path, "--format", format_)
    assert shown(capsys, run_path, "-o", tmp_path / name) == ""
    assert (tmp_path / name).read_text(encoding="utf-8") == expected
    assert shown(capsys, run_path, "--format", "csv", "-o", tmp_path / "x.jsonl") == ""
    assert (tmp_path / "x.jsonl").read_text().startswith("prompt_id,")


def test_a_file_is_replaced_when_all_is_written_and_not_before(
    capsys: Captured, run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.csv"
    target.write_text("old")
    assert "nothing is selected" in refused(capsys, run_path, "--sample", 99, "-o", target)
    assert target.read_text() == "old"
    with monkeypatch.context() as patched:
        patched.setattr(
            files, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        assert "No space left" in refused(capsys, run_path, "-o", target, status=1)
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert target.read_text() == "old"
    shown(capsys, run_path, "-o", target)
    assert target.read_text().startswith("prompt_id,")
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_damaged_run_leaves_no_file(capsys: Captured, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=4)
    run = open_run(path)
    last = run.part_path("tokens", run.parts()[-1])
    last.write_bytes(last.read_bytes()[:-30])
    for format_ in ("csv", "jsonl", "openai"):
        target = tmp_path / f"x.{format_}"
        assert str(last) in refused(capsys, path, "--format", format_, "-o", target, status=1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_full_disk_is_one_line(capsys: Captured, run_path: Path) -> None:
    assert "No space left on device" in refused(
        capsys, run_path, "--format", "csv", "-o", "/dev/full", status=1
    )


def test_a_pipe_and_a_device_are_written_to_and_stay(
    capsys: Captured, run_path: Path, tmp_path: Path
) -> None:
    shown(capsys, run_path, "--format", "csv", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    shown(capsys, run_path, "--format", "jsonl", "-o", pipe)
    reader.join()
    assert pipe.is_fifo()
    assert read[0] == b"".join(sequence_text(open_runs([run_path])))


def test_stdout_is_utf_8_whatever_the_terminal_is(run_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "toolkit",
        "export",
        str(run_path),
        "--format",
        "csv",
        "--table",
        "segments",
    ]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=environ)
    assert done.stderr == b""
    assert done.stdout == b"".join(table_text(open_runs([run_path]), "segments", "csv"))


def test_several_runs_follow_one_another(capsys: Captured, run_path: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", n_prompts=1, n_samples=1)
    lines = shown(capsys, run_path, other, "--format", "csv", "--table", "sequences").splitlines()
    assert lines[0].startswith("run,model,temperature,top_p,prompt_id,")
    assert sum(line.startswith("other,") for line in lines) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: RUN"),
        (["RUN"], "--format: none is given; use one of csv, jsonl, openai"),
        (["RUN", "-o", "x.txt"], "--format: the ending '.txt' says none; use one of csv, jsonl, openai"),
        (["RUN", "--format", "openai", "-o", "x.csv"], "--output: 'x.csv' is not where openai goes"),
        (["RUN", "--format", "xml"], "--format: there is no 'xml'; use one of csv, jsonl, openai"),
        (["RUN", "--format", "csv", "--table", "token"], "--table: there is no 'token'; use one of tokens,"),
        (["RUN", "--format", "csv", "--columns", "logprop"], "columns: tokens has no column 'logprop'"),
        (["RUN", "--format", "csv", "--columns", ","], "--columns: no column is named; tokens has prompt_id"),
        (
            ["RUN", "--format", "jsonl", "--columns", "text"],
            "--columns: only a table has columns; name one with",
        ),
        (["RUN", "--format", "openai", "--columns", "text"], "--columns: only a table has columns"),
        (["RUN", "--format", "openai", "--table", "tokens"], "--table: openai has no tables"),
        (
            ["RUN", "--format", "openai", "--shape", "responses"],
            "--shape: there is no 'responses'; use one of chat,",
        ),
        (["RUN", "--format", "csv", "--shape", "chat"], "--shape: csv has none; use --format openai"),
        (["RUN", "--format", "jsonl", "--no-end"], "--no-end: jsonl has every token"),
        (["RUN", "--format", "csv", "-o", "."], "--output: '.' is a folder; give the path of a file"),
        (["RUN", "-o", "no/such/x.csv"], "--output: there is no folder 'no/such'; make it first"),
        (["RUN", "--format", "csv", "--prompt", "nobody"], "--prompt: 'nobody' is not in"),
        (
            ["RUN", "--format", "openai", "--sample", "99"],
            "nothing is selected; name other --prompt, --kind or --sample",
        ),
        (
            ["RUN", "--format", "csv", "--table", "prompts", "--kind", "greedy"],
            "--kind: the table prompts has no kind",
        ),
        (["RUN", "--format", "csv", "--table", "grades"], "--table grades: "),
        (["nowhere", "--format", "csv"], "no run at nowhere"),
    ],
)
def test_wrong_calls_are_one_line_and_status_2(
    capsys: Captured, run_path: Path, arguments: list[str], message: str
) -> None:
    real = [str(run_path) if argument == "RUN" else argument for argument in arguments]
    assert message in refused(capsys, *real)


def test_a_run_without_alternatives_says_how_to_have_them(capsys: Captured, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", k=0)
    message = refused(capsys, path, "--format", "csv", "--table", "alternatives")
    assert "none were kept when it was collected" in message
    (first, *_) = shown(capsys, path, "--format", "openai").splitlines()
    assert json.loads(first)["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
