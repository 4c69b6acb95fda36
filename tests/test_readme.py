"""The README shows every verb and public name, and what it shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import toolkit
from tests.store.factory import make_run
from toolkit.cli.main import VERBS, build_parser
from toolkit.collect.prompts import read_prompts
from toolkit.store.schemas import TABLES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
INDENTED = [line[4:] for line in README.splitlines() if line.startswith("    ")]
COMMANDS = [line for line in INDENTED if line.startswith("toolkit ")]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_table_of_commands(verb: str) -> None:
    assert f"| `toolkit {verb}` |" in README


@pytest.mark.parametrize("name", toolkit.__all__)
def test_every_public_name_is_documented_and_there(name: str) -> None:
    assert f"`toolkit.{name}`" in DOCS
    assert getattr(toolkit, name) is not None
    assert name in dir(toolkit)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = toolkit.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_listed(table: str) -> None:
    assert f"| {table} |" in README


def test_there_are_commands_and_examples_to_check() -> None:
    assert len(COMMANDS) >= 4
    assert len(PYTHON) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shown_can_be_parsed(command: str) -> None:
    _, verb, *arguments = shlex.split(command)
    build_parser(verb).parse_args(arguments)


def test_the_prompts_shown_can_be_read(tmp_path: Path) -> None:
    lines = [line for line in INDENTED if line.startswith("{")]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert [prompt.id for prompt in read_prompts(path)] == ["capital-france", None]


def test_the_python_shown_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "raw").mkdir(parents=True)
    make_run(tmp_path / "data" / "raw" / "demo")
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[0], "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert shown.startswith("made\n")
    assert "question-00000" in shown


def test_files_that_the_readme_names_are_there() -> None:
    named = re.findall(r"`((?:toolkit|data/prompts)/[^` ]*|[A-Z]+\.md)`", README)
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_questions_are_as_the_readme_says() -> None:
    prompts = read_prompts(ROOT / "data" / "prompts" / "questions.jsonl")
    assert f"the {len(prompts)} questions" in README
    assert f"each of {len(prompts)} questions" in (ROOT / "Makefile").read_text()
    assert len(prompts) >= 48
    assert all(prompt.id and prompt.reference and prompt.metadata["topic"] for prompt in prompts)
    assert any(prompt.messages for prompt in prompts)
    assert any(prompt.prompt for prompt in prompts)
