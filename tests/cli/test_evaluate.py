"""`toolkit evaluate`, `vote` and `recalibrate` from the command line, on made runs."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tests.answers import greedy, make_answers, prompt
from tests.graded import N_PROMPTS, evaluated, graded_run
from toolkit import stats
from toolkit.cli.main import main
from toolkit.cli.tables import markdown_table
from toolkit.judging.grades import grade
from toolkit.stats.metrics import METRICS
from toolkit.store import open_run

Captured = pytest.CaptureFixture[str]
QUICK = ("--bootstrap", "10")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graded_run(tmp_path_factory.mktemp("evaluate") / "run").path


def shown(capsys: Captured, *arguments: object, err: str = "") -> str:
    assert main([str(argument) for argument in arguments]) == 0
    captured = capsys.readouterr()
    assert err in captured.err
    assert err or captured.err == ""
    return captured.out


def refused(capsys: Captured, *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def number(value: object) -> float:
    """A value of JSON, where null is NaN."""
    return float("nan") if value is None else float(str(value))


def test_json_is_a_list_of_objects_one_an_estimator(path: Path, capsys: Captured) -> None:
    rows = json.loads(shown(capsys, "evaluate", path, "--json", *QUICK))
    assert sorted(row["estimator"] for row in rows) == sorted(
        [*stats.names("token-span"), *stats.names("samples")]
    )
    table = evaluated(open_run(path), bootstrap=10)
    for row in rows:
        assert {*METRICS, "n", "n_undefined", "sampler", "accuracy", "auroc_low", "auroc_difference"} <= set(
            row
        )
        assert number(row["auroc"]) == pytest.approx(table.loc[row["estimator"], "auroc"], nan_ok=True)
    by_name = {row["estimator"]: row for row in rows}
    assert by_name["sum_logprob"]["ece"] is None
    assert by_name["random"]["n"] == N_PROMPTS


def test_every_format_holds_the_same(path: Path, capsys: Captured, tmp_path: Path) -> None:
    ask = ["evaluate", path, "--estimators", "mean_logprob,min_k_percent(0.5)", *QUICK]
    names = ["mean_logprob", "min_k_percent(k=0.5)", "n_tokens", "random"]
    rows = list(csv.DictReader(io.StringIO(shown(capsys, *ask, "--format", "csv"))))
    assert sorted(row["estimator"] for row in rows) == names
    auroc = {row["estimator"]: float(row["auroc"]) for row in rows}
    shown(capsys, *ask, "-o", tmp_path / "x.parquet")
    stored = pd.read_parquet(tmp_path / "x.parquet").set_index("estimator")["auroc"]
    assert dict(stored) == pytest.approx(auroc)
    text = shown(capsys, *ask)
    assert "8 units of 8 prompts, accuracy" in text
    assert "target greedy, over sequence, grader exact@" in text
    assert f"{auroc['mean_logprob']:.3f}" in text
    markdown = shown(capsys, *ask, "--format", "markdown")
    assert f"| mean\\_logprob | {auroc['mean_logprob']:.3f} |" in markdown
    shown(capsys, *ask, "-o", tmp_path / "x.md")
    assert (tmp_path / "x.md").read_text() == markdown


def test_a_table_shows_the_metrics_that_are_asked_for(path: Path, capsys: Captured) -> None:
    ask = ["evaluate", path, "--estimators", "mean_prob", *QUICK]
    text = shown(capsys, *ask, "--metrics", "ece,prr_at_0.3", "--max-rejection", "0.3")
    head = text.splitlines()[2].split()
    assert head[:7] == [
        "estimator",
        "ece",
        "ece_low",
        "ece_high",
        "prr_at_0.3",
        "prr_at_0.3_low",
        "prr_at_0.3_high",
    ]
    assert "auprc" in shown(capsys, *ask).splitlines()[2].split()
    assert "there is no 'eec'; use some of auroc" in refused(capsys, *ask, "--metrics", "eec")


def test_options_reach_the_evaluation(path: Path, capsys: Captured) -> None:
    def rows(*options: str) -> list[dict[str, object]]:
        return list(json.loads(shown(capsys, "evaluate", path, "--json", *QUICK, *options)))

    assert {row["target"] for row in rows("--target", "each")} == {"each"}
    assert {row["over"] for row in rows("--over", "answer")} == {"answer"}
    table = evaluated(open_run(path), bootstrap=10, seed=3, include_end=False, target="first")
    for row in rows("--seed", "3", "--no-end", "--target", "first"):
        assert number(row["auroc"]) == pytest.approx(table.loc[str(row["estimator"]), "auroc"], nan_ok=True)


def test_several_runs_are_in_one_table(path: Path, tmp_path: Path, capsys: Captured) -> None:
    other = shutil.copytree(path, tmp_path / "other")
    text = shown(capsys, "evaluate", path, other, "--estimators", "mean_prob", *QUICK)
    lines = text.splitlines()
    assert len(lines) == 2 + 1 + 1 + 6
    assert lines[3].split()[:4] == ["run", "model", "temperature", "top_p"]


def test_where_all_are_right_one_line_warns(tmp_path: Path, capsys: Captured) -> None:
    answers = [greedy(f"p{i}", "Yes", -0.1) for i in range(3)]
    run = make_answers(tmp_path / "run", [prompt(f"p{i}", "Yes") for i in range(3)], answers)
    grade(run, "exact")
    assert main(["evaluate", str(run.path), "--json", *QUICK]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "3 units, all right: AUROC, AUPRC and PRR are undefined" in captured.err
    assert {row["auroc"] for row in json.loads(captured.out)} == {None}
    assert main(["evaluate", str(run.path), *QUICK]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--estimators", "mean_logprb"], "there is no estimator 'mean_logprb' (did you mean mean_logprob"),
        (["--grader", "number"], "there are no grades by 'number': there are exact@"),
        (["--target", "best"], "there is no 'best'; use one of greedy, first, each, vote, mean"),
        (["--by", "field"], "nothing is graded by field: run toolkit grade"),
        (["--max-rejection", "2"], "2 is above 1"),
        (["--json", "--format", "csv"], "--json and --format csv: give one of them"),
        (["--similarity", "cosine"], "there is no 'cosine'"),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(
    path: Path, capsys: Captured, arguments: list[str], message: str
) -> None:
    assert message in refused(capsys, "evaluate", path, *arguments)


def test_a_run_that_is_not_graded_says_what_comes_first(tmp_path: Path, capsys: Captured) -> None:
    run = make_answers(tmp_path / "run", [prompt("p", "Yes")], [greedy("p", "Yes", -0.1)])
    for verb in ("evaluate", "vote"):
        assert f"run toolkit grade {run.path}, or toolkit.grade, first" in refused(capsys, verb, run.path)


def test_no_text_can_break_a_markdown_table() -> None:
    table = markdown_table(["a", "n"], [["x|y\n[z](u)<b>", 1.23456], ["`q`", float("nan")], ["é", 2]])
    assert table.splitlines() == [
        "| a | n |",
        "| --- | ---: |",
        "| x\\|y↵\\[z\\](u)\\<b\\> | 1.235 |",
        "| \\`q\\` | - |",
        "| é | 2 |",
    ]


def test_votes_are_printed_and_written(path: Path, capsys: Captured, tmp_path: Path) -> None:
    rows = json.loads(shown(capsys, "vote", path, "--sizes", "1,3", "--json", *QUICK))
    assert [(row["rule"], row["k"]) for row in rows[:3]] == [
        ("majority", 1),
        ("majority", 3),
        ("weighted", 1),
    ]
    assert {row["n"] for row in rows} == {N_PROMPTS}
    other = shutil.copytree(path, tmp_path / "other")
    shown(capsys, "vote", path, other, "-o", tmp_path / "x.csv", *QUICK)
    assert (tmp_path / "x.csv").read_text().startswith("run,model,temperature,top_p,rule,k,accuracy")
    assert "'1,x' is no list of numbers" in refused(capsys, "vote", path, "--sizes", "1,x")
    assert "is no weight" in refused(capsys, "vote", path, "--confidence", "mean_logprob")


def test_early_stopping_is_replayed(path: Path, capsys: Captured) -> None:
    ask = ["vote", path, "--early-stopping", "--format", "json", *QUICK]
    (row,) = json.loads(shown(capsys, *ask, "--warmup", "2", "--window", "1", "--percentile", "90"))
    assert row["percentile"] == 90
    assert 0 < row["saved"] < 1
    assert len(json.loads(shown(capsys, *ask, err="nothing would be cut: give fewer --warmup"))) == 2


def test_a_map_is_fitted_kept_and_used(path: Path, capsys: Captured, tmp_path: Path) -> None:
    kept = tmp_path / "map.json"
    ask = ["recalibrate", path, "--estimator", "mean_prob", "--target", "each"]
    rows = json.loads(shown(capsys, *ask, "--method", "platt", "-o", kept, "--json"))
    assert [row["when"] for row in rows] == ["before", "after"]
    assert json.loads(kept.read_text())["method"] == "platt"
    text = shown(capsys, "recalibrate", path, "--apply", kept, "--format", "csv", err="before")
    applied = list(csv.DictReader(io.StringIO(text)))
    assert len(applied) == N_PROMPTS
    assert all(0 <= float(row["probability"]) <= 1 for row in applied)
    assert "give one of them" in refused(capsys, "recalibrate", path)
    assert "give one of them" in refused(capsys, *ask, "--apply", kept)
    assert "cannot be read" in refused(capsys, "recalibrate", path, "--apply", tmp_path / "none.json")
    kept.write_text("{}")
    assert "no recalibration" in refused(capsys, "recalibrate", path, "--apply", kept)
