"""Words by the Unicode rules, in several scripts."""

from __future__ import annotations

import itertools
import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from toolkit.spans import find_words


def words(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_words(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", ["Hello", "world"]),
        (
            "It's 3.14, can't e-mail foo_bar 1,234.5",
            ["It's", "3.14", "can't", "e", "mail", "foo_bar", "1,234.5"],
        ),
        ("naïve café, l'été d’abord", ["naïve", "café", "l'été", "d’abord"]),
        ("Привет, мир! Ёлка-палка", ["Привет", "мир", "Ёлка", "палка"]),
        ("שלום ג'ון צה\"ל", ["שלום", "ג'ון", 'צה"ל']),
        ("مرحبا بالعالم ١٢٣", ["مرحبا", "بالعالم", "١٢٣"]),
        ("यह हिन्दी है।", ["यह", "हिन्दी", "है"]),
        ("안녕하세요 저는", ["안녕하세요", "저는"]),
        ("今天天气", ["今", "天", "天", "气"]),
        ("私はカタカナを読む", ["私", "は", "カタカナ", "を", "読", "む"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("a 🎉 b 👩\u200d👩\u200d👧 🇩🇪", ["a", "b"]),
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("\ufffd x\ufffdy", ["x", "y"]),
        ("... — !", []),
        ("", []),
    ],
)
def test_words_of_a_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(st.sampled_from("ab1 .,'’-_\n\"éא가カー🎉\u0301\u200d日ไ")))
def test_every_letter_and_digit_is_in_one_word_and_no_character_is_torn(text: str) -> None:
    spans = find_words(text)
    inside = [i for span in spans for i in range(span.start, span.end)]
    assert inside == sorted(set(inside))
    assert {i for i, character in enumerate(text) if character.isalnum()} <= set(inside)
    edges = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    assert all({span.start, span.end} <= edges for span in spans)


ASCII_SIGNS = st.sampled_from([*"aZ09_.':,;-\"!@", " ", "  ", "\n", "\r\n", "\t", "\x00"])
OTHER_SIGNS = st.sampled_from(
    [*"éя日ア١ไ·’\u0301\uff9e\u200d\u00ad\u3000\u00a0\ufffd🎉", "e\u0301", "👩\u200d👧", "🇩🇪"]
)


def by_the_rules(text: str) -> list[tuple[int, int]]:
    """Words as the package regex cuts them, which the quick way through ASCII does without."""
    return [
        piece.span()
        for piece in regex.finditer(r"\b.(?:\B.)*", text, regex.WORD | regex.DOTALL)
        if any(map(str.isalnum, piece.group())) and not re.match(r"[\x00-/:-@\[-^`{-\x7f]", piece.group())
    ]


@given(signs=st.lists(ASCII_SIGNS | OTHER_SIGNS, max_size=14))
def test_the_quick_way_through_ascii_finds_what_the_rules_do(signs: list[str]) -> None:
    text = "".join(signs)
    assert [(span.start, span.end) for span in find_words(text)] == by_the_rules(text)


def test_every_mark_of_ascii_joins_or_parts_as_the_rules_say() -> None:
    for first, mark, last in itertools.product("a1_", map(chr, range(128)), "a1_"):
        text = f"{first}{mark}{last}"
        assert [(span.start, span.end) for span in find_words(text)] == by_the_rules(text), text
