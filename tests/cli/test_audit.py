"""`toolkit audit` from the command line: what it prints, and its exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.collect.test_audit import at, changed, put
from toolkit.cli.main import main
from toolkit.store import open_run

Captured = pytest.CaptureFixture[str]
TOLERANCE = ("--tolerance", "0.005")  # the tiny model's logits are ten times as large as a real one's


@pytest.fixture(scope="module")
def run_path(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    given = folder / "given.jsonl"
    given.write_text('{"id": "a", "prompt": "How many legs?", "completion": " eight legs"}\n')
    run = ["--model", str(tiny_folder), "--input", str(given), "--output", str(folder / "run")]
    assert main(["score", *run]) == 0
    return folder / "run"


@pytest.fixture
def altered(run_path: Path, tmp_path: Path) -> Path:
    change = at(("a", "scored", 0), logprob=put(1, -0.25))
    return changed(open_run(run_path), tmp_path / "altered", change).path


def audit(*arguments: object) -> int:
    return main(["audit", *map(str, arguments)])


def test_a_good_run_is_0_and_says_so(run_path: Path, capsys: Captured) -> None:
    assert audit(run_path) == 0
    printed = capsys.readouterr()
    n = len(open_run(run_path).tokens_df())
    assert f"1 sequence of {n} tokens, collected in float32, scored again in float32" in printed.out
    assert printed.out.endswith("no difference is over the tolerance of 0.001 nats\n")
    assert "audit: 1/1 sequence (" in printed.err


def test_an_altered_run_is_1_and_names_the_token(altered: Path, capsys: Captured) -> None:
    assert audit(altered, *TOLERANCE) == 1
    shown = capsys.readouterr().out
    assert "prompt 'a' scored 0 token 1 logprob: stored " in shown
    assert shown.endswith("there are differences over the tolerance of 0.005 nats\n")
    assert audit(altered, "--tolerance", "1") == 0


def test_json_has_all_of_it(altered: Path, capsys: Captured) -> None:
    assert audit(altered, *TOLERANCE, "--json") == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["run"], result["passed"], result["tolerance"]) == (str(altered), False, 0.005)
    assert set(result["differences"]) == {"logprob", "entropy", "alternatives"}
    assert result["differences"]["logprob"]["largest"] == pytest.approx(0.25, abs=0.005)
    worst = result["worst"][0]
    assert (worst["prompt_id"], worst["token_index"], worst["measure"]) == ("a", 1, "logprob")


def test_an_infinite_difference_is_json_too(run_path: Path, tmp_path: Path, capsys: Captured) -> None:
    change = at(("a", "scored", 0), logprob=put(0, -float("inf")))
    run = changed(open_run(run_path), tmp_path / "run", change)
    assert audit(run.path, "--json") == 1
    text = capsys.readouterr().out
    assert "Infinity" not in text
    assert json.loads(text)["worst"][0]["stored"] == -9999.0


def test_another_model_is_refused_unless_forced(
    run_path: Path, tiny_folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_folder, other)
    assert audit(run_path, "--model", other) == 0
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-2}))
    capsys.readouterr()
    assert audit(run_path, "--model", other) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "collected with another model" in printed.err
    assert audit(run_path, "--model", other, "--force") == 1


def test_a_model_that_has_moved_is_named(run_path: Path, tmp_path: Path, capsys: Captured) -> None:
    shutil.copytree(run_path, tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["model"]["name"] = "moved/away.gguf"
    manifest.write_text(json.dumps(content))
    assert audit(tmp_path / "run") == 2
    assert "the run calls it 'moved/away.gguf': name it with --model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "named"),
    [(["--tolerance", "-1"], "--tolerance"), (["--limit", "0"], "--limit"), (["--model", "none"], "'none'")],
)
def test_wrong_options_are_one_line(run_path: Path, more: list[str], named: str, capsys: Captured) -> None:
    assert audit(run_path, *more) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert named in printed.err


def test_no_run_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert audit(tmp_path / "nowhere") == 2
    assert capsys.readouterr().err.count("\n") == 1
