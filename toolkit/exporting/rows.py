"""What is exported of a run: the selected rows of its tables, in whole sequences, and its labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.aggregation.selection import Selection
from toolkit.characters import quoted
from toolkit.errors import DataFault, ToolkitError, argument
from toolkit.store import Run, Runs
from toolkit.store.blocks import Rows, cuts
from toolkit.store.keys import match_rows
from toolkit.store.schemas import GROUPS

SLICE_TOKENS = 1 << 14
"""About as many tokens are text in memory at a time."""

Labels = dict[str, pa.Scalar]
"""run, model, temperature and top_p of a run where there are several, else nothing."""

_LABEL_TYPES = {"run": pa.string(), "model": pa.string(), "temperature": pa.float64(), "top_p": pa.float64()}


def labelled(runs: Runs) -> Iterator[tuple[Run, Labels]]:
    """Each run with its labels."""
    for run, labels in zip(runs, runs.labels, strict=True):
        named = {name: pa.scalar(labels[name], kind) for name, kind in _LABEL_TYPES.items()}
        yield run, named if len(runs) > 1 else {}


def with_labels(rows: pa.Table, labels: Labels) -> pa.Table:
    """Rows with the labels as their first columns."""
    repeated = [pa.repeat(value, rows.num_rows) for value in labels.values()]
    return pa.table([*repeated, *rows.columns], names=[*labels, *rows.column_names])


def selected_groups(run: Run, selection: Selection) -> Iterator[Rows]:
    """The selected sequences with their tokens, segments and alternatives, a row group at a time.

    Raises
    ------
    ToolkitError
        An unknown prompt, or no sequence is selected.
    """
    check_prompts(run, selection)
    found = False
    for rows in run.iter_groups(dict.fromkeys(GROUPS["sequences"]), selection.prompts, selection.kinds):
        chosen = {name: of_samples(table, selection) for name, table in rows.items()}
        if chosen["sequences"].num_rows:
            found = True
            yield chosen
    if not found:
        raise nothing_selected(run)


def of_samples(rows: pa.Table, selection: Selection) -> pa.Table:
    """The rows of the selected samples."""
    if selection.samples is None:
        return rows
    return rows.filter(pc.is_in(rows["sample_index"], value_set=pa.array(selection.samples, pa.int32())))


def check_prompts(run: Run, selection: Selection) -> None:
    """Raise a ToolkitError where a selected prompt is not in the run."""
    if selection.prompts is not None:
        known = set(run.load("prompts", "prompt_id", selection.prompts)["prompt_id"].to_pylist())
        for prompt in selection.prompts:
            if prompt not in known:
                raise ToolkitError(
                    f"{argument('prompts')}: {quoted(prompt)} is not in {run.path}; toolkit show lists ids"
                )


def nothing_selected(run: Run) -> ToolkitError:
    return ToolkitError(
        f"{run.path}: nothing is selected; "
        f"name other {argument('prompts')}, {argument('kinds')} or {argument('samples')}"
    )


def slices(rows: Rows) -> Iterator[Rows]:
    """Whole sequences of a row group, about `SLICE_TOKENS` tokens of them at a time."""
    first = {name: first_rows(table, rows["sequences"], name) for name, table in rows.items()}
    for start, end in cuts(np.diff(first["tokens"]), SLICE_TOKENS):
        yield {
            name: table.slice(first[name][start], first[name][end] - first[name][start])
            for name, table in rows.items()
        }


def first_rows(rows: pa.Table, sequences: pa.Table, name: str) -> NDArray[np.int64]:
    """(n_sequences + 1,) the first row of each sequence, and where those of the last end.

    Raises
    ------
    DataFault
        The rows are in another order than their sequences, or belong to none.
    """
    owners = match_rows(rows, sequences)
    if (np.diff(owners, prepend=0) < 0).any():
        raise DataFault(f"rows of {name} are out of order or belong to no sequence: run toolkit validate")
    return np.searchsorted(owners, np.arange(sequences.num_rows + 1))
