"""Text cut where tokens meet, and cut anew where a person sees the next character."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_characters import TEXT
from toolkit.appearance.scales import Scale
from toolkit.characters import clusters
from toolkit.report.pieces import least_sure, shared_value, split_by_tokens, whole_characters

SCALE = Scale(-4.0, 0.0, "nats")


def test_a_segment_is_cut_where_its_tokens_meet() -> None:
    assert split_by_tokens("The r", 10, 15, [(10, 13), (13, 15)]) == [("The", (0,)), (" r", (1,))]


def test_a_character_of_several_tokens_is_of_all_of_them() -> None:
    tokens = [(0, 2), (2, 3), (3, 5)]  # a, then € in three bytes over three tokens
    assert split_by_tokens("a€b", 0, 5, tokens) == [("a", (0,)), ("€", (0, 1, 2)), ("b", (2,))]


def test_invalid_bytes_are_one_piece_of_all_tokens() -> None:
    assert split_by_tokens("a\ufffd", 0, 3, [(0, 1), (1, 3)]) == [("a\ufffd", (0, 1))]
    assert split_by_tokens("", 0, 0, []) == []


@given(st.data(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10))
def test_cutting_by_tokens_keeps_the_text(data: st.DataObject, text: str) -> None:
    size = len(text.encode())
    cuts = sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=4))) if size > 1 else []
    tokens = list(zip([0, *cuts], [*cuts, size], strict=True))
    pieces = split_by_tokens(text, 0, size, tokens)
    assert "".join(piece for piece, _ in pieces) == text
    if "\ufffd" not in text:
        for (start, end), i in zip(tokens, range(len(tokens)), strict=True):
            own = "".join(piece for piece, owners in pieces if i in owners).encode()
            assert text.encode()[start:end] in own


@given(st.lists(TEXT, max_size=6))
def test_a_character_that_a_person_sees_is_in_one_part(texts: list[str]) -> None:
    parts = whole_characters([(text, i) for i, text in enumerate(texts)])
    text = "".join(texts)
    assert "".join(part for part, _ in parts) == text
    assert [cluster for part, _ in parts for cluster in clusters(part)] == clusters(text)
    assert all(one[1] != other[1] for one, other in pairwise(parts))
    place = 0
    starts = [sum(map(len, texts[:i])) for i in range(len(texts) + 1)]
    for part, owners in parts:
        touched = [
            i for i in range(len(texts)) if max(place, starts[i]) < min(place + len(part), starts[i + 1])
        ]
        assert list(owners) == touched
        place += len(part)


def test_an_emoji_of_several_parts_is_of_all_their_owners() -> None:
    parts = [("a👩", "x"), ("\u200d", "y"), ("🔬b", "z")]
    assert whole_characters(parts) == [("a", ("x",)), ("👩\u200d🔬", ("x", "y", "z")), ("b", ("z",))]


def test_the_least_sure_value_counts_also_beyond_the_scale() -> None:
    assert least_sure([-0.5, -9.0, -40.0], SCALE) == -40.0
    assert least_sure([9.0, 40.0], Scale(4.0, 0.0)) == 40.0
    assert least_sure([math.nan, -1.0], SCALE) == -1.0
    assert math.isnan(least_sure([math.nan], SCALE))


def test_a_shared_value_is_none_only_where_nothing_could_have_one() -> None:
    assert shared_value([None, -1.0, -3.0], SCALE) == -3.0
    assert shared_value([None, None], SCALE) is None
    assert shared_value([None, math.nan], SCALE) == pytest.approx(math.nan, nan_ok=True)


def test_a_long_text_of_one_owner_is_one_part() -> None:
    text = "é漢" * 100_000
    assert whole_characters([(text, 0)]) == [(text, (0,))]
    assert split_by_tokens(text, 0, len(text.encode()), [(0, len(text.encode()))]) == [(text, (0,))]


def test_a_joiner_is_in_one_part_with_the_letters_that_need_it() -> None:
    assert whole_characters([("می", 0), ("\u200cخ", 1)]) == [("م", (0,)), ("ی\u200cخ", (0, 1))]
