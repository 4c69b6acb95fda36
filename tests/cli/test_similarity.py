"""`toolkit similarity`: told before it starts, kept as it goes, and used by the verbs that compare samples."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.answers import make_answers, prompt
from tests.asked import make_asked
from tests.graded import ANSWERS, N_PROMPTS
from toolkit.cli.main import main
from toolkit.collect import pair_judge
from toolkit.judging.grades import grade
from toolkit.store.similarities import read_similarities, similarity_sets

N_PAIRS = N_PROMPTS * 15  # of five samples and a greedy answer
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def asked(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_asked(tiny_folder, tmp_path_factory.mktemp("asked") / "model"))


@pytest.fixture
def run(tmp_path: Path) -> str:
    prompts = [prompt(f"p{i}", "Yes", text=f"Question {i}?") for i in range(N_PROMPTS)]
    made = make_answers(tmp_path / "run", prompts, ANSWERS)
    grade(made, "exact")
    return str(made.path)


def write_pairs(path: Path, value: float = 0.5) -> str:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["prompt_id", "i", "j", "value"])
        for p in range(N_PROMPTS):
            writer.writerows((f"p{p}", i, j, value) for i, j in combinations(["greedy", *range(5)], 2))
    return str(path)


def rows_of(run: str) -> dict[str, list[dict[str, Any]]]:
    return {one.name: read_similarities(one).to_pylist() for one in similarity_sets(Path(run))}


def printed(capsys: Capture, *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == status
    return capsys.readouterr().out


def test_a_model_is_asked_and_the_second_time_nothing_is(run: str, asked: str, capsys: Capture) -> None:
    first = json.loads(printed(capsys, "similarity", run, "--model", asked, "--json"))
    assert (first["n_pairs"], first["n_known"], first["name"]) == (N_PAIRS, 0, "model")
    before = rows_of(run)["model"]
    assert len(before) == N_PAIRS
    assert len({row["value"] for row in before}) > 2
    again = json.loads(printed(capsys, "similarity", run, "--model", asked, "--json"))
    assert (again["n_asked"], again["n_known"], again["n_tokens"]) == (0, first["n_asked"], 0)
    assert rows_of(run)["model"] == before


def test_the_cost_is_told_first_and_a_dry_run_stops_there(run: str, asked: str, capsys: Capture) -> None:
    told = printed(capsys, "similarity", run, "--model", asked, "--dry-run")
    assert f"{N_PAIRS} pairs of sequences; " in told
    assert " tokens to read, about 0:0" in told
    assert rows_of(run) == {}
    assert main(["similarity", run, "--model", asked]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"toolkit similarity: {N_PAIRS} pairs of sequences; ")
    assert "pairs (100 %)" in captured.err
    assert captured.out == f"{run}: {N_PAIRS} pairs kept as stored:model\n"


def test_an_interrupt_keeps_what_is_done_and_the_same_command_goes_on(
    run: str, asked: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pair_judge.PairJudge.__call__

    def broken(self: Any, pairs: Any) -> Any:
        for n, found in enumerate(plain(self, pairs)):
            if n == 3:
                raise KeyboardInterrupt
            yield found

    with monkeypatch.context() as patch:
        patch.setattr(pair_judge.PairJudge, "__call__", broken)
        assert main(["similarity", run, "--model", asked]) == 1
    assert "interrupted; the same command goes on from here" in capsys.readouterr().err
    result = json.loads(printed(capsys, "similarity", run, "--model", asked, "--json"))
    assert result["n_known"] == 3
    assert len(rows_of(run)["model"]) == N_PAIRS


KILLED = """
import sys
from toolkit.aggregation import answer_pairs
from toolkit.collect import pair_judge
from toolkit.judging.grades import grade
from toolkit.cli.main import main

answer_pairs.PAIRS_A_COMMIT = 2
plain = pair_judge.PairJudge.__call__

def slow(self, pairs):
    yield from plain(self, pairs)
    slow.calls += 1
    if slow.calls == 3:
        print("third", flush=True)
        sys.stdin.read()

