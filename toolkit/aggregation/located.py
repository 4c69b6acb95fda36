"""Where spans lie in the sequences of a block: in characters, in bytes and in tokens. All of them at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.aggregation.selection import Block
from toolkit.alignment import byte_shares, char_to_byte_offsets, token_range
from toolkit.spans import Span, SpanKind, Window
from toolkit.stats import Ranges

Integers = NDArray[np.integer[Any]]


class Located(NamedTuple):
    """n spans of the sequences of a block, in the order of the sequences.

    Ranges of characters and bytes are within the sequence's text; `tokens` are rows of the block's tokens.
    """

    owners: Integers  # (n,) which sequence of the block a span is of
    position: Integers  # (n,) its number within its sequence
    labels: Any  # n texts, a list or an Arrow array
    complete: NDArray[np.bool_]  # (n,) False where the text's end cuts the span off
    texts: Any  # n texts, a list or an Arrow array
    char_start: Integers
    char_end: Integers
    byte_start: Integers
    byte_end: Integers
    tokens: Ranges


def locate(block: Block, kind: SpanKind, opened: Collection[str] = ()) -> Located:
    """The spans of a kind in the sequences of a block.

    Parameters
    ----------
    block : Block
    kind : SpanKind
        Any but "prompt".
    opened : collection of str
        Ids of the prompts that end inside a thinking block.

    Returns
    -------
    Located
        The tokens of a span are all those with a byte in it; of "token" and "sequence", those that take part.
    """
    if kind.find is not None:
        return _found(block, kind, opened)
    if kind.window is not None:
        return _windows(block, kind.window)
    return {"segment": _segments, "sequence": _sequences, "token": _tokens}[kind.name](block)


def char_ranges(block: Block, owners: Integers, starts: Integers, ends: Integers) -> Ranges:
    """The tokens with a byte in text[start:end] of sequences, as ranges of the block's tokens.

    Parameters
    ----------
    block : Block
    owners : (n,) integers
        Which sequence of the block each stretch is of, in any order.
    starts, ends : (n,) integers
        Characters.
    """
    texts = BlockTexts(block)
    return token_rows(block, owners, texts.bytes_at(owners, starts), texts.bytes_at(owners, ends))


def token_rows(block: Block, owners: Integers, byte_start: Integers, byte_end: Integers) -> Ranges:
    """The tokens with a byte in start:end of sequences, as ranges of the block's tokens."""
    ends = block.tokens["byte_end"].to_numpy().astype(np.int64)
    # One rising line of bytes through all sequences.
    filled = block.counts > 0
    sizes = np.zeros(len(block.counts), np.int64)
    sizes[filled] = ends[(block.offsets + block.counts - 1)[filled]]
    base = np.cumsum(sizes) - sizes
    first, last = byte_start + base[owners], byte_end + base[owners]
    ends += base[block.token_owners]
    return Ranges(*token_range(ends, ends, first, last))


def shares(block: Block, located: Located) -> Ranges:
    """The tokens of each span, weighted by the share of their bytes that lies in it."""
    rows, lengths = located.tokens.rows, located.tokens.lengths
    start, end = (block.tokens[name].to_numpy()[rows] for name in ("byte_start", "byte_end"))
    weights = byte_shares(
        start, end, np.repeat(located.byte_start, lengths), np.repeat(located.byte_end, lengths)
    )
    return Ranges(located.tokens.starts, located.tokens.ends, weights)


