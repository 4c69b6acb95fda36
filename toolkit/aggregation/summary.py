"""The confidence table of a run: one row a token, word, segment, field, sequence, prompt or other span.

Chooses columns, and puts the runs one below the other. What a span is and where it lies comes from
`toolkit.aggregation.span_tables`, the statistics from `toolkit.stats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit import stats
from toolkit.aggregation.frames import labelled, to_pandas
from toolkit.aggregation.pieces import map_blocks
from toolkit.aggregation.selection import EVERYTHING, KEY, Block, Selection, read_blocks
from toolkit.aggregation.span_tables import DEFAULT_METRICS, Measure, iter_span_tables, span_table
from toolkit.characters import quoted
from toolkit.errors import ToolkitError, argument
from toolkit.spans import SpanKind, UserFinder, span_kind
from toolkit.store.keys import in_key_order

if TYPE_CHECKING:
    from toolkit.aggregation.agreement import Comparison
    from toolkit.store import Run, Runs

TOKEN_METRICS = {  # columns of the tokens table, and whether a larger value is more confident
    "logprob": True,
    "constrained_logprob": True,
    "sampling_logprob": True,
    "entropy": False,
    "varentropy": False,
    "rank": False,
    "boosted_prob": True,
}
_DEFAULTS: dict[str, tuple[str, ...]] = {
    "token": ("logprob", "entropy", "rank"),
    "sequence": ("n_tokens", "sum_logprob", "mean_logprob", "min_logprob", "perplexity"),
    "prompt": ("n_tokens", "mean_logprob", "min_logprob", "mean_entropy"),
}


def default_metrics(by: str | UserFinder | SpanKind) -> tuple[str, ...]:
    """The statistics of a kind of span where none are named."""
    return _DEFAULTS.get(span_kind(by).name, DEFAULT_METRICS)


def summary_df(
    run: Run,
    by: str | UserFinder | SpanKind = "sequence",
    metrics: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
    *,
    include_end: bool = True,
    weights: str = "whole",
    comparison: Comparison | None = None,
) -> pd.DataFrame:
    """Statistics of each span of a run: a word, segment, field, sequence, prompt or other.

    Parameters
    ----------
    run : Run
        As `toolkit.open_run` gives it.
    by : str or function
        As of `toolkit.tables.spans_df`. A prompt has one row for each kind of its sequences, over all tokens
        of them.
    metrics : sequence of str, optional
        Names of estimators, `min_k_percent(0.1)` for one with a parameter; for tokens, `TOKEN_METRICS`; by
        prompt also estimators of samples. `default_metrics` where it is None.
    selection : Selection
        Which sequences.
    include_end : bool
        Whether the end token takes part in a token, sequence or prompt. It is in no other span.
    weights : {"whole", "bytes"}
        As of `toolkit.tables.spans_df`.
    comparison : Comparison, optional
        Which samples say the same, and how alike they are, for estimators of samples.

    Returns
    -------
    DataFrame
        The key, the metrics, then the text; rows in the order of the key and of position. Tokens past a stop
        string take no part. NaN is not computed. With estimators of samples, a row a prompt, over its samples;
        those that compare with an answer take the greedy one where the run has it, else the first sample.

    Raises
    ------
    ToolkitError
        An unknown span, metric or prompt, or no sequence is selected.
    """
    kind = span_kind(by)
    names = tuple(metrics or default_metrics(kind))
    _check_prompts(run, selection)
    if kind.name == "token":
        return _token_frame(run, [_token_metric(name) for name in names], selection, include_end)
    if is_of_samples(kind, names):
        from toolkit.aggregation.prompt_samples import sample_frame

        return sample_frame(run, names, selection, comparison, include_end=include_end)
    measure = Measure(names, weights)
    rows = span_table(run, kind, measure, selection, include_end=include_end)
    if not rows.num_rows:
        _check_selected(run, selection)
    return to_pandas(rows.select(_columns(kind, measure))).rename(columns=_renamed(kind))


def iter_summary(
    run: Run,
    by: str | UserFinder | SpanKind = "sequence",
    metrics: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
    *,
    include_end: bool = True,
    weights: str = "whole",
) -> Iterator[pa.Table]:
    """The rows of `summary_df` as Arrow tables, of a row group at a time: for runs larger than memory.

    Parameters are the same; estimators of samples are not among the metrics. Order is that of the files; within
    one, of the keys. By prompt it is that of the ids. There is at least one table.
    """
    kind = span_kind(by)
    names = tuple(metrics or default_metrics(kind))
    _check_prompts(run, selection)
    if kind.name == "token":
        tables = _token_tables(run, [_token_metric(name) for name in names], selection, include_end)
    else:
        measure = Measure(names, weights)
        tables = _span_tables(run, kind, measure, selection, include_end)
    some = False
    for table in tables:
        some = True
        yield table
    if not some:
        _check_selected(run, selection)


def iter_summaries(
    runs: Runs,
    by: str | UserFinder | SpanKind = "sequence",
    metrics: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
    **options: Any,
) -> Iterator[pa.Table]:
    """`iter_summary` of each run after the other; of several, with the columns of `Runs.labels` first."""
    for run, labels in zip(runs, runs.labels, strict=True):
        for rows in iter_summary(run, by, metrics, selection, **options):
            yield rows if len(runs) == 1 else labelled(rows, labels)


def is_of_samples(by: str | UserFinder | SpanKind, metrics: Sequence[str]) -> bool:
    """Whether a summary is over the samples of each prompt, which needs all of a run at once."""
    return span_kind(by).name == "prompt" and any(stats.get(name).level == "samples" for name in metrics)


def summaries_df(
    runs: Runs,
    by: str | UserFinder | SpanKind = "sequence",
    metrics: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
    **options: Any,
) -> pd.DataFrame:
    """`summary_df` of each run, one below the other; of several, with the columns of `Runs.labels` first."""
    frames = [summary_df(run, by, metrics, selection, **options) for run in runs]
    if len(frames) == 1:
        return frames[0]
    labelled = [
        pd.concat([pd.DataFrame([label] * len(frame)), frame], axis=1)
        for label, frame in zip(runs.labels, frames, strict=True)
    ]
    return pd.concat(labelled, ignore_index=True)


def least_confident_first(frame: pd.DataFrame, by: str | UserFinder | SpanKind, metric: str) -> pd.DataFrame:
    """Rows of a summary sorted by a metric, the least confident first; NaN, which is not computed, last."""
    if span_kind(by).name == "token":
        column, higher_is_confident = metric, TOKEN_METRICS[_token_metric(metric)]
    else:
        estimator = stats.get(metric)
        column, higher_is_confident = estimator.label, estimator.higher_is_confident
    if column not in frame:
        raise ToolkitError(
            f"cannot sort by {quoted(metric)}, which is not in the table; name it in {argument('metrics')}"
        )
    return frame.sort_values(
        column, ascending=higher_is_confident, kind="stable", na_position="last", ignore_index=True
    )


def split_metrics(text: str) -> list[str]:
    """`"a,b(x=1, y=2),c"` as its three names: commas inside parentheses do not separate."""
    return [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]


def _span_tables(
    run: Run, kind: SpanKind, measure: Measure, selection: Selection, include_end: bool
) -> Iterator[pa.Table]:
    for rows in iter_span_tables(run, kind, measure, selection, include_end=include_end):
        chosen = rows.select(_columns(kind, measure))
        yield chosen.rename_columns([_renamed(kind).get(name, name) for name in chosen.column_names])


def _columns(kind: SpanKind, measure: Measure) -> list[str]:
    if kind.name == "prompt":
        return [*KEY[:2], "n_sequences", *measure.labels]
    if kind.name == "sequence":
        return [*KEY, *measure.labels, "finish_reason", "text"]
    label = ["label"] if kind.labelled else []
    complete = ["complete"] if kind.can_be_cut else []
    return [*KEY, "span_index", *label, *complete, *measure.labels, "text"]


def _renamed(kind: SpanKind) -> dict[str, str]:
    """A segment's number is called as in its table."""
    return {"span_index": "segment_index"} if kind.name == "segment" else {}


