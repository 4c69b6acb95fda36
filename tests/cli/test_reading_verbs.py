"""`status`, `summarize`, `show` and `compact` from the command line, on made runs."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run, prompt_name
from toolkit.aggregation.summary import summaries_df, summary_df
from toolkit.characters import width
from toolkit.cli.main import main
from toolkit.cli.output import text_of
from toolkit.cli.status import size
from toolkit.stats import names
from toolkit.store import Run, RunWriter, open_run, open_runs

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("verbs") / "run", batch=4)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "COLORTERM", "NO_COLOR", "TOOLKIT_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def shown(capsys: Captured, *arguments: object, status: int = 0) -> str:
    assert main([str(argument) for argument in arguments]) == status
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: Captured, *arguments: object, status: int = 2) -> str:
    assert main([str(argument) for argument in arguments]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def made(path: Path, text_id: str = "p", config: dict[str, object] | None = None) -> Path:
    with RunWriter.create(path, make_manifest(config=config or {})) as writer:
        writer.add_prompts([make_prompt(text_id)])
        writer.commit([make_record(text_id), make_record(text_id, "greedy")], VOCABULARY)
    return path


def test_status_counts_what_is_stored_against_what_was_asked(capsys: Captured, tmp_path: Path) -> None:
    path = made(tmp_path / "run", config={"n_prompts": 1, "num_samples": 3, "greedy": True})
    (status,) = json.loads(shown(capsys, "status", path, "--json"))
    assert status["planned"] == {"greedy": 1, "sample": 3}
    assert status["done"] == {"greedy": 1, "sample": 1}
    assert (status["complete"], status["collecting"]) == (False, False)
    assert (status["prompts"], status["tokens"], status["sessions"], status["parts"]) == (1, 16, 1, 1)
    assert status["bytes"] == sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    text = shown(capsys, "status", path)
    assert text.startswith(f"{path}: not complete\n")
    assert "sample      1 of 3 sequences" in text


def test_status_says_when_all_is_there_and_when_somebody_collects(capsys: Captured, tmp_path: Path) -> None:
    path = made(tmp_path / "run", config={"n_prompts": 1, "num_samples": 1})
    assert shown(capsys, "status", path).startswith(f"{path}: complete\n")
    manifest = make_manifest(config={"n_prompts": 2, "num_samples": 1, "greedy": True})
    with RunWriter.open(path, manifest):
        assert "a process collects now" in shown(capsys, "status", path)
    (status,) = json.loads(shown(capsys, "status", path, "--json"))
    assert (status["planned"], status["sessions"]) == ({"greedy": 2, "sample": 2}, 2)


def test_status_of_a_run_that_does_not_say_what_was_planned(capsys: Captured, run_path: Path) -> None:
    text = shown(capsys, "status", run_path, run_path)
    assert text.count(f"{run_path}: planned is not known\n") == 2
    assert "greedy      3 sequences" in text


@pytest.mark.parametrize(
    "config", [{"n_prompts": "3", "num_samples": 1}, {"n_prompts": 3, "num_samples": "1"}]
)
def test_status_of_an_odd_manifest_is_not_known(
    capsys: Captured, tmp_path: Path, config: dict[str, object]
) -> None:
    assert "planned is not known" in shown(capsys, "status", made(tmp_path / "run", config=config))


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 bytes"), (999, "999 bytes"), (65_700, "65.7 kB"), (3 * 10**9, "3.0 GB")]
)
def test_sizes_for_people(n_bytes: int, text: str) -> None:
    assert size(n_bytes) == text


def test_summarize_prints_what_the_library_computes(capsys: Captured, run_path: Path) -> None:
    text = shown(capsys, "summarize", run_path, "--format", "csv", "--sort", "mean_logprob", "--limit", 4)
    read = pd.read_csv(io.StringIO(text))
    whole = summary_df(open_run(run_path), "sequence").sort_values("mean_logprob", ignore_index=True).head(4)
    assert read["mean_logprob"].tolist() == pytest.approx(whole["mean_logprob"].tolist())
    assert read["sample_index"].tolist() == whole["sample_index"].tolist()


@pytest.mark.parametrize("by", ["token", "segment", "word", "sentence", "window:4:2", "sequence", "prompt"])
def test_summarize_has_a_row_a_grain(capsys: Captured, run_path: Path, by: str) -> None:
    rows = json.loads(shown(capsys, "summarize", run_path, "--by", by, "--format", "json"))
    assert len(rows) == len(summary_df(open_run(run_path), by))
    lines = shown(capsys, "summarize", run_path, "--by", by).splitlines()
    assert len(lines) == len(rows) + 1


def test_summarize_lists_the_statistics_there_are(capsys: Captured) -> None:
    rows = json.loads(shown(capsys, "summarize", "--list", "--format", "json"))
    assert [row["name"].partition("(")[0] for row in rows] == names()
    assert set(rows[0]) == {"name", "level", "inputs", "direction", "range", "source"}
    assert shown(capsys, "summarize", "--list", "--limit", 1).count("\n") == 2


def test_summarize_takes_statistics_of_samples_and_how_they_are_compared(
    capsys: Captured, run_path: Path
) -> None:
    asked = ["--by", "prompt", "--metrics", "number_of_classes", "--format", "json"]
    exact, none = (
        json.loads(shown(capsys, "summarize", run_path, *asked, "--equivalence", how))
        for how in ("exact", "regex:@@")
    )
    assert [row["n_sequences"] for row in exact] == [4, 4, 4]
    assert [row["number_of_classes"] for row in exact] == [4.0, 4.0, 4.0]
    assert [row["number_of_classes"] for row in none] == [1.0, 1.0, 1.0]


def test_summarize_weighs_tokens_by_bytes(capsys: Captured, run_path: Path) -> None:
    text = shown(capsys, "summarize", run_path, "--by", "word", "--weights", "bytes", "--format", "csv")
    expected = summary_df(open_run(run_path), "word", weights="bytes")["sum_logprob"]
    assert pd.read_csv(io.StringIO(text))["sum_logprob"].tolist() == pytest.approx(expected.tolist())


def test_summarize_takes_statistics_with_parameters_and_adds_the_sorted_one(
    capsys: Captured, run_path: Path
) -> None:
    metrics = "min_k_percent(k=0.5),n_tokens"
    text = shown(
        capsys, "summarize", run_path, "--metrics", metrics, "--sort", "perplexity", "--format", "csv"
    )
    frame = pd.read_csv(io.StringIO(text))
    assert list(frame.columns[3:6]) == ["min_k_percent(k=0.5)", "n_tokens", "perplexity"]
    assert frame["perplexity"].is_monotonic_decreasing


def test_summarize_selects_and_leaves_the_end_out(capsys: Captured, run_path: Path) -> None:
    chosen = ["--prompt", prompt_name(2), "--kind", "sample", "--sample", 1, "--format", "json"]
    (with_end,) = json.loads(shown(capsys, "summarize", run_path, *chosen))
    (without,) = json.loads(shown(capsys, "summarize", run_path, *chosen, "--no-end"))
    assert (with_end["prompt_id"], with_end["kind"], with_end["sample_index"]) == (
        prompt_name(2),
        "sample",
        1,
    )
    assert with_end["n_tokens"] - without["n_tokens"] == int(with_end["finish_reason"] == "stop")


def test_summarize_writes_a_file_of_the_kind_its_name_says(
    capsys: Captured, run_path: Path, tmp_path: Path
) -> None:
    target = tmp_path / "x.parquet"
    assert shown(capsys, "summarize", run_path, "-o", target) == ""
    pd.testing.assert_frame_equal(pd.read_parquet(target), summary_df(open_run(run_path), "sequence"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_in_a_terminal_keeps_to_its_width(run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["summarize", str(run_path)]) == 0
    assert max(map(width, terminal.getvalue().splitlines())) <= 120
    assert "…" in terminal.getvalue()


def test_hostile_ids_and_text_are_shown_and_never_obeyed(capsys: Captured, tmp_path: Path) -> None:
    path = made(tmp_path / "run", "a\x1b[31mb\u202e")
    for verb in (["show"], ["summarize"], ["summarize", "--by", "token"], ["status"]):
        text = shown(capsys, verb[0], path, *verb[1:])
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_compact_merges_and_says_so(capsys: Captured, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=4)
    before = summary_df(open_run(path), "token")
    (status,) = json.loads(shown(capsys, "status", path, "--json"))
    n_files = len(list(path.rglob("*.parquet")))
    printed = shown(capsys, "compact", path)
    assert printed == f"{path}: {status['parts']} parts before, 1 after; {n_files} files before, 6 after\n"
    assert "parts       1, " in shown(capsys, "status", path)
    assert f"{path}: 1 part before, 1 after; 6 files before, 6 after" in shown(capsys, "compact", path)
    assert len(open_run(path).parts()) == 1
    pd.testing.assert_frame_equal(summary_df(open_run(path), "token"), before)


def test_validate_says_that_all_holds_or_names_file_and_rule(capsys: Captured, tmp_path: Path) -> None:
    good, bad = made(tmp_path / "good"), made(tmp_path / "bad")
    assert shown(capsys, "validate", good) == f"{good}: all rules hold\n"
    assert json.loads(shown(capsys, "validate", good, "--json")) == []
    (file,) = (bad / "tokens").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    text = shown(capsys, "validate", good, bad, status=1)
    assert text.startswith(f"{good}: all rules hold\n{bad}: ")
    assert f"  {file}: readable: " in text
    faults = json.loads(shown(capsys, "validate", good, bad, "--json", status=1))
    assert {fault["run"] for fault in faults} == {str(bad)}
    assert (faults[0]["rule"], faults[0]["file"]) == ("readable", str(file))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["summarize"], "the following arguments are required: RUN"),
        (
            ["summarize", "RUN", "--by", "wrd"],
            "--by: there is no span 'wrd' (did you mean word?); use one of",
        ),
        (["summarize", "RUN", "--by", "regex:("], "--by: pattern '(' is no regular expression"),
        (
            ["summarize", "RUN", "--by", "window:0"],
            "--by: span window, given '0', needs its number of tokens",
        ),
        (["summarize", "RUN", "--weights", "some"], "--weights: there is no 'some'; use one of whole, bytes"),
        (
            ["summarize", "RUN", "--by", "word", "--metrics", "number_of_classes"],
            "statistic of a prompt's samples",
        ),
        (["summarize", "RUN", "--limit", "0"], "--limit: 0 is below 1"),
        (["summarize", "RUN", "--limit", "-3"], "--limit: -3 is below 1"),
        (["summarize", "RUN", "--metrics", ","], "--metrics: no name is given"),
        (["summarize", "RUN", "--metrics", "confidence"], "confidence"),
        (["summarize", "RUN", "--metrics", "min_k_percent(0.1"], "min_k_percent"),
        (["summarize", "RUN", "--metrics", "min_k_percent(__import__('os'))"], "min_k_percent"),
        (["summarize", "RUN", "--metrics", "min_k_percent(2)"], "k=2"),
        (
            ["summarize", "RUN", "--sort", "warmth"],
            "there is no estimator 'warmth'; toolkit summarize --list, or",
        ),
        (
            ["summarize", "RUN", "--metrics", "mean_logprb"],
            "there is no estimator 'mean_logprb' (did you mean mean_logprob",
        ),
        (
            ["summarize", "RUN", "-o", "x.xyz"],
            "--output: 'x.xyz' has no ending that says its format; use one",
        ),
        (
            ["summarize", "RUN", "--by", "token", "--sort", "mean_logprob"],
            "a token has no statistic 'mean_logprob'",
        ),
        (["summarize", "RUN", "--format", "xml"], "--format: there is no 'xml'; use one of table, csv,"),
        (["summarize", "RUN", "--format", "parquet"], "--format parquet"),
        (["summarize", "RUN", "-o", "no/such/x.csv"], "--output: there is no folder 'no/such'"),
        (["summarize", "RUN", "--prompt", "nobody"], "--prompt: 'nobody' is not in"),
        (["summarize", "RUN", "--kind", "beams"], "--kind: there is no 'beams'"),
        (["summarize", "RUN", "--sample", "-1"], "--sample: -1 is below 0"),
        (["summarize", "RUN", "--sample", "99"], "no sequence is selected"),
        (["summarize", "nowhere"], "no run at nowhere"),
        (["status", "nowhere"], "no run at nowhere"),
        (["status", "/dev/null"], "no run at /dev/null"),
        (["compact", "nowhere"], "no run at nowhere"),
        (["validate", "nowhere"], "no run at nowhere"),
    ],
)
def test_wrong_calls_are_one_line_and_status_2(
    capsys: Captured, run_path: Path, arguments: list[str], message: str
) -> None:
    real = [str(run_path) if argument == "RUN" else argument for argument in arguments]
    assert message in refused(capsys, *real)


@pytest.mark.parametrize("by", ["segment", "token", "word", "sequence", "prompt"])
def test_what_is_written_as_it_comes_is_what_is_written_at_once(
    capsys: Captured, tmp_path: Path, by: str
) -> None:
    path = made_of_parts(tmp_path)
    frame = summary_df(open_run(path), by)
    for chosen in ("csv", "json"):
        assert shown(capsys, "summarize", path, "--by", by, "--format", chosen) == text_of(
            frame, chosen, None
        )
    target = tmp_path / "x.parquet"
    shown(capsys, "summarize", path, "--by", by, "-o", target)
    pd.testing.assert_frame_equal(pd.read_parquet(target), frame, check_dtype=by != "token")
    assert pq.read_metadata(target).num_row_groups == 1  # of many small parts, all are joined


def test_a_limit_ends_the_reading(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made_of_parts(tmp_path)
    all_rows = shown(capsys, "summarize", path, "--format", "csv").splitlines()
    asked: set[Path] = set()
    place = Run.part_path

    def noting(run: Run, table: str, part: str) -> Path:
        found = place(run, table, part)
        asked.update([found] if table == "tokens" else [])
        return found

    monkeypatch.setattr(Run, "part_path", noting)
    first = shown(capsys, "summarize", path, "--format", "csv", "--limit", 1).splitlines()
    assert first == all_rows[:2]
    assert len(asked) <= 2 < len(open_run(path).parts())  # the first, and the one that is read ahead


def test_several_runs_as_they_come_are_labelled(capsys: Captured, run_path: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other")
    frame = summaries_df(open_runs([run_path, other]))
    assert shown(capsys, "summarize", run_path, other, "--format", "csv") == text_of(frame, "csv", None)


def test_a_file_stays_as_it_was_where_a_later_part_is_damaged(capsys: Captured, tmp_path: Path) -> None:
    path, target = made_of_parts(tmp_path), tmp_path / "x.parquet"
    target.write_bytes(b"before")
    last = sorted((path / "tokens").glob("*.parquet"))[-1]
    last.write_bytes(last.read_bytes()[:-9])
    assert last.name in refused(capsys, "summarize", path, "--by", "segment", "-o", target, status=1)
    assert target.read_bytes() == b"before"
    assert not list(tmp_path.glob(".*"))


def test_parquet_goes_into_a_pipe(capsys: Captured, run_path: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "x.parquet"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as thread:
        read = thread.submit(pipe.read_bytes)
        shown(capsys, "summarize", run_path, "-o", pipe)
        assert len(pd.read_parquet(io.BytesIO(read.result()))) == len(summary_df(open_run(run_path)))


def made_of_parts(folder: Path) -> Path:
    """A run of several parts in the order of their keys."""
    return make_run(folder / "run", batch=4)
