"""Sentences in several languages, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.spans import Sentences


def sentences(text: str, language: str = "en") -> list[str]:
    return [text[span.start : span.end] for span in Sentences(language)(text)]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (
            "en",
            ["Dr. Smith came at 3.30 p.m. yesterday.", "He met J. K. Rowling, e.g. in Washington.", "Yes!"],
        ),
        ("en", ['"Is it?" she asked.', "It is 3.14... or so?", "OK"]),
        ("de", ["Das ist z. B. ein Satz.", "Am 3. Mai kam Dr. Müller.", "Ende."]),
        ("fr", ["Bonjour !", "Ça va ?", "Oui, p. ex. demain."]),
        ("ru", ["Это первое предложение.", "А это г. Москва.", "Конец."]),
        ("hi", ["यह एक वाक्य है।", "क्या यह तीसरा है?"]),
        ("ar", ["مرحبا بالعالم.", "كيف حالك؟", "أنا بخير."]),
        ("ko", ["안녕하세요.", "저는 학생입니다."]),
    ],
)
def test_abbreviations_end_no_sentence(language: str, expected: list[str]) -> None:
    assert sentences(" ".join(expected), language) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("zh", ["今天天气很好。", "我们去公园吧！", "你觉得呢？", "他说：“你好。”"]),
        ("ja", ["吾輩は猫である。", "名前はまだ無い。", "本当？"]),
        ("en", ["今天天气很好。", "名前はまだ無い。"]),
    ],
)
def test_scripts_without_spaces_end_at_their_own_marks(language: str, expected: list[str]) -> None:
    assert sentences("".join(expected), language) == expected


def test_white_space_around_is_left_out_and_blank_text_has_none() -> None:
    assert sentences("  One.  Two.\r\n\r\nThree \n") == ["One.", "Two.", "Three"]
    assert sentences(" \n\u3000") == []
    assert sentences("") == []


def test_items_of_a_list_are_sentences() -> None:
    assert sentences("- apples\n- pears\n\n1. one\n2. two") == ["- apples", "- pears", "1. one", "2. two"]


def test_an_unknown_language_has_the_rules_of_english() -> None:
    assert sentences("Dr. A. came. Yes!", "xx") == sentences("Dr. A. came. Yes!")


@pytest.mark.parametrize("language", ["", "english", "e", "de_DE", "d\x1b"])
def test_what_is_no_language_code_is_refused(language: str) -> None:
    with pytest.raises(ToolkitError, match="is no language code"):
        Sentences(language)


PIECES = [
    "Dr.",
    "A.",
    "a",
    "É.",
    "1.",
    "U.S.",
    "...",
    "。",
    "?",
    "»",
    '"',
    "(",
    " ",
    "\n",
    "\r\n",
    "\xa0",
    "\x85",
]


@given(st.lists(st.sampled_from([*PIECES, "\u3000", "\u2028", "🎉", "\ufffd", "e\u0301"])).map("".join))
@example("A\x85.(-\u2026\n[1]\xa0\ufffd")  # made the segmenter panic
@example(".B\xa0.]1.")
def test_sentences_lie_in_order_and_hold_everything_but_white_space(text: str) -> None:
    place, left = 0, ""
    for start, end, _, _ in Sentences()(text):
        assert place <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        left += text[place:start]
        place = end
    assert not (left + text[place:]).strip()
