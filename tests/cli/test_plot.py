"""`toolkit plot` from the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.figures.runs import graded, plain_run
from toolkit.cli.main import main
from toolkit.figures import KINDS, figure_bytes, make_figure
from toolkit.store import open_runs

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graded(tmp_path_factory.mktemp("plot") / "run").path


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graded(tmp_path_factory.mktemp("plot") / "other", temperature=0.5).path


def drawn(capsys: Captured, *arguments: object) -> None:
    assert main(["plot", *map(str, arguments)]) == 0
    assert capsys.readouterr() == ("", "")


def refused(capsys: Captured, *arguments: object) -> str:
    assert main(["plot", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def test_the_ending_says_the_format(path: Path, tmp_path: Path, capsys: Captured) -> None:
    starts = {"x.png": b"\x89PNG", "x.svg": b"<?xml", "x.pdf": b"%PDF"}
    for name, start in starts.items():
        drawn(capsys, path, "sequence", "-o", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    drawn(capsys, path, "sequence", "--format", "svg", "-o", tmp_path / "plain")
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "x.svg").read_bytes()


def test_options_reach_the_figure_and_its_file(
    path: Path, other: Path, tmp_path: Path, capsys: Captured
) -> None:
    figure = make_figure(
        open_runs([path, other]),
        "distribution",
        theme="dark",
        size=(6, 3.5),
        by=["word", "window:2"],
        metric="min_k_percent(0.5)",
        group=["kind", "grade"],
        kinds=["sample"],
        samples=[0, 2],
        limit=3,
    )
    words = "--by word --by window:2 --metric min_k_percent(0.5) --group kind --group grade --kind sample"
    more = "--sample 0 --sample 2 --limit 3 --theme dark --size 6x3.5 --dpi 40"
    drawn(capsys, path, other, "distribution", *words.split(), *more.split(), "-o", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes() == figure_bytes(figure, "png", dpi=40)


def test_options_of_judging_and_of_votes_reach_the_figure(
    path: Path, tmp_path: Path, capsys: Captured
) -> None:
    figure = make_figure(
        path, "reliability", estimators=["mean_prob", "min_prob"], target="each", bins=3, binning="equal_mass"
    )
    words = "--estimator mean_prob --estimator min_prob --target each --bins 3 --binning equal_mass"
    drawn(capsys, path, "reliability", *words.split(), "-o", tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == figure_bytes(figure, "svg")
    options = {"percentiles": [50.0], "warmup": 2, "window": 1, "bootstrap": 10, "seed": 3}
    figure = make_figure(path, "early-stopping", **options)
    words = "--percentile 50 --warmup 2 --window 1 --bootstrap 10 --seed 3"
    drawn(capsys, "-o", tmp_path / "b.svg", path, "early-stopping", *words.split())
    assert (tmp_path / "b.svg").read_bytes() == figure_bytes(figure, "svg")


def test_the_kinds_are_listed_with_what_they_need_and_take(capsys: Captured) -> None:
    assert main(["plot", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed[::2]] == list(KINDS)
    for kind, shows, takes in zip(KINDS.values(), listed[::2], listed[1::2], strict=True):
        assert kind.help in shows
        assert ("needs grades" in shows) == kind.needs_grades
        assert len(takes.split()) == len(kind.options)
        assert all(option.startswith("--") for option in takes.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sequnce"], "kind: there is no figure 'sequnce' (did you mean sequence?); use one of sequence,"),
        (["sequence", "--prompt", "x"], "--prompt: 'x' is not in"),
        (["sequence", "--sample", "7"], "name other --prompt, --kind or --sample"),
        (
            ["sequence", "--estimator", "x"],
            "--estimator: the figure sequence does not use it; it uses --prompt,",
        ),
        (["reliability", "--estimator", "sum_logprob"], "--estimator: sum_logprob is no probability"),
        (["reliability", "--recalibrate", "beta"], "--recalibrate: there is no 'beta'; use one of isotonic"),
        (["distribution", "--by", "wrd"], "--by: there is no span 'wrd' (did you mean word?)"),
        (["distribution", "--metric", "x"], "--metric: there is no estimator 'x'"),
        (["distribution", "--group", "x"], "--group: there is no 'x'; use one of grade, kind"),
        (["estimators", "--metric", "x"], "--metric: there is no 'x'; use one of auroc"),
        (["votes", "--bootstrap", "-1"], "--bootstrap: -1 is below 0"),
        (["sequence", "--theme", "blue"], "--theme: there is no 'blue'; use one of light, dark"),
        (["sequence", "--size", "7"], "--size: '7' is no size; write width x height in inches, as 7x4.5"),
        (["sequence", "--size", "0x4"], "--size: 0 is below 2; use 2 to 60"),
        (
            ["sequence", "--size", "60x60", "--dpi", "1200"],
            "--dpi: 72000 x 72000 pixels are over 100,000,000",
        ),
        (["sequence", "--dpi", "2"], "--dpi: 2 is below 20"),
        (["sequence", "--format", "gif"], "--format: there is no 'gif'; use one of png, svg, pdf"),
        (["sequence", "--format", "svg"], "--format: svg, and 'x.png' says png; give one of them"),
        (["sequence", "--prompt"], "--prompt: expected one argument"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(
    path: Path, tmp_path: Path, capsys: Captured, arguments: list[str], message: str
) -> None:
    assert message in refused(capsys, path, *arguments, "-o", tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.gif", "--output: 'x.gif' ends in '.gif'; use one of .png, .svg, .pdf"),
        ("x", "--output: 'x' has no ending; use one of .png, .svg, .pdf"),
        ("none/x.png", "--output: there is no folder"),
        (".", "is a folder; give the path of a file"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: Captured, name: str, message: str
) -> None:
    assert message in refused(capsys, "nowhere", "sequence", "-o", tmp_path / name)


def test_the_kind_comes_last(path: Path, tmp_path: Path, capsys: Captured) -> None:
    message = refused(capsys, "sequence", path, "-o", tmp_path / "x.png")
    assert "the kind of figure comes last: RUN... KIND -o FILE; see toolkit plot --help" in message
    assert "the following arguments are required: KIND" in refused(capsys, path, "-o", tmp_path / "x.png")
    assert "the following arguments are required: -o/--output" in refused(capsys, path, "sequence")


def test_a_run_that_is_not_graded_says_what_comes_first(tmp_path: Path, capsys: Captured) -> None:
    run = plain_run(tmp_path / "run")
    message = refused(capsys, run.path, "votes", "-o", tmp_path / "x.png")
    assert "the figure votes needs grades, and nothing is graded" in message


def test_a_figure_that_is_replaced_is_whole_or_as_it_was(
    path: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.png"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert main(["plot", str(path), "sequence", "-o", str(target)]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert target.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["x.png"]


def test_a_figure_can_go_into_a_pipe(path: Path, tmp_path: Path, capsys: Captured) -> None:
    drawn(capsys, path, "sequence", "--format", "pdf", "-o", "/dev/null")
    assert not Path("/dev/null").is_file()
