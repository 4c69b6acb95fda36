"""Sequences of a run to look at: pieces of text with their values, and tokens with alternatives."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit import stats
from toolkit.aggregation.located import Located, locate
from toolkit.aggregation.selection import ALTERNATIVES, Block, Selection, read_blocks
from toolkit.aggregation.span_tables import opened_prompts
from toolkit.appearance.scales import Scale
from toolkit.report.pieces import Piece, least_sure, split_by_tokens
from toolkit.spans import SpanKind, span_kind
from toolkit.store.keys import Key

if TYPE_CHECKING:
    from toolkit.store import Run


class Alternative(NamedTuple):
    """A likely token at a position."""

    text: str
    logprob: float
    is_chosen: bool  # it is the token that was written


class TokenView(NamedTuple):
    """A token with what the model believed at its position."""

    position: int
    text: str
    logprob: float
    entropy: float
    rank: float
    alternatives: tuple[Alternative, ...]


class SequenceView(NamedTuple):
    """A sequence's text in pieces, and its tokens where they were asked for."""

    pieces: list[Piece]
    tokens: list[TokenView]


def sequence_views(
    run: Run,
    keys: Collection[Key],
    by: str | SpanKind,
    metric: str,
    scale: Scale,
    *,
    tokens: bool = False,
) -> dict[Key, SequenceView]:
    """Text of sequences cut at a granularity, each piece with its value.

    Parameters
    ----------
    run : Run
    keys : collection of (prompt_id, kind, sample_index)
    by : str or SpanKind
        token, segment, sequence, or a kind of span that is found in the text (word, line, field): what is in
        no span has the value None, and of spans that overlap each begins where the one before ends.
    metric : str
        A column of the tokens table for tokens, an estimator's name for the others.
    scale : Scale
        Of the metric; where several tokens made one character, it takes the least sure one's value.
    tokens : bool
        Add each token with its alternatives.
    """
    wanted, kind = set(keys), span_kind(by)
    inputs = {metric} if kind.name == "token" else set(stats.get(metric).inputs)
    if tokens:
        inputs |= {"logprob", "entropy", "rank", ALTERNATIVES}
    prompts = sorted({prompt_id for prompt_id, _, _ in wanted})
    views = {}
    opened = opened_prompts(run) if kind.find_opened is not None else frozenset()
    for block in read_blocks(run, inputs, Selection(prompts=prompts)):
        cutter = _cutter(block, kind, metric, scale, opened)
        for i, key in enumerate(block.keys):
            if key in wanted:
                views[key] = SequenceView(cutter.pieces(i), _tokens(block, i) if tokens else [])
    return views


def has_gaps(view: SequenceView) -> bool:
    """Whether a value of the text was not computed."""
    return any(piece.value is not None and math.isnan(piece.value) for piece in view.pieces)


def _cutter(block: Block, kind: SpanKind, metric: str, scale: Scale, opened: Collection[str]) -> _Cutter:
    if kind.name == "token":
        return _Tokens(block, metric, scale)
    if kind.name == "sequence":
        values = np.asarray(stats.get(metric)(block.kept_columns, block.kept_ranges))
        return _Spans(block, locate(block, kind), values)
    located = locate(block, kind, opened)
    return _Spans(block, located, np.asarray(stats.get(metric)(block.columns, located.tokens)))


class _Cutter(Protocol):
    """Cuts the sequences of a block."""

    def pieces(self, i: int) -> list[Piece]:
        """The pieces of the i-th sequence."""
        ...


class _Spans:
    """Cuts at spans; what is between them has the value None."""

    def __init__(self, block: Block, located: Located, values: NDArray[np.float64]) -> None:
        self.texts = block.sequences["text"].to_pylist()
        self.rows = np.searchsorted(located.owners, np.arange(len(block.counts) + 1)).tolist()
        self.starts, self.ends = located.char_start.tolist(), located.char_end.tolist()
        self.values = values.tolist()

    def pieces(self, i: int) -> list[Piece]:
        text, place = self.texts[i], 0
        pieces: list[Piece] = []
        for row in range(self.rows[i], self.rows[i + 1]):
            start, end = max(place, self.starts[row]), self.ends[row]
            if start < end:
                pieces += [Piece(text[place:start], None), Piece(text[start:end], self.values[row])]
                place = end
        return [piece for piece in (*pieces, Piece(text[place:], None)) if piece.text]


class _Tokens:
    """Cuts where tokens meet; the end token is shown too."""

    def __init__(self, block: Block, metric: str, scale: Scale) -> None:
        self.block, self.scale = block, scale
        self.values = block.columns[metric].tolist()
        self.texts, self.starts, self.ends = (
            block.segments[name].to_pylist() for name in ("text", "byte_start", "byte_end")
        )
        self.token_starts, self.token_ends = (
            block.tokens[name].to_pylist() for name in ("byte_start", "byte_end")
        )
        self.segments_of = np.searchsorted(block.segment_owners, np.arange(len(block.counts) + 1)).tolist()

    def pieces(self, i: int) -> list[Piece]:
        segments = range(self.segments_of[i], self.segments_of[i + 1])
        return [piece for row in segments for piece in self._of_segment(row)] + self._end(i)

    def _of_segment(self, row: int) -> list[Piece]:
        ranges = self.block.segment_ranges
        rows = range(ranges.starts[row], ranges.ends[row])
        tokens = [(self.token_starts[j], self.token_ends[j]) for j in rows]
        parts = split_by_tokens(self.texts[row], self.starts[row], self.ends[row], tokens)
        return [
            Piece(text, least_sure([self.values[rows[i]] for i in owners], self.scale))
            for text, owners in parts
        ]

    def _end(self, i: int) -> list[Piece]:
        if not self.block.sequences["has_end"][i].as_py():
            return []
        row = int(self.block.offsets[i] + self.block.counts[i] - 1)
        return [Piece(self.block.token_text(row), self.values[row])]


def _tokens(block: Block, i: int) -> list[TokenView]:
    rows = range(block.offsets[i], block.offsets[i] + block.counts[i])
    columns = block.columns
    return [
        TokenView(
            position=row - rows.start,
            text=block.token_text(row),
            logprob=float(columns["logprob"][row]),
            entropy=float(columns["entropy"][row]),
            rank=float(columns["rank"][row]),
            alternatives=_alternatives(block, row),
        )
        for row in rows
        if block.kept[row]
    ]


def _alternatives(block: Block, row: int) -> tuple[Alternative, ...]:
    chosen = block.tokens["token_id"][row].as_py()
    pairs = zip(block.alternative_ids[row].tolist(), block.columns[ALTERNATIVES][row].tolist(), strict=True)
    return tuple(
        Alternative(block.text_of(i), logprob, i == chosen) for i, logprob in pairs if not math.isnan(logprob)
    )
