"""Sequences as the page's reader has them: texts, tokens and spans as numbers that fit JSON and JavaScript.

A page holds one JSON object, its data island. Every range is half-open and counted in UTF-16 code units, as
JavaScript counts; null is not computed, and -inf, which is masked out, is -9999.0. Floats have four decimals.

    {"format": 1, "title": text,
     "page": {"number": 1, "files": ["report.html", "report-2.html"]},
     "palette": ["#56265a", ...],                      17 colours, unsure first
     "metrics": {"logprob": {"unit": "nats", "unsure": -4.0, "sure": 0.0, "log": false}, ...},
     "granularities": [{"name": "token", "metrics": ["logprob", ...]}, {"name": "word", ...}, ...],
     "vocabulary": {"texts": [text], "bytes": ["e282ac" or null where a token is special]},
     "runs": [{"name": text, "model": text, "sampler": text}],
     "prompts": [{"run": 0, "id": text, "question": text, "reference": [text], "sequences": [0, 1, ...]}],
     "sequences": [{"prompt": 0, "kind": "greedy", "sample": 0, "text": text, "finish": "stop",
                    "grade": number or null, "extracted": text or null,
                    "sum_logprob": number, "mean_logprob": number, "tokens": {...}, "spans": {...}}]}

On a page that compares runs, a prompt has the sequences of both, each with its `run`, and `"view": "all"` shows
them side by side at first.

tokens: `v`, `start`, `end`, `logprob`, `entropy`, `rank` and, where the page's granularities name them,
`constrained_logprob` and `sampling_logprob` are lists with an item a token. `v` is a place in the vocabulary.
`kept` is how many tokens the text has, the end token among them; what follows was cut off by a stop string.
`alternatives` has a list a token: place in the vocabulary, log-probability, and so on, the likeliest first.
A special token, and one that was cut off, begins and ends where it stands; tokens that are a character only
together share its range.

spans: by granularity `start`, `end`, `first` and `last` (its tokens, half-open), a list a statistic, and for
fields `label`, the path. A granularity that finds nothing in a text is left out of its `spans`.

The first statistic of a granularity is its default. A granularity is listed where a sequence of the page has
it. `constrained_logprob` is there where a run has it, and `sampling_logprob` where it differs from `logprob`
somewhere in a run, so that it says something; in another run's sequences on the page they may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.aggregation.located import BlockTexts, Located, locate
from toolkit.aggregation.selection import ALTERNATIVES, Block
from toolkit.aggregation.span_tables import Measure
from toolkit.spans import SpanKind, span_kind
from toolkit.store.keys import Key

TOKEN_COLUMNS = ("logprob", "entropy", "rank")
OPTIONAL_COLUMNS = ("constrained_logprob", "sampling_logprob")
SPAN_METRICS = ("mean_logprob", "min_logprob", "sum_logprob", "mean_entropy")
SPAN_KINDS: dict[str, tuple[str, ...]] = {  # with their statistics
    "segment": ("mean_logprob", "min_logprob", "mean_entropy"),  # mostly one token: its sum is its mean
    "word": SPAN_METRICS,
    "sentence": SPAN_METRICS,
    "line": SPAN_METRICS,
    "field": SPAN_METRICS,
}
MASKED = -9999.0
DECIMALS = 4
_LONGEST_BMP = "\uffff"  # characters past it are two code units of UTF-16


class Grade(NamedTuple):
    """What a grader made of a sequence; NaN where nobody can say."""

    value: float
    extracted: str | None


class SequenceData(NamedTuple):
    """A sequence as the island has it, but for places in the vocabulary, which are a page's own."""

    key: Key
    fields: dict[str, Any]
    token_ids: NDArray[np.int32]  # (n,)
    alternative_ids: NDArray[np.int32]  # (n, k); -1 where fewer are stored
    alternative_logprobs: NDArray[np.float64]  # (n, k), rounded
    n_kept: int
    kept_logprob: float  # sum over the tokens that take part, nats


def measure() -> Measure:
    """The statistics of spans that a page has."""
    return Measure(SPAN_METRICS)


def inputs() -> set[str]:
    """What a block must have been read with."""
    return {*TOKEN_COLUMNS, *OPTIONAL_COLUMNS, ALTERNATIVES, *measure().inputs}


