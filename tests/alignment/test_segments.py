"""Segments, against the pinned cases and a plain decoding of every prefix."""

import codecs
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.alignment import StreamingSegmenter, segment_pieces
from toolkit.errors import ToolkitError
from toolkit.records import Segment

CASES = json.loads((Path(__file__).parents[1] / "cases" / "segments.json").read_text(encoding="utf-8"))
Pieces = list[bytes | None]

# Bytes that begin, continue and break characters are more frequent here than among all bytes.
TELLING = b"a \n\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xc3\xe0\xe2\xed\xef\xf0\xf4\xf5\xff"
any_bytes = st.one_of(
    st.binary(max_size=8),
    st.lists(st.sampled_from(TELLING), max_size=8).map(bytes),
    st.text(max_size=4).map(lambda text: text.encode()),
)
any_pieces = st.one_of(
    st.lists(st.none() | any_bytes, max_size=14),
    st.lists(st.none() | st.sampled_from([bytes([byte]) for byte in TELLING]), max_size=30),
)


@st.composite
def texts_in_pieces(draw: st.DrawFn) -> Pieces:
    """Valid text, split at arbitrary bytes, special tokens between."""
    data = draw(st.text(max_size=12)).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=10)))
    pieces: Pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return [p for piece in pieces for p in ([None, piece] if draw(st.booleans()) else [piece])]


