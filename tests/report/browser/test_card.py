"""The card: bytes, statistics and alternatives of a token; value and tokens of a span."""

from __future__ import annotations

import math

import pytest

from tests.report.browser.conftest import NARROW, Open
from tests.report.browser.islands import Prompt, Text, make_island
from tests.report.browser.made import small


def rows(reader: object, table: str) -> list[list[str]]:
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    found: list[list[str]] = reader(f"#card .{table} tbody tr").evaluate_all(script)  # type: ignore[operator]
    return found


def test_it_tells_bytes_log_probability_entropy_and_rank_of_the_focused_token(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.nth(3).focus()
    assert reader.card == {
        "token": "4 of 6",
        "bytes": "20 50 61 72 69 73",
        "logprob": f"−3.50 nats · {100 * math.exp(-3.5):.1f} %",
        "entropy": "3.90 nats",
        "rank": "40",
    }
    assert reader("#card .card-piece").text_content() == "·Paris"


def test_alternatives_have_probabilities_as_bars_on_one_scale(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.first.focus()
    left = 1 - sum(map(math.exp, (-0.25, -2.0, -3.0)))
    shares = [math.exp(-0.25), math.exp(-2.0), math.exp(-3.0), left]
    assert rows(reader, "alternatives") == [
        ["chosen: The", "", f"{100 * shares[0]:.1f} %", "−0.25"],
        ["A", "", f"{100 * shares[1]:.1f} %", "−2"],
        ["It", "", f"{100 * shares[2]:.1f} %", "−3"],
        ["all others", "", f"{100 * left:.1f} %", ""],
    ]
    widths = reader("#card .bar").evaluate_all(
        "bars => bars.map(bar => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width)"
    )
    assert widths == pytest.approx(shares, abs=0.01)


def test_a_chosen_token_that_is_no_alternative_is_added_with_its_own_probability(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.nth(3).focus()
    assert [row[0] for row in rows(reader, "alternatives")] == [
        "·Lyon",
        "·Nice",
        "chosen: ·Paris",
        "all others",
    ]
    assert rows(reader, "alternatives")[2][2] == f"{100 * math.exp(-3.5):.1f} %"


def test_it_follows_the_pointer_and_goes_back_to_what_is_focused(open_island: Open) -> None:
    reader = open_island(small())
    assert not reader.card_is_open
    reader.pieces.nth(1).hover()
    assert reader.card["token"] == "2 of 6"
    reader("#reader-title").hover()
    assert not reader.card_is_open
    reader.pieces.nth(2).click()
    reader.pieces.nth(4).hover()
    assert reader.card["token"] == "5 of 6"
    reader("#reader-title").hover()
    assert reader.card["token"] == "3 of 6"


def test_escape_closes_it_and_the_focus_stays_in_the_text(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.nth(1).focus()
    reader.press("Escape")
    assert not reader.card_is_open
    assert reader.focused == " capital"
    assert reader.press("ArrowRight").card["token"] == "3 of 6"


def test_its_button_closes_it_and_gives_the_focus_back(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.nth(1).focus()
    reader.page.get_by_role("button", name="Close the detail").focus()
    reader.press("Enter")
    assert not reader.card_is_open
    assert reader.focused == " capital"


def test_a_screen_reader_is_told_of_what_is_focused(open_island: Open) -> None:
    reader = open_island(small())
    status = reader('#card [role="status"][aria-live="polite"]')
    reader.pieces.nth(1).focus()
    assert status.text_content() == f" capital: logprob −1.50, {100 * math.exp(-1.5):.1f} %"
    reader.press("Escape")
    assert status.text_content() == ""


def test_what_is_not_computed_and_what_is_masked_out_are_said_so(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=0")
    reader.pieces.nth(6).focus()
    assert reader.card["logprob"] == "not computed"
    reader.press("ArrowRight")
    assert reader.card["logprob"] == "−∞ · masked out"


def test_a_special_token_has_no_bytes(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.last.focus()
    assert reader.card["bytes"] == "none: a special token"


def test_a_span_has_its_statistics_and_its_tokens(open_island: Open) -> None:
    text = Text(
        ["Al", "gi", "ers", " now"],
        [-1.0, -2.0, -3.0, -0.5],
        entropies=[0.5, 1.0, 1.5, 2.0],
        ranks=[1, 2, 3, 4],
    )
    reader = open_island(make_island([Prompt("p", [text])])).select(by="word")
    reader.pieces.first.focus()
    assert reader.card == {
        "word": "1 of 2",
        "mean logprob": "−2 nats",
        "min logprob": "−3 nats",
        "sum logprob": "−6 nats",
        "mean entropy": "1 nats",
    }
    assert rows(reader, "tokens") == [
        ["Al", "0.50", "−1", "1"],
        ["gi", "1", "−2", "2"],
        ["ers", "1.50", "−3", "3"],
    ]
    assert reader("#card caption").text_content() == "3 tokens"


def test_a_token_of_a_span_leads_to_it(open_island: Open) -> None:
    reader = open_island(small()).select(by="word")
    reader.pieces.nth(3).focus()
    reader("#card .tokens button").click()
    assert reader("#by").input_value() == "token"
    assert reader.focused == " Paris"
    assert reader.card["token"] == "4 of 6"


def test_bytes_of_tokens_that_make_a_character_together_are_listed(open_island: Open) -> None:
    text = Text(["a", "\u00f0", "\u009f", "b"], [-0.1, -0.2, -3.7, -0.4], shared=(1, 3, "é"))
    island = make_island([Prompt("p", [text])])
    island["vocabulary"]["bytes"][1:3] = ["c3", "a9"]
    reader = open_island(island)
    reader.pieces.nth(1).focus()
    assert [row[1:] for row in rows(reader, "tokens")] == [["c3", "−0.20", "1"], ["a9", "−3.70", "1"]]
    assert reader("#card caption").text_content() == "2 tokens, which share this text"


def test_where_it_is_narrow_it_is_a_sheet_that_hides_no_focused_piece(open_island: Open) -> None:
    text = Text([f" word{i}" for i in range(400)], [-1.0] * 400)
    reader = open_island(make_island([Prompt("p", [text])]), width=NARROW)
    assert reader("#card").bounding_box() is not None
    reader.pieces.first.focus()
    for key in ("ArrowDown", "ArrowDown", "End", "Home"):
        reader.press(key)
        sheet, piece = reader("#card").bounding_box(), reader("#text .piece:focus").bounding_box()
        assert sheet is not None
        assert piece is not None
        assert piece["y"] + piece["height"] <= sheet["y"]
        assert piece["y"] >= 0