class BlockData:
    """The sequences of a block, one at a time, as the island has them.

    Parameters
    ----------
    block : Block
        Read with `inputs()` and with segments.
    opened : collection of str
        Ids of the prompts that end inside a thinking block.
    grades : mapping of (prompt_id, kind, sample_index) to Grade
    optional : sequence of str
        Which of `OPTIONAL_COLUMNS` to give.
    """

    def __init__(
        self,
        block: Block,
        opened: Collection[str],
        grades: Mapping[Key, Grade],
        optional: Sequence[str] = (),
    ) -> None:
        self.block, self.grades = block, grades
        self.keys = block.keys
        self.texts = BlockTexts(block)
        self.token_start, self.token_end = self._token_characters()
        self.spans = {
            name: _Spans(block, span_kind(name), metrics, opened) for name, metrics in SPAN_KINDS.items()
        }
        self.columns = {name: _Numbers(block.columns[name]) for name in (*TOKEN_COLUMNS, *optional)}
        self.alternatives = rounded(block.columns[ALTERNATIVES])
        self.token_ids = block.tokens["token_id"].to_numpy()
        self.finishes = block.sequences["finish_reason"].to_pylist()
        found = measure().values(block.kept_columns, block.kept_ranges)
        self.sums, self.means = found["sum_logprob"], _Numbers(found["mean_logprob"])
        self.shown_sums = _Numbers(self.sums)

    def sequence(self, i: int) -> SequenceData:
        """The i-th sequence of the block."""
        block, rows = self.block, self._rows(i)
        text = self.texts.texts[i]
        units = utf16_offsets(text)
        kept = np.flatnonzero(block.kept[rows])
        fields = {
            **self._head(i, text),
            "tokens": self._tokens(rows, units, int(kept[-1]) + 1 if len(kept) else 0),
            "spans": self._spans_of(i, text, units),
        }
        return SequenceData(
            key=self.keys[i],
            fields=fields,
            token_ids=self.token_ids[rows],
            alternative_ids=block.alternative_ids[rows],
            alternative_logprobs=self.alternatives[rows],
            n_kept=len(kept),
            kept_logprob=float(self.sums[i]),
        )

    def _head(self, i: int, text: str) -> dict[str, Any]:
        _, kind, sample = self.keys[i]
        grade = self.grades.get(self.keys[i], Grade(math.nan, None))
        own = slice(i, i + 1)
        return {
            "kind": kind,
            "sample": sample,
            "text": text,
            "finish": self.finishes[i],
            "grade": None if math.isnan(grade.value) else round(grade.value, DECIMALS),
            "extracted": grade.extracted,
            "sum_logprob": self.shown_sums.listed(own)[0],
            "mean_logprob": self.means.listed(own)[0],
        }

    def _rows(self, i: int) -> slice:
        return slice(int(self.block.offsets[i]), int(self.block.offsets[i] + self.block.counts[i]))

    def _token_characters(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The characters of each token; of those past the text, its end."""
        owners = self.block.token_owners
        n_bytes = self.block.sequences["n_bytes"].to_numpy()[owners]
        start, end = (
            np.minimum(self.block.tokens[name].to_numpy(), n_bytes) for name in ("byte_start", "byte_end")
        )
        return self.texts.characters_over(owners, start, end)

    def _tokens(self, rows: slice, units: NDArray[np.int64] | None, kept: int) -> dict[str, Any]:
        columns = {name: column.listed(rows) for name, column in self.columns.items()}
        return {
            "start": places(self.token_start[rows], units),
            "end": places(self.token_end[rows], units),
            "kept": kept,
            **columns,
            "rank": [None if rank is None else int(rank) for rank in columns["rank"]],
        }

    def _spans_of(self, i: int, text: str, units: NDArray[np.int64] | None) -> dict[str, Any]:
        first = int(self.block.offsets[i])
        found = {}
        for name, spans in self.spans.items():
            rows = spans.rows(i)
            if rows.start < rows.stop and (name != "line" or "\n" in text):
                found[name] = spans.columns(rows, first, units)
        return found


class _Spans:
    """The spans of one kind in a block, with their statistics."""

    def __init__(self, block: Block, kind: SpanKind, metrics: Sequence[str], opened: Collection[str]) -> None:
        self.labelled = kind.labelled
        self.located: Located = locate(block, kind, opened)
        found = measure().values(block.columns, self.located.tokens)
        self.values = {name: _Numbers(found[name]) for name in metrics}
        self.firsts = np.searchsorted(self.located.owners, np.arange(len(block.counts) + 1))

    def rows(self, i: int) -> slice:
        """Those of the i-th sequence."""
        return slice(int(self.firsts[i]), int(self.firsts[i + 1]))

    def columns(self, rows: slice, first_token: int, units: NDArray[np.int64] | None) -> dict[str, Any]:
        located, tokens = self.located, self.located.tokens
        return {
            "start": places(located.char_start[rows], units),
            "end": places(located.char_end[rows], units),
            "first": (tokens.starts[rows] - first_token).tolist(),
            "last": (tokens.ends[rows] - first_token).tolist(),
            **{name: values.listed(rows) for name, values in self.values.items()},
            **({"label": list(located.labels[rows])} if self.labelled else {}),
        }


def utf16_offsets(text: str) -> NDArray[np.int64] | None:
    """UTF-16 code units before each character of a text, and all of them, (n + 1,).

    None where every character is one unit, so that characters and units count the same.
    """
    if text.isascii() or max(text) <= _LONGEST_BMP:
        return None
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return np.concatenate([[0], np.cumsum(1 + (codes > ord(_LONGEST_BMP)))]).astype(np.int64)


def places(characters: NDArray[np.integer[Any]], units: NDArray[np.int64] | None) -> list[int]:
    """Places in a text, given in characters, in UTF-16 code units."""
    found: list[int] = (characters if units is None else units[characters]).tolist()
    return found


def rounded(values: NDArray[Any]) -> NDArray[Any]:
    """Values as JSON has them: rounded, and an infinity is 9999.0 with its sign."""
    found = np.round(np.array(values, np.float64), DECIMALS) + 0.0  # -0.0 becomes 0.0
    infinite = np.isinf(found)
    found[infinite] = np.copysign(MASKED, found[infinite])
    return found


class _Numbers:
    """(n,) numbers, ready to be taken a few at a time; NaN is null."""

    def __init__(self, values: NDArray[np.floating[Any]]) -> None:
        self._values = rounded(values)
        self._complete = not np.isnan(self._values).any()

    def listed(self, rows: slice) -> list[float | None]:
        found: list[float | None] = self._values[rows].tolist()
        return found if self._complete else [None if value != value else value for value in found]
