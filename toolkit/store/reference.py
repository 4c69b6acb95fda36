"""The tables of a run for people: `python -m toolkit.store.reference docs/format.md` puts them into that page.

What a column is, its type, unit and null come from `schemas`; ranges follow from units and names; a value of each
is shown, so that a reader sees what it looks like.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from toolkit.records import FINISH_REASONS, KINDS
from toolkit.store.schemas import GROUP_OF, GROUPS, OPTIONAL, SCHEMA_VERSION, TABLES, Column, Table

BEGIN = "<!-- Made by python -m toolkit.store.reference docs/format.md: change toolkit/store/schemas.py -->"
END = "<!-- until here -->"

WORDS: Mapping[str, tuple[str, ...]] = {
    "kind": KINDS,
    "first_kind": KINDS,
    "second_kind": KINDS,
    "finish_reason": FINISH_REASONS,
}
"""Columns of texts that hold one of a few words."""


class Range(NamedTuple):
    """The values that a number may have; None is no bound."""

    low: float | None
    high: float | None
    text: str


_PROBABILITY = Range(0, 1, "[0, 1]")
_LOGPROB = Range(None, 0, "[−∞, 0]")
_COUNT = Range(0, None, "[0, ∞)")
_ORDINAL = Range(1, None, "[1, ∞)")
_ANY = Range(None, None, "(−∞, ∞)")
_OF_UNIT = {
    "probability": _PROBABILITY,
    "0 to 1": _PROBABILITY,
    "rank": _ORDINAL,
    "nats²": _COUNT,
    **dict.fromkeys(("index", "bytes", "characters", "tokens", "samples"), _COUNT),
}
_OF_NAME = {"token_id": _COUNT, "n_finite": _ORDINAL, "seed": _COUNT}
_NULL = {
    "stop_reason": "where there is none",
    "beam_score": "without beam search",
    "extracted": "where nothing was read",
}

EXAMPLES: Mapping[str, Any] = {
    "prompt_id": "capital-france",
    "kind": "sample",
    "sample_index": 0,
    "prompt_index": 61,
    "text": "Paris.",
    "prompts.text": "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "segments.text": "Par",
    "messages": '[{"content": "What is the capital of France?", "role": "user"}]',
    "token_ids": [1, 4093, 198, 1780],
    "n_tokens": 4,
    "reference": ["Paris"],
    "metadata": '{"continent": "Europe"}',
    "n_bytes": 6,
    "has_end": True,
    "finish_reason": "stop",
    "stop_reason": "<|im_end|>",
    "sum_logprob": -1.625,
    "sum_sampling_logprob": -1.375,
    "beam_score": -0.40625,
    "seed": 0,
    "segment_index": 0,
    "byte_start": 0,
    "byte_end": 3,
    "char_start": 0,
    "char_end": 3,
    "token_start": 0,
    "token_end": 1,
    "emitted_at": 0,
    "token_index": 0,
    "token_id": 7332,
    "bytes": b"Par",
    "is_special": False,
    "logprob": -0.5,
    "constrained_logprob": -0.25,
    "sampling_logprob": -0.375,
    "rank": 1,
    "watched.rank": 812,
    "watched.logprob": -9.25,
    "entropy": 1.75,
    "varentropy": 2.5,
    "logsumexp": 21.5,
    "mean_logit": 3.25,
    "n_finite": 49152,
    "lse_half": 14.75,
    "lse_quarter": 13.25,
    "top1_logprob": -0.5,
    "top2_logprob": -2.25,
    "top15_entropy": 1.25,
    "top20_mean_logprob": -5.5,
    "boosted_prob": 0.625,
    "alternative_rank": 1,
    "literal": "Par",
    "span_kind": "sequence",
    "span_start": 0,
    "span_end": 6,
    "grader": "contains",
    "config_hash": "6977a732fb3a8201",
    "value": 1.0,
    "extracted": "Paris.",
    "name": "model",
    "first_kind": "greedy",
    "first_index": 0,
    "second_kind": "sample",
    "second_index": 3,
    "letter": "B",
    "letter_logprob": -0.75,
    "mean_logprob": -0.8125,
    "byte_logprob": -0.25,
    "bare_logprob": -7.5,
    "pmi": 5.875,
    "p_letter": 0.5,
    "p_sum": 0.75,
    "p_mean": 0.625,
    "p_byte": 0.5,
    "p_pmi": 0.875,
    "p_true": 0.75,
    "mass": 0.9375,
    "p_true_with_samples": 0.8125,
    "mass_with_samples": 0.96875,
    "n_shown": 8,
}
"""A value of each column, by its name, or by table and name where it differs."""


def example(table: Table, column: Column) -> Any:
    """A value that the column may have.

    Raises
    ------
    KeyError
        There is none: a new column needs one in `EXAMPLES`.
    """
    own = f"{table.name}.{column.name}"
    return EXAMPLES[own] if own in EXAMPLES else EXAMPLES[column.name]


def allowed(column: Column) -> Range | None:
    """The range of a number, or of those in a list; None for what is no number."""
    kind = column.type.value_type if pa.types.is_list(column.type) else column.type
    if column.name == "token_ids":
        return _COUNT
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return None
    if column.name in _OF_NAME:
        return _OF_NAME[column.name]
    if column.name.endswith("logprob"):
        return _LOGPROB
    if column.name.endswith("entropy"):
        return _COUNT
    return _OF_UNIT.get(column.unit, _ANY)


def section() -> str:
    """All tables as Markdown, between the marks."""
    lines = [BEGIN, f"Schema version {SCHEMA_VERSION}.", "", *_overview(), ""]
    for table in TABLES.values():
        lines += _table(table)
    return "\n".join([*lines, END])


def updated(page: str) -> str:
    """The page with the tables in it as they are now.

    Raises
    ------
    ValueError
        It has not both marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no place for the tables: write {BEGIN} and {END} into it")
    return f"{before}{section()}{after}"


