"""Whole sequences of a run with their tokens and segments as arrays, a row group at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.characters import count
from toolkit.errors import DataFault
from toolkit.stats.ranges import Ranges
from toolkit.store.blocks import cuts
from toolkit.store.keys import Key, key_tuples, match_rows
from toolkit.store.schemas import TABLES

if TYPE_CHECKING:
    from toolkit.store import Run, VocabularyEntry
    from toolkit.store.blocks import Rows

    Vocabulary = Mapping[int, VocabularyEntry]

KEY = ["prompt_id", "kind", "sample_index"]
ALTERNATIVES = "alternative_logprobs"  # an input that is made of the table of alternatives
WHOLE_TOKENS = 1 << 20  # about as many tokens of whole prompts are held at a time
_COLUMNS = {
    "sequences": [*KEY, "n_tokens", "n_bytes", "has_end", "finish_reason", "text"],
    "tokens": [*KEY, "token_index", "token_id", "byte_start", "byte_end"],
    "segments": [
        *KEY,
        "segment_index",
        "text",
        *("byte_start", "byte_end", "char_start", "char_end", "token_start", "token_end"),
    ],
    "alternatives": [*KEY, "token_index", "alternative_rank", "token_id", "logprob"],
}


class Selection(NamedTuple):
    """Which sequences of a run; None is all."""

    prompts: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    samples: Sequence[int] | None = None


EVERYTHING = Selection()


class Block:
    """Whole sequences with their tokens and segments, and which tokens take part in each.

    Attributes
    ----------
    sequences, tokens, segments : pyarrow.Table
        Rows in the order of the key and of position.
    columns : dict of str to (n_tokens,) float64
        What was asked for; NaN is not computed. `ALTERNATIVES` is (n_tokens, k).
    alternative_ids : (n_tokens, k) int32
        Beside it; -1 where fewer are stored.
    counts, offsets : (n_sequences,) int64
        Tokens of each sequence, and its first row among them.
    kept : (n_tokens,) bool
        Whether a token takes part: it begins within the text kept, or is an end token that is wanted.
    """

    def __init__(self, rows: Rows, inputs: set[str], vocabulary: Vocabulary, include_end: bool) -> None:
        self.sequences, self.tokens = rows["sequences"], rows["tokens"]
        none = TABLES["segments"].schema.empty_table().select(_COLUMNS["segments"])
        self.segments = rows.get("segments", none)
        self.vocabulary = vocabulary
        self.counts = self.sequences["n_tokens"].to_numpy().astype(np.int64)
        self.offsets = np.cumsum(self.counts) - self.counts
        if self.counts.sum() != self.tokens.num_rows:
            raise DataFault(
                f"{count(self.sequences.num_rows, 'sequence')} should have {count(self.counts.sum(), 'token')}, "
                f"and the tokens table has {self.tokens.num_rows:,}: run toolkit validate"
            )
        self.columns = {name: _floats(self.tokens[name]) for name in inputs - {ALTERNATIVES}}
        if ALTERNATIVES in inputs:
            self._add_alternatives(rows["alternatives"])
        self.kept = self._kept_rows(include_end)

    def _kept_rows(self, include_end: bool) -> NDArray[np.bool_]:
        n_bytes = np.repeat(self.sequences["n_bytes"].to_numpy(), self.counts)
        kept = self.tokens["byte_start"].to_numpy() < n_bytes
        has_end = self.sequences["has_end"].to_numpy(zero_copy_only=False) & (self.counts > 0)
        kept[(self.offsets + self.counts - 1)[has_end]] = include_end
        return kept

    def _add_alternatives(self, rows: pa.Table) -> None:
        place = self.offsets[match_rows(rows, self.sequences)] + rows["token_index"].to_numpy()
        rank = rows["alternative_rank"].to_numpy()
        shape = (self.tokens.num_rows, rank.max(initial=1))
        self.columns[ALTERNATIVES] = np.full(shape, np.nan)
        self.columns[ALTERNATIVES][place, rank - 1] = rows["logprob"].to_numpy()
        self.alternative_ids = np.full(shape, -1, np.int32)
        self.alternative_ids[place, rank - 1] = rows["token_id"].to_numpy()

    @cached_property
    def token_owners(self) -> NDArray[np.int64]:
        """(n_tokens,) which sequence a token is of."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def keys(self) -> list[Key]:
        """(prompt_id, kind, sample_index) of each sequence."""
        return key_tuples(self.sequences)

    @cached_property
    def kept_counts(self) -> NDArray[np.int64]:
        """(n_sequences,) tokens that take part."""
        return np.bincount(self.token_owners[self.kept], minlength=len(self.counts))

    @property
    def kept_columns(self) -> dict[str, NDArray[Any]]:
        """The columns of the tokens that take part."""
        return {name: column[self.kept] for name, column in self.columns.items()}

    @property
    def kept_ranges(self) -> Ranges:
        """The tokens of each sequence, among those of `kept_columns`."""
        return back_to_back(self.kept_counts)

    @cached_property
    def segment_owners(self) -> NDArray[np.int64]:
        """(n_segments,) which sequence a segment is of."""
        return match_rows(self.segments, self.sequences)

    @cached_property
    def segment_ranges(self) -> Ranges:
        """The tokens of each segment, among all."""
        first = self.offsets[self.segment_owners]
        start, end = (self.segments[name].to_numpy() for name in ("token_start", "token_end"))
        return Ranges(first + start, first + end)

    def token_text(self, row: int) -> str:
        """What a person reads for a token."""
        return self.text_of(self.tokens["token_id"][row].as_py())

    def token_texts(self, rows: NDArray[np.int64]) -> list[str]:
        """What a person reads for each of some tokens."""
        ids, places = np.unique(self.tokens["token_id"].to_numpy()[rows], return_inverse=True)
        texts = np.array([self.text_of(token_id) for token_id in ids.tolist()], object)
        return list(texts[places])

    def text_of(self, token_id: int) -> str:
        """What a person reads for a token id."""
        return self._entry(token_id).literal

    def bytes_of(self, sequence: int) -> bytes:
        """The bytes of a sequence's tokens, joined; those past its text are among them."""
        rows = slice(self.offsets[sequence], self.offsets[sequence] + self.counts[sequence])
        ids = self.tokens["token_id"].to_numpy()[rows].tolist()
        return b"".join(self._entry(token_id).bytes or b"" for token_id in ids)

    def _entry(self, token_id: int) -> VocabularyEntry:
        if token_id not in self.vocabulary:
            raise DataFault(f"token id {token_id} is not in the run's vocabulary: run toolkit validate")
        return self.vocabulary[token_id]


