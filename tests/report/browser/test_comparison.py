"""The page of two runs in Chromium: every section at both widths and in both themes, and both texts side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.answers import greedy
from tests.graded import made
from tests.report.browser.colours import weak
from tests.report.browser.conftest import NARROW, WIDE, Open
from toolkit.judging.comparing import compare_runs
from toolkit.judging.question import Question
from toolkit.report.comparison import write_comparison
from toolkit.store import open_runs

A4 = 673
TEXTS = {
    "p0": ("Yes", "No"),
    "p1": ("No", "Yes"),
    "p2": ("Yes", "Yes"),
    "p3": ("No", "No"),
    "p4": ("No", "Maybe"),
}
SAME = -2.5  # the log-probability of the first character of each


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    rng = np.random.default_rng(1)
    paths = []
    for i, name in enumerate(("first-run", "second-run")):
        answers = [
            greedy(prompt, texts[i], SAME, *(-rng.exponential(1 + i, len(texts[i]) - 1)).tolist())
            for prompt, texts in TEXTS.items()
        ]
        paths.append(made(folder / name, answers).path)
    runs = open_runs(paths)
    found = compare_runs(runs, Question(bootstrap=20, estimators=["mean_logprob", "min_prob"]))
    return write_comparison(runs, found, folder / "compare.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_section_is_read_easily_and_fits(open_file: Open, page: Path, scheme: str, width: int) -> None:
    reader = open_file(page, scheme=scheme, width=width)
    sections = reader("main > section").evaluate_all("all => all.map(one => one.id)")
    assert sections == ["summary", "differences", "reader", "figures", "setup"]
    assert reader(f"#figures img.{scheme}-only").first.is_visible()
    reader("#panels .piece").first.focus()
    assert weak(reader.page) == []
    assert reader.overflow() == 0


def test_both_texts_stand_side_by_side_in_the_same_colours(open_file: Open, page: Path) -> None:
    reader = open_file(page)
    own = TEXTS[reader.prompt]
    verdicts = ["✓right" if text == "Yes" else "✗wrong" for text in own]
    names = ["first-run: greedy", "second-run: greedy"]
    assert reader.texts("#panels .panel-name") == [
        " ".join(pair) for pair in zip(names, verdicts, strict=True)
    ]
    texts = reader("#panels .panel").evaluate_all(
        "panels => panels.map(one => [...one.querySelectorAll('.piece:not(.chip)')].map(p => p.textContent).join(''))"
    )
    assert texts == list(own)
    first = reader.drawn("#panels .panel:first-child .piece")[0]
    other = reader.drawn("#panels .panel:last-child .piece")[0]
    assert (first["background"], first["underlined"]) == (other["background"], other["underlined"])
    boxes = reader("#panels .panel").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert boxes[0] == boxes[1]
    assert reader.texts("#panels .parts") == ["the others are compared with this", "parts at token 1"]


def test_prompts_are_in_the_order_in_which_they_differ(open_file: Open, page: Path) -> None:
    reader = open_file(page)
    ids = reader.texts("#prompts .prompt-id")
    assert set(ids[:2]) == {"p0", "p1"}
    assert set(ids) == set(TEXTS)
    assert reader("#prompts .prompt-run").count() == 0  # a prompt is of both runs


def test_a_link_leads_back_to_the_answer_of_its_run(open_file: Open, page: Path) -> None:
    reader = open_file(page)
    reader.press("]")
    reader.choose("view", "one")
    assert reader.sequence.startswith("second-run: greedy")
    kept = reader.hash
    again = open_file(page, hash=kept)
    assert again.sequence == reader.sequence
    assert again("#text .piece").first.is_visible()


def test_it_fits_on_paper(open_file: Open, page: Path) -> None:
    reader = open_file(page, width=A4, scheme="dark")
    reader.page.emulate_media(media="print")
    reader("#reader-print .text").first.wait_for()
    assert reader("#reader-print .printed-head strong").all_text_contents() == [
        "first-run: greedy",
        "second-run: greedy",
    ]
    assert reader.overflow() == 0
    assert weak(reader.page) == []
