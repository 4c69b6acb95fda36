"""Where the answer is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import patterns
from toolkit.errors import ToolkitError
from toolkit.grading import Extraction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paris", "Paris"),
        ("  Paris \n", "Paris"),
        ("<think>Lyon?</think>\n\nParis", "Paris"),
        ("<think>a</think>Rome<think>b</think> Paris ", "Paris"),
        ("so Lyon</think>Paris", "Paris"),  # the prompt began the block
        ("[THINK]Lyon[/THINK]Paris", "Paris"),
        ("<think>a</think>Rome[THINK]b[/THINK]Paris", "Paris"),
        ("<thinking>Lyon</thinking>Paris", "Paris"),
        ("<think>Lyon, or", None),
        ("<think>a</think>Paris<think>or", None),
        ("<think>a</think>", None),
        ("", None),
        (" \n", None),
    ],
)
def test_answer_follows_the_last_thinking_block(text, expected):
    found = Extraction()(text)
    assert found.text == expected
    assert text[found.start : found.end] == (expected or "")


def test_a_block_that_the_prompt_opened_and_nobody_closed_is_no_answer():
    assert Extraction(opened=True)("Lyon, or maybe").text is None
    assert Extraction(opened=True)("Lyon</think>Paris").text == "Paris"


def test_thinking_can_be_judged_too_or_have_other_marks():
    assert Extraction(thinking=())("<think>Lyon</think>Paris").text == "<think>Lyon</think>Paris"
    assert Extraction(thinking=(("{{", "}}"),))("{{Lyon}}Paris").text == "Paris"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"pattern": r"answer: (\w+)"}, "Rome"),
        ({"pattern": r"answer: (\w+)", "match": "first"}, "Paris"),
        ({"pattern": r"answer: \w+"}, "answer: Rome"),
        ({"pattern": r"answer is (\w+)"}, None),
        ({"pattern": r"(London)?answer"}, None),  # the group took no part
        ({"line": "last"}, "answer: Rome."),
        ({"line": "first"}, "So, answer: Paris"),
        ({"line": "last", "pattern": r"(?s)So.*Paris"}, "So, answer: Paris"),
    ],
)
def test_pattern_and_line(settings, expected):
    text = "<think>answer: Lyon</think>So, answer: Paris\n\n answer: Rome. \n"
    found = Extraction(**settings)(text)
    assert found.text == expected
    assert text[found.start : found.end] == (expected or "")
    if expected is None:
        assert found.start == text.index("So,")


@given(st.text(alphabet="a \n<think>/"), st.sampled_from(["first", "last"]))
def test_the_range_is_the_text_without_space_around(text, line):
    found = Extraction(line=line)(text)
    assert 0 <= found.start <= found.end <= len(text)
    assert text[found.start : found.end] == (found.text or "")
    if found.text is not None:
        assert found.text == found.text.strip() != ""
        assert "\n" not in found.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"match": "middle"}, "match is 'middle': give first or last"),
        ({"line": "2"}, "line is '2'"),
        ({"pattern": "("}, r"pattern '\(' is no regular expression"),
        ({"thinking": (("", "</think>"),)}, "thinking has an empty mark"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ToolkitError, match=message):
        Extraction(**settings)


def test_a_pattern_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.05)
    for match in ("first", "last"):
        with pytest.raises(ToolkitError, match=re.escape("avoid nested repeats")):
            Extraction(pattern=r"(a|aa)+$", match=match)("a" * 60 + "b")