def _token_metric(name: str) -> str:
    if name not in TOKEN_METRICS:
        raise ToolkitError(f"a token has no statistic {quoted(name)}; use one of {', '.join(TOKEN_METRICS)}")
    return name


def _check_prompts(run: Run, selection: Selection) -> None:
    known = set(run.load("prompts", "prompt_id")["prompt_id"].to_pylist()) if selection.prompts else set()
    for prompt in selection.prompts or ():
        if prompt not in known:
            raise ToolkitError(
                f"{argument('prompts')}: {quoted(prompt)} is not in {run.path}; toolkit show lists ids"
            )


def _check_selected(run: Run, selection: Selection) -> None:
    """Raise a ToolkitError where no sequence is selected; one without any span of a kind is no error."""
    if not any(True for _ in read_blocks(run, set(), selection, segments=False)):
        raise ToolkitError(
            f"{run.path}: no sequence is selected; "
            f"name other {argument('prompts')}, {argument('kinds')} or {argument('samples')}"
        )


def _token_frame(run: Run, columns: Sequence[str], selection: Selection, include_end: bool) -> pd.DataFrame:
    tables = list(_token_tables(run, columns, selection, include_end))
    if not tables:
        _check_selected(run, selection)
    return to_pandas(in_key_order(pa.concat_tables(tables)))


def _token_tables(
    run: Run, columns: Sequence[str], selection: Selection, include_end: bool
) -> Iterator[pa.Table]:
    rows = partial(_token_rows, columns=columns)
    return map_blocks(run, rows, set(columns), selection, include_end=include_end, segments=False)


def _token_rows(block: Block, columns: Sequence[str]) -> pa.Table:
    rows = np.flatnonzero(block.kept)
    kept = block.tokens.select([*KEY, "token_index", "token_id"]).take(pa.array(rows))
    values = {name: block.columns[name][rows] for name in columns}
    if "rank" in values:
        rank = values["rank"]
        values["rank"] = pa.array(np.nan_to_num(rank).astype(np.int64), mask=np.isnan(rank))
    head = dict(zip(kept.column_names, kept.columns, strict=True))
    return pa.table({**head, **values, "text": pa.array(block.token_texts(rows), pa.string())})
