"""`toolkit collect` from the command line: one run end to end, and wrong calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.cli.main import main
from toolkit.store import open_run

GOOD = '{"id": "a", "prompt": "What is the capital of France?", "reference": "Paris"}\n{"prompt": "2 + 2?"}\n'


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text(GOOD)
    return path


def call(model: Path, prompts: Path | str, output: Path, *more: str) -> int:
    files = ["--model", str(model), "--prompts", str(prompts), "--output", str(output)]
    return main(["collect", *files, "--max-tokens", "5", *more])


def test_a_run_from_the_command_line(tiny_folder: Path, prompts: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, prompts, output, "-n", "3", "--greedy", "--json") == 0
    printed = capsys.readouterr()
    outcome = json.loads(printed.out)
    assert outcome["n_sequences"] == 8 == len(open_run(output).sequence_keys())
    assert "8 sequences" in printed.err
    assert open_run(output).prompts_df()["reference"].map(list).tolist() in ([["Paris"], []], [[], ["Paris"]])


def test_a_dry_run_leaves_nothing(tiny_folder: Path, prompts: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, prompts, output, "-n", "3", "--dry-run") == 0
    assert "2 prompts" in capsys.readouterr().out
    assert not output.exists()
    call(tiny_folder, prompts, output, "-n", "2")
    capsys.readouterr()
    assert call(tiny_folder, prompts, output, "-n", "3", "--dry-run", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["sequences"], facts["missing"], facts["most_tokens"]) == (6, 2, 10)


def test_stream_prints_every_text(tiny_folder: Path, prompts: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, prompts, output, "-n", "2", "--stream") == 0
    printed = capsys.readouterr().out
    for row in open_run(output).sequences_df().itertuples():
        for line in row.text.split("\n"):
            start = f"{row.prompt_id} {row.kind} {row.sample_index}: "
            assert any(shown.startswith(start) for shown in printed.splitlines()), (start, line)


def test_beams_and_constraints(tiny_folder: Path, prompts: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, prompts, output, "--beams", "2", "--regex", "(yes|no)", "--prompt-logprobs") == 0
    frame = open_run(output).sequences_df()
    assert set(frame["kind"]) == {"beam"}
    assert set(frame["text"]) == {"yes", "no"}
    assert len(open_run(output).prompt_tokens_df())


def test_beams_returned_and_the_sampler_s_order(tiny_folder: Path, prompts: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, prompts, output, "--beams", "4", "--beams-returned", "2") == 0
    assert len(open_run(output).sequences_df()) == 2 * 2
    sampler = ["-n", "2", "--temp", "3", "--top-p", "0.5", "--sampler-order"]
    texts = []
    for order in ("temperature_first", "mlx_lm"):
        assert call(tiny_folder, prompts, tmp_path / order, *sampler, order) == 0
        texts.append(open_run(tmp_path / order).sequences_df()["text"].tolist())
    assert texts[0] != texts[1]  # at temperature 3 the first keeps many more tokens


def test_watched_tokens(tiny_folder: Path, prompts: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "run"
    watch = ["--watch-tokens", 'A,B," capital"', "--watch-tokens", '","', "--watch-at", "every"]
    assert call(tiny_folder, prompts, output, "-n", "2", *watch) == 0
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("toolkit collect: watches ',' (")
    assert "at every position" in line
    run = open_run(output)
    assert set(run.watched_df()["literal"]) == {"A", "B", " capital", ","}
    assert len(run.watched_df()) == 4 * len(run.tokens_df())
    assert call(tiny_folder, prompts, output, "-n", "2") == 2
    assert 'watch.at: "every" -> (not set)' in capsys.readouterr().err
    assert main(["validate", str(output)]) == 0


WRONG = [
    (["--sampler-order", "random"], "--sampler-order"),
    (["--beams", "2", "--beams-returned", "3"], "--beams-returned"),
    (["-n", "0"], "--num-samples"),
    (["-n", "-1"], "--num-samples"),
    (["-n", "two"], "two"),
    (["-n", "2", "--temp", "0"], "--temp"),
    (["--temp", "-1"], "--temp"),
    (["--temp", "nan"], "--temp"),
    (["--temp", "1e-9"], "temperature"),
    (["--top-p", "0"], "--top-p"),
    (["--top-p", "1.5"], "--top-p"),
    (["--top-k", "-1"], "--top-k"),
    (["--min-p", "2"], "--min-p"),
    (["--max-tokens", "0"], "--max-tokens"),
    (["--seed", "-5"], "--seed"),
    (["--seed", "1.5"], "--seed"),
    (["--top-logprobs", "99"], "--top-logprobs"),
    (["--stop", ""], "stop"),
    (["--batch-size", "0"], "--batch-size"),
    (["--shard", "2/2"], "--shard"),
    (["--shard", "x"], "--shard"),
    (["--shard", "0/0"], "--shard"),
    (["--limit", "0"], "--limit"),
    (["--map", "reference"], "--map"),
    (["--map", "answer=reference"], "--map"),
    (["--map", "reference=nowhere"], "--map"),
    (["--beams", "0"], "--beams"),
    (["--beams", "2", "--stop", "x"], "--stop"),
    (["--length-penalty", "inf"], "--length-penalty"),
    (["--regex", "("], "--regex"),
    (["--regex", ""], "--regex"),
    (["--json-schema", "nowhere.json"], "--json-schema"),
    (["--json-schema", "{"], "--json-schema"),
    (["--regex", "a", "--json-schema", "{}"], "--regex"),
    (["--chat-template-config", "[1]"], "--chat-template-config"),
    (["--chat-template-config", "{"], "--chat-template-config"),
    (["--extra-eos-token", "no such token"], "--extra-eos-token"),
    (["--watch-tokens", "A, B"], "--watch-tokens: ' B' has a space"),
    (["--watch-tokens", "A,,B"], "--watch-tokens"),
    (["--watch-tokens", ""], "--watch-tokens"),
    (["--watch-tokens", "A", "--watch-tokens", "A"], "--watch-tokens: 'A' is named twice"),
    (["--watch-tokens", "A,apital"], "--watch-tokens: 'apital' is no single token"),
    (["--watch-at", "every"], "--watch-at: there is nothing to watch; name --watch-tokens"),
    (["--watch-tokens", "A", "--watch-at", "last"], "--watch-at"),
    (["--no-such-option"], "--no-such-option"),
    (["--system-prompt"], "--system-prompt"),
]


@pytest.mark.parametrize(("more", "named"), WRONG, ids=[" ".join(more) for more, _ in WRONG])
def test_wrong_options_are_one_line(
    more: list[str], named: str, tiny_folder: Path, prompts: Path, tmp_path: Path, capsys
) -> None:
    output = tmp_path / "run"
    assert call(tiny_folder, prompts, output, *more) == 2
    check_one_line(capsys, named)
    assert not output.exists()


FILES = [
    ("", "there is no prompt"),
    (GOOD + "\n" * 14 + "{bad\n", ":17: not JSON"),
    ('{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}', "both prompt and messages"),
    ('{"prompt": ""}', "prompt is empty"),
    ('{"id": "x", "prompt": "a"}\n{"id": "x", "prompt": "b"}', "on line 1 already"),
    ('{"prompt": "' + "word " * 3000 + '"}', "context is 512"),
]


@pytest.mark.parametrize(("content", "named"), FILES)
def test_wrong_files_are_one_line(
    content: str, named: str, tiny_folder: Path, tmp_path: Path, capsys
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    assert call(tiny_folder, path, tmp_path / "run") == 2
    check_one_line(capsys, named)
    assert not (tmp_path / "run").exists()


def test_a_missing_file_and_an_unknown_model(
    tiny_folder: Path, prompts: Path, tmp_path: Path, capsys
) -> None:
    assert call(tiny_folder, tmp_path / "nowhere.jsonl", tmp_path / "run") == 2
    check_one_line(capsys, "nowhere.jsonl")
    assert call(tmp_path / "no-model", prompts, tmp_path / "run") == 2
    check_one_line(capsys, "no-model")
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_left_alone(tiny_folder: Path, prompts: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "run"
    output.mkdir()
    (output / "letters.txt").write_text("mine")
    for more in ([], ["--overwrite"]):
        assert call(tiny_folder, prompts, output, *more) == 2
        check_one_line(capsys, "letters.txt")
    assert [path.name for path in output.iterdir()] == ["letters.txt"]


def check_one_line(capsys, named: str) -> None:
    printed = capsys.readouterr()
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("toolkit collect: ")
    assert named in lines[0]
    assert printed.out == ""
