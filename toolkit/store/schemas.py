"""What each table holds: columns, types, units, encodings, keys and sort order, as data.

Knows nothing of folders or records. The page of the documentation that lists the columns is made from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = "1.1"
"""MAJOR.MINOR. A reader reads every minor version of its major version, and refuses other majors.

1.1 has the table watched.
"""

ROW_GROUP_TOKENS = 1 << 17
"""A row group is closed when the next sequence would take it past this many tokens (or rows)."""

Encoding = Literal["dictionary", "delta", "split", "plain"]

_PARQUET_ENCODINGS = {"delta": "DELTA_BINARY_PACKED", "split": "BYTE_STREAM_SPLIT", "plain": "PLAIN"}


@dataclass(frozen=True)
class Column:
    """A column of a table. `unit` is empty where there is none; `nullable` says that null has a meaning."""

    name: str
    type: pa.DataType
    description: str
    unit: str = ""
    nullable: bool = False
    encoding: Encoding = "plain"


@dataclass(frozen=True)
class Table:
    """A table: its key comes first among its columns, and rows are sorted by `order`."""

    name: str
    row: str  # what one row is
    key: tuple[str, ...]
    position: tuple[str, ...]  # orders the rows of one key
    columns: tuple[Column, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that rows are sorted by: the key, then the position."""
        return self.key + self.position

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, without metadata."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def metadata(self) -> dict[str, str]:
        """What is written into a file's metadata."""
        return {
            "toolkit.table": self.name,
            "toolkit.schema_version": SCHEMA_VERSION,
            "toolkit.sort_order": ",".join(self.order),
        }

    @property
    def writer_options(self) -> dict[str, Any]:
        """Arguments of `pyarrow.parquet.ParquetWriter`.

        Minima and maxima are kept for the sort columns only, and the Arrow schema is left out (every type
        here is one of Parquet's own): in a small file the two would weigh more than the rows.
        """
        paths = {column.name: _leaf(column) for column in self.columns}
        return {
            "compression": "zstd",
            "compression_level": 3,
            "use_dictionary": [paths[c.name] for c in self.columns if c.encoding == "dictionary"],
            "column_encoding": {
                paths[c.name]: _PARQUET_ENCODINGS[c.encoding]
                for c in self.columns
                if c.encoding != "dictionary" and c.type != pa.bool_()
            },
            "write_page_checksum": True,
            "write_statistics": list(self.order),
            "store_schema": False,
            "sorting_columns": pq.SortingColumn.from_ordering(
                self.schema, [(name, "ascending") for name in self.order]
            ),
        }


def _leaf(column: Column) -> str:
    return f"{column.name}.list.element" if pa.types.is_list(column.type) else column.name


def _list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item, nullable=False))


def _id(name: str, description: str, type_: pa.DataType | None = None, **more: Any) -> Column:
    return Column(name, pa.int32() if type_ is None else type_, description, encoding="dictionary", **more)


def _position(name: str, description: str, unit: str = "index") -> Column:
    return Column(name, pa.int32(), description, unit, encoding="delta")


def _float(name: str, description: str, unit: str = "nats", nullable: bool = True) -> Column:
    return Column(name, pa.float32(), description, unit, nullable, "split")


def _double(name: str, description: str, unit: str = "nats", nullable: bool = True) -> Column:
    return Column(name, pa.float64(), description, unit, nullable, "split")


def _text(name: str, description: str, nullable: bool = False) -> Column:
    return Column(name, pa.string(), description, nullable=nullable)


def _flag(name: str, description: str) -> Column:
    return Column(name, pa.bool_(), description)


_PROMPT_KEY = (_id("prompt_id", "the user's id, else a hash of the rendered prompt", pa.string()),)
_SEQUENCE_KEY = (
    *_PROMPT_KEY,
    _id("kind", "how the sequence came about: sample, greedy, beam or scored", pa.string()),
    _id("sample_index", "number of the sequence among those of its prompt and kind, from 0", unit="index"),
)
_KEY = ("prompt_id", "kind", "sample_index")

