"""The confidence table of a run: one row a token, segment, sequence or prompt.

Finds which rows of the tokens table belong to what, a row group at a time; the statistics are those of
`toolkit.stats`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from toolkit import stats
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.selection import EVERYTHING, KEY, Block, Selection, back_to_back, read_blocks
from toolkit.stats import Estimator, Ranges

if TYPE_CHECKING:
    from toolkit.store import Run, Runs

GRAINS = ("token", "segment", "sequence", "prompt")
TOKEN_METRICS = {  # columns of the tokens table, and whether a larger value is more confident
    "logprob": True,
    "constrained_logprob": True,
    "sampling_logprob": True,
    "entropy": False,
    "varentropy": False,
    "rank": False,
    "boosted_prob": True,
}
DEFAULT_METRICS = {
    "token": ("logprob", "entropy", "rank"),
    "segment": ("n_tokens", "sum_logprob", "mean_logprob", "min_logprob", "mean_entropy"),
    "sequence": ("n_tokens", "sum_logprob", "mean_logprob", "min_logprob", "perplexity"),
    "prompt": ("n_tokens", "mean_logprob", "min_logprob", "mean_entropy"),
}
_HEAD = {  # the columns that come first and order the rows
    "token": [*KEY, "token_index"],
    "segment": [*KEY, "segment_index"],
    "sequence": KEY,
    "prompt": KEY[:2],
}


def summary_df(
    run: Run,
    by: str = "sequence",
    metrics: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
    *,
    include_end: bool = True,
) -> pd.DataFrame:
    """Statistics of each token, segment, sequence or prompt of a run.

    Parameters
    ----------
    run : Run
        As `toolkit.open_run` gives it.
    by : {"token", "segment", "sequence", "prompt"}
        A prompt has one row for each kind of its sequences, over all tokens of them.
    metrics : sequence of str, optional
        Names of estimators, `min_k_percent(0.1)` for one with a parameter; for tokens, `TOKEN_METRICS`.
        `DEFAULT_METRICS` where it is None.
    selection : Selection
        Which sequences.
    include_end : bool
        Whether the end token takes part in a sequence. It is in no segment.

    Returns
    -------
    DataFrame
        The key, the metrics, then the text; rows in the order of the key and of position. Tokens past a stop
        string take no part. NaN is not computed.

    Raises
    ------
    ToolkitError
        An unknown granularity, metric or prompt.
    """
    if by not in GRAINS:
        raise ToolkitError(f"--by: there is no {quoted(by)}; use one of {', '.join(GRAINS)}")
    measure = _Measure(by, tuple(metrics or DEFAULT_METRICS[by]))
    _check_prompts(run, selection)
    blocks = read_blocks(run, measure.inputs, selection, whole=by == "prompt", include_end=include_end)
    frames = [_VIEWS[by](block, measure) for block in blocks]
    if not frames:
        raise ToolkitError(f"{run.path}: no sequence is selected; name other --prompt, --kind or --sample")
    return pd.concat(frames).sort_values(_HEAD[by], kind="stable", ignore_index=True)


def summaries_df(
    runs: Runs,
    by: str = "sequence",
    metrics: Sequence[str] | None = None,
    selection: Selection = EVERYTHING,
    *,
    include_end: bool = True,
) -> pd.DataFrame:
    """`summary_df` of each run, one below the other; of several, with the columns of `Runs.labels` first."""
    frames = [summary_df(run, by, metrics, selection, include_end=include_end) for run in runs]
    if len(frames) == 1:
        return frames[0]
    labelled = [
        pd.concat([pd.DataFrame([label] * len(frame)), frame], axis=1)
        for label, frame in zip(runs.labels, frames, strict=True)
    ]
    return pd.concat(labelled, ignore_index=True)


def least_confident_first(frame: pd.DataFrame, by: str, metric: str) -> pd.DataFrame:
    """Rows of a summary sorted by a metric, the least confident first; NaN, which is not computed, last."""
    (column, higher_is_confident), *_ = _Measure(by, (metric,)).directions.items()
    if column not in frame:
        raise ToolkitError(f"--sort: {quoted(metric)} is not in the table; name it in --metrics")
    return frame.sort_values(
        column, ascending=higher_is_confident, kind="stable", na_position="last", ignore_index=True
    )


def split_metrics(text: str) -> list[str]:
    """`"a,b(x=1, y=2),c"` as its three names: commas inside parentheses do not separate."""
    return [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]


class _Measure:
    """What is computed for a granularity: columns of a token, or estimators of anything longer."""

    def __init__(self, by: str, names: Sequence[str]) -> None:
        self.estimators: list[Estimator] = [] if by == "token" else [_estimator(name) for name in names]
        self.columns = [_token_metric(name) for name in names] if by == "token" else []

    @property
    def inputs(self) -> set[str]:
        """Columns of the tokens table that are read; `alternative_logprobs` comes from another table."""
        return {*self.columns, *(name for estimator in self.estimators for name in estimator.inputs)}

    @property
    def directions(self) -> dict[str, bool]:
        """Column of the summary: whether a larger value is more confident."""
        of_tokens = {name: TOKEN_METRICS[name] for name in self.columns}
        return of_tokens | {e.label: e.higher_is_confident for e in self.estimators}

    def values(self, columns: Mapping[str, NDArray[Any]], ranges: Ranges) -> dict[str, NDArray[Any]]:
        """(n_spans,) values of each estimator, by its label."""
        found = {estimator.label: estimator(columns, ranges) for estimator in self.estimators}
        return {name: v.astype(np.int64) if name == "n_tokens" else v for name, v in found.items()}


def _estimator(name: str) -> Estimator:
    estimator = stats.get(name)
    if estimator.level != "token-span":
        raise ToolkitError(f"--metrics: {quoted(name)} is a statistic of a prompt's samples, not of tokens")
    return estimator


def _token_metric(name: str) -> str:
    if name not in TOKEN_METRICS:
        raise ToolkitError(f"--metrics: a token has no {quoted(name)}; use one of {', '.join(TOKEN_METRICS)}")
    return name


def _check_prompts(run: Run, selection: Selection) -> None:
    known = set(run.load("prompts", "prompt_id")["prompt_id"].to_pylist()) if selection.prompts else set()
    for prompt in selection.prompts or ():
        if prompt not in known:
            raise ToolkitError(f"--prompt: {quoted(prompt)} is not in {run.path}; toolkit show lists ids")


def _by_sequence(block: Block, measure: _Measure) -> pd.DataFrame:
    values = measure.values(block.kept_columns, block.kept_ranges)
    return _frame(_lists(block.sequences, KEY), values, _lists(block.sequences, ["finish_reason", "text"]))


def _by_prompt(block: Block, measure: _Measure) -> pd.DataFrame:
    keys = pd.DataFrame(_lists(block.sequences, KEY[:2]))
    group = keys.groupby(KEY[:2], sort=False).ngroup().to_numpy()
    counts = np.zeros(group.max(initial=-1) + 1, np.int64)
    np.add.at(counts, group, block.kept_counts)
    head = keys.drop_duplicates().to_dict("list") | {"n_sequences": np.bincount(group)}
    return _frame(head, measure.values(block.kept_columns, back_to_back(counts)))


def _by_segment(block: Block, measure: _Measure) -> pd.DataFrame:
    values = measure.values(block.columns, block.segment_ranges)
    return _frame(_lists(block.segments, _HEAD["segment"]), values, _lists(block.segments, ["text"]))


def _by_token(block: Block, measure: _Measure) -> pd.DataFrame:
    texts = [block.text_of(token_id) for token_id in block.tokens["token_id"].to_pylist()]
    values: dict[str, Any] = {name: block.columns[name] for name in measure.columns}
    if "rank" in values:
        values["rank"] = pd.array(values["rank"], "Int64")
    frame = _frame(_lists(block.tokens, [*_HEAD["token"], "token_id"]), values, {"text": texts})
    return frame[block.kept]


_VIEWS = {"token": _by_token, "segment": _by_segment, "sequence": _by_sequence, "prompt": _by_prompt}


def _frame(*parts: Mapping[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: values for part in parts for name, values in part.items()})


def _lists(table: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    return {name: table[name].to_pylist() for name in names}
