"""Text made safe to print, and its width."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.characters import clip, is_joining, pad, quoted, visible, width

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)
HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def harmful(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c) in HARMFUL and c not in "\u200c\u200d"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字 👩\u200d🔬", "plain é 漢字 👩\u200d🔬"),
        ("\x1b[2J\x07", "␛[2J␇"),
        ("a\r\tb\x7f", "a␍⇥b␡"),
        ("\x9b31m", "<U+009B>31m"),
        ("\u202eevil\u2066", "<U+202E>evil<U+2066>"),
        ("a\u2028b\u200bc\ufeff", "a<U+2028>b<U+200B>c<U+FEFF>"),
        ("\udc80", "<U+DC80>"),
        ("a\nb", "a↵b"),
        ("me\u0301", "me\u0301"),
        ("\xa0", "\xa0"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_character_of_unicode_is_harmless_once_visible() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert harmful(visible(everything)) == []


@given(ANY_TEXT)
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(ANY_TEXT)
def test_kept_newlines_are_those_of_the_text_alone(text: str) -> None:
    shown = visible(text, newlines=True)
    assert shown.count("\n") == text.count("\n")
    assert shown.replace("\n", "") == visible(text)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("✋", 2), ("a\u200db", 2), ("ｱ", 1), ("", 0)],
)
def test_width_counts_columns(text: str, columns: int) -> None:
    assert width(text) == columns


@given(ANY_TEXT.map(visible), st.integers(0, 20))
def test_clipped_and_padded_text_takes_exactly_the_columns(text: str, columns: int) -> None:
    cut = clip(text, columns)
    assert width(cut) <= columns
    assert (cut == text) == (width(text) <= columns)
    assert width(pad(cut, columns)) == columns
    assert pad(cut, columns, right=True).endswith(cut)


def test_marks_join_and_letters_do_not() -> None:
    assert is_joining("\u0301")
    assert is_joining("\ufe0f")
    assert not is_joining("a")


def test_quoted_values_are_one_short_visible_line() -> None:
    assert quoted("a\nb") == "'a↵b'"
    assert quoted(3) == "3"
    assert width(quoted("x" * 1000)) == 62
