"""Whole sequences as JSON Lines: a sequence a line, with its prompt, tokens, segments and grades inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from toolkit.aggregation.selection import EVERYTHING, Selection
from toolkit.exporting.cells import encoded, joined, json_columns, json_text, lists, objects
from toolkit.exporting.prompts import prompts_of
from toolkit.exporting.rows import first_rows, labelled, selected_groups, slices, with_labels
from toolkit.exporting.words import Words
from toolkit.store import Run, Runs
from toolkit.store.blocks import Rows
from toolkit.store.keys import match_rows
from toolkit.store.schemas import GRADES, SEQUENCES

_KEY = list(SEQUENCES.key)


def sequence_text(runs: Runs, selection: Selection = EVERYTHING) -> Iterator[bytes]:
    """Every selected sequence as a line of JSON, in the order of the files; within one, of the keys.

    The object has the columns of the table sequences; `prompt`, an object with those of prompts; and the
    lists `tokens`, `segments` and `grades`, with those of their tables without the key. A token has its
    `literal` from the vocabulary and its list of `alternatives`; an alternative also has `bytes` and
    `literal`.

    Parameters
    ----------
    runs : Runs
        Where there are several, run, model, temperature and top_p come first.
    selection : Selection

    Yields
    ------
    bytes
        Whole lines, as UTF-8.

    Raises
    ------
    ToolkitError
        An unknown prompt, or no sequence of a run is selected.
    DataFault
        A file cannot be read, or does not fit the others.
    """
    for run, labels in labelled(runs):
        vocabulary = _Vocabulary(run)
        for group in selected_groups(run, selection):
            prompts = {name: prompt.text for name, prompt in prompts_of(run, group["sequences"]).items()}
            graded = {**group, "grades": _grades(run, group["sequences"])}
            for rows in slices(graded):
                head = with_labels(rows["sequences"], labels)
                yield encoded(_lines(rows, head, prompts, vocabulary))


class _Vocabulary:
    """The bytes and the literal of token ids, as JSON."""

    def __init__(self, run: Run) -> None:
        self._bytes = Words(run, lambda entry: "null" if entry.bytes is None else f'"{entry.bytes.hex()}"')
        self._literal = Words(run, lambda entry: json_text(entry.literal))

    def literal(self, rows: pa.Table) -> dict[str, pa.Array]:
        return {"literal": self._literal.of(rows["token_id"])}

    def both(self, rows: pa.Table) -> dict[str, pa.Array]:
        return {"bytes": self._bytes.of(rows["token_id"]), **self.literal(rows)}


def _lines(rows: Rows, head: pa.Table, prompts: Mapping[str, str], vocabulary: _Vocabulary) -> pa.Array:
    sequences = rows["sequences"]
    asked = [prompts[name] for name in sequences["prompt_id"].to_pylist()]
    tokens = _tokens(rows, vocabulary)
    inside = {
        "prompt": pa.array(asked, pa.string()),
        "tokens": _inside(tokens, rows["tokens"], sequences),
        "segments": _inside(_objects(rows["segments"]), rows["segments"], sequences),
        "grades": _inside(_objects(rows["grades"]), rows["grades"], sequences),
    }
    return joined([objects({**json_columns(head), **inside}), "}\n"])


def _tokens(rows: Rows, vocabulary: _Vocabulary) -> pa.Array:
    """A JSON object a token, with its alternatives inside."""
    tokens, alternatives = rows["tokens"], rows["alternatives"]
    own = json_columns(alternatives.drop_columns([*_KEY, "token_index"]))
    likely = joined([objects({**own, **vocabulary.both(alternatives)}), "}"])
    first = first_rows(tokens, rows["sequences"], "tokens")
    place = first[match_rows(alternatives, rows["sequences"])] + alternatives["token_index"].to_numpy()
    counts = np.bincount(place, minlength=tokens.num_rows)
    values = {**json_columns(tokens.drop_columns(_KEY)), **vocabulary.literal(tokens)}
    return joined([objects({**values, "alternatives": lists(likely, counts)}), "}"])


def _objects(rows: pa.Table) -> pa.Array:
    return joined([objects(json_columns(rows.drop_columns(_KEY))), "}"])


def _inside(texts: pa.Array, rows: pa.Table, sequences: pa.Table) -> pa.Array:
    """The texts of a sequence's rows as a JSON list, for each sequence."""
    return lists(texts, np.diff(first_rows(rows, sequences, "rows")))


def _grades(run: Run, sequences: pa.Table) -> pa.Table:
    """The grades of sequences, in their order."""
    ids = sequences["prompt_id"].cast(pa.string()).unique().to_pylist()
    found = list(run.iter_row_groups("grades", None, ids))
    rows = pa.concat_tables(found) if found else GRADES.schema.empty_table()
    owners = match_rows(rows, sequences)
    order = np.argsort(owners, kind="stable")
    return rows.take(order[owners[order] >= 0])
