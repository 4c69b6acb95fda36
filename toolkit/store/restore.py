"""Rows back to records: the inverse of `rows`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import DataFault
from toolkit.records import Alignment, Segment, SequenceRecord, TokenStatistics, unwatched
from toolkit.store.blocks import Rows
from toolkit.store.keys import match_rows
from toolkit.store.rows import COUNTS, SCALARS

_HEAD = ("prompt_id", "kind", "sample_index", "has_end", "finish_reason", "stop_reason", "beam_score", "seed")


def sequence_records(rows: Rows) -> Iterator[SequenceRecord]:
    """The records whose rows these are.

    Alternatives of a sequence come as wide as its widest position; others are filled with id -1 and -inf.
    Watched tokens that were not looked at are NaN, with rank 0.

    Parameters
    ----------
    rows : mapping of str to pyarrow.Table
        The same row group of tokens, segments, alternatives, watched and sequences, all columns.

    Raises
    ------
    DataFault
        A row belongs to no sequence of the row group.
    """
    heads = rows["sequences"].to_pylist()
    tokens = _arrays(rows["tokens"].select([*SCALARS, "token_id", "byte_start", "byte_end"]))
    pieces = rows["tokens"]["bytes"].to_pylist()
    segments = _segments(rows["segments"])
    alternatives = _arrays(rows["alternatives"].drop_columns(["prompt_id", "kind"]))
    watched = _arrays(rows["watched"].drop_columns(["prompt_id", "kind"]))
    token_at, segment_at, alternative_at, watched_at = (
        _starts(rows[name], rows["sequences"], name)
        for name in ("tokens", "segments", "alternatives", "watched")
    )
    for index, head in enumerate(heads):
        here = slice(*token_at[index : index + 2])
        own = {name: values[here] for name, values in tokens.items()}
        likely = {
            name: values[slice(*alternative_at[index : index + 2])] for name, values in alternatives.items()
        }
        seen = {name: values[slice(*watched_at[index : index + 2])] for name, values in watched.items()}
        yield SequenceRecord(
            token_ids=own["token_id"],
            statistics=_statistics(own, likely, seen),
            alignment=Alignment(
                tuple(pieces[here]),
                own["byte_start"],
                own["byte_end"],
                head["text"],
                head["n_bytes"],
                tuple(segments[slice(*segment_at[index : index + 2])]),
            ),
            **{name: head[name] for name in _HEAD},
        )


def _starts(rows: pa.Table, sequences: pa.Table, name: str) -> NDArray[np.int64]:
    """Where the rows of each sequence begin, and after the last one where they end: (sequences + 1,)."""
    owner = match_rows(rows, sequences)
    if (np.diff(owner, prepend=0) < 0).any():
        raise DataFault(f"rows of {name} are out of order or belong to no sequence: run `toolkit validate`")
    return np.searchsorted(owner, np.arange(sequences.num_rows + 1))


def _statistics(
    own: Mapping[str, NDArray[Any]], likely: Mapping[str, NDArray[Any]], seen: Mapping[str, NDArray[Any]]
) -> TokenStatistics:
    n, k = len(own["logprob"]), int(likely["alternative_rank"].max(initial=0))
    ids, logprobs = np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32)
    place = likely["token_index"], likely["alternative_rank"] - 1
    ids[place], logprobs[place] = likely["token_id"], likely["logprob"]
    scalars = {name: own[name] for name in SCALARS}
    watched_ids, column = np.unique(seen["token_id"], return_inverse=True)
    watched = unwatched(n, watched_ids)
    at = seen["token_index"], column
    watched["watched_logprobs"][at], watched["watched_ranks"][at] = seen["logprob"], seen["rank"]
    return TokenStatistics(**scalars, alternative_ids=ids, alternative_logprobs=logprobs, **watched)


def _segments(rows: pa.Table) -> list[Segment]:
    columns = (rows[name].to_pylist() for name in Segment._fields)
    return [Segment(*values) for values in zip(*columns, strict=True)]


def _arrays(rows: pa.Table) -> dict[str, NDArray[Any]]:
    """Columns as arrays: null is NaN among floats and 0 among counts."""
    return {
        name: (rows[name].fill_null(0) if name in COUNTS else rows[name]).to_numpy()
        for name in rows.column_names
    }
