"""Values of estimators for whole sequences, for a part of each, or for spans of them, a row group at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toolkit.aggregation.located import char_ranges
from toolkit.aggregation.parts import Part, is_thinking
from toolkit.aggregation.pieces import Piece, map_blocks, map_runs, part_pieces, prompts_of
from toolkit.aggregation.selection import KEY, Block, Selection, read_blocks
from toolkit.aggregation.span_tables import opened_prompts
from toolkit.stats import Estimator, Ranges

if TYPE_CHECKING:
    from toolkit.store import Run
    from toolkit.store.keys import Key

_SUMS = ("logprob", "sampling_logprob")


class Values(NamedTuple):
    """What was measured of n sequences or spans; rows in the order of the key.

    `rows` has the key and text (None where the part is not there), n_tokens (without the end token), has_end
    (whether the end token took part), sum_logprob and sum_sampling_logprob (nats, the end token included
    where it took part). `estimates` has a column for each estimator, under its label.
    """

    rows: pd.DataFrame
    estimates: pd.DataFrame

    def of(self, keys: Collection[Key]) -> Values:
        """Those of some sequences."""
        own = self.rows[KEY].itertuples(index=False, name=None)
        kept = np.fromiter((key in keys for key in own), bool, len(self.rows))
        return Values(*(frame[kept].reset_index(drop=True) for frame in self))


def sequence_values(
    run: Run, part: Part, estimators: Sequence[Estimator], kinds: Sequence[str], *, include_end: bool = True
) -> Values:
    """Token-span estimators of a part of each sequence.

    Parameters
    ----------
    run : Run
    part : Part
        For "sequence", all its tokens; else those with a byte in the part.
    estimators : sequence of Estimator
    kinds : sequence of str
        Of the sequences.
    include_end : bool
        Whether the end token takes part in a sequence. It is in no other part.
    """
    measured = partial(
        _part_values,
        part=part,
        opened=opened_prompts(run),
        include_end=include_end,
        estimators=estimators,
    )
    selection = Selection(kinds=kinds)
    found = map_blocks(run, measured, _inputs(estimators), selection, include_end=include_end, segments=False)
    return _joined(list(found), pd.DataFrame(columns=[*KEY, "text"]), estimators)


def span_values(run: Run, spans: pd.DataFrame, estimators: Sequence[Estimator]) -> Values:
    """Token-span estimators of stretches of text.

    Parameters
    ----------
    run : Run
    spans : DataFrame
        The key, span_start and span_end (characters). More columns go through into `rows`.
    estimators : sequence of Estimator
    """
    selection = Selection(kinds=sorted(set(spans["kind"])))
    tasks: Iterable[_SpansOf] = [_SpansOf(Piece(run, selection), spans)]
    if run.engine.splits:
        tasks = (_SpansOf(piece, _of_piece(spans, piece)) for piece in part_pieces(run, selection))
    found = run.engine.map(partial(_span_values, estimators=estimators), tasks)
    return _joined(list(chain.from_iterable(found)), spans.iloc[:0], estimators)


def default_part(run: Run) -> Part:
    """The answer where any text of the run has a thinking block; else the sequence."""
    thinking = bool(opened_prompts(run)) or any(map_runs(run, _has_thinking))
    return Part("answer" if thinking else "sequence")


def _has_thinking(run: Run) -> bool:
    return any(
        is_thinking(text)
        for rows in run.iter_row_groups("sequences", ["text"])
        for text in rows["text"].to_pylist()
    )


class _SpansOf(NamedTuple):
    """A piece of a run, and the stretches of text that are measured of it."""

    piece: Piece
    spans: pd.DataFrame


def _of_piece(spans: pd.DataFrame, piece: Piece) -> pd.DataFrame:
    return spans[spans["prompt_id"].isin(list(prompts_of(piece)))]


def _span_values(task: _SpansOf, estimators: Sequence[Estimator]) -> list[Values]:
    wanted = {key: rows for key, rows in task.spans.groupby(KEY, sort=False)}
    blocks = read_blocks(task.piece.run, _inputs(estimators), task.piece.selection, segments=False)
    found = [_spans_of_block(block, wanted, estimators) for block in blocks]
    return [values for values in found if values is not None]


def _spans_of_block(
    block: Block, wanted: Mapping[Any, pd.DataFrame], estimators: Sequence[Estimator]
) -> Values | None:
    own = [(i, wanted[key]) for i, key in enumerate(block.keys) if key in wanted]
    if not own:
        return None
    rows = pd.concat([frame for _, frame in own], ignore_index=True)
    owners = np.repeat([i for i, _ in own], [len(frame) for _, frame in own])
    starts, stops = (rows[name].to_numpy(np.int64) for name in ("span_start", "span_end"))
    all_texts = block.sequences["text"].to_pylist()
    texts = [all_texts[i][a:b] for i, a, b in zip(owners, starts, stops, strict=True)]
    ranges = char_ranges(block, owners, starts, stops)
    return _Measured(block.columns, ranges, texts, np.zeros(len(rows), bool)).values(rows, estimators)


def _part_values(
    block: Block, part: Part, opened: frozenset[str], include_end: bool, estimators: Sequence[Estimator]
) -> Values:
    return _of_part(block, part, opened, include_end).values(_keys(block), estimators)


class _Measured(NamedTuple):
    columns: Any  # of tokens, by name
    ranges: Ranges
    texts: list[str | None]
    ends: NDArray[np.bool_]  # whether the range includes an end token

    def values(self, rows: pd.DataFrame, estimators: Sequence[Estimator]) -> Values:
        sums = {f"sum_{name}": self.ranges.sum(self.columns[name]) for name in _SUMS}
        counts = {"n_tokens": self.ranges.lengths - self.ends, "has_end": self.ends}
        extra = pd.DataFrame({"text": pd.Series(self.texts, dtype=object), **counts, **sums})
        found = {e.label: e(self.columns, self.ranges) for e in estimators}
        return Values(pd.concat([rows, extra], axis=1), pd.DataFrame(found, index=extra.index))


def _of_part(block: Block, part: Part, opened: frozenset[str], include_end: bool) -> _Measured:
    """The part of each sequence of a block."""
    texts = block.sequences["text"].to_pylist()
    if part.name == "sequence":
        ends = block.sequences["has_end"].to_numpy(zero_copy_only=False) & (block.counts > 0)
        return _Measured(block.kept_columns, block.kept_ranges, texts, ends & include_end)
    prompts = block.sequences["prompt_id"].to_pylist()
    places = [part.find(t, opened=p in opened) for t, p in zip(texts, prompts, strict=True)]
    starts, stops = (np.array([place[i] for place in places], np.int64) for i in (1, 2))
    ranges = char_ranges(block, np.arange(len(texts)), starts, stops)
    return _Measured(block.columns, ranges, [p.text for p in places], np.zeros(len(texts), bool))


def _inputs(estimators: Sequence[Estimator]) -> set[str]:
    return {*_SUMS, *(name for estimator in estimators for name in estimator.inputs)}


def _keys(block: Block) -> pd.DataFrame:
    return pd.DataFrame({name: block.sequences[name].to_pylist() for name in KEY})


def _joined(found: list[Values], none: pd.DataFrame, estimators: Sequence[Estimator]) -> Values:
    """All rows in the order of the key; `none` where there are none."""
    if not found:
        return Values(none, pd.DataFrame(columns=[e.label for e in estimators], dtype=np.float64))
    rows, estimates = (pd.concat(parts, ignore_index=True) for parts in zip(*found, strict=True))
    order = rows.sort_values(KEY, kind="stable").index
    return Values(rows.loc[order].reset_index(drop=True), estimates.loc[order].reset_index(drop=True))
