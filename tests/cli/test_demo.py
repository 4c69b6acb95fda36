"""What the README shows of the demo is what the real model gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.cli.main import main

ROOT = Path(__file__).parents[2]
BRACKETS = re.compile(r"⟦(.*?) (-?\d+\.\d+)⟧")


def without_values(text: str) -> str:
    return BRACKETS.sub(r"\1", text)


@pytest.mark.model
def test_the_answer_in_the_readme_is_that_of_the_default_model(
    model: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = (ROOT / "data" / "prompts" / "questions.jsonl").read_text().splitlines()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(next(line for line in questions if '"smallest-country"' in line))
    run = str(tmp_path / "run")
    asked = ["-n", "0", "--greedy", "--max-tokens", "32"]
    assert main(["collect", "--prompts", str(prompts), "--output", run, *asked]) == 0
    capsys.readouterr()
    assert main(["show", run]) == 0
    shown = capsys.readouterr().out.splitlines()[:4]
    readme = [line.removeprefix("    ") for line in (ROOT / "README.md").read_text().splitlines()]
    start = readme.index(shown[0])
    example = readme[start : start + 4]
    assert [without_values(line) for line in shown] == [without_values(line) for line in example]
    values = [float(value) for _, value in BRACKETS.findall(shown[3])]
    assert values == pytest.approx([float(value) for _, value in BRACKETS.findall(example[3])], abs=0.02)
