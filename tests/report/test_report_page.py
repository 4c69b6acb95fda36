"""The pages of a report as a whole: sections, evaluation, figures, several runs, the same bytes again."""

from __future__ import annotations

import base64
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.answers import greedy, make_answers, prompt, sample
from tests.graded import graded_run, made
from tests.report.hostile import Page, read_page
from toolkit.aggregation.selection import Selection
from toolkit.errors import DataFault, ToolkitError
from toolkit.figures import KINDS, Drawing, figure_bytes, prepare
from toolkit.judging.evaluation import evaluate
from toolkit.judging.grades import grade
from toolkit.report import pictures
from toolkit.report.estimators import METRICS, SHOWN
from toolkit.report.pictures import ORDER
from toolkit.report.writing import Report, Settings, write_report
from toolkit.store import Run

QUICK = Settings(figures=False, bootstrap=20)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("page") / "graded")


@pytest.fixture
def written(run: Run, tmp_path: Path) -> Callable[..., Page]:
    def write(*paths: Path, **settings: Any) -> Page:
        asked = Settings(**{"figures": False, "bootstrap": 20, **settings})
        report: Report = write_report(paths or [run.path], tmp_path / "report.html", asked)
        return read_page(report.paths[0])

    return write


def only(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Draw only these kinds of figures."""
    monkeypatch.setattr("toolkit.figures.KINDS", {kind: KINDS[kind] for kind in kinds})


def sections(page: Page) -> list[str | None]:
    return [attributes["id"] for tag, attributes in page.elements if tag == "section"]


def test_sections_come_in_order_and_the_head_links_to_each(written: Callable[..., Page]) -> None:
    page = written(title="Mine")
    assert sections(page) == ["summary", "reader", "evaluation", "setup"]
    assert set(page.attributes("href")) >= {"#summary", "#reader", "#evaluation", "#setup"}
    assert page.elements.index(("a", {"class": "skip", "href": "#reader"})) < page.elements.index(
        ("main", {})
    )
    assert page.text.lstrip().startswith("Mine")
    assert page.island["title"] == "Mine"


def test_ids_are_there_once_and_labels_name_one_of_them(written: Callable[..., Page]) -> None:
    page = written()
    ids = page.attributes("id")
    assert len(set(ids)) == len(ids)
    assert set(page.attributes("aria-labelledby")) <= set(ids)
    assert {href[1:] for href in page.attributes("href") if not href.startswith("#prompt")} <= set(ids)


def test_a_run_without_grades_has_no_evaluation(tmp_path: Path, written: Callable[..., Page]) -> None:
    make_answers(tmp_path / "run", [prompt("p")], [greedy("p", "a", -1.0)])
    page = written(tmp_path / "run")
    assert sections(page) == ["summary", "reader", "setup"]
    assert "toolkit grade adds what is right and wrong" in page.text
    assert [one["grade"] for one in page.island["sequences"]] == [None]


def test_the_table_has_the_numbers_of_evaluate_the_best_first(run: Run, written: Callable[..., Page]) -> None:
    page = written(seed=3)
    frame = evaluate(run, bootstrap=20, seed=3)
    rows = frame[frame["estimator"].isin(["random", "n_tokens"]) | (frame.index < SHOWN)]
    text = " ".join(page.text[page.text.index("How well each estimator") :].split())
    places = []
    for row in rows.to_dict("records"):
        baseline = " baseline" if row["estimator"] in ("random", "n_tokens") else ""
        interval = f" ({row['auroc_low']:.3f} to {row['auroc_high']:.3f})"
        said = f"{row['estimator']}{baseline}{row['auroc']:z.3f}{interval if row['auroc_low'] > -1 else ''}"
        places.append(text.index(said))
    assert places == sorted(places)
    assert f"All {len(frame)} estimators, with all intervals" in text
    assert "95 % intervals by 20 resamples of prompts" in text
    assert all(meaning in text for _, meaning in METRICS.values())


def test_without_resamples_the_table_says_that_it_has_no_intervals(written: Callable[..., Page]) -> None:
    page = written(bootstrap=0)
    assert "without intervals" in page.text
    assert (
        " to " not in page.text[page.text.index("estimators, with all") : page.text.index("What the columns")]
    )


def test_what_makes_metrics_undefined_is_said(tmp_path: Path, written: Callable[..., Page]) -> None:
    made(tmp_path / "run", [greedy("p", "Yes", -1.0), greedy("q", "Yes", -2.0)])
    page = written(tmp_path / "run")
    assert "2 units, all right: AUROC, AUPRC and PRR are undefined" in page.text
    assert "tells right from wrong best" not in page.text


def test_an_evaluation_by_field_is_of_fields(tmp_path: Path, written: Callable[..., Page]) -> None:
    answers = [greedy(p, f'{{"a": "{a}", "b": "x"}}', -1.0, end=None) for p, a in (("p", "x"), ("q", "y"))]
    reference = '{"a": "x", "b": "x"}'
    opened = make_answers(tmp_path / "run", [prompt("p", reference), prompt("q", reference)], answers)
    grade(opened, "exact", by="field")
    page = written(tmp_path / "run")
    assert "Judged is each field: 4 of 2 prompts, accuracy 0.750" in page.text
    assert [one["grade"] for one in page.island["sequences"]] == [1.0, 0.5]


def test_grades_of_several_graders_need_a_name(tmp_path: Path, written: Callable[..., Page]) -> None:
    opened = made(tmp_path / "run", [greedy("p", "Yes!", -1.0)])
    grade(opened, "contains")
    with pytest.raises(ToolkitError, match="no grader is named: give one of contains@"):
        written(tmp_path / "run")
    assert written(tmp_path / "run", grader="contains").island["sequences"][0]["grade"] == 1.0
    with pytest.raises(ToolkitError, match="there are no grades by 'number'"):
        written(tmp_path / "run", grader="number")


def test_several_runs_are_in_one_report(run: Run, tmp_path: Path, written: Callable[..., Page]) -> None:
    shutil.copytree(run.path, tmp_path / "other")
    make_answers(tmp_path / "ungraded", [prompt("p0")], [sample("p0", 0, "x", -1.0)])
    page = written(run.path, tmp_path / "other", tmp_path / "ungraded")
    island = page.island
    assert [one["name"] for one in island["runs"]] == ["graded", "other", "ungraded"]
    runs = [island["prompts"][one["prompt"]]["run"] for one in island["sequences"]]
    assert [runs.count(i) for i in range(3)] == [48, 48, 1]
    assert runs == sorted(runs)
    assert page.text.count("estimators, with all intervals") == 2
    assert page.text.count("The whole configuration") == 3
    assert island["title"] == "graded, other, ungraded: how sure was the model?"


def test_a_selection_is_what_the_reader_has_and_the_evaluation_says_it_is_of_all(
    written: Callable[..., Page],
) -> None:
    page = written(selection=Selection(["p3", "p1"], ["sample"], [4, 0]))
    keys = [
        (page.island["prompts"][one["prompt"]]["id"], one["kind"], one["sample"])
        for one in page.island["sequences"]
    ]
    assert keys == [(p, "sample", i) for p in ("p1", "p3") for i in (0, 4)]
    assert "The evaluation is of the whole run, and the reader shows a part of it." in page.text


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(["p1", "nobody"]), "prompts: 'nobody' is not in .*graded; toolkit show lists ids"),
        (Selection(kinds=["beam"]), "no sequence is selected; name other prompts, kinds or samples"),
        (Selection(samples=[99]), "no sequence is selected"),
    ],
)
def test_a_selection_of_nothing_is_refused(
    written: Callable[..., Page], selection: Selection, message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        written(selection=selection)


def test_a_prompt_of_one_of_several_runs_is_enough(
    run: Run, tmp_path: Path, written: Callable[..., Page]
) -> None:
    make_answers(tmp_path / "other", [prompt("x")], [greedy("x", "a", -1.0)])
    page = written(run.path, tmp_path / "other", selection=Selection(["x"]))
    assert len(page.island["sequences"]) == 1
    assert "No sequence of this run is selected." in page.text


def test_the_same_runs_give_the_same_bytes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "samples")
    asked = Settings(bootstrap=5)
    first, second = (
        write_report([run.path], tmp_path / name / "report.html", asked).paths[0].read_bytes()
        for name in ("a", "b")
        if not (tmp_path / name).mkdir()
    )
    assert first == second


def test_figures_come_in_a_light_and_a_dark_version_that_fit_the_page(
    run: Run, written: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    only(monkeypatch, "estimators", "distribution")
    page = written(figures=True)
    images = [attributes for tag, attributes in page.elements if tag == "img"]
    assert [one["class"] for one in images] == ["light-only", "dark-only"] * 2
    assert [str(one["alt"]).partition(":")[0] for one in images[::2]] == ["estimators", "distribution"]
    papers = []
    for one in images:
        kind, _, content = str(one["src"]).partition(",")
        assert kind == "data:image/png;base64"
        picture = Image.open(io.BytesIO(base64.b64decode(content)))
        papers.append(picture.convert("RGB").getpixel((0, 0)))
        ratio = float(str(one["width"])) / float(str(one["height"]))
        assert picture.width / picture.height == pytest.approx(ratio, rel=0.01)
    assert min(papers[0]) > 240  # type: ignore[type-var, arg-type]
    assert max(papers[1]) < 60  # type: ignore[type-var, arg-type]


def test_a_picture_of_few_colours_looks_like_the_figure(run: Run) -> None:
    from PIL import Image

    figure = prepare(run, "samples").figure(theme="dark")
    address = pictures._address(figure)
    few = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    whole = Image.open(io.BytesIO(figure_bytes(figure, "png"))).convert("RGB")
    assert few.mode == "P"
    difference = np.abs(np.asarray(whole, int) - np.asarray(few.convert("RGB"), int))
    assert difference.max() <= 16


def test_the_figure_of_the_estimators_evaluates_nothing_again(
    written: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    only(monkeypatch, "estimators")
    monkeypatch.setattr("toolkit.figures.prepare", lambda runs, kind, **more: asked.append(kind))
    page = written(figures=True)
    assert asked == []
    assert [tag for tag, _ in page.elements].count("img") == 2


def test_a_figure_that_cannot_be_drawn_is_named_with_the_reason(
    written: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(runs: object, kind: str, **options: object) -> Drawing:
        raise ToolkitError(f"{kind} needs <b>more</b>")

    only(monkeypatch, "votes", "samples")
    monkeypatch.setattr("toolkit.figures.prepare", refuse)
    page = written(figures=True)
    assert "2 figures could not be drawn" in page.text
    assert "votes needs <b>more</b>" in page.text
    assert "samples needs <b>more</b>" in page.text


def test_a_damaged_file_is_a_fault_of_the_report(
    written: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(runs: object, kind: str, **options: object) -> Drawing:
        raise DataFault("damaged")

    only(monkeypatch, "votes")
    monkeypatch.setattr("toolkit.figures.prepare", fail)
    with pytest.raises(DataFault, match="damaged"):
        written(figures=True)


def test_figures_that_take_long_are_left_to_the_command_for_large_runs(
    written: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "MOST_SEQUENCES", 47)
    only(monkeypatch, "votes")
    page = written(figures=True)
    assert "1 figure could not be drawn" in page.text
    assert "votes -o votes.png draws it" in page.text


def test_figures_get_what_the_report_was_asked_for(
    written: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, dict[str, object]] = {}

    def note(runs: object, kind: str, **options: object) -> Drawing:
        asked[kind] = options
        raise ToolkitError("enough")

    only(monkeypatch, "distribution", "reliability")
    monkeypatch.setattr("toolkit.figures.prepare", note)
    written(figures=True, selection=Selection(["p1"], ["sample"]))
    assert asked["distribution"]["prompts"] == ["p1"]
    assert "prompts" not in asked["reliability"]
    assert str(asked["reliability"]["grader"]).startswith("exact@")
    assert set(ORDER) == set(KINDS)


def test_a_folder_that_is_missing_is_named(run: Run, tmp_path: Path) -> None:
    with pytest.raises(DataFault, match=r"cannot write .*missing"):
        write_report([run.path], tmp_path / "missing" / "report.html", QUICK)
