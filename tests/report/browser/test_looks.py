"""Contrast, widths, themes, paper and motion, from what the browser computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.report.browser.colours import rgb, weak
from tests.report.browser.conftest import NARROW, Open
from tests.report.browser.islands import Prompt, Text, make_island
from tests.report.browser.made import PROMPTS, small
from tests.report.browser.reader import Reader
from tests.report.browser.test_hostile import hostile

REFUSE = """
const refuse = () => { throw new DOMException("refused", "SecurityError"); };
Object.defineProperty(window, "localStorage", { get: refuse });
history.replaceState = refuse;
"""
FINE = Text([f" s{i}" for i in range(161)], [-4.0 + i / 40 for i in range(161)])


def everything() -> dict[str, Any]:
    """All confidences beside the usual prompts."""
    return make_island([Prompt("scale", [FINE, FINE]), *PROMPTS])


def with_card(reader: Reader) -> None:
    reader.press("?", "n")
    reader.pieces.first.focus()


def with_span_card(reader: Reader) -> None:
    reader.press("n", "]").select(by="word").choose("scope", "page").press("w")
    reader.pieces.first.focus()


def side_by_side(reader: Reader) -> None:
    reader.press("n", "c")
    reader("#panels .piece").first.focus()


def nothing_found(reader: Reader) -> None:
    reader.choose("filter", "ungraded")
    reader("#search").fill("zzz")


STATES: list[Callable[[Reader], None]] = [
    lambda reader: None,
    with_card,
    with_span_card,
    side_by_side,
    nothing_found,
]
NAMES = ["opened", "card", "span card", "side by side", "nothing found"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES, ids=NAMES)
def test_all_text_stands_out_from_what_is_behind_it_and_fits(
    open_island: Open, scheme: str, state: Callable[[Reader], None]
) -> None:
    reader = open_island(everything(), scheme=scheme)
    state(reader)
    assert weak(reader.page) == []
    assert reader.overflow() == 0


@pytest.mark.parametrize("width", [NARROW, 780])
@pytest.mark.parametrize("state", STATES, ids=NAMES)
def test_the_page_is_never_wider_than_its_window(
    open_island: Open, width: int, state: Callable[[Reader], None]
) -> None:
    reader = open_island(everything(), width=width)
    state(reader)
    assert reader.overflow() == 0
    outside = reader("#reader").evaluate(
        """reader => [...reader.querySelectorAll("button, select, .piece, p, dd, .legend span")]
            .filter(one => !one.closest(".unseen, .closed, details:not([open])") && one.getClientRects().length > 0)
            .filter(one => !(innerWidth <= 760 && one.closest("#card")))  // a sheet as wide as the window
            .filter(one => one.getBoundingClientRect().right > reader.getBoundingClientRect().right)
            .map(one => one.outerHTML.slice(0, 80))"""
    )
    assert outside == []


def test_hostile_text_makes_nothing_wider_or_hard_to_read(open_island: Open) -> None:
    reader = open_island(hostile(), width=NARROW, scheme="dark")
    reader.pieces.first.focus()
    assert reader.overflow() == 0
    assert weak(reader.page) == []


def test_the_theme_is_the_systems_until_it_is_chosen_and_is_remembered(open_island: Open) -> None:
    reader = open_island(small(), scheme="dark")
    button = reader.page.get_by_role("button", name="Dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert button.get_attribute("aria-pressed") == "true"
    dark = reader.page.evaluate(paper)
    button.click()
    light = reader.page.evaluate(paper)
    assert sum(rgb(light)) > 600 > 200 > sum(rgb(dark))
    assert button.get_attribute("aria-pressed") == "false"
    reader.page.reload()
    assert reader.page.evaluate(paper) == light
    reader.page.get_by_role("button", name="Dark").click()
    assert reader.page.evaluate(paper) == dark


def test_a_theme_that_is_no_theme_is_not_taken_from_storage(open_island: Open) -> None:
    reader = open_island(small())
    reader.page.evaluate("localStorage.setItem('token-confidence-report-theme', 'evil')")
    reader.page.reload()
    assert reader.page.evaluate("document.documentElement.dataset.theme") is None


def test_the_page_works_where_storage_and_history_are_refused(open_island: Open) -> None:
    reader = open_island(small(), script=REFUSE)
    reader.page.get_by_role("button", name="Dark").click()
    assert reader.press("n").prompt == "json"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_has_all_sequences_of_the_prompt_and_the_legend_but_no_controls(
    open_island: Open, scheme: str
) -> None:
    reader = open_island(small(), scheme=scheme)
    drawn = {tuple(piece[name] for name in ("text", "background", "underlined")) for piece in reader.drawn()}
    reader.page.emulate_media(media="print")
    printed = reader("#reader-print")
    printed.locator(".text").first.wait_for()
    assert printed.locator(".text").all_text_contents() == [
        "The capital is Paris.<|im_end|>",
        "The capital is Lyon.↵\nYes!<|im_end|>",
        "The capital\tI think",
        "The capital is Paris.<|im_end|>",
    ]
    assert printed.locator("strong").all_text_contents() == ["greedy", "sample 0", "sample 1", "sample 2"]
    assert printed.locator("h3").text_content() == "What is the capital of France?"
    assert printed.locator(".legend .scale .piece").count() == 9
    assert (
        reader(
            "button:visible, input:visible, select:visible, nav:visible, .skip:visible, #reader-body:visible"
        ).count()
        == 0
    )
    on_paper = reader.drawn("#reader-print .printed:first-of-type .piece")
    if scheme == "light":
        assert {
            tuple(piece[name] for name in ("text", "background", "underlined")) for piece in on_paper
        } == drawn
    exact = printed.locator(".text .piece").first.evaluate("one => getComputedStyle(one).printColorAdjust")
    assert exact == "exact"
    assert rgb(reader.page.evaluate("getComputedStyle(document.body).backgroundColor")) == (255, 255, 255)
    assert weak(reader.page) == []
    assert reader.overflow() == 0
    reader.page.emulate_media(media="screen")
    reader("#reader-body").wait_for()
    reader("#reader-print:empty").wait_for(state="attached")


def test_a_pdf_is_made_with_the_sequences_in_it(open_island: Open) -> None:
    reader = open_island(small()).press("n")
    reader.page.evaluate(
        """addEventListener("beforeprint", () => {
            window.printed = document.getElementById("reader-print").textContent;
        })"""
    )
    assert reader.page.pdf().startswith(b"%PDF")
    assert "Ada L." in reader.page.evaluate("window.printed")
    assert reader("#reader-print *").count() == 0


def test_little_of_a_very_long_text_is_printed_and_says_so(open_island: Open) -> None:
    text = Text([f" w{i}" for i in range(8000)], [-1.0] * 8001)
    reader = open_island(make_island([Prompt("p", [text])]))
    reader.page.emulate_media(media="print")
    reader("#reader-print .printed").wait_for()
    printed = reader("#reader-print .piece").count() - 10  # without the legend's
    assert 3000 < printed < 6000
    assert (
        reader("#reader-print .printed .note").text_content()
        == f"{8001 - printed:,} pieces more not printed."
    )


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_nothing_moves_for_those_who_do_not_want_it(open_island: Open, motion: str, moves: bool) -> None:
    reader = open_island(small(), motion=motion)
    reader("#least-list .entry").first.click()
    assert (reader.page.evaluate("document.getAnimations().length") > 0) is moves
    assert reader.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