def decoded_from_scratch(data: bytes, final: bool) -> tuple[str, int]:
    """Text that Python's incremental decoder gives for a prefix, fed a byte at a time; bytes it used."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = "".join(decoder.decode(data[i : i + 1]) for i in range(len(data)))
    pending = len(decoder.getstate()[0])
    return (text + decoder.decode(b"", final=True), len(data)) if final else (text, len(data) - pending)


def plain_segments(pieces: Pieces) -> list[Segment]:
    """What each token adds to the decoding of all bytes up to it; its tokens by looking at every token."""
    joined = [b"".join(p or b"" for p in pieces[:n]) for n in range(len(pieces) + 1)]
    reached = [(token, *decoded_from_scratch(joined[token + 1], False)) for token in range(len(pieces))]
    reached.append((len(pieces) - 1, *decoded_from_scratch(joined[-1], True)))
    segments, text, start = [], "", 0
    for token, now, end in reached:
        if now != text:
            owners = [
                i
                for i in range(len(pieces))
                if any(len(joined[i]) <= byte < len(joined[i + 1]) for byte in range(start, end))
            ]
            first, last = owners[0], owners[-1] + 1
            segments.append(Segment(now[len(text) :], start, end, len(text), len(now), first, last, token))
            text, start = now, end
    return segments


def streamed(pieces: Pieces) -> list[Segment]:
    segmenter = StreamingSegmenter()
    segments = []
    for token, piece in enumerate(pieces):
        released = segmenter.push(piece)
        assert all(segment.emitted_at == token for segment in released)
        segments += released
    return segments + segmenter.finish()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_cases(case: dict[str, Any]) -> None:
    pieces = [None if piece is None else bytes.fromhex(piece) for piece in case["pieces_hex"]]
    segments = segment_pieces(pieces)
    assert [
        {key: getattr(s, key) for key in row} for s, row in zip(segments, case["segments"], strict=True)
    ] == (case["segments"])
    assert "".join(s.text for s in segments) == case["text"]
    assert streamed(pieces) == segments


@given(any_pieces | texts_in_pieces())
def test_segments_are_what_each_token_adds_to_the_decoding(pieces: Pieces) -> None:
    assert segment_pieces(pieces) == plain_segments(pieces)


@given(any_pieces | texts_in_pieces())
def test_streaming_gives_the_same_segments_at_their_tokens(pieces: Pieces) -> None:
    assert streamed(pieces) == segment_pieces(pieces)


@given(any_pieces)
def test_segments_cover_bytes_characters_and_tokens_once_in_order(pieces: Pieces) -> None:
    data = b"".join(p or b"" for p in pieces)
    text = data.decode("utf-8", "replace")
    segments = segment_pieces(pieces)
    assert "".join(s.text for s in segments) == text
    for a, b, total in (("byte_start", "byte_end", len(data)), ("char_start", "char_end", len(text))):
        edges = [(getattr(s, a), getattr(s, b)) for s in segments]
        assert [0, *(end for _, end in edges)] == [*(start for start, _ in edges), total]
    for segment in segments:
        assert segment.text == text[segment.char_start : segment.char_end]
        assert segment.text
    covered = {i for s in segments for i in range(s.token_start, s.token_end)}
    assert covered >= {i for i, piece in enumerate(pieces) if piece}


@given(texts_in_pieces())
def test_valid_text_never_gets_a_replacement_and_every_segment_is_its_bytes(pieces: Pieces) -> None:
    data = b"".join(p or b"" for p in pieces)
    for segment in segment_pieces(pieces):
        assert segment.text.encode() == data[segment.byte_start : segment.byte_end]


def test_only_the_beginning_of_a_character_is_held() -> None:
    # A block of 64 characters differs in its last byte only, so one of each block has all beginnings.
    # Python's decoder holds those of surrogates too, which no following byte can finish.
    characters = (chr(c).encode("utf-8", "surrogatepass") for c in range(0x80, 0x110000, 64))
    beginnings = {character[:n] for character in characters for n in range(1, len(character))}
    held_two = [bytes([a, b]) for a in range(0xF0, 0xF5) for b in range(256) if bytes([a, b]) in beginnings]
    for start in [b"", *(bytes([a]) for a in range(256)), *held_two]:
        for data in (start + bytes([byte]) for byte in range(256)):
            used = sum(s.byte_end - s.byte_start for s in StreamingSegmenter().push(data))
            assert data[used:] == b"" or data[used:] in beginnings
            assert (used == 0) == (data in beginnings)


@given(any_pieces | texts_in_pieces(), st.data())
def test_a_cut_keeps_the_segments_of_all_bytes_up_to_it(pieces: Pieces, data: st.DataObject) -> None:
    whole = b"".join(p or b"" for p in pieces)
    n_bytes = data.draw(st.integers(0, len(whole)))
    cut = segment_pieces(pieces, n_bytes)
    before = [s for s in segment_pieces(pieces) if s.byte_end <= n_bytes]
    assert cut[: len(before)] == before
    assert len(cut) - len(before) in (0, 1)
    if len(cut) > len(before):
        last = cut[-1]
        owner = next(s for s in segment_pieces(pieces) if s.byte_start == last.byte_start)
        assert last.text == whole[last.byte_start : n_bytes].decode("utf-8", "replace")
        assert (last.byte_end, last.char_end - last.char_start) == (n_bytes, len(last.text))
        ends = [sum(len(p or b"") for p in pieces[: i + 1]) for i in range(len(pieces))]
        assert last.token_end - 1 == min(i for i, end in enumerate(ends) if end >= n_bytes)
        assert (last.token_start, last.emitted_at) == (owner.token_start, owner.emitted_at)
    assert "".join(s.text for s in cut) == whole[:n_bytes].decode("utf-8", "replace")


def test_a_cut_inside_a_token_and_inside_a_character() -> None:
    pieces: Pieces = [b"say st", None, b"op \xe6\x97", b"\xa5 more"]
    assert segment_pieces(pieces, 4) == [Segment("say ", 0, 4, 0, 4, 0, 1, 0)]
    assert segment_pieces(pieces, 0) == []
    assert segment_pieces(pieces, 10)[1:] == [
        Segment("op ", 6, 9, 6, 9, 2, 3, 2),
        Segment("\ufffd", 9, 10, 9, 10, 2, 3, 3),
    ]


@pytest.mark.parametrize("n_bytes", [-1, 4])
def test_a_cut_outside_the_bytes_is_refused_and_named(n_bytes: int) -> None:
    with pytest.raises(ToolkitError, match=f"n_bytes: {n_bytes} is not between 0 and 3"):
        segment_pieces([b"abc"], n_bytes)
