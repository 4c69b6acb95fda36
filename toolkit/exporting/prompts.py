"""Prompts with all of their sequences, wherever those are stored, and what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.aggregation.selection import Selection
from toolkit.characters import count, quoted
from toolkit.errors import DataFault, argument
from toolkit.exporting.cells import json_columns, objects
from toolkit.exporting.rows import check_prompts, nothing_selected, of_samples
from toolkit.store import Run
from toolkit.store.blocks import Rows, cuts
from toolkit.store.keys import in_key_order
from toolkit.store.memory import refuse_large_load
from toolkit.store.parquet import TableFile, keep_rows
from toolkit.store.schemas import ROW_GROUP_TOKENS


class Prompt(NamedTuple):
    """What was asked."""

    text: str  # a JSON object with the columns of the table prompts
    n_tokens: int


def prompts_of(run: Run, sequences: pa.Table) -> dict[str, Prompt]:
    """The prompts of some sequences, by id.

    Raises
    ------
    DataFault
        The run does not have one of them.
    """
    ids = sequences["prompt_id"].cast(pa.string()).unique().to_pylist()
    rows = run.load("prompts", None, ids)
    texts = joined_objects(rows)
    columns = (rows[name].to_pylist() for name in ("prompt_id", "n_tokens"))
    found = {name: Prompt(text, n_tokens) for name, n_tokens, text in zip(*columns, texts, strict=True)}
    for name in ids:
        if name not in found:
            raise DataFault(f"{run.path}: prompt {quoted(name)} is not in prompts: run toolkit validate")
    return found


def joined_objects(rows: pa.Table) -> list[str]:
    """Rows as JSON objects."""
    return [f"{text}}}" for text in objects(json_columns(rows)).to_pylist()]


class _Place(NamedTuple):
    """Where the sequences of a prompt are."""

    n_tokens: int
    parts: tuple[str, ...]


def whole_prompts(run: Run, tables: Mapping[str, Sequence[str]], selection: Selection) -> Iterator[Rows]:
    """Go through a run with all selected sequences of a prompt at once.

    As many prompts at a time as have about as many tokens as a row group, in the order in which they first
    appear in the files: sequences of a prompt were collected together, so that a file is read once or twice.

    Parameters
    ----------
    run : Run
    tables : mapping of str to sequence of str
        Columns wanted of the tables of sequences, their keys among them.
    selection : Selection

    Yields
    ------
    mapping of str to pyarrow.Table
        Sequences of a prompt in the order of their keys.

    Raises
    ------
    ToolkitError
        An unknown prompt; nothing is selected; or a prompt's sequences would take over half of the free
        memory.
    """
    check_prompts(run, selection)
    places = _places(run, selection)
    if not places:
        raise nothing_selected(run)
    ids = list(places)
    for first, last in cuts(np.array([place.n_tokens for place in places.values()]), ROW_GROUP_TOKENS):
        parts = sorted({part for name in ids[first:last] for part in places[name].parts})
        yield _read(run, parts, tables, ids[first:last], selection)


def _places(run: Run, selection: Selection) -> dict[str, _Place]:
    """Where each prompt's selected sequences are, in the order of the files."""
    places: dict[str, _Place] = {}
    for part in run.parts():
        with TableFile(run.part_path("sequences", part), "sequences") as file:
            rows = file.read(["prompt_id", "kind", "sample_index", "n_tokens"])
        rows = of_samples(keep_rows(rows, selection.prompts, selection.kinds), selection)
        plain = pa.table([rows["prompt_id"].cast(pa.string()), rows["n_tokens"]], ["prompt_id", "n_tokens"])
        totals = plain.group_by("prompt_id", use_threads=False)
        names, counts = totals.aggregate([("n_tokens", "sum")]).columns
        for name, n_tokens in zip(names.to_pylist(), counts.to_pylist(), strict=True):
            before = places.get(name, _Place(0, ()))
            places[name] = _Place(before.n_tokens + n_tokens, (*before.parts, part))
    return places


def _read(
    run: Run,
    parts: Sequence[str],
    tables: Mapping[str, Sequence[str]],
    ids: Sequence[str],
    selection: Selection,
) -> Rows:
    order = pa.array(ids, pa.string())
    found: dict[str, list[pa.Table]] = {name: [] for name in tables}
    size = 0
    for part in parts:
        for name, columns in tables.items():
            with TableFile(run.part_path(name, part), name) as file:
                groups = file.groups_with(ids)
                size += file.estimate_bytes(columns, groups)
                refuse_large_load(
                    2 * size,
                    f"{count(len(ids), 'prompt')} of {run.path}",
                    f"select fewer with {argument('prompts')}, {argument('kinds')} or {argument('samples')}",
                )
                rows = keep_rows(file.read(columns, groups), ids, selection.kinds)
            found[name].append(of_samples(rows, selection))
    return {name: _in_order(pa.concat_tables(rows), order) for name, rows in found.items()}


def _in_order(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """By the place of the prompt in `ids`, then by key."""
    by_key = in_key_order(rows)
    place = pc.index_in(by_key["prompt_id"].cast(pa.string()), value_set=ids).to_numpy()
    return by_key.take(np.argsort(place, kind="stable"))
