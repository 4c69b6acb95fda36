"""Records to rows. `restore` goes back.

In memory NaN is "not computed", as is a rank or a count of finite logits below 1; stored, it is null.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.records import (
    FINISH_REASONS,
    KINDS,
    PromptRecord,
    Segment,
    SequenceRecord,
    TokenStatistics,
)
from toolkit.store.blocks import Block, single_block
from toolkit.store.schemas import ALTERNATIVES, PROMPT_TOKENS, SEGMENTS, SEQUENCES, TOKENS, WATCHED, Table

SCALARS = tuple(name for name in TokenStatistics._fields if not name.startswith(("alternative", "watched")))
COUNTS = ("rank", "n_finite")  # integers, null where below 1


class PromptTokens(NamedTuple):
    """The tokens of a prompt with their statistics; those of the first token are not computed."""

    prompt_id: str
    token_ids: NDArray[np.int32]  # (n,)
    pieces: Sequence[bytes | None]
    statistics: TokenStatistics  # of n tokens


class VocabularyEntry(NamedTuple):
    """What an id stands for."""

    bytes: bytes | None
    literal: str
    is_special: bool


def sequence_block(records: Sequence[SequenceRecord], optional: Collection[str] = ()) -> Block:
    """Rows of `records`, which are sorted by key, for the tables of the sequences group.

    Parameters
    ----------
    records : sequence of SequenceRecord
    optional : collection of str
        Those of `schemas.OPTIONAL` that the run has.

    Raises
    ------
    ValueError
        The fields of a record do not fit together, a value is NaN where null has no meaning, or tokens are
        watched in a run that has no table for them.
    """
    for record in records:
        _check_record(record)
    alternatives = [_alternative_rows(record) for record in records]
    counts = {
        "tokens": np.array([len(r.token_ids) for r in records], np.int64),
        "segments": np.array([len(r.alignment.segments) for r in records], np.int64),
        "alternatives": np.array([len(rows["token_id"]) for rows in alternatives], np.int64),
        "sequences": np.ones(len(records), np.int64),
    }
    rows = {
        "tokens": _token_table(records, counts["tokens"]),
        "segments": _segment_table(records, counts["segments"]),
        "alternatives": _rows_table(ALTERNATIVES, records, alternatives, counts["alternatives"]),
        "sequences": _sequence_table(records),
    }
    watched = [_watched_rows(record) for record in records]
    if "watched" in optional:
        counts["watched"] = np.array([len(own["token_id"]) for own in watched], np.int64)
        rows["watched"] = _rows_table(WATCHED, records, watched, counts["watched"])
    elif any(len(own["token_id"]) for own in watched):
        raise ValueError("tokens are watched, and the run's manifest does not name the table watched")
    return Block(rows, counts)


def prompt_block(records: Sequence[PromptRecord]) -> Block:
    """Rows of `records`, which are sorted by id, for the table prompts."""
    return single_block(
        "prompts",
        {
            "prompt_id": [r.prompt_id for r in records],
            "prompt_index": [r.prompt_index for r in records],
            "text": [r.text for r in records],
            "messages": [None if r.messages is None else _json(r.messages) for r in records],
            "token_ids": [np.asarray(r.token_ids, np.int32) for r in records],
            "n_tokens": [len(r.token_ids) for r in records],
            "reference": [list(r.reference) for r in records],
            "metadata": [_json(r.metadata) for r in records],
        },
    )


def prompt_token_block(prompts: Sequence[PromptTokens]) -> Block:
    """Rows of `prompts`, which are sorted by id, for the table prompt_tokens."""
    counts = np.array([len(p.token_ids) for p in prompts], np.int64)
    columns: dict[str, Any] = {"prompt_id": _repeat([p.prompt_id for p in prompts], counts)}
    ends = [byte_ends(p.pieces) for p in prompts]
    columns |= _identity_columns([p.token_ids for p in prompts], [p.pieces for p in prompts], ends, counts)
    columns |= _statistics_columns([p.statistics for p in prompts])
    rows = pa.table(columns, schema=PROMPT_TOKENS.schema)
    return Block({"prompt_tokens": rows}, {"prompt_tokens": counts})


def vocabulary_block(entries: Mapping[int, tuple[bytes | None, str, bool]]) -> Block:
    """Rows of `entries`, which are sorted by id, for the table vocabulary."""
    pieces, literals, special = zip(*entries.values(), strict=True)
    columns = {"token_id": list(entries), "bytes": pieces, "literal": literals, "is_special": special}
    return single_block("vocabulary", {name: list(values) for name, values in columns.items()})


def byte_ends(pieces: Iterable[bytes | None]) -> NDArray[np.int32]:
    """Where each piece ends among the bytes of all, shape (n,); a special token (None) has none."""
    return np.fromiter(accumulate(len(piece or b"") for piece in pieces), np.int32)


def _check_record(record: SequenceRecord) -> None:
    n = len(record.token_ids)
    alignment = record.alignment
    lengths = {name: len(values) for name, values in record.statistics._asdict().items()}
    lengths |= {"pieces": len(alignment.pieces), "byte_start": len(alignment.byte_start)}
    wrong = [f"{name} has {length}" for name, length in lengths.items() if length != n]
    if wrong:
        raise ValueError(f"sequence {record.key} has {n} tokens, but {', '.join(wrong)}")
    if record.kind not in KINDS or record.finish_reason not in FINISH_REASONS or record.sample_index < 0:
        raise ValueError(
            f"sequence {record.key}: its key or finish_reason {record.finish_reason} is not allowed"
        )
    if np.isnan(record.statistics.logprob).any():
        raise ValueError(f"sequence {record.key}: logprob of a token is NaN; NaN is never stored")


def _sequence_table(records: Sequence[SequenceRecord]) -> pa.Table:
    sampling = [_sum(r.statistics.sampling_logprob) for r in records]
    columns = {
        **_key_columns(records, None),
        "text": [r.alignment.text for r in records],
        "n_bytes": [r.alignment.n_bytes for r in records],
        "n_tokens": [len(r.token_ids) for r in records],
        "has_end": [r.has_end for r in records],
        "finish_reason": [r.finish_reason for r in records],
        "stop_reason": [r.stop_reason for r in records],
        "sum_logprob": [_sum(r.statistics.logprob) for r in records],
        "sum_sampling_logprob": pa.array(sampling, pa.float64(), from_pandas=True),
        "beam_score": pa.array([r.beam_score for r in records], pa.float64(), from_pandas=True),
        "seed": [r.seed for r in records],
    }
    return pa.table(columns, schema=SEQUENCES.schema)


def _sum(values: NDArray[np.float32]) -> float:
    return float(np.sum(values, dtype=np.float64))


def _token_table(records: Sequence[SequenceRecord], counts: NDArray[np.int64]) -> pa.Table:
    columns = _key_columns(records, counts)
    columns |= _identity_columns(
        [r.token_ids for r in records],
        [r.alignment.pieces for r in records],
        [r.alignment.byte_end for r in records],
        counts,
    )
    columns["byte_start"] = np.concatenate([r.alignment.byte_start for r in records]).astype(np.int32)
    columns |= _statistics_columns([r.statistics for r in records])
    return pa.table(columns, schema=TOKENS.schema)


def _segment_table(records: Sequence[SequenceRecord], counts: NDArray[np.int64]) -> pa.Table:
    columns = _key_columns(records, counts) | {"segment_index": _within(counts)}
    segments = [segment for record in records for segment in record.alignment.segments]
    columns |= {name: [getattr(segment, name) for segment in segments] for name in Segment._fields}
    return pa.table(columns, schema=SEGMENTS.schema)


def _alternative_rows(record: SequenceRecord) -> dict[str, NDArray[Any]]:
    """Finite alternatives only: what is masked out, or fills up a row, is no alternative."""
    ids, logprobs = record.statistics.alternative_ids, record.statistics.alternative_logprobs
    if np.isnan(logprobs[ids >= 0]).any():
        raise ValueError(f"sequence {record.key}: logprob of an alternative is NaN; NaN is never stored")
    token, rank = np.nonzero(np.isfinite(logprobs))
    return {
        "token_index": token.astype(np.int32),
        "alternative_rank": rank.astype(np.int32) + 1,
        "token_id": ids[token, rank].astype(np.int32),
        "logprob": logprobs[token, rank].astype(np.float32),
    }


def _watched_rows(record: SequenceRecord) -> dict[str, NDArray[Any]]:
    """Where they were looked at only; a masked token is -inf there."""
    s = record.statistics
    ids, logprobs, ranks = s.watched_ids, s.watched_logprobs, s.watched_ranks
    if (np.diff(ids, axis=1) <= 0).any():
        raise ValueError(f"sequence {record.key}: watched tokens are not in the order of their ids")
    token, place = np.nonzero(~np.isnan(logprobs))
    return {
        "token_index": token.astype(np.int32),
        "token_id": ids[token, place].astype(np.int32),
        "logprob": logprobs[token, place].astype(np.float32),
        "rank": ranks[token, place].astype(np.int32),
    }


def _rows_table(
    table: Table,
    records: Sequence[SequenceRecord],
    rows: Sequence[Mapping[str, NDArray[Any]]],
    counts: NDArray[np.int64],
) -> pa.Table:
    """The rows of each record one after the other, with its key."""
    columns = _key_columns(records, counts)
    columns |= {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return pa.table(columns, schema=table.schema)


def _key_columns(records: Sequence[SequenceRecord], counts: NDArray[np.int64] | None) -> dict[str, Any]:
    keys = {
        "prompt_id": pa.array([r.prompt_id for r in records], pa.string()),
        "kind": pa.array([r.kind for r in records], pa.string()),
        "sample_index": pa.array([r.sample_index for r in records], pa.int32()),
    }
    return keys if counts is None else {name: _repeat(values, counts) for name, values in keys.items()}


def _repeat(values: Any, counts: NDArray[np.int64]) -> pa.Array:
    return pa.array(values).take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def _within(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """0, 1, ... within each sequence: shape (sum of counts,)."""
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return (np.arange(len(starts)) - starts).astype(np.int32)


def _identity_columns(
    ids: Sequence[NDArray[np.int32]],
    pieces: Sequence[Sequence[bytes | None]],
    ends: Sequence[NDArray[np.int32]],
    counts: NDArray[np.int64],
) -> dict[str, Any]:
    flat = [piece for some in pieces for piece in some]
    stop = np.concatenate(ends).astype(np.int32)
    lengths = np.fromiter((len(piece or b"") for piece in flat), np.int32, len(flat))
    return {
        "token_index": _within(counts),
        "token_id": np.concatenate(ids).astype(np.int32),
        "bytes": pa.array(flat, pa.binary()),
        "byte_start": stop - lengths,
        "byte_end": stop,
        "is_special": np.fromiter((piece is None for piece in flat), bool, len(flat)),
    }


def _statistics_columns(parts: Sequence[TokenStatistics]) -> dict[str, pa.Array]:
    columns = {}
    for name in SCALARS:
        values = np.concatenate([getattr(part, name) for part in parts])
        if name in COUNTS:
            columns[name] = pa.array(values.astype(np.int32), mask=values < 1)
        else:
            columns[name] = pa.array(values.astype(np.float32), from_pandas=True)
    return columns


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
