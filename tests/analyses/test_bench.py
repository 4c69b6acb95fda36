"""The collecting benchmark: ratios, goals and tables, what it says of the machine, and who is left out and why."""

from __future__ import annotations

import importlib
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.analyses.made import ANALYSES, ROOT
from tests.test_makefile import make, script
from toolkit.models.gguf_config import LAYER_MODULES
from toolkit.models.gguf_import import unpermute

BENCHMARKS = ANALYSES / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))


def part(name: str) -> ModuleType:
    return importlib.import_module(f"contenders.{name}")


figures, table, job, environment, racing, weights = map(
    part, ("figures", "table", "job", "environment", "racing", "weights")
)
NAN = math.nan
RATES = {"ours": [400.0, 200.0, 500.0], "slow": [100.0, NAN, NAN], "quick": [200.0, 200.0, 125.0]}
TITLES = {"ours": "this project", "slow": "a slow one", "quick": "a quick one"}


def test_a_ratio_is_of_two_rates_of_the_same_turn() -> None:
    # The medians alone, 400 and 200, would give the same as turn by turn only by chance.
    assert figures.ratios(RATES["ours"], RATES["quick"]) == [2.0, 1.0, 4.0]
    assert figures.ratios(RATES["ours"], RATES["slow"]) == [4.0]


def test_medians_are_of_the_turns_that_ran() -> None:
    assert figures.median(RATES["ours"]) == 400.0
    assert figures.median(RATES["slow"]) == 100.0
    assert math.isnan(figures.median([NAN, NAN]))


@pytest.mark.parametrize(("wanted", "reached"), [(1.99, True), (2.0, True), (2.01, False)])
def test_a_goal_is_reached_by_the_median_of_the_turns(wanted: float, reached: bool) -> None:
    found = figures.verdict(table.Goal("quick", wanted), RATES)
    assert found.ratio == 2.0
    assert found.reached is reached
    assert found.word == ("reached" if reached else "short")


def test_a_goal_against_one_that_did_not_run_has_no_verdict() -> None:
    goals = [table.Goal("absent", 2.0), table.Goal("failed", 2.0), table.Goal("slow", 2.0)]
    found = figures.verdicts(goals, {**RATES, "failed": [NAN, NAN, NAN]})
    assert [one.against for one in found] == ["slow"]


def test_the_tables_show_rates_ratios_notes_and_goals() -> None:
    shown = figures.rates_table(TITLES, RATES, {"slow": "2 of the samples"})
    assert shown[1].split() == ["this", "project", "400.0"]
    assert shown[2].split() == ["a", "slow", "one", "100.0", "4.00x", "2", "of", "the", "samples"]
    assert shown[3].split() == ["a", "quick", "one", "200.0", "2.00x"]
    (line,) = figures.goals_table(TITLES, figures.verdicts([table.Goal("quick", 2.5)], RATES))
    assert line.split() == ["this", "project", "/", "a", "quick", "one", "2.00x", "goal", "2.5x", "short"]


def test_verdicts_are_json() -> None:
    (found,) = json.loads(json.dumps(figures.as_json(figures.verdicts([table.Goal("quick", 2.0)], RATES))))
    assert found == {
        "ours": "ours",
        "against": "quick",
        "wanted": 2.0,
        "ratio": 2.0,
        "turns": [2.0, 1.0, 4.0],
        "reached": True,
    }


def test_every_goal_is_about_contenders_that_there_are() -> None:
    keys = [contender.key for contender in table.CONTENDERS]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "ours"  # what the others are compared with, and whose device decides who takes part
    for goal in table.GOALS:
        assert {goal.ours, goal.against} <= set(keys)
    for contender in table.CONTENDERS:
        assert (BENCHMARKS / "contenders" / f"{contender.module}.py").is_file()


def made_job(folder: Path) -> Any:
    return job.Job(str(folder), [[1, 2], [3], [4, 5, 6]], samples=4, max_tokens=8)


def test_a_share_of_a_job_has_fewer_samples_of_the_same_length(tmp_path: Path) -> None:
    whole = made_job(tmp_path)
    assert job.Job.from_json(whole.to_json()) == whole
    share = table.Contender("x", "X", "x", prompts=2, samples=1).share(whole)
    assert (share.prompts, share.rows, share.max_tokens) == ([[1, 2], [3]], 2, 8)
    assert table.Contender("x", "X", "x", samples=9).share(whole) == whole


