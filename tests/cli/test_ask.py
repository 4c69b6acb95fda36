"""`toolkit ask` and `toolkit p-true` from the command line: end to end, and wrong calls."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.graded import graded_run
from toolkit import stats
from toolkit.cli.main import build_parser, main
from toolkit.collect.asking import AskSettings
from toolkit.collect.questions import read_questions
from toolkit.collect.truths import Proposal, truth_text
from toolkit.judging.asked import choices_df, picks_df
from toolkit.store import open_run

Captured = pytest.CaptureFixture[str]
PAGE = (Path(__file__).parents[2] / "docs" / "choices.md").read_text(encoding="utf-8")
LEGS = {"id": "legs", "prompt": "How many legs?", "choices": ["eight", "six"], "answer": "A"}
CITY = {"id": "city", "prompt": "What is the capital?", "choices": ["Paris", "a spider", "да!"], "answer": 0}


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def ask(model: Path, prompts: Path | str, output: Path, *more: str) -> int:
    return main(["ask", "--model", str(model), "--prompts", str(prompts), "--output", str(output), *more])


def one_line(capsys: Captured, verb: str) -> str:
    printed = capsys.readouterr()
    (line,) = printed.err.strip().splitlines()
    assert line.startswith(f"toolkit {verb}: ")
    assert printed.out == ""
    return line


@pytest.fixture(scope="module")
def asked(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    prompts = write(folder, LEGS, CITY)
    assert ask(tiny_folder, prompts, folder / "run", "--map", "reference=answer", "--rotate") == 0
    return folder / "run"


def test_questions_are_asked_evaluated_and_validated(
    tiny_folder: Path, asked: Path, tmp_path: Path, capsys: Captured
) -> None:
    prompts = write(tmp_path, LEGS, CITY)
    assert ask(tiny_folder, prompts, asked, "--map", "reference=answer", "--rotate", "--json") == 0
    printed = capsys.readouterr()
    assert "toolkit ask: 0 choices (5 were there)" in printed.err
    shown = pd.DataFrame(json.loads(printed.out))
    pd.testing.assert_frame_equal(shown, picks_df(choices_df(open_run(asked))))
    assert main(["evaluate", str(asked), "--bootstrap", "0", "--target", "pick:sum", "--json"]) == 0
    table = {row["estimator"]: row for row in json.loads(capsys.readouterr().out)}
    assert table["choice_sum"]["target"] == "pick:sum"
    assert table["choice_sum"]["n"] == 2
    assert main(["validate", str(asked)]) == 0
    assert main(["status", str(asked)]) == 0
    assert main(["show", str(asked)]) == 0
    assert main(
        ["recalibrate", str(asked), "--estimator", "choice_letter", "-o", str(tmp_path / "map.json")]
    ) in (0, 2)


def test_the_table_of_choices_can_be_written(asked: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["export", str(asked), "--table", "choices", "-o", str(tmp_path / "choices.csv")]) == 0
    written = pd.read_csv(tmp_path / "choices.csv")
    assert written["p_letter"].tolist() == pytest.approx(
        open_run(asked).load("choices")["p_letter"].to_pylist()
    )
    capsys.readouterr()
    assert main(["export", str(asked), "--table", "truths", "-o", str(tmp_path / "truths.csv")]) == 2
    assert "no model was asked; run toolkit p-true first" in one_line(capsys, "export")


@pytest.mark.parametrize("by", ["sequence", "word", "prompt"])
def test_what_was_asked_is_no_column_of_a_summary(asked: Path, capsys: Captured, by: str) -> None:
    assert main(["summarize", str(asked), "--by", by, "--metrics", "vote_share,p_true"]) == 2
    line = one_line(capsys, "summarize")
    assert (
        "p_true' is what a model was asked" in line
        or "vote_share' is a statistic of a prompt's samples" in line
    )


def test_picks_are_shown_as_a_table(tiny_folder: Path, tmp_path: Path, capsys: Captured) -> None:
    assert ask(tiny_folder, write(tmp_path, LEGS), tmp_path / "run") == 0
    printed = capsys.readouterr()
    head, *rows = printed.out.splitlines()
    assert head.split() == ["score", "n", "n_undefined", "probability", "n_graded", "accuracy"]
    assert [row.split()[0] for row in rows] == ["letter", "sum", "mean", "byte", "pmi"]
    assert all(row.split()[-2:] == ["0", "-"] for row in rows)


def test_without_references_an_evaluation_says_what_is_missing(
    tiny_folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert ask(tiny_folder, write(tmp_path, LEGS), tmp_path / "run") == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    assert "nothing is graded" in one_line(capsys, "evaluate")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**LEGS, "choices": ["eight"]}, ":1: there are 1 choices; give 2 to 26"),
        ({**LEGS, "choices": ["six", "six"]}, ":1: choice 2 is 'six', as is choice 1"),
        (
            {**LEGS, "reference": "four"},
            ":1: reference 'four' is none of the choices; give one of 'eight', 'six'",
        ),
        ({"prompt": "What?"}, ":1: has no choices"),
        ({**LEGS, "prompt": "да " * 300}, "line 1 (id 'legs'): the prompt has"),
    ],
)
def test_a_wrong_question_is_one_line_and_leaves_no_run(
    tiny_folder: Path, tmp_path: Path, capsys: Captured, line: Any, message: str
) -> None:
    assert ask(tiny_folder, write(tmp_path, line), tmp_path / "run") == 2
    assert message in one_line(capsys, "ask")
    assert not (tmp_path / "run").exists()


def test_options_are_named_as_they_are_spelled(tiny_folder: Path, tmp_path: Path, capsys: Captured) -> None:
    prompts = write(tmp_path, LEGS)
    assert ask(tiny_folder, prompts, tmp_path / "run", "--bare", "", "--ignore-chat-template") == 2
    assert one_line(capsys, "ask").startswith("toolkit ask: --bare: it is empty")
    assert ask(tiny_folder, prompts, tmp_path / "run") == 0
    capsys.readouterr()
    assert ask(tiny_folder, prompts, tmp_path / "run", "--rotate") == 2
    line = one_line(capsys, "ask")
    assert "rotate: false -> true" in line
    assert "--overwrite" in line
    assert ask(tiny_folder, prompts, tmp_path / "run", "--rotate", "--overwrite") == 0


def test_a_model_that_is_not_there_is_named(tmp_path: Path, capsys: Captured) -> None:
    for verb, arguments in (
        ("ask", ["--prompts", str(write(tmp_path, LEGS)), "--output", str(tmp_path / "run")]),
        ("p-true", [str(graded_run(tmp_path / "graded").path)]),
    ):
        assert main([verb, *arguments, "--model", str(tmp_path / "none")]) == 2
        assert str(tmp_path / "none") in one_line(capsys, verb)


def test_answers_are_asked_about_and_ranked(tiny_folder: Path, tmp_path: Path, capsys: Captured) -> None:
    run = graded_run(tmp_path / "run").path
    assert main(["p-true", str(run), "--model", str(tiny_folder), "--json"]) == 0
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)
    assert (row["kind"], row["n"]) == ("greedy", 8)
    assert 0 < row["p_true"] < 1
    assert 0 < row["p_true_with_samples"] < 1
    assert f"{run}: asked about 8 answers" in printed.err
    assert main(["p-true", str(run), "--model", str(tiny_folder), "--kind", "sample"]) == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()] == ["kind", "greedy", "sample"]
    assert main(["evaluate", str(run), "--target", "each", "--bootstrap", "0", "--json"]) == 0
    table = {row["estimator"]: row for row in json.loads(capsys.readouterr().out)}
    assert [table[name]["n_undefined"] for name in ("p_true", "p_true_with_samples")] == [0, 0]


def test_a_run_without_such_answers_is_refused(tiny_folder: Path, asked: Path, capsys: Captured) -> None:
    assert main(["p-true", str(asked), "--model", str(tiny_folder), "--kind", "greedy"]) == 2
    assert "--kind: " in one_line(capsys, "p-true")


def test_the_commands_and_questions_of_the_page_can_be_read(tmp_path: Path) -> None:
    commands = [line[4:] for line in PAGE.splitlines() if line.startswith("    toolkit ")]
    assert len(commands) == 5
    for command in commands:
        _, verb, *arguments = shlex.split(command)
        assert build_parser(verb).parse_args(arguments) is not None
    lines = [json.loads(line) for line in PAGE.splitlines() if line.startswith("    {")]
    assert [question.right for question in read_questions(write(tmp_path, *lines))] == [{1}, {1}]


def test_the_page_shows_what_the_model_is_asked() -> None:
    proposal = Proposal("france", "What is the capital of France?", "Paris", ("Paris", "Lyon"))
    assert "\n".join(f"    {line}" for line in truth_text(proposal).splitlines()) in PAGE
    assert AskSettings().instruction in PAGE
    assert all(f"`{one.name}`" in PAGE for one in stats.estimators("asked"))
