"""Data frames of a run: one function a grain, and no loop over rows.

Each function takes a `Run` or several (`Runs`); several come one below the other, with the columns run,
model, temperature and top_p first. Rows are sorted by key and position within a run. `columns`, `prompts` and
`kinds` go down to the Parquet files: what is not asked for is not read. Null is NaN or None in a frame. Every
function raises `ToolkitError` for an unknown column or kind and for a load that would need over half of the
free memory, and `DataFault` for a file that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit.aggregation.frames import labelled, to_pandas
from toolkit.alignment import byte_shares
from toolkit.store.blocks import Rows
from toolkit.store.grades import find_grades, grade_sets, read_grades
from toolkit.store.keys import KeyCoder, in_key_order
from toolkit.store.parquet import keep_rows
from toolkit.store.reader import Names, Run, Runs, as_names, check_columns, check_kinds
from toolkit.store.schemas import SEGMENTS, TABLES, WATCHED

if TYPE_CHECKING:
    from toolkit.aggregation.selection import Selection
    from toolkit.aggregation.span_tables import Measure
    from toolkit.spans import SpanKind, UserFinder

_KEY = list(SEGMENTS.key)
_TOKEN_COLUMNS = ["token_index", "token_id", "byte_start", "byte_end", "logprob", "entropy"]
_SEGMENT_COLUMNS = ["segment_index", "byte_start", "byte_end", "token_start", "token_end"]


def tokens_df(
    run: Run | Runs, columns: Names = None, prompts: Names = None, kinds: Names = None
) -> pd.DataFrame:
    """A row a token of a sequence.

    Parameters
    ----------
    run : Run or Runs
    columns : sequence of str, optional
        Columns of the table tokens, in this order; all by default.
    prompts, kinds : sequence of str, optional
        Only sequences of these prompts and kinds.

    Returns
    -------
    pandas.DataFrame
    """
    return _frame(run, lambda one: one.load("tokens", columns, prompts, kinds))


def segments_df(
    run: Run | Runs, columns: Names = None, prompts: Names = None, kinds: Names = None
) -> pd.DataFrame:
    """A row a segment: the columns of the table segments, and n_tokens, the tokens with a byte in it.

    Parameters and result are as in `tokens_df`; neighbours share the token that straddles their edge.
    """
    wanted = [*SEGMENTS.names, "n_tokens"] if columns is None else as_names(columns) or []
    return _frame(run, lambda one: _segments(one, wanted, prompts, kinds))


def sequences_df(
    run: Run | Runs, columns: Names = None, prompts: Names = None, kinds: Names = None
) -> pd.DataFrame:
    """A row a sequence; parameters and result as in `tokens_df`."""
    return _frame(run, lambda one: one.load("sequences", columns, prompts, kinds))


def alternatives_df(
    run: Run | Runs, columns: Names = None, prompts: Names = None, kinds: Names = None
) -> pd.DataFrame:
    """A row a likely token at a position; parameters and result as in `tokens_df`."""
    return _frame(run, lambda one: one.load("alternatives", columns, prompts, kinds))


def watched_df(
    run: Run | Runs, columns: Names = None, prompts: Names = None, kinds: Names = None
) -> pd.DataFrame:
    """A row a watched token at a position: the columns of the table watched, and literal, what a person reads.

    Parameters and result are as in `tokens_df`; a run in which no token was watched has no rows.
    """
    wanted = [*WATCHED.names, "literal"] if columns is None else as_names(columns) or []
    return _frame(run, lambda one: _watched(one, wanted, prompts, kinds))


def prompts_df(run: Run | Runs, columns: Names = None, prompts: Names = None) -> pd.DataFrame:
    """A row a prompt; messages and metadata are JSON, token_ids an array and reference a list of str.

    Parameters and result are as in `tokens_df`.
    """
    frame = _frame(run, lambda one: one.load("prompts", columns, prompts))
    if "reference" in frame:
        frame["reference"] = [list(answers) for answers in frame["reference"]]
    return frame


def prompt_tokens_df(run: Run | Runs, columns: Names = None, prompts: Names = None) -> pd.DataFrame:
    """A row a token of a prompt, where recorded; parameters and result as in `tokens_df`."""
    return _frame(run, lambda one: one.load("prompt_tokens", columns, prompts))


def segment_tokens_df(run: Run | Runs, prompts: Names = None, kinds: Names = None) -> pd.DataFrame:
    """A row a (segment, token) pair where the token has a byte in the segment.

    A token that straddles two segments is a row of both. Special tokens, and tokens past a stop string, are
    in no segment.

    Parameters
    ----------
    run : Run or Runs
    prompts, kinds : sequence of str, optional
        Only sequences of these prompts and kinds.

    Returns
    -------
    pandas.DataFrame
        The key, segment_index, token_index, token_id, share (of the token's bytes that are in the segment,
        over 0 to 1), logprob and entropy (nats).
    """
    return _frame(run, lambda one: _segment_tokens(one, prompts, kinds))


def grades_df(
    run: Run | Runs, grader: str | None = None, prompts: Names = None, kinds: Names = None
) -> pd.DataFrame:
    """A row a judgement, as `toolkit grade` put it beside the run; NaN where nobody can say.

    Parameters
    ----------
    run : Run or Runs
    grader : str, optional
        A name as `toolkit grade` was given it, or NAME@HASH; all that there are by default.
    prompts, kinds : sequence of str, optional
        Only sequences of these prompts and kinds.

    Returns
    -------
    pandas.DataFrame
        The columns of the table grades. It is read anew each time, so that grades made since the run was
        opened are there.

    Raises
    ------
    ToolkitError
        Also where nothing is graded, or not by this grader.
    """
    return _frame(run, lambda one: _grades(one, grader, prompts, kinds))


def spans_df(
    run: Run | Runs,
    by: str | UserFinder | SpanKind = "sentence",
    metrics: Names = None,
    prompts: Names = None,
    kinds: Names = None,
    *,
    weights: str = "whole",
    include_end: bool = True,
) -> pd.DataFrame:
    r"""A row a span of a sequence: what it is, where it lies, and statistics of its tokens.

    Parameters
    ----------
    run : Run or Runs
    by : str or function
        token, segment, word, sentence[:LANGUAGE], line, paragraph, field[:PATH], key[:PATH], regex:PATTERN,
        thinking, answer, window:SIZE[:STEP], sequence or prompt; `toolkit.spans.FORMS` says what each is. Or a
        function from a text to (start, end) or (start, end, label) of each span, counted in characters.
    metrics : sequence of str, optional
        Names of token-span estimators, with parameters: "min_k_percent(0.1)".
        `toolkit.span_tables.DEFAULT_METRICS` by default.
    prompts, kinds : sequence of str, optional
        Only sequences of these prompts and kinds.
    weights : {"whole", "bytes"}
        A span's tokens are all those with a byte in it. One that straddles an edge counts whole on both
        sides; with "bytes", sums and means weigh each by the share of its bytes that is in the span.
    include_end : bool
        Whether the end token takes part in a token, sequence or prompt. It is in no other span.

    Returns
    -------
    pandas.DataFrame
        The key; span_index, from 0 in each sequence; label (the path of a field, the name or number of a
        regex's group, the first mark of a thinking block, a function's label; else empty); text; complete,
        False where the text's end cuts off a JSON value or a thinking block; byte_start, byte_end, char_start,
        char_end, token_start and token_end within the sequence; of sequences, finish_reason; n_tokens; and the
        metrics by their names, NaN where there is nothing to compute from. By prompt, a row a prompt and kind:
        its key, n_sequences, n_tokens and the metrics.

    Raises
    ------
    ToolkitError
        Also for an unknown span or estimator.
    """
    from toolkit.aggregation.span_tables import span_table

    kind, measure, selection = _span_arguments(by, metrics, prompts, kinds, weights)
    return _frame(run, lambda one: span_table(one, kind, measure, selection, include_end=include_end))


def iter_spans(
    run: Run,
    by: str | UserFinder | SpanKind = "sentence",
    metrics: Names = None,
    prompts: Names = None,
    kinds: Names = None,
    *,
    weights: str = "whole",
    include_end: bool = True,
) -> Iterator[pa.Table]:
    """The rows of `spans_df` as Arrow tables, of a row group at a time; parameters are the same.

    By prompt, as many prompts at a time as have about a million tokens, in the order of their ids.
    """
    from toolkit.aggregation.span_tables import iter_span_tables

    kind, measure, selection = _span_arguments(by, metrics, prompts, kinds, weights)
    return iter_span_tables(run, kind, measure, selection, include_end=include_end)


def _span_arguments(
    by: str | UserFinder | SpanKind, metrics: Names, prompts: Names, kinds: Names, weights: str
) -> tuple[SpanKind, Measure, Selection]:
    # Statistics take longer to import than all else here, and most frames have none.
    from toolkit.aggregation.selection import Selection
    from toolkit.aggregation.span_tables import DEFAULT_METRICS, Measure
    from toolkit.spans import span_kind

    measure = Measure(as_names(metrics) or DEFAULT_METRICS, weights)
    return span_kind(by), measure, Selection(as_names(prompts), check_kinds(kinds))


def _frame(run: Run | Runs, load: Callable[[Run], pa.Table]) -> pd.DataFrame:
    if isinstance(run, Run):
        return to_pandas(load(run))
    return to_pandas(
        pa.concat_tables(labelled(load(one), labels) for one, labels in zip(run, run.labels, strict=True))
    )


def _grades(run: Run, grader: str | None, prompts: Names, kinds: Names) -> pa.Table:
    sets = grade_sets(run.path)
    if grader is not None or not sets:
        sets = [find_grades(sets, grader, str(run.path))]
    return in_key_order(keep_rows(read_grades(sets), as_names(prompts), check_kinds(kinds)))


def _segments(run: Run, wanted: Sequence[str], prompts: Names, kinds: Names) -> pa.Table:
    stored = check_columns("segments", [name for name in wanted if name != "n_tokens"])
    if "n_tokens" not in wanted:
        return run.load("segments", stored, prompts, kinds)
    ends = [name for name in ("token_start", "token_end") if name not in stored]
    rows = run.load("segments", [*stored, *ends], prompts, kinds)
    n_tokens = rows["token_end"].to_numpy() - rows["token_start"].to_numpy()
    return rows.append_column("n_tokens", pa.array(n_tokens)).select(list(wanted))


def _watched(run: Run, wanted: Sequence[str], prompts: Names, kinds: Names) -> pa.Table:
    stored = check_columns("watched", [name for name in wanted if name != "literal"])
    if "literal" not in wanted:
        return run.load("watched", stored, prompts, kinds)
    rows = run.load("watched", list(dict.fromkeys([*stored, "token_id"])), prompts, kinds)
    ids, place = np.unique(rows["token_id"].to_numpy(), return_inverse=True)
    literals = pa.array([run.vocabulary[token_id].literal for token_id in ids.tolist()], pa.string())
    return rows.append_column("literal", literals.take(pa.array(place))).select(list(dict.fromkeys(wanted)))


def _segment_tokens(run: Run, prompts: Names, kinds: Names) -> pa.Table:
    tables = {"segments": _KEY + _SEGMENT_COLUMNS, "tokens": _KEY + _TOKEN_COLUMNS}
    for table, columns in tables.items():
        run.refuse_large(table, columns, prompts)
    parts = [_pairs(rows) for rows in run.iter_groups(tables, prompts, kinds)]
    if not parts:
        empty = {name: TABLES[name].schema.empty_table().select(columns) for name, columns in tables.items()}
        parts = [_pairs(empty)]
    return in_key_order(pa.concat_tables(parts))


def _pairs(rows: Rows) -> pa.Table:
    """(segment, token) pairs of a row group. Its rows are sorted by key, so a sequence's tokens are a run."""
    segments, tokens = rows["segments"], rows["tokens"]
    coder = KeyCoder([tokens, segments])
    first = np.searchsorted(coder.codes(tokens), coder.codes(segments))  # of the segment's sequence
    span = {name: segments[name].to_numpy() for name in _SEGMENT_COLUMNS}
    own = {name: tokens[name].to_numpy() for name in ("byte_start", "byte_end")}
    counts = span["token_end"] - span["token_start"]
    segment = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)
    token = first[segment] + span["token_start"][segment] + within
    share = byte_shares(
        own["byte_start"][token],
        own["byte_end"][token],
        span["byte_start"][segment],
        span["byte_end"][segment],
    )
    kept = share > 0
    left = segments.select([*_KEY, "segment_index"]).take(pa.array(segment[kept]))
    right = tokens.select(["token_index", "token_id", "logprob", "entropy"]).take(pa.array(token[kept]))
    names = [*left.column_names, "token_index", "token_id", "share", "logprob", "entropy"]
    index, token_id, logprob, entropy = right.columns
    return pa.table([*left.columns, index, token_id, pa.array(share[kept]), logprob, entropy], names=names)
