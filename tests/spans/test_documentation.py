"""The page on spans lists every kind and every column, and what it shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.store.factory import make_run
from toolkit.cli.main import build_parser
from toolkit.spans import FORMS
from toolkit.store import open_run

PAGE = (Path(__file__).parents[2] / "docs" / "spans.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    toolkit ")]


@pytest.mark.parametrize("name", FORMS)
def test_every_kind_is_listed_as_it_is_written(name: str) -> None:
    assert f"| `{FORMS[name].usage}` |" in PAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shown_can_be_parsed(command: str) -> None:
    _, verb, *arguments = shlex.split(command)
    assert build_parser(verb).parse_args(arguments).by is not None


def test_every_column_is_listed_and_the_python_shown_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "raw").mkdir(parents=True)
    path = make_run(tmp_path / "data" / "raw" / "demo")
    table = PAGE.partition("## Columns")[2]
    for column in open_run(path).spans_df("word", ["n_tokens"]).columns:
        assert re.search(rf"\b{column}\b", table)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "spans.md", "exec"), {})
    assert "min_prob" in capsys.readouterr().out