def _overview() -> Iterator[str]:
    yield "| table | one row is | key, then position | committed with |"
    yield "|---|---|---|---|"
    for table in TABLES.values():
        names = f"{', '.join(table.key)}" + (f"; {', '.join(table.position)}" if table.position else "")
        group = [name for name in GROUPS[GROUP_OF[table.name]] if name != table.name]
        yield f"| [{table.name}](#{table.name}) | {table.row} | {names} | {', '.join(group) or '-'} |"


def _table(table: Table) -> Iterator[str]:
    yield f"### {table.name}"
    yield ""
    optional = " A run may lack it: `tables` of the manifest names it." if table.name in OPTIONAL else ""
    yield f"One row is {table.row}.{optional} Sorted by {', '.join(table.order)}."
    yield ""
    yield "| column | type | unit | null | range | example | what it is |"
    yield "|---|---|---|---|---|---|---|"
    for column in table.columns:
        null, what = _null(column)
        cells = (
            f"`{column.name}`",
            _type(column.type),
            column.unit or "-",
            null,
            _range(column),
            _shown(example(table, column)),
            what,
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _null(column: Column) -> tuple[str, str]:
    """What null means, and the description without it."""
    if not column.nullable:
        return "never", column.description
    if column.name in _NULL:
        return _NULL[column.name], re.sub(r"; null .*", "", column.description)
    parts = [part.strip() for part in re.split(r"[;(]", column.description)]
    said = [part.removeprefix("null ").rstrip(")") for part in parts if part.startswith("null ")]
    if not said:
        return "not computed", column.description
    what = re.sub(r"; null [^;]*", "", column.description)
    return said[0], what


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))


def _range(column: Column) -> str:
    if column.name in WORDS:
        return ", ".join(WORDS[column.name])
    if pa.types.is_boolean(column.type):
        return "true, false"
    found = allowed(column)
    return "any" if found is None else found.text


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"`{' '.join(f'{byte:02x}' for byte in value)}`"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
