"""The whole report of a graded run: every section at both widths, in both themes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.graded import graded_run
from tests.report.browser.colours import weak
from tests.report.browser.conftest import NARROW, WIDE, Open
from toolkit.report.writing import Settings, write_report
from toolkit.store import Run

A4 = 673  # pixels between margins of 16 mm


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("graded") / "run")


@pytest.fixture(scope="module")
def report(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report([run.path], folder / "report.html", Settings(figures=False, bootstrap=20)).paths[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_section_is_read_easily_and_fits(
    open_file: Open, report: Path, scheme: str, width: int
) -> None:
    reader = open_file(report, scheme=scheme, width=width)
    sections: Sequence[str] = reader("main > section").evaluate_all("all => all.map(one => one.id)")
    assert sections == ["summary", "reader", "evaluation", "setup"]
    reader.pieces.first.focus()
    assert weak(reader.page) == []
    assert reader.overflow() == 0


def test_every_section_fits_on_paper(open_file: Open, report: Path) -> None:
    reader = open_file(report, width=A4, scheme="dark")
    reader.page.emulate_media(media="print")
    reader("#reader-print .text").first.wait_for()
    assert reader.overflow() == 0
    assert weak(reader.page) == []


def test_texts_of_the_run_are_the_readers(open_file: Open, report: Path, run: Run) -> None:
    reader = open_file(report)
    frame = run.sequences_df()
    greedy = frame[(frame.prompt_id == "p0") & (frame.kind == "greedy")]
    assert "".join(reader.texts("#text .piece:not(.chip)")) == greedy.text.iloc[0]
    assert reader('[role="tab"]').count() == (frame.prompt_id == "p0").sum()


def test_links_of_the_summary_lead_into_the_text(open_file: Open, report: Path) -> None:
    reader = open_file(report)
    links = reader('#summary a[href*="span="]')
    href = links.first.get_attribute("href") or ""
    links.first.click()
    reader("#text .piece:focus").wait_for()
    assert f"prompt={reader.prompt}&" in href
    assert reader.card_is_open


def test_the_sections_are_reached_from_the_head(open_file: Open, report: Path) -> None:
    reader = open_file(report)
    for name in ("Summary", "Reader", "Evaluation", "Setup"):
        reader.page.get_by_role("link", name=name, exact=True).click()
        assert reader.hash == f"#{name.lower()}"
        assert reader(f"#{name.lower()}").is_visible()
