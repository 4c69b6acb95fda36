"""Tokens over bytes, spans to tokens, characters to bytes, against looking at every byte."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.alignment.test_segments import Pieces, any_bytes, any_pieces, texts_in_pieces
from toolkit.alignment import align, byte_shares, char_to_byte_offsets, segment_pieces, token_range
from toolkit.errors import ToolkitError
from toolkit.records import Segment

MIXED: Pieces = [b"say", None, b" \xf0\x9f", b"", b"\x8e\x89!", None]


def bytes_of_tokens(pieces: Pieces) -> list[set[int]]:
    ends = np.cumsum([0] + [len(p or b"") for p in pieces])
    return [set(range(ends[i], ends[i + 1])) for i in range(len(pieces))]


def test_a_special_token_has_an_empty_range_where_it_stands() -> None:
    alignment = align(MIXED)
    assert alignment.byte_start.tolist() == [0, 3, 3, 6, 6, 9]
    assert alignment.byte_end.tolist() == [3, 3, 6, 6, 9, 9]
    assert alignment.byte_start.dtype == alignment.byte_end.dtype == np.int32
    assert alignment.text == "say 🎉!"
    assert alignment.n_bytes == 9
    assert alignment.pieces == tuple(MIXED)
    assert alignment.segments == tuple(segment_pieces(MIXED))


def test_a_cut_text_keeps_all_tokens() -> None:
    alignment = align(MIXED, 4)
    assert alignment.byte_end.tolist() == [3, 3, 6, 6, 9, 9]
    assert (alignment.text, alignment.n_bytes) == ("say ", 4)
    assert alignment.segments == tuple(segment_pieces(MIXED, 4))
    given_segments = [Segment("say ", 0, 4, 0, 4, 0, 3, 5)]
    assert align(MIXED, 4, given_segments).segments == tuple(given_segments)


@pytest.mark.parametrize("pieces", [[], [None]])
def test_a_sequence_without_text(pieces: Pieces) -> None:
    alignment = align(pieces)
    assert (alignment.text, alignment.n_bytes, alignment.segments) == ("", 0, ())
    assert alignment.byte_start.tolist() == alignment.byte_end.tolist() == [0] * len(pieces)


@pytest.mark.parametrize("n_bytes", [-1, 10])
def test_a_cut_outside_the_bytes_is_refused_and_named(n_bytes: int) -> None:
    with pytest.raises(ToolkitError, match=f"n_bytes: {n_bytes} is not between 0 and 9"):
        align(MIXED, n_bytes)


@given(any_pieces | texts_in_pieces(), st.data())
def test_tokens_of_a_span_are_all_that_have_a_byte_in_it(pieces: Pieces, data: st.DataObject) -> None:
    alignment, owned = align(pieces), bytes_of_tokens(pieces)
    edge = st.integers(0, alignment.n_bytes + 2)
    spans = data.draw(st.lists(st.tuples(edge, edge), min_size=1, max_size=6))
    starts, ends = np.array(spans).T
    found = token_range(alignment.byte_start, alignment.byte_end, starts, ends)
    for (start, end), first, last in zip(spans, found.start, found.end, strict=True):
        tokens = [i for i, owns in enumerate(owned) if owns & set(range(start, end))]
        assert (first, last) == (tokens[0], tokens[-1] + 1) if tokens else first == last


@given(any_pieces)
def test_tokens_of_segments_are_those_the_segments_name(pieces: Pieces) -> None:
    alignment = align(pieces)
    for segment in alignment.segments:
        span = (segment.byte_start, segment.byte_end)
        found = token_range(alignment.byte_start, alignment.byte_end, *span)
        assert (found.start, found.end) == (segment.token_start, segment.token_end)


def test_spans_of_a_sequence_without_tokens_are_empty() -> None:
    found = token_range([], [], [0, 2], [1, 3])
    assert found.start.tolist() == found.end.tolist() == [0, 0]


@given(any_pieces, st.data())
def test_a_share_is_the_fraction_of_the_tokens_bytes_in_the_span(pieces: Pieces, data: st.DataObject) -> None:
    alignment = align(pieces)
    start = data.draw(st.integers(0, alignment.n_bytes))
    end = data.draw(st.integers(start, alignment.n_bytes))
    shares = byte_shares(alignment.byte_start, alignment.byte_end, start, end)
    for share, owns in zip(shares, bytes_of_tokens(pieces), strict=True):
        assert share == (len(owns & set(range(start, end))) / len(owns) if owns else 0)


def test_shares_broadcast_over_pairs_of_token_and_span() -> None:
    assert byte_shares([0, 0, 4], [4, 4, 4], [0, 3, 0], [4, 9, 9]).tolist() == [1, 0.25, 0]


@given(st.lists(any_bytes, max_size=8).map(b"".join))
def test_characters_begin_where_their_bytes_do(data: bytes) -> None:
    offsets = char_to_byte_offsets(data)
    text = data.decode("utf-8", "replace")
    assert len(offsets) == len(text) + 1
    # The text of a prefix that ends where a character begins is the text up to that character.
    assert [data[:offset].decode("utf-8", "replace") for offset in offsets] == [
        text[:n] for n in range(len(text) + 1)
    ]


@pytest.mark.parametrize("broken", [b"", b"\xff", b"\xf0\x9f", b"\xed\xa0\x80"])
@pytest.mark.parametrize("shift", range(4))
def test_characters_of_long_text_begin_where_their_bytes_do(broken: bytes, shift: int) -> None:
    data = b"x" * shift + ("日é🎉a".encode() + broken) * 2000
    offsets = char_to_byte_offsets(data)
    text = data.decode("utf-8", "replace")
    # No broken part begins a character that what follows could finish, so one round is like another.
    size = len(data) - shift
    first = char_to_byte_offsets(data[shift : shift + size // 2000])
    assert len(offsets) == len(text) + 1
    per_round = len(first) - 1
    assert (offsets[shift:-1].reshape(2000, per_round) - shift).tolist() == [
        [i * (size // 2000) + offset for offset in first[:-1]] for i in range(2000)
    ]
