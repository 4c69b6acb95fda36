"""A collection on a cluster: a shard a worker, one run, whole also where a worker dies."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from tests.scale.conftest import started
from toolkit.cli.main import main
from toolkit.collect import cluster as clusters
from toolkit.collect.progress import Progress
from toolkit.store import open_run
from toolkit.store.lock import RunLock, Shard
from toolkit.store.validate import validate

N_PROMPTS, N_SAMPLES = 12, 3


@pytest.fixture(scope="module")
def arguments(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`toolkit collect` of the tiny model, without a run."""
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    lines = [json.dumps({"id": f"q{i}", "prompt": f"Question {i}?"}) for i in range(N_PROMPTS)]
    prompts.write_text("\n".join(lines))
    given = (
        f"collect --model {tiny_folder} --prompts {prompts} -n {N_SAMPLES} --greedy --max-tokens 64 --seed 3"
    )
    return [*given.split(), "--batch-size", "4"]


@pytest.fixture(scope="module")
def alone(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that one process collects."""
    run = tmp_path_factory.mktemp("alone") / "run"
    assert main([*arguments, "--output", str(run)]) == 0
    return run


def on(address: str) -> list[str]:
    return ["--engine", "dask", "--scheduler", address]


def assert_same_run(found: Path, expected: Path) -> None:
    """Whole, valid, and the same sequences with the same tokens; their last bits depend on the batch."""
    assert list(validate(found)) == []
    key = ["prompt_id", "kind", "sample_index"]
    a, b = (open_run(path).sequences_df(columns=[*key, "text", "n_tokens"]) for path in (found, expected))
    pd.testing.assert_frame_equal(a, b)
    assert len(a) == N_PROMPTS * (N_SAMPLES + 1)
    ids = [open_run(path).tokens_df(columns=["token_id", "logprob"]) for path in (found, expected)]
    pd.testing.assert_frame_equal(*ids, atol=1e-3)


def test_each_worker_collects_its_shard_of_one_run(
    cluster: str, arguments: list[str], alone: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main([*arguments, "--output", str(run), *on(cluster), "--json"]) == 0
    said = capfd.readouterr()
    assert_same_run(run, alone)
    sessions = open_run(run).manifest.sessions
    assert sorted(str(session.shard) for session in sessions) == ["0/2", "1/2"]
    assert len({session.pid for session in sessions}) == 2
    total = N_PROMPTS * (N_SAMPLES + 1)
    assert json.loads(said.out)["n_sequences"] == total
    assert f"{total}/{total} sequences (100 %)" in said.err


def test_a_shard_whose_worker_is_killed_is_collected_again(
    cluster: str, arguments: list[str], alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, killed, hear = tmp_path / "run", [], clusters._Collection._hear

    def kill(self: Any, event: Any) -> None:
        """The worker of the first shard that says that it has begun."""
        hear(self, event)
        if not killed:
            sessions = open_run(run).manifest.sessions
            (own,) = [session for session in sessions if session.shard == event[1]["shard"]]
            killed.append(psutil.Process(own.pid).ppid())
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(clusters._Collection, "_hear", kill)
    assert main([*arguments, "--output", str(run), *on(cluster)]) == 0
    assert killed
    assert_same_run(run, alone)
    assert len(open_run(run).manifest.sessions) == 3


def test_an_error_of_a_shard_is_told_in_one_line(
    cluster: str, arguments: list[str], alone: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    changed = [*arguments, "--temp", "0.5", "--output", str(alone), *on(cluster)]
    assert main(changed) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("toolkit collect: shard ")
    assert "the run was collected with other settings" in said
    assert "--output" in said


def test_an_interrupted_collection_keeps_what_is_finished_and_goes_on(
    cluster: str,
    arguments: list[str],
    alone: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Interrupting(Progress):
        interrupts = 0

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            Interrupting.interrupts += 1
            if Interrupting.interrupts == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr("toolkit.collect.progress.Progress", Interrupting)
    run, total = tmp_path / "run", N_PROMPTS * (N_SAMPLES + 1)
    assert main([*arguments, "--output", str(run), *on(cluster), "--json"]) == 1
    first = json.loads(capfd.readouterr().out)
    assert first["interrupted"]
    assert all(session.ended for session in open_run(run).manifest.sessions)
    assert main([*arguments, "--output", str(run), *on(cluster), "--json"]) == 0
    second = json.loads(capfd.readouterr().out)
    assert second["n_before"] == first["n_sequences"]
    assert second["n_sequences"] == total - first["n_sequences"]
    assert_same_run(run, alone)


def test_workers_without_the_resource_are_not_enough(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dask").mkdir()
    with started(tmp_path / "dask", workers=1) as address:
        assert main([*arguments, "--output", str(tmp_path / "run"), *on(address)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no worker has the resource MLX" in said
    assert f"dask worker {address} --nworkers 1 --resources MLX=1" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--shard", "0/2"], "--shard with --engine dask: leave it out, since each worker gets its own"),
        (["--stream"], "--stream with --engine dask: leave it out"),
        (["--overwrite"], "--overwrite with --engine dask: leave it out"),
        (["--no-resume"], "--no-resume with --engine dask: the shards go on in one run"),
        (["--prompts", "-"], "--prompts - with --engine dask: give a file"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_that_do_not_go_with_a_cluster(
    option: list[str],
    said: str,
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "a"}')))
    command = [*arguments, "--output", str(tmp_path / "run"), *option, *on("tcp://127.0.0.1:1")]
    assert main(command) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_is_written_to_is_refused_at_once(
    alone: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lock = RunLock.acquire(alone, "other", Shard(0, 1))
    assert main([*arguments, "--output", str(alone), *on("tcp://127.0.0.1:1")]) == 2
    lock.release()
    assert "is being written by another process" in capsys.readouterr().err


def test_the_display_sums_the_shards_and_never_goes_back() -> None:
    shown: list[tuple[int, int]] = []

    class Noted(Progress):
        def _show(self, now: float) -> None:
            shown.append((self.done, self.tokens))

        def _is_due(self, now: float) -> bool:
            return True

    total = clusters._Sum(20, lambda total, done: Noted(total, done=done))
    total.update({"0/2": {"before": 2, "done": 2, "tokens": 0}}, 2)
    assert shown == []  # one shard has said nothing
    states = {"0/2": {"before": 2, "done": 3, "tokens": 5}, "1/2": {"before": 1, "done": 1, "tokens": 0}}
    total.update(states, 2)
    states["0/2"] |= {"done": 6, "tokens": 40}
    total.update(states, 2)
    assert shown[-1] == (7, 40)
    states["0/2"] |= {"before": 2, "done": 2, "tokens": 0}  # its worker died
    total.update(states, 2)
    assert shown[-1] == (7, 40)