def back_to_back(counts: NDArray[np.int64]) -> Ranges:
    """Ranges of these lengths, one after another from row 0."""
    ends = np.cumsum(counts)
    return Ranges(ends - counts, ends)


def read_blocks(
    run: Run,
    inputs: set[str],
    selection: Selection,
    *,
    whole: bool = False,
    include_end: bool = True,
    segments: bool = True,
) -> Iterator[Block]:
    """Go through the selected sequences of a run, a row group at a time.

    Parameters
    ----------
    inputs : set of str
        Columns of the tokens table; `ALTERNATIVES` reads their table too.
    whole : bool
        Hold all selected sequences of a prompt in one block: as many prompts at a time as have about
        `WHOLE_TOKENS` tokens, in the order of their ids.
    include_end : bool
        Whether end tokens take part.
    segments : bool
        Read the segments too; without, there are none.
    """
    left_out = {
        name for name, read in (("alternatives", ALTERNATIVES in inputs), ("segments", segments)) if not read
    }
    wanted = {name: columns for name, columns in _COLUMNS.items() if name not in left_out}
    wanted["tokens"] = [*wanted["tokens"], *sorted(inputs - {ALTERNATIVES})]
    for rows in _read_ahead(_groups(run, wanted, selection, whole)):
        chosen = {name: _of_samples(table, selection.samples) for name, table in rows.items()}
        if chosen["sequences"].num_rows:
            yield Block(chosen, inputs, run.vocabulary, include_end)


def empty_block(inputs: set[str]) -> Block:
    """A block of no sequences."""
    columns = {**_COLUMNS, "tokens": [*_COLUMNS["tokens"], *sorted(inputs - {ALTERNATIVES})]}
    rows = {name: TABLES[name].schema.empty_table().select(names) for name, names in columns.items()}
    return Block(rows, inputs, {}, True)


def _read_ahead(groups: Generator[Rows, None, None]) -> Iterator[Rows]:
    """The same row groups, the next of them read in a thread while one is used."""
    try:
        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(next, groups, None)
            while (rows := coming.result()) is not None:
                coming = thread.submit(next, groups, None)
                yield rows
    finally:
        groups.close()


def _groups(
    run: Run, wanted: dict[str, list[str]], selection: Selection, whole: bool
) -> Generator[Rows, None, None]:
    if not whole:
        yield from run.iter_groups(wanted, selection.prompts, selection.kinds)
        return
    for prompts in prompt_groups(run, selection):
        yield {name: run.load(name, columns, prompts, selection.kinds) for name, columns in wanted.items()}


def prompt_groups(run: Run, selection: Selection) -> Iterator[Sequence[str]]:
    """The ids of the prompts that are held together where prompts are read whole, in order."""
    rows = run.load("sequences", ["prompt_id", "n_tokens"], selection.prompts, selection.kinds)
    totals = rows.cast(pa.schema([("prompt_id", pa.string()), ("n_tokens", pa.int64())]))
    totals = totals.group_by("prompt_id").aggregate([("n_tokens", "sum")]).sort_by("prompt_id")
    ids = totals["prompt_id"].to_pylist()
    for first, last in cuts(totals["n_tokens_sum"].to_numpy(), WHOLE_TOKENS):
        yield ids[first:last]


def _of_samples(table: pa.Table, samples: Sequence[int] | None) -> pa.Table:
    if samples is None:
        return table
    return table.filter(pc.is_in(table["sample_index"], value_set=pa.array(samples, pa.int32())))


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Null as NaN."""
    return column.cast(pa.float64()).to_numpy()
