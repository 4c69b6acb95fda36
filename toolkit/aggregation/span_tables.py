"""Statistics of spans as Arrow tables, a row group at a time: what every table of confidence is made from.

Spans come from `toolkit.aggregation.located`, statistics from `toolkit.stats`; here each span becomes a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit import stats
from toolkit.aggregation.located import Located, locate, shares
from toolkit.aggregation.pieces import map_blocks
from toolkit.aggregation.selection import (
    EVERYTHING,
    KEY,
    Block,
    Selection,
    back_to_back,
    empty_block,
)
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.spans import SpanKind, ends_in_thinking
from toolkit.stats import Estimator, Ranges
from toolkit.store.keys import in_key_order
from toolkit.store.memory import refuse_large_load

if TYPE_CHECKING:
    from toolkit.store import Run

Weights = Literal["whole", "bytes"]
WEIGHTS: tuple[Weights, ...] = ("whole", "bytes")
DEFAULT_METRICS = ("n_tokens", "sum_logprob", "mean_logprob", "min_logprob", "mean_entropy")

_OF_WHOLE_TOKENS = ("token", "window", "sequence", "prompt")  # no span of these cuts a token


class Measure:
    """Estimators over tokens, ready for blocks.

    Parameters
    ----------
    names : sequence of str
        Of estimators, with parameters: "min_k_percent(0.1)".
    weights : {"whole", "bytes"}
        A token at a span's edge counts whole, or by the share of its bytes that is in the span.

    Raises
    ------
    ToolkitError
        There is no such estimator, or it is one of samples; or there are no such weights.
    """

    def __init__(self, names: Sequence[str], weights: str = "whole") -> None:
        if weights not in WEIGHTS:
            raise ToolkitError(f"weights: there is no {quoted(weights)}; use one of {', '.join(WEIGHTS)}")
        self.weights = weights
        self.estimators: dict[str, Estimator] = {}
        for name in names:
            estimator = stats.get(name)
            if estimator.level == "asked":
                raise ToolkitError(
                    f"metrics: {quoted(name)} is what a model was asked, not of tokens or samples: evaluate has it"
                )
            if estimator.level != "token-span":
                raise ToolkitError(
                    f"metrics: {quoted(name)} is a statistic of a prompt's samples, not of tokens: use it by prompt"
                )
            self.estimators[estimator.label] = estimator

    @property
    def inputs(self) -> set[str]:
        """Columns of the tokens table that are read; `alternative_logprobs` comes from another table."""
        return {name for estimator in self.estimators.values() for name in estimator.inputs}

    @property
    def labels(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.estimators)

    def values(self, columns: Mapping[str, NDArray[Any]], ranges: Ranges) -> dict[str, NDArray[Any]]:
        """n_tokens, then the (n_spans,) values of each estimator."""
        found: dict[str, NDArray[Any]] = {"n_tokens": ranges.lengths.astype(np.int32)}
        for label, estimator in self.estimators.items():
            if label != "n_tokens":
                found[label] = estimator(columns, ranges)
        return found

    def numbered(self, rows: pa.Table, first: int) -> pa.Table:
        """The same rows where `first` others come before them.

        Random numbers go on from table to table; every other estimator needs no more than its tokens.
        """
        for label, estimator in self.estimators.items():
            if estimator.name == "random" and first:
                bound = estimator.bind(first=estimator.parameters["first"] + first)
                values = bound({}, back_to_back(rows["n_tokens"].to_numpy().astype(np.int64)))
                place = rows.column_names.index(label)
                rows = rows.set_column(place, label, pa.array(values, from_pandas=True))
        return rows


def iter_span_tables(
    run: Run,
    kind: SpanKind,
    measure: Measure,
    selection: Selection = EVERYTHING,
    *,
    include_end: bool = True,
) -> Iterator[pa.Table]:
    """A row a span, of a row group of the run at a time; see `toolkit.tables.spans_df` for the columns.

    Parameters
    ----------
    run : Run
    kind : SpanKind
    measure : Measure
    selection : Selection
        Which sequences.
    include_end : bool
        Whether the end token takes part in a token, sequence or prompt. It is in no other span.

    Yields
    ------
    pyarrow.Table
        Spans in the order of the key and of position. All of a sequence are in one table.
    """
    opened = opened_prompts(run) if kind.find_opened is not None else frozenset()
    tables = map_blocks(
        run,
        partial(_rows, kind=kind, measure=measure, opened=opened),
        measure.inputs,
        selection,
        whole=kind.name == "prompt",
        include_end=include_end,
        segments=kind.name == "segment",
    )
    n_rows = 0
    for table in tables:
        yield measure.numbered(table, n_rows)
        n_rows += table.num_rows


def span_table(
    run: Run,
    kind: SpanKind,
    measure: Measure,
    selection: Selection = EVERYTHING,
    *,
    include_end: bool = True,
) -> pa.Table:
    """All of `iter_span_tables`, in the order of the key and of position.

    Raises
    ------
    ToolkitError
        The table would need over half of the free memory; the message names the iterator.
    """
    tables: list[pa.Table] = []
    size = 0
    for table in iter_span_tables(run, kind, measure, selection, include_end=include_end):
        tables.append(table)
        size += table.nbytes
        refuse_large_load(
            2 * size,
            f"the spans of {run.path}",
            "name fewer prompts= or metrics=, or go through run.iter_spans(), a row group at a time",
        )
    joined = pa.concat_tables(tables or [_rows(empty_block(measure.inputs), kind, measure, frozenset())])
    return joined if kind.name == "prompt" else in_key_order(joined)


def opened_prompts(run: Run) -> frozenset[str]:
    """Ids of the prompts that end inside a thinking block, so that their sequences begin in one."""
    found: set[str] = set()
    for rows in run.iter_row_groups("prompts", ["prompt_id", "text"]):
        ids, texts = (rows[name].to_pylist() for name in ("prompt_id", "text"))
        found.update(prompt for prompt, text in zip(ids, texts, strict=True) if ends_in_thinking(text))
    return frozenset(found)


def _rows(block: Block, kind: SpanKind, measure: Measure, opened: frozenset[str]) -> pa.Table:
    if kind.name == "prompt":
        return _prompt_rows(block, measure)
    located = locate(block, kind, opened)
    head = {name: _taken(block.sequences[name], located.owners) for name in KEY}
    first = block.offsets[located.owners]
    positions = {
        "byte_start": located.byte_start,
        "byte_end": located.byte_end,
        "char_start": located.char_start,
        "char_end": located.char_end,
        "token_start": located.tokens.starts - first,
        "token_end": located.tokens.ends - first,
    }
    return pa.table(
        {
            **head,
            "span_index": located.position.astype(np.int32),
            "label": _as_text(located.labels),
            "text": _as_text(located.texts),
            "complete": located.complete,
            **{name: values.astype(np.int32) for name, values in positions.items()},
            **({"finish_reason": block.sequences["finish_reason"]} if kind.name == "sequence" else {}),
            **_values(block, kind, measure, located),
        }
    )


def _values(block: Block, kind: SpanKind, measure: Measure, located: Located) -> dict[str, pa.Array]:
    if kind.name == "sequence":
        found = measure.values(block.kept_columns, block.kept_ranges)
    elif measure.weights == "bytes" and kind.name not in _OF_WHOLE_TOKENS:
        found = measure.values(block.columns, shares(block, located))
    else:
        found = measure.values(block.columns, located.tokens)
    return _nullable(found)


def _prompt_rows(block: Block, measure: Measure) -> pa.Table:
    """A row a prompt and kind, over the tokens of all its sequences; they follow one another."""
    groups = _PromptGroups.of(block)
    counts = np.add.reduceat(block.kept_counts, groups.starts) if len(groups.starts) else block.kept_counts
    return pa.table(
        {
            **{name: _taken(block.sequences[name], groups.starts) for name in KEY[:2]},
            "n_sequences": groups.sizes.astype(np.int32),
            **_nullable(measure.values(block.kept_columns, back_to_back(counts))),
        }
    )


class _PromptGroups(NamedTuple):
    starts: NDArray[np.int64]  # the first sequence of each prompt and kind
    sizes: NDArray[np.int64]

    @staticmethod
    def of(block: Block) -> _PromptGroups:
        keys = [key[:2] for key in block.keys]
        changes = [i for i, (one, next_) in enumerate(pairwise(keys), 1) if one != next_]
        starts = np.array([0, *changes] if keys else [], np.int64)
        return _PromptGroups(starts, np.diff(starts, append=len(keys)))


def _taken(column: pa.ChunkedArray, rows: NDArray[np.integer[Any]]) -> pa.ChunkedArray:
    return column.take(pa.array(rows.astype(np.int64, copy=False)))


def _as_text(texts: Any) -> Any:
    return texts if isinstance(texts, pa.ChunkedArray | pa.Array) else pa.array(texts, pa.string())


def _nullable(values: Mapping[str, NDArray[Any]]) -> dict[str, pa.Array]:
    """NaN, which is not computed, as null."""
    # Looking for NaN first is cheap, and a column without any is taken over as it is.
    return {name: pa.array(column, from_pandas=_has_nan(column)) for name, column in values.items()}


def _has_nan(column: NDArray[Any]) -> bool:
    return bool(np.isnan(column.min(initial=0)))
