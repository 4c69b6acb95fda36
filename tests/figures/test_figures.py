"""Every kind of figure as a whole: it is drawn, in both themes, and the same run gives the same bytes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.figures.runs import graded, plain_run
from toolkit.appearance.palette import RGB, contrast
from toolkit.errors import ToolkitError
from toolkit.figures import FORMATS, KINDS, figure_bytes, make_figure, prepare, save_figure
from toolkit.figures.drawing import Drawing, Panel
from toolkit.figures.kinds import BINNINGS, GROUPS, RECALIBRATIONS
from toolkit.figures.options import Options
from toolkit.store import Run, open_runs

QUICK = {"estimators": {"bootstrap": 0}, "votes": {"bootstrap": 10}, "early-stopping": {"bootstrap": 10}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("figures") / "run")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded(tmp_path_factory.mktemp("figures") / "other", temperature=0.5)


def texts(figure: Figure) -> list[str]:
    """What is written in a figure; captions are wrapped, and keep some words together."""
    return [" ".join(found.get_text().split()) for found in figure.findobj(Text) if found.get_text()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_in_both_themes_and_says_n_and_the_sampler(run: Run, kind: str) -> None:
    drawing = prepare(run, kind, **QUICK.get(kind, {}))
    for theme, dark in (("light", False), ("dark", True)):
        figure = drawing.figure(theme=theme)
        shown = " ".join(texts(figure))
        assert "run (made)" in shown
        assert "n = " in shown
        assert "greedy" in shown or "temperature 0.8" in shown
        assert (sum(figure.get_facecolor()[:3]) < 1.5) == dark
        figure.draw_without_rendering()  # outside of the theme's settings
        check_ticks(figure)


def check_ticks(figure: Figure) -> None:
    """Ticks stand out from the paper, also where they were made late."""
    paper = rgb(figure.get_facecolor())
    for ax in figure.axes:
        for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
            if label.get_text():
                assert contrast(rgb(label.get_color()), paper) > 4.5


def rgb(colour: object) -> RGB:
    return RGB(*(round(255 * part) for part in to_rgb(colour)))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_compares_runs(run: Run, other: Run, kind: str) -> None:
    figure = make_figure(open_runs([run.path, other.path]), kind, **QUICK.get(kind, {}))
    shown = " ".join(texts(figure))
    assert "run" in shown
    assert "other" in shown
    limits = {tuple(round(end, 9) for end in (*ax.get_xlim(), *ax.get_ylim())) for ax in figure.axes}
    if kind in ("risk-coverage", "agreement", "votes", "entropy-logprob"):
        assert len(figure.axes) == 2
        assert len(limits) == 1


def test_the_same_run_gives_the_same_bytes(run: Run) -> None:
    figures = [make_figure(run.path, kind) for kind in ("sequence", "sequence", "risk-coverage")]
    contents = [[figure_bytes(figure, name, dpi=60) for name in FORMATS] for figure in figures]
    assert contents[0] == contents[1]
    for content in (content for of_one in contents for content in of_one):
        for dated in (b"CreationDate", b"<dc:date", b"Matplotlib v"):
            assert dated not in content
    code = (
        "import hashlib; from toolkit.figures import FORMATS, figure_bytes, make_figure;"
        f"figures = [make_figure({str(run.path)!r}, kind) for kind in ('sequence', 'risk-coverage')];"
        "print([hashlib.sha256(figure_bytes(f, name, dpi=60)).hexdigest() for f in figures for name in FORMATS])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [hashlib.sha256(content).hexdigest() for of_one in contents[1:] for content in of_one]
    assert done.stdout == f"{here}\n"


def test_drawing_changes_no_setting_and_opens_no_window(run: Run) -> None:
    import matplotlib as mpl
    from matplotlib import pyplot

    before = dict(mpl.rcParams)
    figure_bytes(make_figure(run, "sequence", theme="dark"), "png", dpi=30)
    assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == []


def test_the_size_is_what_is_asked_for_or_what_the_panels_need(run: Run, other: Run) -> None:
    assert make_figure(run, "sequence", size=(5, 3)).get_size_inches().tolist() == [5.0, 3.0]
    one = prepare(run, "risk-coverage")
    two = prepare(open_runs([run.path, other.path]), "risk-coverage")
    assert (one.columns, two.columns) == (1, 2)
    assert two.size[0] > one.size[0]
    below = prepare(open_runs([run.path, other.path]), "samples")
    assert (below.columns, below.size[0]) == (1, 7.0)


def test_panels_fill_rows_and_reach_as_far_as_the_widest() -> None:
    def draw(end: float) -> partial[Axes]:
        def line(ax: Axes) -> Axes:
            ax.set_xlim(0, end)
            ax.set_ylim(-end, 1)
            return ax

        return partial(line)

    panels = [Panel(f"panel {end}", draw(end)) for end in (1, 5, 3)]
    figure = Drawing("three", panels, shared="x").figure(size=(8, 6))
    assert [ax.get_xlim() for ax in figure.axes] == [(0, 5)] * 3
    assert [ax.get_ylim() for ax in figure.axes] == [(-1, 1), (-5, 1), (-3, 1)]
    assert {"panel 1", "panel 5", "panel 3", "three"} <= set(texts(figure))
    places = [ax.get_subplotspec().get_geometry()[:2] for ax in figure.axes]  # type: ignore[union-attr]
    assert places == [(2, 2)] * 3


def test_a_long_title_is_broken_and_no_formula(run: Run) -> None:
    drawing = Drawing("$a$ WMW " * 60 + "\n<b>\x1b", prepare(run, "sequence").panels)
    figure = drawing.figure(size=(5, 4))
    figure.draw_without_rendering()
    title = figure._suptitle.get_text()  # type: ignore[union-attr]
    assert len(title.splitlines()) > 3
    assert r"\$a\$" in title
    assert "\x1b" not in title
    box = figure._suptitle.get_window_extent()  # type: ignore[union-attr]
    assert box.x1 <= figure.bbox.x1


def test_a_file_is_written_at_once_or_not_at_all(run: Run, tmp_path: Path) -> None:
    figure = make_figure(run, "sequence")
    for name in ("x.png", "x.SVG", "x.pdf"):
        save_figure(figure, tmp_path / name, dpi=40)
    save_figure(figure, tmp_path / "plain", format="svg")
    assert (tmp_path / "x.SVG").read_bytes() == (tmp_path / "plain").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "x.SVG", "x.pdf", "x.png"]
    with pytest.raises(ToolkitError, match=r"output: there is no folder .*; make it first"):
        save_figure(figure, tmp_path / "none" / "x.png")
    save_figure(figure, "/dev/null", format="png")


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("x.gif", {}, "output: .*x.gif' ends in '.gif'; use one of .png, .svg, .pdf"),
        ("x", {}, "output: .*x' has no ending; use one of .png, .svg, .pdf"),
        ("x.png", {"format": "svg"}, "format: svg, and .*x.png' says png; give one of them"),
        ("x", {"format": "eps"}, "format: there is no 'eps'; use one of png, svg, pdf"),
        ("x.png", {"dpi": 5000}, "dpi: .* pixels are over 100,000,000; give fewer, or a smaller size"),
    ],
)
def test_what_cannot_be_written_is_said(
    run: Run, tmp_path: Path, name: str, given: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        save_figure(make_figure(run, "sequence"), tmp_path / name, **given)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_every_kind_names_what_there_is() -> None:
    known = {spec.name for spec in fields(Options)}
    for kind in KINDS.values():
        assert callable(getattr(import_module(f"toolkit.figures.{kind.module}"), kind.function))
        assert set(kind.options) <= known
        assert kind.help
        assert kind.help[0].islower()
        assert ("prompts" in kind.options) >= kind.needs_prompt
    assert {option for kind in KINDS.values() for option in kind.options} == known


def test_allowed_values_are_those_of_the_library() -> None:
    from toolkit.stats import calibration, recalibration

    assert BINNINGS == calibration.BINNINGS
    assert RECALIBRATIONS == recalibration.RECALIBRATIONS
    assert len(set(GROUPS)) == len(GROUPS)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("pie", {}, "kind: there is no figure 'pie'; use one of sequence, distribution"),
        ("sequence", {"bins": 3}, "bins: the figure sequence does not use it; it uses prompts, kinds"),
        ("sequence", {"colour": "red"}, "colour: the figure sequence does not use it"),
        ("distribution", {"group": ["grade", "x"]}, "group: there is no 'x'; use one of grade, kind"),
        ("distribution", {"limit": 0}, "limit: 0 is below 1; use 1 or more"),
        ("sequence", {"kinds": "grdy"}, "kinds: .*'grdy'"),
    ],
)
def test_unknown_kinds_and_options_are_refused(
    run: Run, kind: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        prepare(run, kind, **options)


def test_an_unknown_theme_is_refused(run: Run) -> None:
    with pytest.raises(ToolkitError, match="theme: there is no 'blue'"):
        make_figure(run, "sequence", theme="blue")


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.needs_grades])
def test_a_run_that_is_not_graded_says_what_comes_first(tmp_path: Path, kind: str) -> None:
    run = plain_run(tmp_path / "run")
    with pytest.raises(ToolkitError, match=f"run: the figure {kind} needs grades, and nothing is graded"):
        make_figure(run, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_run_has_nothing_to_show(tmp_path: Path, kind: str) -> None:
    from tests.store.factory import make_manifest, make_prompt
    from toolkit.store import RunWriter

    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt("p")])
    with pytest.raises(ToolkitError, match="it has no sequences"):
        prepare(tmp_path / "run", kind)


def test_importing_figures_needs_no_matplotlib() -> None:
    code = (
        "import sys; import toolkit.figures;"
        "print([name for name in ('numpy', 'pandas', 'matplotlib', 'mlx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
