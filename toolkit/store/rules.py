"""What must hold within a row group: one function a rule, over whole columns.

A rule looks at the same row group of all tables of the sequences group, and answers which rows of its table
break it. `STRUCTURE` comes first; where that fails, rows cannot be laid to their sequences, and `CONTENT`,
which needs it, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.records import FINISH_REASONS, KINDS
from toolkit.store.blocks import Rows
from toolkit.store.keys import KeyCoder, match_rows
from toolkit.store.schemas import GROUPS, TABLES
from toolkit.store.watched_rules import ROUNDING, wrong_extent, wrong_positions, wrong_values

Mask = NDArray[np.bool_]

_SUM_ROUNDING = 1e-6  # relative; sums are float64 of the stored float32 values


class View:
    """The same row group of every table of the sequences group that the run has, and what the rules share.

    Parameters
    ----------
    rows : mapping of str to pyarrow.Table
    vocabulary : pyarrow.Table
        token_id and bytes of the run's vocabulary.
    """

    def __init__(self, rows: Rows, vocabulary: pa.Table) -> None:
        self.rows = rows
        self.vocabulary = vocabulary
        self._owners: dict[str, NDArray[np.int64]] = {}

    def column(self, table: str, name: str) -> NDArray[Any]:
        """A column as an array; null is NaN in float columns."""
        return self.rows[table][name].to_numpy()

    def owner(self, table: str) -> NDArray[np.int64]:
        """For each row, its sequence's row; -1 for none."""
        if table not in self._owners:
            self._owners[table] = match_rows(self.rows[table], self.rows["sequences"])
        return self._owners[table]

    def is_first(self, table: str) -> Mask:
        """Whether a row is the first of its sequence."""
        return np.diff(self.owner(table), prepend=-1) != 0

    @cached_property
    def token_start(self) -> NDArray[np.int64]:
        """Row of tokens where each sequence begins, and where the last one ends: (sequences + 1,)."""
        return np.searchsorted(self.owner("tokens"), np.arange(self.rows["sequences"].num_rows + 1))


class Rule(NamedTuple):
    """A rule, the tables whose rows it judges, and the judgement: a mask of the rows that break it."""

    name: str
    tables: tuple[str, ...]
    message: str  # what is wrong with a row that breaks it
    broken: Callable[[View, str], Mask]


def _unsorted(view: View, table: str) -> Mask:
    """A row whose key and position do not come after those of the row before."""
    rows = view.rows[table]
    broken = np.zeros(rows.num_rows, bool)
    equal = np.ones(max(rows.num_rows - 1, 0), bool)
    for values in (
        KeyCoder([rows]).codes(rows),
        *(view.column(table, name) for name in TABLES[table].position),
    ):
        step = np.sign(np.diff(values))
        broken[1:] |= equal & (step < 0)
        equal &= step == 0
    broken[1:] |= equal
    return broken


def _homeless(view: View, table: str) -> Mask:
    return view.owner(table) < 0


def _wrong_count(view: View, _: str) -> Mask:
    n = view.rows["sequences"].num_rows
    return np.bincount(view.owner("tokens"), minlength=n) != view.column("sequences", "n_tokens")


def _has_nan(view: View, table: str) -> Mask:
    return nan_rows(view.rows[table])


def nan_rows(rows: pa.Table) -> Mask:
    """Rows with a NaN in any column."""
    broken = np.zeros(rows.num_rows, bool)
    for column in rows.columns:
        if pa.types.is_floating(column.type):
            broken |= pc.fill_null(pc.is_nan(column), False).to_numpy()
    return broken


def _unknown_words(view: View, _: str) -> Mask:
    known = {"kind": KINDS, "finish_reason": FINISH_REASONS}
    rows = view.rows["sequences"]
    broken = np.zeros(rows.num_rows, bool)
    for name, words in known.items():
        broken |= ~pc.is_in(rows[name], value_set=pa.array(words)).to_numpy()
    return broken


def _gaps(view: View, table: str) -> Mask:
    """Positions that do not go 0, 1, 2, ... within a sequence."""
    position = view.column(table, TABLES[table].position[0]).astype(np.int64)
    return position != np.where(view.is_first(table), 0, _before(position) + 1)


