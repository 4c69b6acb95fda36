"""A run is collected where something is missing, and only there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import toolkit
from tests.analyses.made import N_PROMPTS, make_runs, script, support
from toolkit.cli.main import build_parser
from toolkit.errors import ToolkitError

runs, options = support("runs"), support("options")
CAPITALS = support("capitals").CAPITALS


def asked(folder: Path, **more: object) -> object:
    return options.Options(folder, folder / "reports", **more)


def test_nothing_is_missing_of_a_whole_run_and_everything_where_there_is_none(
    made_runs: Path, tmp_path: Path
) -> None:
    assert CAPITALS.missing(asked(made_runs, limit=N_PROMPTS)) == 0
    assert CAPITALS.missing(asked(tmp_path, limit=3)) == 3 * 9
    assert CAPITALS.missing(asked(made_runs, limit=N_PROMPTS + 1)) == 9


def test_of_a_beam_search_only_the_best_is_wanted(made_runs: Path, tmp_path: Path) -> None:
    beams = script("05_beams").BEAMS
    assert beams.missing(asked(made_runs, limit=N_PROMPTS)) == 0
    assert beams.missing(asked(tmp_path, limit=3)) == 3


def test_a_whole_run_is_opened_without_a_model(made_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "toolkit_command", lambda arguments: pytest.fail(f"called with {arguments}"))
    run = runs.collected(CAPITALS, asked(made_runs, limit=N_PROMPTS))
    assert run.path == made_runs / "capitals"


def test_what_is_missing_is_collected_by_the_command_that_the_report_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called = []

    def collect(arguments: list[str]) -> int:
        called.append(arguments)
        make_runs(tmp_path / "whole")
        shutil.move(tmp_path / "whole" / "capitals", tmp_path / "capitals")
        return 0

    monkeypatch.setattr(runs, "toolkit_command", collect)
    given = asked(tmp_path, limit=N_PROMPTS, model="tiny")
    assert runs.collected(CAPITALS, given).path == tmp_path / "capitals"
    assert called == [CAPITALS.command(given)]
    assert runs.as_shell(called[0]) in capsys.readouterr().err
    parsed = build_parser("collect").parse_args(called[0][1:])
    assert (parsed.num_samples, parsed.greedy, parsed.max_tokens, parsed.temp) == (8, True, 24, 1.0)
    assert (parsed.limit, parsed.model, parsed.output) == (N_PROMPTS, "tiny", tmp_path / "capitals")


def test_a_script_ends_where_a_command_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "toolkit_command", lambda arguments: 2)
    with pytest.raises(SystemExit) as ended:
        runs.collected(CAPITALS, asked(tmp_path, limit=1))
    assert ended.value.code == 2


def test_the_smaller_limit_holds(tmp_path: Path) -> None:
    cold = script("02_temperature").COLLECTIONS[0.3]
    command = cold.command(asked(tmp_path))
    assert command[command.index("--limit") + 1] == "100"
    command = cold.command(asked(tmp_path, limit=8))
    assert command[command.index("--limit") + 1] == "8"
    assert command[command.index("--temp") + 1] == "0.3"


def test_quick_is_few_prompts_and_few_resamples() -> None:
    assert (options.parse("", []).limit, options.parse("", []).resamples) == (None, 1000)
    quick = options.parse("", ["--quick"])
    assert (quick.limit, quick.resamples) == (N_PROMPTS, 50)
    assert options.parse("", ["--quick", "--limit", "3"]).limit == 3


def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        return len(toolkit.open_run(tmp_path).parts())

    assert options.ended(main) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert f"no run at {tmp_path}" in captured.err
    assert options.ended(lambda: 0) == 0


def analysed(name: str, folder: Path, *more: str) -> dict[str, object]:
    arguments = ["--quick", "--limit", "2", "--runs", str(folder), "--output", str(folder / "reports"), *more]
    assert script(name).main(arguments) == 0
    return json.loads((folder / "reports" / name / "results.json").read_text())


@pytest.mark.filterwarnings("ignore:.*(all .* are wrong|not graded).*:UserWarning")
def test_a_model_that_knows_nothing_gets_a_report_that_says_so(tmp_path: Path, tiny_folder: Path) -> None:
    results = analysed("02_temperature", tmp_path, "--model", str(tiny_folder))
    hot = results["temperatures"]["1.5"]  # type: ignore[index]
    assert hot["accuracy"]["samples"]["value"] == 0
    assert hot["auroc"]["raw"]["value"] is None
    text = (tmp_path / "reports" / "02_temperature" / "report.md").read_text()
    assert "| 1.5 | 0 | not computed | not computed | not computed |" in text


@pytest.mark.filterwarnings("ignore:.*(all .* are wrong|not graded).*:UserWarning")
def test_variants_of_a_model_are_made_and_answer(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    monkeypatch.setenv("TOOLKIT_MODELS", str(models))
    with pytest.raises(ToolkitError, match="no layer is a multiple of 64 wide"):
        script("06_quantisation").variant(8, asked(tmp_path, model=str(tiny_folder)))
    monkeypatch.setattr(support("quantised"), "GROUP_SIZE", 32)
    results = analysed("06_quantisation", tmp_path, "--model", str(tiny_folder))
    assert sorted(path.name for path in models.glob("[!.]*")) == [
        f"{tiny_folder.name}-{n}bit" for n in (4, 8)
    ]
    sizes = {}
    for bits in (4, 8):
        folder = models / f"{tiny_folder.name}-{bits}bit"
        config = json.loads((folder / "config.json").read_text())
        assert config["quantization"] == {"group_size": 32, "bits": bits}
        sizes[bits] = (folder / "model.safetensors").stat().st_size
    assert sizes[4] < sizes[8]
    shifts = results["shifts"]
    assert shifts["4-bit"]["median"] > shifts["8-bit"]["median"] > results["noise"]["median"]  # type: ignore[index]


@pytest.mark.model
def test_the_default_model_is_collected_graded_and_judged(model: object, tmp_path: Path) -> None:
    results = analysed("05_beams", tmp_path)
    assert results["n"] == 2
    assert results["accuracy"]["beam"]["value"] > 0.5  # type: ignore[index]  # Kabul and Tirana, at least