_IDENTITY = (
    _position("token_index", "place of the token in its sequence, from 0"),
    _id("token_id", "the token's id in the vocabulary"),
    _id("bytes", "the token's bytes; null for a special token", pa.binary(), nullable=True),
    _position("byte_start", "where its bytes begin among those of the sequence", "bytes"),
    _position("byte_end", "where they end (half-open)", "bytes"),
    _flag("is_special", "an end token or turn marker: it has no bytes and is in no segment"),
)
_STATISTICS = (
    _float("constrained_logprob", "after logits processors and grammar masks; null where there are none"),
    _float(
        "sampling_logprob",
        "under the distribution that the token was drawn from (temperature, top-k, top-p, min-p); "
        "null where nothing was drawn",
    ),
    _id("rank", "1 + the number of logits strictly greater", unit="rank", nullable=True),
    _float("entropy", "of the whole vocabulary"),
    _float("varentropy", "variance of the log-probability over the whole vocabulary", "nats²"),
    _float("logsumexp", "of the logits"),
    _float("mean_logit", "mean of the finite logits"),
    _id("n_finite", "number of finite logits", unit="tokens", nullable=True),
    _float("lse_half", "logsumexp of the logits over 2"),
    _float("lse_quarter", "logsumexp of the logits over 4"),
    _float("top1_logprob", "of the most likely token"),
    _float("top2_logprob", "of the second most likely token"),
    _float("top15_entropy", "entropy of the 15 most likely, renormalised"),
    _float("top20_mean_logprob", "mean log-probability of the 20 most likely"),
    _float(
        "boosted_prob", "mass of the dominant set if the token is in it, else its probability", "probability"
    ),
)

PROMPTS = Table(
    "prompts",
    "a prompt",
    ("prompt_id",),
    (),
    (
        *_PROMPT_KEY,
        _position("prompt_index", "its place in the prompt file, from 0"),
        _text("text", "as rendered by the chat template"),
        _text(
            "messages", "the messages it was rendered from, as JSON; null where it was given as text", True
        ),
        Column("token_ids", _list_of(pa.int32()), "the ids that the model was given", encoding="dictionary"),
        _position("n_tokens", "number of token_ids", "tokens"),
        Column("reference", _list_of(pa.string()), "right answers, any of them; may be empty"),
        _text("metadata", "what else the prompt file said, as a JSON object"),
    ),
)

SEQUENCES = Table(
    "sequences",
    "a continuation of a prompt",
    _KEY,
    (),
    (
        *_SEQUENCE_KEY,
        _text("text", "the first n_bytes of its bytes, decoded as UTF-8 with the standard replacement"),
        _position("n_bytes", "bytes kept: all, unless a stop string cut the text", "bytes"),
        _position("n_tokens", "rows in tokens, the end token and those past n_bytes included", "tokens"),
        _flag("has_end", "the last token is an end token"),
        _id("finish_reason", "stop, length, context, error or cancelled", pa.string()),
        _id(
            "stop_reason", "the end token's literal, the stop string or the error", pa.string(), nullable=True
        ),
        _double("sum_logprob", "sum over all its tokens, the end token included", nullable=False),
        _double(
            "sum_sampling_logprob", "the same of sampling_logprob; null where a token has none", nullable=True
        ),
        _double("beam_score", "the score that beam search ranked it by; null elsewhere", "score"),
        Column("seed", pa.int64(), "of the run that drew it; null where nothing was drawn", "", True),
    ),
)

SEGMENTS = Table(
    "segments",
    "a segment: text released together while streaming",
    _KEY,
    ("segment_index",),
    (
        *_SEQUENCE_KEY,
        _position("segment_index", "place of the segment in its sequence, from 0"),
        _text("text", "its text; segments joined are the sequence's text"),
        _position("byte_start", "where it begins among the bytes of the sequence", "bytes"),
        _position("byte_end", "where it ends (half-open)", "bytes"),
        _position("char_start", "where it begins in the sequence's text", "characters"),
        _position("char_end", "where it ends (half-open)", "characters"),
        _position("token_start", "the first token with a byte in it"),
        _position("token_end", "one past the last token with a byte in it; neighbours may overlap"),
        _position("emitted_at", "index of the token whose arrival released it"),
    ),
)

TOKENS = Table(
    "tokens",
    "a token of a sequence",
    _KEY,
    ("token_index",),
    (
        *_SEQUENCE_KEY,
        *_IDENTITY,
        _float("logprob", "of the token, from the untouched logits", nullable=False),
        *_STATISTICS,
    ),
)

ALTERNATIVES = Table(
    "alternatives",
    "a likely token at a position of a sequence",
    _KEY,
    ("token_index", "alternative_rank"),
    (
        *_SEQUENCE_KEY,
        _position("token_index", "the position, from 0"),
        _position("alternative_rank", "1 is the most likely", "rank"),
        _id("token_id", "the likely token; its bytes are in vocabulary"),
        _float("logprob", "from the untouched logits; finite", nullable=False),
    ),
)

WATCHED = Table(
    "watched",
    "a watched token at a position of a sequence, where asked for",
    _KEY,
    ("token_index", "token_id"),
    (
        *_SEQUENCE_KEY,
        _position("token_index", "the position, from 0"),
        _id("token_id", "the watched token, however unlikely there; its bytes are in vocabulary"),
        _float("logprob", "from the untouched logits; -inf where it is masked out", nullable=False),
        Column("rank", pa.int32(), "1 + the number of logits strictly greater", "rank"),
    ),
)