def _uncovered(view: View, table: str) -> Mask:
    """Ranges that do not begin where the one before ended, or at 0; segments also count characters."""
    broken = np.zeros(view.rows[table].num_rows, bool)
    for unit in ("byte", "char") if table == "segments" else ("byte",):
        start = view.column(table, f"{unit}_start").astype(np.int64)
        end = view.column(table, f"{unit}_end").astype(np.int64)
        broken |= (start != np.where(view.is_first(table), 0, _before(end))) | (end < start)
    return broken


def _before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], values])[:-1]


def _wrong_token_bytes(view: View, _: str) -> Mask:
    """Tokens whose range has not the length of their bytes, or that are special and have bytes."""
    pieces = view.rows["tokens"]["bytes"]
    lengths = pc.fill_null(pc.binary_length(pieces), 0).to_numpy()
    ranges = view.column("tokens", "byte_end") - view.column("tokens", "byte_start")
    return (ranges != lengths) | (pieces.is_null().to_numpy() != view.column("tokens", "is_special"))


def _wrong_vocabulary(view: View, table: str) -> Mask:
    """Ids that vocabulary lacks, or whose bytes differ there."""
    ids = view.rows[table]["token_id"]
    place = pc.index_in(ids, value_set=view.vocabulary["token_id"].combine_chunks())
    broken = place.is_null().to_numpy()
    if table == "tokens":
        expected = pc.fill_null(view.vocabulary["bytes"].take(place), b"")
        broken |= ~pc.equal(pc.fill_null(view.rows[table]["bytes"], b""), expected).to_numpy()
    return broken


def _wrong_text(view: View, _: str) -> Mask:
    """Sequences whose first n_bytes bytes do not decode to their text."""
    pieces = view.rows["tokens"]["bytes"].to_pylist()
    n_bytes, starts = view.column("sequences", "n_bytes"), view.token_start
    broken = []
    for index, text in enumerate(view.rows["sequences"]["text"].to_pylist()):
        data = b"".join(piece or b"" for piece in pieces[starts[index] : starts[index + 1]])
        kept = int(n_bytes[index])
        broken.append(kept > len(data) or data[:kept].decode("utf-8", "replace") != text)
    return np.array(broken, bool)


def _wrong_segments(view: View, _: str) -> Mask:
    """Sequences whose segments are not their text, or end elsewhere than it."""
    segments = view.rows["segments"]
    n = view.rows["sequences"].num_rows
    texts, ends = segments["text"].to_pylist(), view.column("segments", "byte_end")
    limit = np.searchsorted(view.owner("segments"), np.arange(n + 1))
    n_bytes = view.column("sequences", "n_bytes")
    broken = []
    for index, text in enumerate(view.rows["sequences"]["text"].to_pylist()):
        first, last = limit[index : index + 2]
        end = ends[last - 1] if last > first else 0
        broken.append("".join(texts[first:last]) != text or end != n_bytes[index])
    return np.array(broken, bool)


def _wrong_length(view: View, _: str) -> Mask:
    """Segments whose range of characters has not the length of their text, or that are empty."""
    start, end = (view.column("segments", f"char_{side}") for side in ("start", "end"))
    lengths = pc.utf8_length(view.rows["segments"]["text"]).to_numpy()
    return (end - start != lengths) | (lengths == 0)


def _wrong_tokens(view: View, _: str) -> Mask:
    """Segments whose token range is not the tokens with a byte in them, or that came out too early."""
    own = view.owner("segments")
    ends = view.column("tokens", "byte_end").astype(np.int64)
    size = np.zeros(len(view.token_start), np.int64)
    filled = np.flatnonzero(np.diff(view.token_start))
    size[filled + 1] = ends[view.token_start[filled + 1] - 1]
    base = np.cumsum(size)  # where a sequence's bytes begin, if those of the row group are joined
    joined = ends + base[view.owner("tokens")]
    start = view.column("segments", "byte_start") + base[own]
    end = view.column("segments", "byte_end") + base[own]
    first = np.searchsorted(joined, start, side="right") - view.token_start[own]
    last = np.searchsorted(joined, end, side="left") + 1 - view.token_start[own]
    emitted = view.column("segments", "emitted_at")
    return (
        (view.column("segments", "token_start") != first)
        | (view.column("segments", "token_end") != last)
        | (emitted < last - 1)
        | (emitted >= view.column("sequences", "n_tokens")[own])
    )


