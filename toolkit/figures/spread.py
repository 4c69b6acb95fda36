"""Figures of many spans or tokens: how a statistic is distributed, and entropy against log-probability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit import stats
from toolkit.aggregation.selection import Selection, read_blocks
from toolkit.aggregation.span_tables import Measure, iter_span_tables
from toolkit.aggregation.summary import TOKEN_METRICS, summary_df
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES
from toolkit.errors import ToolkitError
from toolkit.figures.choosing import nothing_selected
from toolkit.figures.drawing import Drawing, Panel
from toolkit.figures.groups import By, Labels, Split, check_groups, default_groups, span_name
from toolkit.figures.options import Options, wrong
from toolkit.figures.sources import Source, drawn, joined_notes, of_each, shared_prompts, titled
from toolkit.spans import span_kind
from toolkit.stats.ranges import Floats
from toolkit.store.keys import Key, KeyCoder, key_tuples

_MOST_GROUPS = 24
_UNITS = {"n_tokens": "tokens", "mean_surprise": "nats", "mean_varentropy": "nats²", "varentropy": "nats²"}


class _Spans(NamedTuple):
    """n spans of m sequences, in the order of the sequences."""

    keys: list[Key]  # m
    owners: NDArray[np.int64]  # (n,) which sequence
    values: Floats  # (n,)
    labels: list[str]  # n; none where spans have no labels


def distribution(sources: Sequence[Source], options: Options) -> Drawing:
    """A statistic over spans, a row a group; runs are groups too."""
    from toolkit.plots import plot_distribution
    from toolkit.plots.layout import rows_height

    kinds_of_span = options.by or ("sequence",)
    metric = options.metric or _default_metric(kinds_of_span)
    check_groups(options.group or (), kinds_of_span)
    groups = options.group if options.group is not None else default_groups(sources, options)
    split = Split([name for name in groups if name != "none"])
    shown: set[str] = set()
    for source in sources:
        labels = Labels(source, options.grader)
        for by in kinds_of_span:
            for spans in _values(source, by, metric, options):
                shown.update(kind for _, kind, _ in spans.keys)
                split.add(spans.values, spans.owners, labels.of(split.groups, by, spans.keys), spans.labels)
    rows, left_out = split.rows(options.limit or _MOST_GROUPS)
    if not rows:
        raise nothing_selected(sources[0].run)
    if all(np.isnan(values).all() for values in rows.values()):
        raise wrong("metric", f"{metric} is not computed for any span; name another, or other spans")
    note = joined_notes(left_out, of_each(sources, [drawn(one, shown & {*one.kinds}) for one in sources]))
    draw = partial(plot_distribution, rows, metric=metric, unit=unit_of(metric), note=note)
    title = titled(f"{metric} by {' and '.join(map(span_name, kinds_of_span))}", sources)
    return Drawing(title, [Panel("", draw, rows_height(len(rows)))])


def entropy_logprob(sources: Sequence[Source], options: Options) -> Drawing:
    """Each token's entropy against its log-probability: a panel a run, of its samples where it has any."""
    from toolkit.plots import plot_entropy_logprob

    panels = []
    for source in sources:
        kinds = options.kinds or ([source.sample_kind] if source.sample_kind else source.kinds)
        entropy, logprob = _entropy_and_logprob(source, options, kinds)
        draw = partial(plot_entropy_logprob, entropy, logprob, note=drawn(source, kinds))
        panels.append(Panel(source.title, draw))
    return Drawing(titled("Entropy and log-probability of tokens", sources), panels, shared="both")


def unit_of(metric: str) -> str:
    """The unit of a statistic; empty where it has none."""
    for scales in (TOKEN_SCALES, SPAN_SCALES):
        if metric in scales:
            return scales[metric].unit
    return _UNITS.get(metric, "")


def _entropy_and_logprob(source: Source, options: Options, kinds: Sequence[str]) -> Floats:
    """(2, n_tokens)"""
    selection = _selection(source, options)._replace(kinds=kinds)
    parts = [
        np.stack([block.kept_columns[name] for name in ("entropy", "logprob")])
        for block in read_blocks(source.run, {"entropy", "logprob"}, selection, segments=False)
    ]
    if not parts:
        raise nothing_selected(source.run)
    found = np.concatenate(parts, axis=1)
    if np.isnan(found[0]).all():
        raise ToolkitError(f"{source.run.path}: the entropy of its tokens was not computed; name another run")
    return found


def _default_metric(by: Sequence[By]) -> str:
    return "logprob" if [span_kind(one).name for one in by] == ["token"] else "mean_logprob"


def _selection(source: Source, options: Options) -> Selection:
    prompts = shared_prompts([source], options.prompts) if options.prompts is not None else None
    return Selection(prompts, options.kinds, options.samples)


def _values(source: Source, by: By, metric: str, options: Options) -> Iterator[_Spans]:
    """A statistic of the spans of a run, a row group at a time."""
    selection, kind = _selection(source, options), span_kind(by)
    if kind.name == "token" and metric in TOKEN_METRICS:
        return _of_tokens(source, metric, selection)
    label = _label_of(metric, kind.name)
    if kind.name == "prompt":
        return _of_prompts(source, label, selection)
    tables = iter_span_tables(source.run, kind, Measure([label]), selection)
    return (_of_rows(rows, label, labelled=kind.labelled) for rows in tables)


def _label_of(metric: str, kind: str) -> str:
    """The estimator's label.

    Raises
    ------
    ToolkitError
        There is none of this name, or it is of another grain.
    """
    try:
        estimator = stats.get(metric)
    except ToolkitError as error:
        more = f"; of tokens also {', '.join(TOKEN_METRICS)}" if kind == "token" else ""
        raise wrong("metric", f"{error}{more}") from None
    if estimator.level == "samples" and kind != "prompt":
        raise wrong("metric", f"{estimator.label} is of a prompt's samples: group spans by prompt")
    return estimator.label


def _of_prompts(source: Source, label: str, selection: Selection) -> Iterator[_Spans]:
    frame = summary_df(source.run, "prompt", [label], selection)
    names = frame[["prompt_id", "kind"]].itertuples(index=False, name=None)
    keys = [(str(prompt), str(kind), 0) for prompt, kind in names]
    yield _Spans(keys, np.arange(len(keys)), frame[label].to_numpy(np.float64), [])


def _of_rows(rows: pa.Table, label: str, *, labelled: bool) -> _Spans:
    """The rows of a sequence follow each other."""
    codes = KeyCoder([rows]).codes(rows)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    owners = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows.num_rows))
    labels = rows["label"].to_pylist() if labelled else []
    values = rows[label].cast(pa.float64()).to_numpy()
    return _Spans(key_tuples(rows.take(pa.array(starts))), owners, values, labels)


def _of_tokens(source: Source, metric: str, selection: Selection) -> Iterator[_Spans]:
    for block in read_blocks(source.run, {metric}, selection, segments=False):
        yield _Spans(block.keys, block.token_owners[block.kept], block.kept_columns[metric], [])