PROMPT_TOKENS = Table(
    "prompt_tokens",
    "a token of a prompt, where asked for",
    ("prompt_id",),
    ("token_index",),
    (
        *_PROMPT_KEY,
        *_IDENTITY,
        _float("logprob", "given the tokens before it; null for the first, which has none before it"),
        *_STATISTICS,
    ),
)

VOCABULARY = Table(
    "vocabulary",
    "a token id that occurs in the run",
    ("token_id",),
    (),
    (
        _id("token_id", "the id"),
        _id("bytes", "its bytes; null for a special token", pa.binary(), nullable=True),
        _text("literal", "what a person reads: <|im_end|>, say"),
        _flag("is_special", "it has no bytes and is in no segment"),
    ),
)

GRADES = Table(
    "grades",
    "a judgement of a span",
    _KEY,
    ("span_start", "span_end", "span_kind", "grader", "config_hash"),
    (
        *_SEQUENCE_KEY,
        _id("span_kind", "what was judged: sequence, field, ...", pa.string()),
        _position("span_start", "where the span begins in the sequence's text", "characters"),
        _position("span_end", "where it ends (half-open)", "characters"),
        _id("grader", "name of the grader", pa.string()),
        _id("config_hash", "hash of the grader's settings", pa.string()),
        _double("value", "0 is wrong, 1 is right; null where it cannot be judged", "0 to 1"),
        _text("extracted", "the answer that was read from the span", nullable=True),
    ),
)

SIMILARITIES = Table(
    "similarities",
    "how alike two sequences of a prompt are, written beside the run",
    ("prompt_id",),
    ("name", "first_kind", "first_index", "second_kind", "second_index"),
    (
        *_PROMPT_KEY,
        _id("name", "what they are stored as: model, embeddings, file or a name of the user's", pa.string()),
        _id("first_kind", "kind of that of the two which comes first in the order of the key", pa.string()),
        _id("first_index", "its sample_index", unit="index"),
        _id("second_kind", "kind of the other", pa.string()),
        _id("second_index", "its sample_index", unit="index"),
        _double("value", "1 says the same, 0 has nothing in common", "0 to 1", nullable=False),
    ),
)

CHOICES = Table(
    "choices",
    "a choice of a question, with its scores; written beside the run",
    _KEY,
    (),
    (
        *_SEQUENCE_KEY,
        _id("letter", "the letter that stood before it, in the order of the question", pa.string()),
        _double(
            "letter_logprob",
            "of its letter after the prompt that lists the choices; of several orders, the log of the mean "
            "probability",
        ),
        _double("sum_logprob", "of its text after the question; null where the logits were not finite"),
        _double("mean_logprob", "sum_logprob over the number of its tokens"),
        _double("byte_logprob", "sum_logprob over the number of its bytes"),
        _double("bare_logprob", "of its text after a prompt without the question"),
        _double("pmi", "sum_logprob - bare_logprob"),
        _double(
            "p_letter",
            "softmax of letter_logprob over the choices; of several orders the mean",
            "probability",
        ),
        _double("p_sum", "softmax of sum_logprob over the choices", "probability"),
        _double("p_mean", "softmax of mean_logprob over the choices", "probability"),
        _double("p_byte", "softmax of byte_logprob over the choices", "probability"),
        _double("p_pmi", "softmax of pmi over the choices", "probability"),
    ),
)

TRUTHS = Table(
    "truths",
    "an answer that a model was asked about, whether it is true; written beside the run",
    _KEY,
    (),
    (
        *_SEQUENCE_KEY,
        _double("p_true", "probability of True over True and False", "probability"),
        _double("mass", "probability of True and False together, over the whole vocabulary", "probability"),
        _double(
            "p_true_with_samples",
            "p_true with samples of the prompt shown before; null where there are none",
            "probability",
        ),
        _double("mass_with_samples", "mass with samples shown before", "probability"),
        _id("n_shown", "number of samples that were shown", unit="samples"),
    ),
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        *(PROMPTS, SEQUENCES, SEGMENTS, TOKENS, ALTERNATIVES, WATCHED, PROMPT_TOKENS, VOCABULARY),
        *(GRADES, SIMILARITIES, CHOICES, TRUTHS),
    )
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "sequences": ("tokens", "segments", "alternatives", "watched", "sequences"),
    "prompts": ("prompts",),
    "prompt_tokens": ("prompt_tokens",),
    "vocabulary": ("vocabulary",),
    "grades": ("grades",),
    "similarities": ("similarities",),
    "choices": ("choices",),
    "truths": ("truths",),
}
"""Tables that are committed together. The last one has the group's name; its file is the commit point."""

OPTIONAL = frozenset({"watched"})
"""Tables that a run may lack: its manifest names those that it has, and then each part has a file in them."""

GROUP_OF: Mapping[str, str] = {table: group for group, tables in GROUPS.items() for table in tables}
