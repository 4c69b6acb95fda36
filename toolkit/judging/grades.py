"""Grade a run: its texts against the references of their prompts, as the table grades.

`grade_run` is a pure function from a run to rows; `grade` also keeps them, beside the run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit.aggregation.parts import Part
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.grading import Grader
from toolkit.judging.settings import Judging, Row, make_judging
from toolkit.spans import ends_in_thinking
from toolkit.store import open_run
from toolkit.store.grades import grade_sets, graded_keys, read_grades, write_grades
from toolkit.store.keys import Key, key_tuples
from toolkit.store.schemas import GRADES

if TYPE_CHECKING:
    from toolkit.store import Run

LARGE_LENGTH_SHARE = 0.05
"""Where more of the sequences than this ended by length, their answers may be cut off."""

_KEY = list(GRADES.key)
_READ = [*_KEY, "text", "finish_reason"]
_BROKEN_OFF = ("error", "cancelled")  # not the model's answer: nobody can say whether it would be right


class Graded(NamedTuple):
    """The judgements of a run."""

    grades: pd.DataFrame  # columns of the table grades; NaN where nobody can say
    n_sequences: int
    n_ended_by_length: int

    @property
    def warning(self) -> str | None:
        """What to tell where too many sequences ended by length."""
        share = self.n_ended_by_length / max(1, self.n_sequences)
        if share <= LARGE_LENGTH_SHARE:
            return None
        return (
            f"{share:.1%} of the sequences ({self.n_ended_by_length:,} of {self.n_sequences:,}) ended by length: "
            "their answers may be cut off; collect with a larger limit of tokens"
        )


def grade_run(run: Run, judging: Judging, *, skip: Collection[Key] = ()) -> Graded:
    """Judge the sequences of a run, without keeping anything.

    Parameters
    ----------
    run : Run
    judging : Judging
    skip : collection of (prompt_id, kind, sample_index)
        Sequences that are left out of the rows.

    Returns
    -------
    Graded
        A row a sequence, or a row a field of its reference; in the order of the key and place. A sequence
        that broke off (error, cancelled) or has no reference is not judged: its value is NaN.

    Raises
    ------
    ToolkitError
        No prompt has a reference and the grader needs one, or the grader cannot use one.
    """
    prompts = _prompts(run)
    needed = judging.grader.needs_references or judging.by == "field"
    if needed and not any(references for references, _ in prompts.values()):
        raise ToolkitError(
            f"{run.path}: no prompt has a reference: collect with a field reference, or grade with labels:FILE "
            "or function:MODULE:NAME"
        )
    keys: list[Key] = []
    rows: list[Row] = []
    n_sequences = n_length = 0
    for block in run.iter_row_groups("sequences", _READ):
        for key, text, reason in _texts(block):
            n_sequences += 1
            n_length += (
                reason == "length" and key[1] != "scored"
            )  # a given text ends where it was given to end
            if key not in skip:
                own = list(_judge(judging, text, reason, key, *prompts.get(key[0], ((), False))))
                keys.extend([key] * len(own))
                rows.extend(own)
    return Graded(_frame(keys, rows, judging), n_sequences, n_length)


def grade(
    run: Run | str | Path,
    grader: str | Grader,
    *,
    over: str | Part = "answer",
    by: str | None = None,
    overwrite: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Judge the sequences of a run, and keep the judgements beside it; see `keep_grades`.

    `run` is a run or its path; the others are the parameters of `make_judging`, and `overwrite` of
    `keep_grades`.

    Returns
    -------
    DataFrame
        The judgements of all sequences; columns as in the table grades, NaN where nobody can say.
    """
    opened = open_run(run) if isinstance(run, str | Path) else run
    return keep_grades(opened, make_judging(grader, over, by, settings), overwrite=overwrite).grades


def keep_grades(run: Run, judging: Judging, *, overwrite: bool = False) -> Graded:
    """Judge what was not judged so yet, and keep all in the run's folder `grades`.

    One file a grader with its settings, replaced at once or not at all; the run's own tables stay as they
    are. With `overwrite`, all sequences are judged again.

    Raises
    ------
    ToolkitError
        As in `grade_run`.
    DataFault
        A file cannot be read or written.
    """
    same = [one for one in grade_sets(run.path) if one.path.stem == _stem(judging) and not overwrite]
    before = [read_grades(same)] if same else []
    new = grade_run(run, judging, skip=graded_keys(same[0]) if same else ())
    table = pa.concat_tables([*before, _table(new.grades)])
    if new.grades.shape[0] or not same:
        name, digits = judging.grader.name, judging.config_hash
        same = [write_grades(run.path, table, name, digits, judging.settings)]
    return new._replace(grades=_nan_for_null(read_grades(same)))


def summarize_grades(grades: pd.DataFrame) -> pd.DataFrame:
    """A row a kind: how many were judged, their mean value, and how many nobody could say."""
    rows = [
        {
            "kind": kind,
            "n": int(values.notna().sum()),
            "n_undefined": int(values.isna().sum()),
            "value": float(values.mean()) if values.notna().any() else math.nan,
        }
        for kind, values in grades.groupby("kind", sort=True)["value"]
    ]
    return pd.DataFrame(rows, columns=["kind", "n", "n_undefined", "value"])


def _stem(judging: Judging) -> str:
    return f"{judging.grader.name}-{judging.config_hash}"


def _prompts(run: Run) -> dict[str, tuple[list[str], bool]]:
    """References of each prompt, and whether it ends inside a thinking block."""
    found = {}
    for block in run.iter_row_groups("prompts", ["prompt_id", "text", "reference"]):
        for prompt_id, text, references in zip(
            *(column.to_pylist() for column in block.columns), strict=True
        ):
            found[prompt_id] = (references, ends_in_thinking(text))
    return found


def _texts(block: pa.Table) -> Iterator[tuple[Key, str, str]]:
    return zip(key_tuples(block), block["text"].to_pylist(), block["finish_reason"].to_pylist(), strict=True)


def _judge(
    judging: Judging, text: str, reason: str, key: Key, references: Sequence[str], opened: bool
) -> Iterator[Row]:
    if reason in _BROKEN_OFF or (judging.by == "field" and not references):
        yield Row(judging.by or judging.part.name, 0, len(text), math.nan, None)
    else:
        try:
            yield from judging.rows(text, references, key, opened)
        except ToolkitError as error:
            raise type(error)(f"prompt {quoted(key[0])}: {error}") from error


def _frame(keys: Sequence[Key], rows: Sequence[Row], judging: Judging) -> pd.DataFrame:
    columns: dict[str, Any] = dict(zip(_KEY, zip(*keys, strict=True), strict=True)) if keys else {}
    columns |= dict(zip(Row._fields, zip(*rows, strict=True), strict=True)) if rows else {}
    columns |= {"grader": [judging.grader.name] * len(rows), "config_hash": [judging.config_hash] * len(rows)}
    frame = pd.DataFrame({name: columns.get(name, []) for name in GRADES.names})
    whole = dict.fromkeys(("sample_index", "span_start", "span_end"), np.int32)
    frame = frame.astype({**whole, "value": np.float64})
    return frame.sort_values(list(GRADES.order), kind="stable", ignore_index=True)


def _table(frame: pd.DataFrame) -> pa.Table:
    """NaN becomes null."""
    return pa.Table.from_pandas(frame, GRADES.schema, preserve_index=False)


def _nan_for_null(rows: pa.Table) -> pd.DataFrame:
    return rows.to_pandas()