class BlockTexts:
    """The texts of a block's sequences, and where their characters are among their bytes.

    Attributes
    ----------
    texts : list of str
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self.texts: list[str] = block.sequences["text"].to_pylist()
        sizes = np.fromiter(map(len, self.texts), np.int64, len(self.texts)) + 1
        self._first = np.cumsum(sizes) - sizes

    def bytes_at(self, owners: Integers, characters: Integers) -> NDArray[np.int64]:
        """(n,) the byte of its sequence where each character begins; that past the last is the end."""
        return self._offsets[self._first[owners] + characters]

    def characters_over(
        self, owners: Integers, byte_start: Integers, byte_end: Integers
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(n,) and (n,): the characters with a byte in each range."""
        lines = self._offsets + np.repeat(self._bases, np.diff(self._first, append=len(self._offsets)))
        first = (
            np.searchsorted(lines, byte_start + self._bases[owners], side="right") - 1 - self._first[owners]
        )
        last = np.searchsorted(lines, byte_end + self._bases[owners], side="left") - self._first[owners]
        return first, np.where(byte_end > byte_start, last, first)

    def cut(self, owners: Integers, starts: Integers, ends: Integers) -> list[str]:
        """n texts."""
        texts = self.texts
        places = zip(owners.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return [texts[owner][start:end] for owner, start, end in places]

    @cached_property
    def _bases(self) -> NDArray[np.int64]:
        """(n_sequences,) where each sequence's bytes begin, with a gap of one between any two."""
        sizes = self._block.sequences["n_bytes"].to_numpy().astype(np.int64) + 1
        return np.cumsum(sizes) - sizes

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        """Bytes where the characters of each sequence begin, and its end; sequences one after another."""
        found = [
            np.arange(len(text) + 1) if text.isascii() else char_to_byte_offsets(self._data(i, text))
            for i, text in enumerate(self.texts)
        ]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _data(self, i: int, text: str) -> bytes:
        """The bytes of a text. Where U+FFFD stands for bytes that are none, only the tokens have them."""
        if "\ufffd" not in text:
            return text.encode()
        return self._block.bytes_of(i)[: self._block.sequences["n_bytes"][i].as_py()]


def _found(block: Block, kind: SpanKind, opened: Collection[str]) -> Located:
    texts = BlockTexts(block)
    prompts = block.sequences["prompt_id"].to_pylist()
    inside = kind.find_opened if opened else None
    finders = [inside if inside is not None and prompt in opened else kind.find for prompt in prompts]
    spans = [finder(text) for finder, text in zip(finders, texts.texts, strict=True)]  # type: ignore[misc]
    counts = np.fromiter(map(len, spans), np.int64, len(spans))
    owners = np.repeat(np.arange(len(spans)), counts)
    starts, ends, labels, complete = _Columns.of(list(chain.from_iterable(spans)))
    byte_start, byte_end = texts.bytes_at(owners, starts), texts.bytes_at(owners, ends)
    return Located(
        owners,
        _within(counts),
        labels,
        complete,
        texts.cut(owners, starts, ends),
        starts,
        ends,
        byte_start,
        byte_end,
        token_rows(block, owners, byte_start, byte_end),
    )


class _Columns(NamedTuple):
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    labels: list[str]
    complete: NDArray[np.bool_]

    @staticmethod
    def of(spans: Sequence[Span]) -> _Columns:
        start, end, label, complete = map(itemgetter, range(4))
        return _Columns(
            np.fromiter(map(start, spans), np.int64, len(spans)),
            np.fromiter(map(end, spans), np.int64, len(spans)),
            list(map(label, spans)),
            np.fromiter(map(complete, spans), np.bool_, len(spans)),
        )


def _segments(block: Block) -> Located:
    rows = block.segments
    char_start, char_end, byte_start, byte_end = (
        rows[name].to_numpy() for name in ("char_start", "char_end", "byte_start", "byte_end")
    )
    return Located(
        block.segment_owners,
        rows["segment_index"].to_numpy(),
        pa.repeat("", rows.num_rows),
        np.ones(rows.num_rows, bool),
        rows["text"],
        char_start,
        char_end,
        byte_start,
        byte_end,
        block.segment_ranges,
    )


def _sequences(block: Block) -> Located:
    n = block.sequences.num_rows
    filled = block.kept_counts > 0
    last = np.zeros(n, np.int64)  # one past the last token that takes part
    last[filled] = (
        np.flatnonzero(block.kept)[np.cumsum(block.kept_counts)[filled] - 1] + 1 - block.offsets[filled]
    )
    texts = block.sequences["text"]
    zeros = np.zeros(n, np.int64)
    lengths = np.fromiter(map(len, texts.to_pylist()), np.int64, n)
    n_bytes = block.sequences["n_bytes"].to_numpy()
    tokens = Ranges(block.offsets, block.offsets + last)
    return Located(
        np.arange(n), zeros, pa.repeat("", n), np.ones(n, bool), texts, zeros, lengths, zeros, n_bytes, tokens
    )


def _tokens(block: Block) -> Located:
    rows = np.flatnonzero(block.kept)
    owners = block.token_owners[rows]
    position = rows - block.offsets[owners]
    return _of_tokens(block, owners, position, Ranges(rows, rows + 1), block.token_texts(rows))


def _windows(block: Block, window: Window) -> Located:
    """Windows over the tokens of the text: those that begin in it, so that the end token is in none."""
    n_bytes = block.sequences["n_bytes"].to_numpy()
    inside = block.tokens["byte_start"].to_numpy() < n_bytes[block.token_owners]
    lengths = np.bincount(block.token_owners[inside], minlength=len(block.counts))
    more = -(-np.maximum(lengths - window.size, 0) // window.step)  # windows until the last token is in one
    counts = np.minimum(1 + more, -(-lengths // window.step))
    owners, index = np.repeat(np.arange(len(counts)), counts), _within(counts)
    starts = index * window.step
    ends = np.minimum(starts + window.size, lengths[owners])
    return _of_tokens(
        block, owners, index, Ranges(block.offsets[owners] + starts, block.offsets[owners] + ends)
    )


def _of_tokens(
    block: Block, owners: Integers, index: Integers, tokens: Ranges, named: Sequence[str] | None = None
) -> Located:
    """Spans of whole tokens, one or more each; the characters are all those with a byte in them."""
    texts = BlockTexts(block)
    n_bytes = block.sequences["n_bytes"].to_numpy()[owners]
    byte_start = np.minimum(block.tokens["byte_start"].to_numpy()[tokens.starts], n_bytes)
    byte_end = np.minimum(block.tokens["byte_end"].to_numpy()[tokens.ends - 1], n_bytes)
    char_start, char_end = texts.characters_over(owners, byte_start, byte_end)
    return Located(
        owners,
        index,
        pa.repeat("", len(owners)),
        np.ones(len(owners), bool),
        texts.cut(owners, char_start, char_end) if named is None else named,
        char_start,
        char_end,
        byte_start,
        byte_end,
        tokens,
    )


def _within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... for each sequence."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
