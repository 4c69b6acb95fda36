"""Samples side by side, and where they first part."""

from __future__ import annotations

import random
from itertools import takewhile
from typing import Any

import pytest

from tests.report.browser.conftest import NARROW, Open
from tests.report.browser.islands import Prompt, Text, make_island
from tests.report.browser.made import PROMPTS, small

MARKED = """panels => panels.map(panel => {
    const marked = panel.querySelectorAll(".parting");
    return [...marked].map(one => Number(one.dataset.piece));
})"""


def shared(one: Text, other: Text) -> int:
    """How many tokens two texts begin with, in plain Python."""
    a, b = (list(text.tokens)[: len(text.pieces) + text.has_end] for text in (one, other))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def drawn_texts() -> list[list[Text]]:
    rng = random.Random(3)
    groups = []
    for _ in range(4):
        stem = [f" {rng.choice('abc')}" for _ in range(8)]
        texts = []
        for sample in range(6):
            keep = rng.randint(0, 8)
            pieces = stem[:keep] + [f" {rng.choice('abcd')}" for _ in range(rng.randint(0, 4))]
            texts.append(Text(pieces or [" a"], [-1.0] * 20, "sample", sample, has_end=rng.random() < 0.7))
        groups.append(texts)
    return groups


def test_where_each_first_parts_from_the_chosen_one_equals_a_plain_comparison(open_island: Open) -> None:
    groups = [PROMPTS[0].texts, *drawn_texts()]
    island = make_island([Prompt(f"p{i}", texts) for i, texts in enumerate(groups)])
    reader = open_island(island).press("c")
    for texts in groups:
        for base in range(2):
            expected: list[list[int]] = []
            for text in texts:
                length = shared(texts[base], text)
                n = len(text.pieces) + text.has_end
                expected.append([length] if text is not texts[base] and length < n else [])
            assert reader("#panels .panel").evaluate_all(MARKED) == expected
            reader.press("]")
        reader.press("n")


def test_what_all_of_them_share_is_said(open_island: Open) -> None:
    reader = open_island(small()).press("c")
    assert reader("#common").text_content() == "All 4 sequences begin with the same 2 tokens: The capital"
    assert reader.press("n")("#common").text_content() == "There is one sequence: nothing to compare."
    assert reader.press("n")("#common").text_content() == "Both sequences begin with the same 1 token: Blue"
    different = [Text([text], [-1.0, -0.1], "sample", i) for i, text in enumerate("abc")]
    reader = open_island(make_island([Prompt("p", different)])).press("c")
    assert reader("#common").text_content() == "All 3 sequences part at the first token."
    same = [Text(["a"], [-1.0, -0.1], "sample", i) for i in range(3)]
    reader = open_island(make_island([Prompt("p", same)])).press("c")
    assert reader("#common").text_content() == "All 3 sequences have the same tokens."


def test_each_says_how_it_parts(open_island: Open) -> None:
    texts = [
        Text(["a", "b"], [-1.0] * 3, has_end=False),
        Text(["a", "c"], [-1.0] * 3, "sample", 0),
        Text(["a", "b"], [-1.0] * 3, "sample", 1, has_end=False),
        Text(["a"], [-1.0] * 3, "sample", 2, has_end=False),
        Text(["a", "b", "c"], [-1.0] * 4, "sample", 3),
    ]
    reader = open_island(make_island([Prompt("p", texts)])).press("c")
    assert reader.texts("#panels .parts") == [
        "the others are compared with this",
        "parts at token 2",
        "the same tokens",
        "ends after token 1",
        "goes on at token 3",
    ]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("word", [[], ["Lyon"], ["\t"], []]),
        ("sentence", [[], ["The capital is Lyon.\n"], ["The capital\tI think"], []]),
    ],
)
def test_spans_are_marked_that_the_parting_token_is_in(open_island: Open, by: str, expected: Any) -> None:
    reader = open_island(small()).press("c").select(by=by)
    script = (
        "panels => panels.map(panel => [...panel.querySelectorAll('.parting')].map(one => one.textContent))"
    )
    assert reader("#panels .panel").evaluate_all(script) == expected


def test_pieces_are_drawn_and_told_of_as_in_the_text_alone(open_island: Open) -> None:
    reader = open_island(small())
    alone = [(piece["text"], piece["background"]) for piece in reader.drawn()]
    reader.press("c")
    assert [(p["text"], p["background"]) for p in reader.drawn("#panels .panel:first-child .piece")] == alone
    reader("#panels .panel").nth(1).locator(".piece").nth(3).focus()
    assert reader.card["bytes"] == "20 4c 79 6f 6e"
    assert reader.press("ArrowRight").card["token"] == "5 of 9"


def test_a_name_chooses_what_the_others_are_compared_with(open_island: Open) -> None:
    reader = open_island(small()).press("c")
    reader.page.get_by_role("button", name="sample 0").focus()
    reader.press("Enter")
    assert reader.sequence == "sample 0"
    assert reader.texts("#panels .base .panel-name")[0].startswith("sample 0")
    assert reader.focused.startswith("sample 0")
    assert [reader.press("]").focused[:8], reader.press("]").focused[:8]] == ["sample 1", "sample 2"]


def test_few_are_drawn_at_a_time_and_the_rest_on_demand(open_island: Open) -> None:
    texts = [Text(["a", f" b{i}"], [-1.0] * 3, "sample", i) for i in range(30)]
    reader = open_island(make_island([Prompt("p", texts)])).press("c")
    assert reader("#panels .panel").count() == 12
    reader("#more-panels").click()
    reader("#more-panels").click()
    assert reader("#panels .panel").count() == 30
    assert reader("#more-panels").is_hidden()


def test_they_stand_in_columns_where_there_is_room_and_below_each_other_else(open_island: Open) -> None:
    script = "panels => new Set(panels.map(panel => Math.round(panel.getBoundingClientRect().x))).size"
    assert open_island(small()).press("c")("#panels .panel").evaluate_all(script) == 2
    assert open_island(small(), width=NARROW).press("c")("#panels .panel").evaluate_all(script) == 1
