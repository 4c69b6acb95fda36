"""Stop strings and the stream of segments up to one, against str.find and str.startswith."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.alignment.test_segments import Pieces, any_pieces
from toolkit.alignment import StopMatcher, TextStream, segment_pieces
from toolkit.errors import ToolkitError
from toolkit.records import Segment

few_letters = st.text("ab#", max_size=20) | st.text("ab", max_size=20)
stop_lists = st.lists(st.text("ab#", min_size=1, max_size=5), max_size=4)
# Stop strings with what decoding makes of broken bytes, and with characters of several bytes.
wide_stops = st.lists(st.text("a \n\ufffdé日🎉", min_size=1, max_size=3), max_size=3)
wide_pieces = st.lists(
    st.none() | st.sampled_from([*"a \n", "é", "日", "🎉", "a\n"]).map(str.encode) | st.binary(max_size=2),
    max_size=12,
)


def earliest(text: str, stops: list[str]) -> tuple[int, str | None]:
    """Where the text ends, and by which stop string: the earliest beginning, then the shortest."""
    found = [(text.find(stop), len(stop), stop) for stop in stops if stop in text]
    return (min(found)[0], min(found)[2]) if found else (len(text), None)


def sure(text: str, stops: list[str]) -> int:
    """Where the longest end of the text that could become a stop string begins."""
    return min(
        i for i in range(len(text) + 1) if i == len(text) or any(s.startswith(text[i:]) for s in stops)
    )


def split(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(few_letters, stop_lists, st.lists(st.integers(0, 20), max_size=6))
@example("abcab#", ["ab#", "b", "cab#"], [1, 2, 3, 4, 5])
@example("aaab", ["aab"], [1, 2, 3])
@example("ababa#", ["aba#"], [2, 4])
def test_the_earliest_match_wins_however_the_text_is_split(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    matcher = StopMatcher(stops)
    seen = ""
    for part in split(text, cuts):
        kept = matcher.push(part)
        seen += part
        if matcher.matched is None:
            assert kept == sure(seen, stops)
        else:
            assert (kept, matcher.matched) == earliest(seen, stops)
    assert matcher.finish() == earliest(text, stops)[0]
    assert matcher.matched == earliest(text, stops)[1]


@given(few_letters, stop_lists)
def test_a_match_is_known_once_nothing_can_begin_earlier(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    for n, character in enumerate(text, start=1):
        matcher.push(character)
        end, stop = earliest(text[:n], stops)
        assert (matcher.matched is not None) == (stop is not None and end <= sure(text[:n], stops))
        if matcher.matched is not None:
            return


def test_a_shorter_match_waits_for_a_longer_one_that_began_earlier() -> None:
    matcher = StopMatcher(["abcd", "bc"])
    assert matcher.push("xabc") == 1
    assert matcher.matched is None
    assert matcher.push("d") == 1
    assert matcher.matched == "abcd"
    other = StopMatcher(["abcd", "bc"])
    other.push("xabc")
    assert other.push("e") == 2
    assert other.matched == "bc"
    ended = StopMatcher(["abcd", "bc"])
    ended.push("xabc")
    assert ended.finish() == 2
    assert ended.matched == "bc"


def test_of_equal_beginnings_the_shorter_one_wins() -> None:
    matcher = StopMatcher(["\n\n", "\n"])
    assert matcher.push("a\n\n") == 1
    assert matcher.matched == "\n"


def test_a_pending_partial_match_is_released_at_the_end() -> None:
    matcher = StopMatcher(["###"])
    assert matcher.push("abc##") == 3
    assert matcher.finish() == 5
    assert matcher.matched is None


def test_what_comes_after_a_match_changes_nothing() -> None:
    matcher = StopMatcher(["b"])
    matcher.push("ab")
    assert matcher.push("xxb") == 1
    assert matcher.finish() == 1


def test_one_string_is_one_stop_string() -> None:
    assert StopMatcher("END").push("EDN") == 3


@pytest.mark.parametrize(
    ("stops", "message"),
    [
        (["a", ""], "'' is empty"),
        ("", "'' is empty"),
        ([b"a"], "b'a' is of type bytes"),
        ([None], "None is of type NoneType"),
        (["\udc80"], "lone surrogate"),
    ],
)
@pytest.mark.parametrize("taker", [StopMatcher, TextStream])
def test_a_stop_string_that_cannot_be_is_refused_and_named(taker: type, stops: object, message: str) -> None:
    with pytest.raises(ToolkitError, match=f"^stop: .*{message}"):
        taker(stops)


def test_repetitive_stop_strings_and_texts_take_linear_time() -> None:
    # 200,000 characters, up to 999 held at a time: what is quadratic does not come back from this.
    stops = ["a" * 1000, "a" * 500 + "b" * 500, *("a" * n + "c" for n in range(1, 300))]
    text = ("a" * 999 + "b" * 499) * 133
    matcher = StopMatcher(stops)
    assert [matcher.push(character) for character in text][-1] == len(text) - 999
    assert matcher.finish() == len(text)
    stream = TextStream(stops)
    segments = [s for character in text for s in stream.push(character.encode())] + stream.finish()
    assert "".join(s.text for s in segments) == text


def released(stream: TextStream, pieces: Pieces) -> list[Segment]:
    """All that a stream releases; tokens end with its stop string, as a generation does."""
    segments = []
    for token, piece in enumerate(pieces):
        now = stream.push(piece)
        assert all(segment.emitted_at == token for segment in now)
        segments += now
        if stream.stopped is not None:
            break
    return segments + stream.finish()


def without_emission(segments: list[Segment]) -> list[Segment]:
    return [segment._replace(emitted_at=0) for segment in segments]


@given(any_pieces)
def test_a_stream_without_stop_strings_gives_the_segments(pieces: Pieces) -> None:
    stream = TextStream()
    assert released(stream, pieces) == segment_pieces(pieces)
    assert stream.n_bytes == sum(len(p or b"") for p in pieces)
    assert stream.stopped is None


@given(wide_pieces, wide_stops)
@example([b"\xf0\x9f"], ["\ufffd"])
@example([b"x\xf0\x9f\xf0\x9f\x8e", b"\x89 a"], ["🎉 "])
def test_a_stream_ends_before_the_earliest_stop_string(pieces: Pieces, stops: list[str]) -> None:
    text = b"".join(p or b"" for p in pieces).decode("utf-8", "replace")
    stream = TextStream(stops)
    segments = released(stream, pieces)
    end, stop = earliest(text, stops)
    assert (stream.stopped, "".join(s.text for s in segments)) == (stop, text[:end])
    assert b"".join(p or b"" for p in pieces)[: stream.n_bytes].decode("utf-8", "replace") == text[:end]


@given(wide_pieces, wide_stops)
def test_stop_strings_change_where_segments_end_and_when_they_come_but_not_which(
    pieces: Pieces, stops: list[str]
) -> None:
    stream = TextStream(stops)
    segments = released(stream, pieces)
    plain = segment_pieces(pieces, stream.n_bytes)
    assert without_emission(segments) == without_emission(plain)
    assert all(s.emitted_at >= p.emitted_at for s, p in zip(segments, plain, strict=True))
    assert released(TextStream(stops), pieces) == segments


@given(wide_pieces, wide_stops)
def test_a_segment_is_released_as_soon_as_its_text_is_sure(pieces: Pieces, stops: list[str]) -> None:
    stream = TextStream(stops)
    whole: list[Segment] = []
    n_released = 0
    for n, piece in enumerate(pieces, start=1):
        n_released += len(stream.push(piece))
        if stream.stopped is not None:
            return
        whole = [s for s in segment_pieces(pieces) if s.emitted_at < n]
        kept = sure("".join(s.text for s in whole if s.emitted_at < n), stops)
        # The last segment of the whole can be one that only the end releases.
        if n < len(pieces):
            assert n_released == sum(s.char_end <= kept for s in whole)


def test_a_stop_string_begins_and_ends_inside_tokens() -> None:
    stream = TextStream(["stop now"])
    assert stream.push(b"We") == [Segment("We", 0, 2, 0, 2, 0, 1, 0)]
    assert stream.push(b" can s") == []
    assert stream.push(None) == []
    assert stream.push(b"top") == []
    assert stream.push(b" now, then") == [Segment(" can ", 2, 7, 2, 7, 1, 2, 4)]
    assert (stream.stopped, stream.n_bytes) == ("stop now", 7)
    assert stream.push(b" more") == []
    assert stream.finish() == []
    assert stream.n_bytes == 7


def test_a_token_that_only_looked_like_a_stop_string_comes_with_its_successor() -> None:
    stream = TextStream(["###"])
    assert stream.push(b"a#") == []
    assert [(s.text, s.emitted_at) for s in stream.push(b"b")] == [("a#", 1), ("b", 1)]


def test_a_held_beginning_is_released_at_the_length_limit() -> None:
    stream = TextStream(["###"])
    stream.push(b"a##")
    stream.push(None)
    assert stream.finish() == [Segment("a##", 0, 3, 0, 3, 0, 1, 1)]
    assert (stream.stopped, stream.n_bytes) == (None, 3)


def test_a_stop_string_at_the_very_start_leaves_no_text() -> None:
    stream = TextStream(["Hello", "Hell"])
    assert stream.push(b"Hello") == []
    assert (stream.stopped, stream.n_bytes) == ("Hell", 0)


def test_broken_bytes_before_a_stop_string_are_counted_as_bytes() -> None:
    stream = TextStream(["END"])
    segments = [s for piece in (b"\xf0\x9f", b"\xff", b" END") for s in stream.push(piece)]
    assert segments == [
        Segment("\ufffd\ufffd", 0, 3, 0, 2, 0, 2, 1),
        Segment(" ", 3, 4, 2, 3, 2, 3, 2),
    ]
    assert stream.n_bytes == 4


def test_streams_with_the_same_stop_strings_do_not_share_their_state() -> None:
    one, other = TextStream(["ab"]), TextStream(["ab"])
    one.push(b"a")
    other.push(b"x")
    assert [s.text for s in other.push(b"b")] == ["b"]
    one.push(b"b")
    assert (one.stopped, other.stopped) == ("ab", None)


def test_random_texts_against_many_stop_strings() -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        stops = ["".join(rng.choice(list("ab"), size=rng.integers(1, 12))) for _ in range(rng.integers(1, 9))]
        text = "".join(rng.choice(list("abc"), size=60))
        matcher = StopMatcher(stops)
        matcher.push(text[:30])
        matcher.push(text[30:])
        assert (matcher.finish(), matcher.matched) == earliest(text, stops)
