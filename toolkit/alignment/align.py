"""Tokens over bytes, characters over bytes, and the tokens of a span.

A span (a word, a sentence, a field, a segment) is a half-open range of bytes. Its tokens are all the tokens
that have a byte in it; a special token has none. Everything is an array, so that a sequence's spans are
mapped at once.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.alignment.segments import segment_pieces
from toolkit.errors import ToolkitError
from toolkit.records import Alignment, Segment

# An error's exception holds a copy of the data that was being decoded, so data is decoded in windows.
_WINDOW = 4096


class TokenRange(NamedTuple):
    """Half-open ranges of tokens, one for each span."""

    start: NDArray[np.intp]
    end: NDArray[np.intp]


def align(
    pieces: Sequence[bytes | None], n_bytes: int | None = None, segments: Sequence[Segment] | None = None
) -> Alignment:
    """Lay a sequence's tokens over its bytes.

    Parameters
    ----------
    pieces : sequence of bytes or None
        Each token's bytes; None is a special token. It gets an empty range where it stands.
    n_bytes : int, optional
        Bytes kept, where a stop string cut the text; default all.
    segments : sequence of Segment, optional
        The segments as they were streamed; default those of `segment_pieces`.

    Returns
    -------
    Alignment
        The byte ranges are of all tokens, also of those past `n_bytes`.

    Raises
    ------
    ToolkitError
        `n_bytes` is below 0 or above the number of bytes.
    """
    ends = np.cumsum([len(piece or b"") for piece in pieces], dtype=np.int32)
    starts = np.concatenate([np.zeros(1, np.int32), ends])[: len(ends)]
    data = b"".join(piece or b"" for piece in pieces)
    kept = len(data) if n_bytes is None else n_bytes
    if not 0 <= kept <= len(data):
        raise ToolkitError(f"n_bytes: {kept} is not between 0 and {len(data)}, the bytes of the sequence")
    return Alignment(
        pieces=tuple(pieces),
        byte_start=starts,
        byte_end=ends,
        text=data[:kept].decode("utf-8", "replace"),
        n_bytes=kept,
        segments=tuple(segment_pieces(pieces, kept) if segments is None else segments),
    )


def token_range(
    byte_start: ArrayLike, byte_end: ArrayLike, span_start: ArrayLike, span_end: ArrayLike
) -> TokenRange:
    """Tokens that have a byte in each span.

    Parameters
    ----------
    byte_start, byte_end : array_like of int, shape (n_tokens,)
        The tokens' byte ranges, as in `Alignment`: in order, without gaps, empty for special tokens.
    span_start, span_end : array_like of int, shape (n_spans,) or scalar
        The spans' byte ranges. They may overlap and be in any order.

    Returns
    -------
    TokenRange
        `start` and `end`, each of the spans' shape. A special token counts only where it stands between two
        tokens of the span. A span without a byte of a token gets an empty range.
    """
    ends = np.asarray(byte_end)
    total = ends[-1] if ends.size else 0
    first, last = np.maximum(span_start, 0), np.minimum(span_end, total)
    # The first token that ends past a byte has it, and is never an empty one.
    start = np.searchsorted(ends, first, side="right")
    end = np.searchsorted(ends, last, side="left") + 1
    return TokenRange(start, np.where(first < last, end, start))


def byte_shares(
    byte_start: ArrayLike, byte_end: ArrayLike, span_start: ArrayLike, span_end: ArrayLike
) -> NDArray[np.float64]:
    """Share of each token's bytes that lie in a span, from 0 to 1: a weight for tokens at its edges.

    Parameters
    ----------
    byte_start, byte_end, span_start, span_end : array_like of int
        Byte ranges of tokens and of spans, broadcast against each other: the tokens of one span, or pairs of
        a token and a span.

    Returns
    -------
    ndarray of float64
        0 for a special token, which has no bytes.
    """
    start, end = np.asarray(byte_start), np.asarray(byte_end)
    shared = np.minimum(end, span_end) - np.maximum(start, span_start)
    return np.maximum(shared, 0) / np.maximum(end - start, 1)


def char_to_byte_offsets(data: bytes) -> NDArray[np.int64]:
    """Byte offset of every character of `data.decode("utf-8", "replace")`.

    Right also where bytes are not valid UTF-8: a U+FFFD then stands for one to three bytes, and the text's
    own encoding would be longer or shorter than `data`.

    Parameters
    ----------
    data : bytes
        The bytes kept of a sequence.

    Returns
    -------
    ndarray of int64, shape (n_chars + 1,)
        The last one is `len(data)`, so that characters a:b are bytes offsets[a]:offsets[b].
    """
    values = np.frombuffer(data, np.uint8)
    begins = (values & 0xC0) != 0x80  # not a continuation byte
    for start, end in _ill_formed(data):
        begins[start:end] = False
        begins[start] = True
    return np.append(np.flatnonzero(begins), len(data))


def _ill_formed(data: bytes) -> Iterator[tuple[int, int]]:
    """Byte ranges that the standard replacement turns into one U+FFFD each."""
    position = 0
    while position < len(data):
        window = data[position : position + _WINDOW]
        try:
            _, used = codecs.utf_8_decode(window, "strict", position + len(window) == len(data))
            position += used
        except UnicodeDecodeError as error:
            yield position + error.start, position + error.end
            position += error.end
