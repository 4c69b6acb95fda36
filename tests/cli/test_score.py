"""`toolkit score` from the command line: one run end to end, and wrong calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolkit.cli.main import main
from toolkit.store import open_run

Captured = pytest.CaptureFixture[str]
GOOD = (
    '{"id": "a", "prompt": "How many legs?", "completion": " eight", "answer": "8"}\n'
    '{"id": "a", "prompt": "How many legs?", "completion": " six"}\n'
    '{"prompt": "да!", "completion_token_ids": [5, 6, 2]}\n'
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    path = tmp_path / "given.jsonl"
    path.write_text(GOOD, encoding="utf-8")
    return path


def call(model: Path, given: Path | str, output: Path, *more: str) -> int:
    return main(["score", "--model", str(model), "--input", str(given), "--output", str(output), *more])


def check_one_line(capsys: Captured, named: str) -> None:
    printed = capsys.readouterr()
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("toolkit score: ")
    assert named in lines[0]
    assert printed.out == ""


def test_a_run_from_the_command_line(
    tiny_folder: Path, given: Path, tmp_path: Path, capsys: Captured
) -> None:
    output = tmp_path / "run"
    options = ["--json", "--prompt-logprobs", "--map", "reference=answer", "--top-logprobs", "3"]
    assert call(tiny_folder, given, output, *options) == 0
    printed = capsys.readouterr()
    run = open_run(output)
    assert json.loads(printed.out)["n_sequences"] == 3 == len(run.sequence_keys())
    assert "toolkit score: 3 sequences of " in printed.err
    frame = run.sequences_df(prompts="a")
    assert frame["text"].tolist() == [" eight", " six"]
    assert set(frame["kind"]) == {"scored"}
    assert run.prompts_df(prompts="a")["reference"].map(list).tolist() == [["8"]]
    assert len(run.alternatives_df()) == 3 * len(run.tokens_df())
    assert len(run.prompt_tokens_df())


def test_watched_tokens(tiny_folder: Path, given: Path, tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "run"
    options = ["--watch-tokens", "A,B", "--map", "reference=answer"]
    assert call(tiny_folder, given, output, *options) == 0
    assert capsys.readouterr().err.startswith("toolkit score: watches 'A' (")
    frame = open_run(output).watched_df()
    assert frame["literal"].tolist() == ["A", "B"] * 3
    assert set(frame["token_index"]) == {0}


def test_template_and_end_token_are_as_asked(tiny_folder: Path, given: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    assert (
        call(tiny_folder, given, output, "--add-end", "--ignore-chat-template", "--limit", "2", "--joint")
        == 0
    )
    run = open_run(output)
    assert run.sequences_df()["has_end"].tolist() == [True, True]
    assert run.prompts_df()["text"].tolist() == ["How many legs?"]


def test_a_dry_run_counts_and_leaves_nothing(
    tiny_folder: Path, given: Path, tmp_path: Path, capsys: Captured
) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, given, output, "--dry-run") == 0
    assert "2 prompts" in capsys.readouterr().out
    assert not output.exists()
    assert call(tiny_folder, given, output, "--limit", "1") == 0
    capsys.readouterr()
    assert call(tiny_folder, given, output, "--dry-run", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["prompts"], facts["sequences"], facts["missing"]) == (2, 3, 2)
    n_before = len(open_run(output).tokens_df())
    assert call(tiny_folder, given, output) == 0
    assert len(open_run(output).tokens_df()) == n_before + facts["tokens"]


WRONG_OPTIONS = [
    (["--top-logprobs", "21"], "--top-logprobs"),
    (["--limit", "0"], "--limit"),
    (["--shard", "2/2"], "--shard"),
    (["--map", "reference"], "--map"),
    (["--map", "answer=reference"], "--map"),
    (["--map", "reference=nowhere"], "--map"),
    (["--chat-template-config", "[1]"], "--chat-template-config"),
    (["--system-prompt"], "--system-prompt"),
    (["--temp", "1"], "--temp"),
    (["--overwrite", "--shard", "0/2"], "--overwrite"),
]


@pytest.mark.parametrize(("more", "named"), WRONG_OPTIONS, ids=[" ".join(more) for more, _ in WRONG_OPTIONS])
def test_wrong_options_are_one_line(
    more: list[str], named: str, tiny_folder: Path, given: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert call(tiny_folder, given, tmp_path / "run", *more) == 2
    check_one_line(capsys, named)
    assert not (tmp_path / "run").exists()


FINE: dict[str, Any] = {"id": "x", "prompt": "a", "completion": "b"}
WRONG_LINES: list[tuple[Any, str]] = [
    ("{bad", "given.jsonl:2: not JSON"),
    ({**FINE, "messages": [{"role": "user", "content": "b"}]}, "given.jsonl:2: has both prompt and messages"),
    ({"prompt": "a"}, "given.jsonl:2: has neither completion nor completion_token_ids"),
    ({"completion": "b"}, "given.jsonl:2: has neither prompt"),
    ({**FINE, "completion": ""}, "given.jsonl:2: the completion has no tokens"),
    ({**FINE, "prompt": "other"}, "given.jsonl:2: id 'x' is that of another prompt"),
    ({**FINE, "reference": "r"}, "given.jsonl:2: its reference is not that of"),
    ({"prompt": "a", "completion_token_ids": [320]}, "given.jsonl:2: completion_token_ids has token id 320"),
    ({"prompt": "a", "completion_token_ids": [-1]}, "given.jsonl:2: completion_token_ids has -1"),
    (
        {"prompt_token_ids": [9**9], "completion": "b"},
        "given.jsonl:2: prompt_token_ids has token id 387420489",
    ),
    ({"prompt": "a", "completion_token_ids": [5] * 600}, "given.jsonl:2: prompt and completion have"),
    ({"prompt": "word " * 600, "completion": "b"}, "line 2: the prompt has"),
]


@pytest.mark.parametrize(("line", "named"), WRONG_LINES, ids=[named for _, named in WRONG_LINES])
def test_wrong_lines_are_named_and_nothing_is_left(
    line: Any, named: str, tiny_folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "given.jsonl"
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in (FINE, line)))
    assert call(tiny_folder, path, tmp_path / "run") == 2
    check_one_line(capsys, named)
    assert not (tmp_path / "run").exists()


def test_missing_files_and_folders_in_use(
    tiny_folder: Path, given: Path, tmp_path: Path, capsys: Captured
) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, tmp_path / "nowhere.jsonl", output) == 2
    check_one_line(capsys, "nowhere.jsonl: cannot be read")
    assert call(tmp_path / "no-model", given, output) == 2
    check_one_line(capsys, "no-model")
    assert not output.exists()
    output.mkdir()
    (output / "letters.txt").write_text("mine")
    assert call(tiny_folder, given, output) == 2
    check_one_line(capsys, "letters.txt")
    assert [path.name for path in output.iterdir()] == ["letters.txt"]