slow.calls = 0
pair_judge.PairJudge.__call__ = slow
main(["similarity", *sys.argv[1:]])
"""


def test_a_killed_run_keeps_every_commit(run: str, asked: str, capsys: Capture) -> None:
    command = [sys.executable, "-c", KILLED, run, "--model", asked]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    assert said == b"third\n"
    left = similarity_sets(Path(run))
    result = json.loads(printed(capsys, "similarity", run, "--model", asked, "--json"))
    assert len(left) == 1
    assert result["n_known"] == 4  # two commits of two pairs
    assert len(rows_of(run)["model"]) == N_PAIRS
    assert main(["validate", run]) == 0


def test_a_file_is_kept_and_named(run: str, tmp_path: Path, capsys: Capture) -> None:
    path = write_pairs(tmp_path / "pairs.csv")
    assert (
        printed(capsys, "similarity", run, "--from", path, "--dry-run")
        == f"{run}: {N_PAIRS} pairs of {path}\n"
    )
    assert rows_of(run) == {}
    printed(capsys, "similarity", run, "--from", path, "--name", "nli")
    assert {row["value"] for row in rows_of(run)["nli"]} == {0.5}
    assert main(["similarity", run, "--from", path, "--name", "nli"]) == 2
    assert "there are similarities named nli: give --overwrite" in capsys.readouterr().err
    again = write_pairs(tmp_path / "other.csv", 0.25)
    printed(capsys, "similarity", run, "--from", again, "--name", "nli", "--overwrite")
    assert {row["value"] for row in rows_of(run)["nli"]} == {0.25}


def test_the_verbs_that_compare_take_what_is_stored(run: str, tmp_path: Path, capsys: Capture) -> None:
    printed(capsys, "similarity", run, "--from", write_pairs(tmp_path / "pairs.csv"))
    stored = ["--equivalence", "stored:file:0.4", "--similarity", "stored"]
    names = ["--metrics", "number_of_classes,mean_similarity"]
    table = json.loads(
        printed(capsys, "summarize", run, "--by", "prompt", *names, *stored, "--format", "json")
    )
    assert {(row["number_of_classes"], row["mean_similarity"]) for row in table} == {(1.0, 0.5)}
    plain = printed(capsys, "evaluate", run, "--bootstrap", "0", "--json")
    changed = printed(capsys, "evaluate", run, "--bootstrap", "0", "--json", *stored)
    assert plain != changed
    printed(capsys, "vote", run, "--bootstrap", "0", *stored[:2])
    for output, verb in (("a.png", "plot"), ("a.html", "report")):
        kind = ["estimators"] if verb == "plot" else ["--no-figures"]
        target = tmp_path / output
        printed(capsys, verb, run, *kind, "-o", str(target), *stored)
        assert target.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--from, --model, --embeddings: give one of them"),
        (["--model", "x", "--embeddings", "y"], "--from, --model, --embeddings: give one of them"),
        (["--from", "none.csv"], "--from: 'none.csv' is not there"),
        (["--embeddings", "x", "--name", "0.5"], "--name: '0.5' is no name for similarities"),
        (["--embeddings", "x", "--over", "page"], "over: there is no 'page'"),
    ],
)
def test_what_cannot_be_is_one_line(run: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(["similarity", run, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"toolkit similarity: {message}")
    assert error.count("\n") == 1


def test_over_is_not_of_a_file(run: str, tmp_path: Path, capsys: Capture) -> None:
    path = write_pairs(tmp_path / "pairs.csv")
    assert main(["similarity", run, "--from", path, "--over", "answer"]) == 2
    assert "--over: with --from nothing is compared here" in capsys.readouterr().err


def test_another_model_under_the_same_name_is_refused(
    run: str, asked: str, tiny_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    printed(capsys, "similarity", run, "--model", asked)
    plain = make_asked(tiny_folder, tmp_path / "plain", template=False)
    assert main(["similarity", run, "--model", str(plain)]) == 2
    error = capsys.readouterr().err
    assert "'model' was made with model " in error
    assert "give another --name, or --overwrite" in error
    printed(capsys, "similarity", run, "--model", str(plain), "--overwrite")
    printed(capsys, "similarity", run, "--model", asked, "--name", "other")
    assert set(rows_of(run)) == {"model", "other"}
