"""What the page on exporting shows works, and what it lists is there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.store.factory import make_run
from toolkit.cli.export import ENDINGS, FORMATS, SHAPES
from toolkit.cli.main import main
from toolkit.store import open_run

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    toolkit (.*)$", PAGE, re.MULTILINE)
(PYTHON,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data" / "raw").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path / "data" / "raw" / "demo", n_prompts=1)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shown_runs(demo: Path, command: str) -> None:
    assert main(shlex.split(command)) == 0


def test_the_python_shown_reads_the_file_that_is_written(demo: Path) -> None:
    assert main(shlex.split(COMMANDS[1])) == 0
    names: dict[str, object] = {}
    exec(compile(PYTHON, "export.md", "exec"), names)
    expected = open_run(demo).sequences_df()
    assert names["read"]["text"].tolist() == expected["text"].tolist()  # type: ignore[index]
    assert names["read"]["sum_logprob"].tolist() == pytest.approx(expected["sum_logprob"].tolist())  # type: ignore[index]


def test_every_format_shape_and_ending_is_on_the_page() -> None:
    for name in FORMATS:
        assert f"| `{name}` |" in PAGE
    for name in (*SHAPES, *(ending for ending in ENDINGS if ending != ".ndjson")):
        assert name in PAGE


def test_every_member_of_a_line_that_is_not_a_column_is_on_the_page(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["export", str(demo), "--format", "openai"]) == 0
    response = json.loads(capsys.readouterr().out.splitlines()[0])
    for name in response:
        assert f"`{name}`" in PAGE
    assert main(["export", str(demo), "--format", "jsonl"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    for name in ("prompt", "tokens", "segments", "grades"):
        assert name in line
        assert f"| `{name}` |" in PAGE
