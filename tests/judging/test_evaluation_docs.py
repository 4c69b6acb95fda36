"""The page on grading and evaluation names all there is, and its commands can be parsed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.graded import evaluated, graded_run
from toolkit.aggregation.targets import TARGETS
from toolkit.cli.main import build_parser
from toolkit.grading import GRADERS
from toolkit.judging.voting import PASS, RULES
from toolkit.stats.metrics import METRICS
from toolkit.stats.recalibration import RECALIBRATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
COMMANDS = [line[4:] for line in PAGE.splitlines() if line.startswith("    toolkit ")]


@pytest.mark.parametrize(
    "name", [*METRICS, *TARGETS, *RULES, PASS, *RECALIBRATIONS, *(name.replace("_", "-") for name in GRADERS)]
)
def test_every_name_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE or f"`{name}:" in PAGE


def test_every_column_of_the_table_is_explained(tmp_path: Path) -> None:
    frame = evaluated(graded_run(tmp_path / "run"), bootstrap=0)
    columns = [name for name in frame.columns if not name.endswith(("_low", "_high"))]
    assert [name for name in columns if f"`{name}`" not in PAGE] == [
        "level",
        "higher_is_confident",
        "n_prompts",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_parsed(command: str) -> None:
    _, verb, *arguments = shlex.split(command)
    assert build_parser(verb).parse_args(arguments) is not None
