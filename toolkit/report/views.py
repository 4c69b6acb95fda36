"""Sequences of a run to look at: pieces of text with their values, and tokens with alternatives."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit import stats
from toolkit.report.scales import Scale
from toolkit.report.terminal import Piece, split_by_tokens
from toolkit.selection import ALTERNATIVES, Block, Selection, read_blocks
from toolkit.store.keys import Key

if TYPE_CHECKING:
    from toolkit.store import Run


class Alternative(NamedTuple):
    """A likely token at a position."""

    text: str
    logprob: float


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
    run: Run, keys: Collection[Key], by: str, metric: str, scale: Scale, *, tokens: bool = False
) -> dict[Key, SequenceView]:
    """Text of sequences cut at a granularity, each piece with its value.

    Parameters
    ----------
    run : Run
    keys : collection of (prompt_id, kind, sample_index)
    by : {"token", "segment", "sequence"}
    metric : str
        A column of the tokens table for tokens, an estimator's name for the others.
    scale : Scale
        Of the metric; where several tokens made one character, it takes the least sure one's value.
    tokens : bool
        Add each token with its alternatives.
    """
    wanted = set(keys)
    inputs = {metric} if by == "token" else set(stats.get(metric).inputs)
    if tokens:
        inputs |= {"logprob", "entropy", "rank", ALTERNATIVES}
    prompts = sorted({prompt_id for prompt_id, _, _ in wanted})
    views = {}
    for block in read_blocks(run, inputs, Selection(prompts=prompts)):
        cutter = _Cutter(block, by, metric, scale)
        for i, key in enumerate(block.keys):
            if key in wanted:
                views[key] = SequenceView(cutter.pieces(i), _tokens(block, i) if tokens else [])
    return views


def question(prompt: Mapping[str, Any]) -> str:
    """What a prompt asks, for people: its last message by the user, else its text."""
    messages = json.loads(prompt["messages"]) if isinstance(prompt["messages"], str) else []
    asked = [m["content"] for m in messages if m.get("role") == "user" and isinstance(m.get("content"), str)]
    return asked[-1] if asked else str(prompt["text"])


class _Cutter:
    """Cuts the sequences of a block at one granularity."""

    def __init__(self, block: Block, by: str, metric: str, scale: Scale) -> None:
        self.block, self.by, self.scale = block, by, scale
        self.values = _values(block, by, metric).tolist()
        self.texts, self.starts, self.ends = (
            block.segments[name].to_pylist() for name in ("text", "byte_start", "byte_end")
        )
        self.token_starts, self.token_ends = (
            block.tokens[name].to_pylist() for name in ("byte_start", "byte_end")
        )
        self.segments_of = np.searchsorted(block.segment_owners, np.arange(len(block.counts) + 1)).tolist()

    def pieces(self, i: int) -> list[Piece]:
        """The pieces of the i-th sequence; of tokens, the end token too where it has one."""
        if self.by == "sequence":
            return [Piece(self.block.sequences["text"][i].as_py(), self.values[i])]
        segments = range(self.segments_of[i], self.segments_of[i + 1])
        if self.by == "segment":
            return [Piece(self.texts[row], self.values[row]) for row in segments]
        return [piece for row in segments for piece in self._of_tokens(row)] + self._end(i)

    def _of_tokens(self, row: int) -> list[Piece]:
        ranges = self.block.segment_ranges
        tokens = [
            (self.token_starts[j], self.token_ends[j], self.values[j])
            for j in range(ranges.starts[row], ranges.ends[row])
        ]
        return split_by_tokens(self.texts[row], self.starts[row], self.ends[row], tokens, self.scale)

    def _end(self, i: int) -> list[Piece]:
        if not self.block.sequences["has_end"][i].as_py():
            return []
        row = int(self.block.offsets[i] + self.block.counts[i] - 1)
        return [Piece(self.block.token_text(row), self.values[row])]


def _values(block: Block, by: str, metric: str) -> NDArray[np.float64]:
    """A value for each token, segment or sequence of a block."""
    if by == "token":
        return block.columns[metric]
    if by == "segment":
        return np.asarray(stats.get(metric)(block.columns, block.segment_ranges))
    return np.asarray(stats.get(metric)(block.kept_columns, block.kept_ranges))


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
    pairs = zip(block.alternative_ids[row].tolist(), block.columns[ALTERNATIVES][row].tolist(), strict=True)
    return tuple(Alternative(block.text_of(i), logprob) for i, logprob in pairs if not math.isnan(logprob))
