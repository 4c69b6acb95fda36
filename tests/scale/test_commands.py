"""`--engine`, `--scheduler` and `--workers`: the same output, and one line for what is wrong."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scale.conftest import started
from toolkit.cli.main import main
from toolkit.scale import Dask
from toolkit.scale import cluster as clusters


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command says on stderr when it is refused."""
    assert main(list(arguments)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    "verb",
    [
        ("summarize", "--by", "word", "--format", "csv"),
        ("evaluate", "--bootstrap", "5", "--estimators", "mean_logprob,semantic_entropy", "--format", "csv"),
    ],
    ids=lambda verb: verb[0],
)
def test_a_command_prints_the_same(
    verb: tuple[str, ...], cluster: str, graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for engine in (
        [],
        ["--engine", "processes", "--workers", "2"],
        ["--engine", "dask", "--scheduler", cluster],
    ):
        assert main([verb[0], str(graded), *verb[1:], *engine]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0].count("\n") > 3
    assert printed[1:] == printed[:1] * 2


@pytest.mark.parametrize("verb", ["summarize", "evaluate", "report"])
def test_an_option_without_its_engine_is_refused(
    verb: str, graded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["-o", str(tmp_path / "r.html")] if verb == "report" else []
    command = [verb, str(graded), *more]
    assert "--scheduler tcp://a:1: it is for --engine dask" in refused(
        capsys, *command, "--scheduler", "tcp://a:1"
    )
    assert "--workers 2: it is for --engine processes" in refused(capsys, *command, "--workers", "2")
    assert "--engine dask needs --scheduler" in refused(capsys, *command, "--engine", "dask")
    assert "use one of local, processes, dask" in refused(capsys, *command, "--engine", "spark")


def test_a_scheduler_that_does_not_answer_is_named(graded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        command = ["summarize", str(graded), "--engine", "dask", "--scheduler", address]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Dask.__init__, "__defaults__", (0.5,))
            said = refused(capsys, *command)
    assert said.startswith(
        f"toolkit summarize: --scheduler: no scheduler answers at '{address}' within 0.5 s"
    )


@pytest.mark.parametrize("address", ["", "nohost", "foo://127.0.0.1:1", "tcp://"])
def test_what_is_no_address_is_named(address: str, graded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "summarize", str(graded), "--engine", "dask", "--scheduler", address)
    assert f"--scheduler: '{address}' cannot be used" in said


def test_dask_that_is_not_installed_is_named(
    graded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = refused(capsys, "summarize", str(graded), "--engine", "dask", "--scheduler", "tcp://a:1")
    assert "--engine: dask needs the packages dask and distributed" in said
    assert "pip install 'token-confidence-toolkit[scale]'" in said


@pytest.mark.parametrize("who", ["workers", "scheduler"])
def test_other_versions_are_named(
    who: str, cluster: str, graded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    original = Client.get_versions

    def older(client: Client, **options: Any) -> Any:
        found: Any = original(client, **options)
        some = found["scheduler"] if who == "scheduler" else next(iter(found["workers"].values()))
        some["packages"]["token-confidence-toolkit"] = "0.0.1"
        return found

    monkeypatch.setattr(Client, "get_versions", older)
    said = refused(capsys, "summarize", str(graded), "--engine", "dask", "--scheduler", cluster)
    assert "has token-confidence-toolkit 0.0.1, and here it is" in said
    assert ("the scheduler" in said) == (who == "scheduler")


def test_an_address_of_a_worker_is_named(
    cluster: str, graded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Dask(cluster) as engine:
        worker = next(iter(engine._client.nthreads()))
    said = refused(capsys, "summarize", str(graded), "--engine", "dask", "--scheduler", worker)
    assert "is no scheduler but a worker" in said


def test_a_cluster_without_workers_is_named(
    graded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, workers=0) as address:
        said = refused(capsys, "summarize", str(graded), "--engine", "dask", "--scheduler", address)
    assert f"start some with dask worker {address}" in said


def test_a_scheduler_that_goes_is_told_in_one_line(tmp_path: Path) -> None:
    from tests.scale.functions import squared
    from toolkit.errors import DataFault

    with started(tmp_path) as address:
        engine = Dask(address, seconds=1)
        assert list(engine.map(squared, [2])) == [4]
    with engine, pytest.raises(DataFault, match=r"the scheduler at .* is gone") as caught:
        list(engine.map(squared, range(9)))
    assert "\n" not in str(caught.value)


def test_work_without_workers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolkit.errors import DataFault

    monkeypatch.setattr(clusters, "PATIENCE_SECONDS", 0.0)
    patience = clusters.Patience(lambda: ["one"])
    patience.check()
    patience = clusters.Patience(list)
    with pytest.raises(DataFault, match="no worker has been there for 0 s: start workers"):
        patience.check()