def _wrong_sum(view: View, _: str) -> Mask:
    """Sequences whose sums are not those of their tokens, the end token included."""
    n = view.rows["sequences"].num_rows
    broken = np.zeros(n, bool)
    for name in ("logprob", "sampling_logprob"):
        values = view.column("tokens", name).astype(np.float64)
        sums = np.bincount(view.owner("tokens"), values, minlength=n)
        stored = view.column("sequences", f"sum_{name}")
        broken |= ~np.isclose(stored, sums, rtol=_SUM_ROUNDING, atol=_SUM_ROUNDING, equal_nan=True)
    return broken


def _impossible(view: View, table: str) -> Mask:
    """Log-probabilities above 0, or above that of the most likely token, beyond rounding."""
    names = [name for name in TABLES[table].names if name.endswith("logprob")]
    broken = np.zeros(view.rows[table].num_rows, bool)
    for name in names:
        broken |= view.column(table, name) > ROUNDING
    if table == "tokens":
        broken |= view.column(table, "logprob") > view.column(table, "top1_logprob") + ROUNDING
    return broken


def _wrong_alternatives(view: View, _: str) -> Mask:
    """Ranks that do not go 1, 2, ... at a position; log-probabilities that rise, or are not finite."""
    rank, logprob, token = (
        view.column("alternatives", name) for name in ("alternative_rank", "logprob", "token_index")
    )
    first = view.is_first("alternatives") | (np.diff(token, prepend=-1) != 0)
    expected = np.where(first, 1, np.concatenate([[0], rank])[:-1] + 1)
    rises = np.concatenate([[False], logprob[1:] > logprob[:-1]])[: len(logprob)] & ~first
    outside = (token < 0) | (token >= view.column("sequences", "n_tokens")[view.owner("alternatives")])
    return (rank != expected) | rises | ~np.isfinite(logprob) | outside


_ALL = GROUPS["sequences"]
_DATA = ("tokens", "segments", "alternatives", "watched")
_HEADS = ("sequences",)

STRUCTURE: tuple[Rule, ...] = (
    Rule("sorted", _ALL, "is not after the row before by key and position", _unsorted),
    Rule("has a sequence", _DATA, "has no sequence in its row group", _homeless),
)
CONTENT: tuple[Rule, ...] = (
    Rule("counts", _HEADS, "n_tokens is not the number of its tokens", _wrong_count),
    Rule("no NaN", _ALL, "holds a NaN", _has_nan),
    Rule("known words", _HEADS, "kind or finish_reason is none that exists", _unknown_words),
    Rule("positions", ("tokens", "segments"), "does not count up by one from 0", _gaps),
    Rule("ranges cover", ("tokens", "segments"), "does not begin where the one before ended", _uncovered),
    Rule("token bytes", ("tokens",), "its range or is_special does not fit its bytes", _wrong_token_bytes),
    Rule(
        "vocabulary",
        ("tokens", "alternatives", "watched"),
        "its id is not in vocabulary, or not as here",
        _wrong_vocabulary,
    ),
    Rule("bytes decode", _HEADS, "its bytes do not decode to its text", _wrong_text),
    Rule("segments join", _HEADS, "its segments are not its text", _wrong_segments),
    Rule("segment length", ("segments",), "its characters are not those of its text", _wrong_length),
    Rule("segment tokens", ("segments",), "its tokens are not those with a byte in it", _wrong_tokens),
    Rule("sums", _HEADS, "its sums are not those of its tokens", _wrong_sum),
    Rule(
        "log-probabilities",
        ("tokens", "alternatives", "watched"),
        "is above 0, or above the most likely one",
        _impossible,
    ),
    Rule(
        "alternatives",
        ("alternatives",),
        "is not sorted by falling log-probability from rank 1",
        _wrong_alternatives,
    ),
    Rule(
        "watched values", ("watched",), "does not fit its rank, or the tokens of its position", wrong_values
    ),
    Rule(
        "watched positions",
        ("watched",),
        "is at no token, after a gap, or not of the tokens watched before",
        wrong_positions,
    ),
    Rule("watched everywhere", _HEADS, "is not watched where others are", wrong_extent),
)
