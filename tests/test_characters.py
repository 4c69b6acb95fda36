"""Text made safe to print, cut into what a person sees as characters, and its width."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from toolkit.characters import (
    clip,
    cluster_width,
    clusters,
    count,
    pad,
    quoted,
    room,
    visible,
    visible_cluster,
    width,
)

EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))
TRICKY = (
    *"a1# é漢ー한\u1112\u1161\u11ab👩🔬❤☎🏳🌈👋🏽🏿🇫🇷♂🎉\u0301\u093f\u094dनक\u0e01\u0e47\u064b\u06cc◌",
    *"\u200c\u200d\ufe0e\ufe0f\u20e3\u202e\u2066\n\x1b\x9b\x7f",
    *"\U000e0067\U000e0100\u2028\u034f\u115f\u3164\ue000\U0010eeee\ud800",
)
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)
TRICKY_TEXT = st.lists(st.sampled_from(TRICKY), max_size=24).map("".join)
TEXT = ANY_TEXT | TRICKY_TEXT
WHOLE = (  # a person sees one character in each
    *(
        "❤️",
        "1️⃣",
        "👩\u200d🔬",
        "👨\u200d👩\u200d👧\u200d👦",
        "🏳️\u200d🌈",
        "⛹🏽\u200d♂️",
        "👋🏽",
        "🇫🇷",
        "e\u0301\u0308",
    ),
    *("\u1112\u1161\u11ab", "नि", "क्ष", "ക്ഷ", "ก็", "தி"),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字 👩\u200d🔬", "plain é 漢字 👩\u200d🔬"),
        ("\x1b[2J\x07", "␛[2J␇"),
        ("\x1b]0;title\x07\x1b]8;;http://a\x1b\\", "␛]0;title␇␛]8;;http://a␛\\"),
        ("a\r\tb\x7f", "a␍⇥b␡"),
        ("\x9b31m", "<U+009B>31m"),
        ("\u202eevil\u2066", "<U+202E>evil<U+2066>"),
        ("a\u2028b\u200bc\ufeff", "a<U+2028>b<U+200B>c<U+FEFF>"),
        ("\U000e0067\U000e0100\u3164", "<U+E0067><U+E0100><U+3164>"),
        ("\ue000\U0010eeee", "<U+E000><U+10EEEE>"),
        ("\udc80", "<U+DC80>"),
        ("a\nb", "a↵b"),
        ("me\u0301", "me\u0301"),
        ("\u0301x", "◌\u0301x"),
        (" \u0301", " ◌\u0301"),
        ("\n\u0301", "↵◌\u0301"),
        ("\xa0", "\xa0"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("a\u200db", "a<U+200D>b"),
        ("漢\u200d字", "漢<U+200D>字"),
        ("👩\u200d", "👩<U+200D>"),
        ("👩\u200d\u200d🔬", "👩<U+200D><U+200D>🔬"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f<U+FE0F>"),
        ("a\ufe0f漢\ufe01", "a<U+FE0F>漢<U+FE01>"),
        ("7\ufe0f\u20e3", "7\ufe0f\u20e3"),
        ("न\u200c\u1161", "न<U+200C>◌\u1161"),
    ],
)
def test_joiners_and_selectors_stay_only_where_they_change_what_is_drawn(text: str, shown: str) -> None:
    assert visible(text) == shown


# By the properties of Unicode, of another library: what controls, reorders or is drawn as nothing.
HARMFUL = frozenset(
    regex.findall(
        r"[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]", EVERYTHING
    )
)


def test_every_character_of_unicode_is_harmless_once_visible() -> None:
    assert len(HARMFUL) > 100_000
    assert not HARMFUL.intersection(visible(EVERYTHING))


@given(TEXT)
def test_of_what_is_hidden_only_joiners_and_one_selector_stay_and_never_two_together(text: str) -> None:
    shown = visible(text)
    assert HARMFUL.intersection(shown) <= set("\u200c\u200d\ufe0f")
    assert not re.search("[\u200c\u200d\ufe0f]{2}", shown.replace("\ufe0f\u200d", "\u200d"))
    assert not re.match("[\u200c\u200d\ufe0f]", shown)
    assert not re.search("[\u200c\u200d]$", shown)


@given(TEXT)
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(TEXT)
def test_kept_newlines_are_those_of_the_text_alone(text: str) -> None:
    shown = visible(text, newlines=True)
    assert shown.count("\n") == text.count("\n")
    assert shown.replace("\n", "") == visible(text)


@given(TEXT)
def test_clusters_are_the_text_in_order_and_can_be_shown_one_by_one(text: str) -> None:
    parts = clusters(text)
    assert "".join(parts) == text
    assert "" not in parts
    assert "".join(map(visible_cluster, parts)) == visible(text)


@pytest.mark.parametrize("text", WHOLE)
def test_what_a_person_sees_as_one_character_is_whole(text: str) -> None:
    assert clusters(f"x{text}y") == ["x", text, "y"]
    assert visible(text) == text


@given(st.lists(st.sampled_from([*WHOLE, "a", "é", "漢", "\n"]), max_size=8))
def test_clusters_are_those_of_the_unicode_rules(parts: list[str]) -> None:
    text = (
        "".join(parts).replace("क्ष", "क").replace("ക്ഷ", "ക")
    )  # conjuncts: not in every version of the rules
    assert clusters(text) == regex.findall(r"\X", text)


def test_a_cluster_does_not_grow_without_end() -> None:
    assert max(map(len, clusters("e" + "\u0301" * 1000))) <= 16
    assert max(map(len, clusters("👩\u200d" * 1000))) <= 16


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        *(("abc", 3), ("漢字", 4), ("e\u0301", 1), ("✋", 2), ("ｱ", 1), ("", 0), ("\u0301", 0)),
        *(("❤", 1), ("❤️", 2), ("1️⃣", 2), ("👩\u200d🔬", 2), ("👨\u200d👩\u200d👧\u200d👦", 2), ("👋🏽", 2)),
        *(
            ("🇫🇷", 2),
            ("🇫🇷🇩🇪", 4),
            ("한글", 4),
            ("\u1112\u1161\u11ab", 2),
            ("हिन्दी", 4),
            ("ไทย", 3),
            ("العربية", 7),
        ),
        *(("می\u200cخواهم", 7), ("தமிழ்", 4), ("◌\u0301", 1)),
    ],
)
def test_width_counts_columns(text: str, columns: int) -> None:
    assert width(text) == columns


@given(TEXT.map(visible), TEXT.map(visible))
def test_a_cluster_has_two_columns_at_most_and_widths_add_up(one: str, other: str) -> None:
    assert all(0 <= cluster_width(cluster) <= 2 for cluster in clusters(one))
    assert width(f"{one} {other}") == width(one) + 1 + width(other)


@given(TEXT.map(visible))
def test_no_terminal_needs_more_room_than_is_kept_for_a_text(text: str) -> None:
    assert room(text) >= width(text)
    assert room(text) >= sum(map(width, text))
    assert room("👨\u200d👩\u200d👧") == 6


def test_a_single_character_has_the_width_of_its_category() -> None:
    for character in EVERYTHING[:0x20000]:
        if visible(character) != character or "\U0001f1e6" <= character <= "\U0001f1ff":
            continue
        is_wide = unicodedata.east_asian_width(character) in "WF" or unicodedata.category(character) == "Cn"
        assert width(character) == 1 + is_wide, f"{ord(character):04X}"


@given(TEXT.map(visible), st.integers(0, 20))
def test_clipped_and_padded_text_takes_exactly_the_columns(text: str, columns: int) -> None:
    cut = clip(text, columns)
    assert width(cut) <= columns
    assert (cut == text) == (width(text) <= columns)
    assert width(pad(cut, columns)) == columns
    assert pad(cut, columns, right=True).endswith(cut)


def test_a_cut_does_not_go_through_a_character() -> None:
    assert clip("👨\u200d👩\u200d👧\u200d👦👋🏽abc", 4) == "👨\u200d👩\u200d👧\u200d👦…"


def test_quoted_values_are_one_short_visible_line() -> None:
    assert quoted("a\nb") == "'a↵b'"
    assert quoted(3) == "3"
    assert width(quoted("x" * 1000)) == 62


@pytest.mark.parametrize(
    ("n", "words", "text"),
    [
        (0, ("prompt",), "0 prompts"),
        (1, ("prompt",), "1 prompt"),
        (1234, ("more token",), "1,234 more tokens"),
        (2, ("match", "matches"), "2 matches"),
    ],
)
def test_a_count_agrees_with_its_noun(n: int, words: tuple[str, ...], text: str) -> None:
    assert count(n, *words) == text