def test_the_report_names_the_machine_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    found = environment.environment()
    assert found["variables"]["OPENBLAS_NUM_THREADS"] == "2"
    assert found["cores"] >= 1
    assert found["cpu"]
    assert {"numpy", "mlx", "mlx-lm", "pyarrow"} <= set(found["packages"])
    assert {"date", "git_commit", "system", "machine", "python", "load_of_last_minute"} <= set(found)
    environment.write_report(tmp_path / "new" / "report.json", found, {"rows": 1})
    written = json.loads((tmp_path / "new" / "report.json").read_text())
    assert written == {"environment": found, "rows": 1}
    assert str(Path.home()) not in json.dumps({**written["environment"], "variables": {}})


def test_what_is_not_installed_is_left_out_with_what_brings_it(tmp_path: Path) -> None:
    absent = table.Contender("x", "X", "no_such_engine", brings="make engines")
    with pytest.raises(job.Unavailable, match="no_such_engine is not installed; make engines brings it"):
        racing.Racer(absent, made_job(tmp_path))


def test_one_that_fails_is_left_out_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(job.Unavailable, match=r"it failed: AttributeError: .* has no attribute 'prepare'"):
        racing.Racer(table.Contender("x", "X", "figures"), made_job(tmp_path))


def test_another_model_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"difference": 0.01, "facts": {}}
    worker = tmp_path / "worker.py"
    worker.write_text(f"input(); print({json.dumps(answer)!r}, flush=True); input()")
    monkeypatch.setattr(racing, "WORKER", worker)
    with pytest.raises(job.Unavailable, match=r"its logits differ by 0\.01: not the same model"):
        racing.Racer(table.Contender("x", "X", "x"), made_job(tmp_path))


def test_a_turn_is_asked_for_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, turn = {"difference": 1e-4, "facts": {"threads": 2}}, {"n_tokens": 96, "seconds": 0.5}
    worker = tmp_path / "worker.py"
    lines = [
        "import json",
        "assert json.loads(input())['samples'] == 4",
        f"print({json.dumps(ready)!r}, flush=True)",
        "input()",
        f"print({json.dumps(turn)!r}, flush=True)",
        "raise SystemExit('no more')",
    ]
    worker.write_text("\n".join(lines))
    monkeypatch.setattr(racing, "WORKER", worker)
    racer = racing.Racer(table.Contender("x", "X", "x"), made_job(tmp_path))
    assert racer.facts == {"threads": 2, "largest_difference_of_logits": 1e-4}
    assert racer.turn() == (96, 0.5)
    with pytest.raises(job.Unavailable, match="it failed: no more"):
        racer.turn()
    racer.close()


def test_rows_of_a_gguf_are_those_that_an_import_puts_back() -> None:
    array = np.arange(4 * 8 * 3).reshape(4 * 8, 3)
    name = "model.layers.0.self_attn.{}_proj.weight"
    np.testing.assert_array_equal(unpermute(weights.gguf_rows(name.format("q"), array, 4, 2), 4), array)
    np.testing.assert_array_equal(unpermute(weights.gguf_rows(name.format("k"), array, 4, 2), 2), array)
    assert weights.gguf_rows(name.format("v"), array, 4, 2) is array


def test_names_of_a_gguf_are_those_that_an_import_reads() -> None:
    assert {theirs: ours for ours, theirs in LAYER_MODULES.items()} == weights.GGUF_LAYER
    assert weights.gguf_name("model.layers.12.mlp.up_proj.weight") == "blk.12.ffn_up.weight"
    assert weights.gguf_name("model.norm.weight") == "output_norm.weight"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_an_engine_that_cannot_be_installed_is_said_and_does_not_stop_the_benchmark(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    script(bin_folder / "python", 'case "$*" in *--group*) exit 1;; esac')
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv" / ".ready").touch()
    done = make(tmp_path, "engines")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"make engines: {name} could not be installed; make bench leaves it out"
        for name in ("hugging-face", "llama-cpp")
    ]


def test_the_engines_need_nothing_of_this_project() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import contenders.{0}; print('toolkit' in sys.modules)"
    )
    for name in ("hugging_face", "llama_cpp"):
        command = [sys.executable, "-c", code.format(name), str(BENCHMARKS)]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False\n"
