"""Bytes to segments: text is released as soon as at least one whole character can be.

Knows nothing of token ids and tokenizers: a token is its bytes, or None where it is special and has none.
Bytes are decoded as UTF-8 with the standard replacement (one U+FFFD for each maximal ill-formed part, as
`bytes.decode("utf-8", "replace")` does), whatever tokens they come in.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from toolkit.errors import ToolkitError
from toolkit.records import Segment


class StreamingSegmenter:
    """Segments of a sequence whose tokens come one by one.

    A token gives one segment, or none while its characters are unfinished. `finish` gives the last
    one if the sequence ended inside a character, which becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._n_tokens = 0
        self._n_bytes = 0  # released
        self._n_chars = 0
        self._pending = b""  # at most 3 bytes of an unfinished character
        self._owners: list[int] = []  # the token of each pending byte

    def push(self, piece: bytes | None) -> list[Segment]:
        """Take the next token's bytes (None for a special token); return what it releases."""
        self._n_tokens += 1
        return self._release(piece, final=False) if piece else []

    def finish(self) -> list[Segment]:
        """End the sequence; return what was held."""
        return self._release(b"", final=True)

    def _release(self, piece: bytes, final: bool) -> list[Segment]:
        token = self._n_tokens - 1
        data = self._pending + piece
        owners = self._owners + [token] * len(piece)
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._pending, self._owners = data[used:], owners[used:]
        if not text:
            return []
        start, char = self._n_bytes, self._n_chars
        self._n_bytes, self._n_chars = start + used, char + len(text)
        return [
            Segment(text, start, self._n_bytes, char, self._n_chars, owners[0], owners[used - 1] + 1, token)
        ]


def segment_pieces(pieces: Sequence[bytes | None], n_bytes: int | None = None) -> list[Segment]:
    """Segments of a finished sequence.

    Parameters
    ----------
    pieces : sequence of bytes or None
        Each token's bytes; None is a special token, which belongs to no segment.
    n_bytes : int, optional
        Bytes kept, where a stop string cut the text. The segments are those of all bytes, cut there; the
        one that is cut keeps the `emitted_at` that it had whole.

    Returns
    -------
    list of Segment
        Bytes and characters of neighbours adjoin. Tokens of neighbours overlap where one token ends a
        segment and begins the next.

    Raises
    ------
    ToolkitError
        `n_bytes` is below 0 or above the number of bytes.
    """
    segmenter = StreamingSegmenter()
    segments = [segment for piece in pieces for segment in segmenter.push(piece)]
    segments += segmenter.finish()
    return segments if n_bytes is None else _cut(segments, pieces, n_bytes)


def _cut(segments: list[Segment], pieces: Sequence[bytes | None], n_bytes: int) -> list[Segment]:
    total = segments[-1].byte_end if segments else 0
    if not 0 <= n_bytes <= total:
        raise ToolkitError(f"n_bytes: {n_bytes} is not between 0 and {total}, the bytes of the sequence")
    kept = [segment for segment in segments if segment.byte_start < n_bytes]
    if not kept or kept[-1].byte_end == n_bytes:
        return kept
    ends = list(accumulate(len(piece or b"") for piece in pieces))
    return [*kept[:-1], _cut_segment(kept[-1], pieces, ends, n_bytes)]


def _cut_segment(
    segment: Segment, pieces: Sequence[bytes | None], ends: Sequence[int], n_bytes: int
) -> Segment:
    token_end = bisect_left(ends, n_bytes) + 1
    data = b"".join(piece or b"" for piece in pieces[segment.token_start : token_end])
    before = ends[segment.token_start - 1] if segment.token_start else 0
    text = data[segment.byte_start - before : n_bytes - before].decode("utf-8", "replace")
    return segment._replace(
        text=text, byte_end=n_bytes, char_end=segment.char_start + len(text), token_end=token_end
    )
