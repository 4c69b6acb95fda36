"""Thinking blocks, and the answer after them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.grading import Extraction
from toolkit.spans import Answer, Thinking, answer_range, ends_in_thinking, span_kind, thinking_blocks


def blocks(text: str, opened: bool = False) -> list[tuple[str, str, bool]]:
    return [(text[s.start : s.end], s.label, s.complete) for s in Thinking(opened=opened)(text)]


def answer(text: str, opened: bool = False) -> str | None:
    spans = Answer(opened=opened)(text)
    return text[spans[0].start : spans[0].end] if spans else None


def test_a_block_is_what_is_between_its_marks() -> None:
    text = "<think>\n so \n</think>\n\nParis <thinking>or?</thinking> yes [THINK]x[/THINK]."
    assert blocks(text) == [("so", "<think>", True), ("or?", "<thinking>", True), ("x", "[THINK]", True)]
    assert answer(text) == "."


def test_a_block_that_is_not_ended_reaches_to_the_end_and_there_is_no_answer() -> None:
    assert blocks("Well <think> so and") == [("so and", "<think>", False)]
    assert answer("Well <think> so and") is None


def test_an_end_mark_alone_ends_what_began_before_the_text() -> None:
    assert blocks("so</think> Paris") == [("so", "", True)]
    assert answer("so</think> Paris") == "Paris"


def test_a_text_that_begins_inside_a_block_is_all_thinking_until_it_ends() -> None:
    assert blocks("so and", opened=True) == [("so and", "", False)]
    assert answer("so and", opened=True) is None
    assert answer("so</think> Paris", opened=True) == "Paris"
    assert answer("Paris") == "Paris"


def test_a_begin_mark_inside_a_block_and_an_empty_block_mean_nothing() -> None:
    assert blocks("<think>a <think> b</think>c") == [("a <think> b", "<think>", True)]
    assert blocks("<think>\n\n</think>a") == []
    assert answer("<think>\n\n</think>a") == "a"


def test_the_end_mark_of_another_kind_does_not_end_a_block() -> None:
    assert blocks("<think>a</thinking>b</think>c") == [("a</thinking>b", "<think>", True)]


def test_marks_can_be_others() -> None:
    kind = span_kind("thinking:<|a|>,<|b|>")
    assert kind.find is not None
    assert [(s.start, s.end, s.label) for s in kind.find("<|a|>x<|b|>y<think>z")] == [(5, 6, "<|a|>")]
    assert span_kind("answer:<|a|>,<|b|>").find("<|a|>x<|b|>y") == [(11, 12, "", True)]  # type: ignore[misc]
    for wrong in ("<a>", "<a>,", "a,a", "a,b,c"):
        with pytest.raises(ToolkitError, match="give two, as <think>,</think>"):
            span_kind(f"thinking:{wrong}")


def test_a_prompt_may_end_inside_a_block() -> None:
    assert ends_in_thinking("<|im_start|>assistant\n<think>\n")
    assert not ends_in_thinking("<think></think>\n")
    assert not ends_in_thinking("What?")


PIECES = st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "\n", "<"]), max_size=8).map("".join)


@given(PIECES, st.booleans())
def test_the_answer_is_the_one_that_is_graded(text: str, opened: bool) -> None:
    graded = Extraction(opened=opened)(text).text
    assert (text[slice(*answer_range(text, opened=opened))] or None) == graded


@given(PIECES)
def test_blocks_lie_in_order_and_only_the_last_can_be_cut(text: str) -> None:
    place = 0
    for block in thinking_blocks(text):
        assert place <= block.start <= block.end <= block.after <= len(text)
        assert block.complete or block.after == len(text)
        place = block.after
