"""A run as a report reads it: its prompts in the order in which they were asked, each with all its sequences.

Some prompts at a time, so that memory does not grow with the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.aggregation.pieces import Piece, map_runs, prompt_pieces
from toolkit.aggregation.selection import EVERYTHING, KEY, Block, Selection, read_blocks
from toolkit.aggregation.span_tables import opened_prompts
from toolkit.appearance.questions import question
from toolkit.characters import count, quoted
from toolkit.errors import ToolkitError, argument
from toolkit.report.data import OPTIONAL_COLUMNS, BlockData, Grade, inputs
from toolkit.report.paging import PromptData
from toolkit.store import Run, Runs
from toolkit.store.blocks import cuts
from toolkit.store.grades import GradeSet, find_grades, grade_sets, read_grades
from toolkit.store.keys import Key
from toolkit.store.parquet import keep_rows

CHUNK_TOKENS = 1 << 18
"""About as many tokens of whole prompts are held at a time."""

LONGEST = 20_000
"""Characters of a question or a reference that a page has; a prompt may be a book."""

_SAME = 1e-3  # nats: log-probabilities that differ by less are one


@dataclass(frozen=True)
class Source:
    """A run of a report.

    Attributes
    ----------
    number : int
        Its place among the runs, from 0.
    run : Run
    name : str
        Told apart from the other runs'.
    selection : Selection
    grades : GradeSet, optional
        Whose judgements count; None where nothing is graded.
    """

    number: int
    run: Run
    name: str
    selection: Selection = EVERYTHING
    grades: GradeSet | None = None

    @property
    def model(self) -> str:
        return str(self.run.manifest.model.get("name") or "unknown model")

    @property
    def grader(self) -> str | None:
        """The grade set, as `find_grades` takes it."""
        return None if self.grades is None else f"{self.grades.grader}@{self.grades.config_hash}"

    @cached_property
    def n_sequences(self) -> int:
        """Of the whole run."""
        return sum(rows.num_rows for rows in self.run.iter_row_groups("sequences", ["sample_index"]))

    @cached_property
    def opened(self) -> frozenset[str]:
        """Ids of the prompts that end inside a thinking block."""
        return opened_prompts(self.run)

    @cached_property
    def optional(self) -> list[str]:
        """The columns of `OPTIONAL_COLUMNS` that say something `logprob` does not."""
        found: set[str] = set()
        for names in map_runs(self.run, partial(_columns_with_more, selection=self.selection)):
            found |= names
            if len(found) == len(OPTIONAL_COLUMNS):
                break
        return [name for name in OPTIONAL_COLUMNS if name in found]

    def prompts(self) -> Iterator[PromptData]:
        """The prompts that have a selected sequence, with those sequences in the order of their key."""
        reader = _Reader(self.number, self.opened, self.grader, self.optional)
        if self.run.engine.splits:
            pieces = prompt_pieces(self.run, self.selection, self._chunks())
        else:
            pieces = (Piece(self.run, self.selection._replace(prompts=ids)) for ids in self._chunks())
        for prompts in self.run.engine.map(reader, pieces):
            for prompt in prompts:
                yield prompt._replace(vocabulary=self.run.vocabulary)

    def _chunks(self) -> Iterator[Sequence[str]]:
        """Ids of prompts that are read together, in the order in which they were asked."""
        prompts, kinds, _ = self.selection
        rows = self.run.load("sequences", ["prompt_id", "n_tokens"], prompts, kinds)
        totals = rows.cast(pa.schema([("prompt_id", pa.string()), ("n_tokens", pa.int64())]))
        totals = totals.group_by("prompt_id").aggregate([("n_tokens", "sum")])
        sizes = dict(zip(*(totals[name].to_pylist() for name in ("prompt_id", "n_tokens_sum")), strict=True))
        order = self.run.load("prompts", ["prompt_id", "prompt_index"], prompts).to_pylist()
        index = {row["prompt_id"]: row["prompt_index"] for row in order}
        ids = sorted(sizes, key=lambda prompt: (index.get(prompt, -1), prompt))
        for first, last in cuts(np.array([sizes[prompt] for prompt in ids], np.int64), CHUNK_TOKENS):
            yield ids[first:last]


@dataclass(frozen=True)
class _Reader:
    """What a report shows of some prompts; called with a piece that names them."""

    number: int
    opened: frozenset[str]
    grader: str | None
    optional: Sequence[str]

    def __call__(self, piece: Piece) -> list[PromptData]:
        """The prompts in the order in which the piece names them, without the vocabulary."""
        ids = piece.selection.prompts or ()
        rows = piece.run.load("prompts", ["prompt_id", "text", "messages", "reference"], ids).to_pylist()
        known = {row["prompt_id"]: row for row in rows}
        grades = self._sequence_grades(piece.run, ids)
        blocks = read_blocks(piece.run, inputs(), piece.selection, whole=True)
        return [prompt for block in blocks for prompt in self._of_block(block, ids, known, grades)]

    def _of_block(
        self,
        block: Block,
        ids: Sequence[str],
        known: Mapping[str, Mapping[str, Any]],
        grades: Mapping[Key, Grade],
    ) -> Iterator[PromptData]:
        data = BlockData(block, self.opened, grades, self.optional)
        places: dict[str, list[int]] = {}
        for i, key in enumerate(block.keys):
            places.setdefault(key[0], []).append(i)
        for prompt_id in (one for one in ids if one in places):
            row = known.get(prompt_id, {"text": "", "messages": None, "reference": []})
            yield PromptData(
                run=self.number,
                prompt_id=prompt_id,
                question=shortened(question(row)),
                reference=[shortened(text) for text in row["reference"] or []],
                vocabulary={},
                sequences=[data.sequence(i) for i in places[prompt_id]],
            )

    def _sequence_grades(self, run: Run, ids: Sequence[str]) -> dict[Key, Grade]:
        """The grade of each sequence of some prompts; where fields are judged, the mean of its fields."""
        if self.grader is None:
            return {}
        own = find_grades(grade_sets(run.path), self.grader, str(run.path))
        rows = keep_rows(read_grades([own], [*KEY, "value", "extracted"]), list(ids), None)
        found: dict[Key, list[Grade]] = {}
        for *key, value, extracted in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            grade = Grade(math.nan if value is None else value, _shortened(extracted))
            found.setdefault(tuple(key), []).append(grade)
        return {key: _joined(grades) for key, grades in found.items()}


def sources_of(runs: Runs, selection: Selection = EVERYTHING, grader: str | None = None) -> list[Source]:
    """The runs of a report, each with the grades that count.

    Parameters
    ----------
    runs : Runs
    selection : Selection
    grader : str, optional
        As of `find_grades`; not needed where a run has one grade set only, or none.

    Raises
    ------
    ToolkitError
        No run has a prompt that is selected, or nothing is selected; a run has no grades of the grader that
        is named, or has several and none is named.
    """
    found = [
        Source(i, run, str(label["run"]), selection, _grades(run, grader))
        for i, (run, label) in enumerate(zip(runs, runs.labels, strict=True))
    ]
    _check_prompts(found, selection)
    if not any(_has_sequences(source) for source in found):
        paths = ", ".join(str(source.run.path) for source in found)
        raise ToolkitError(
            f"{paths}: no sequence is selected; "
            f"name other {argument('prompts')}, {argument('kinds')} or {argument('samples')}"
        )
    return found


def shortened(text: str, limit: int = LONGEST) -> str:
    """A text cut to `limit` characters, and how many are left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({count(len(text) - limit, 'more character')})"


def _shortened(text: str | None) -> str | None:
    return None if text is None else shortened(text)


def _joined(grades: Sequence[Grade]) -> Grade:
    if len(grades) == 1:
        return grades[0]
    values = [grade.value for grade in grades if not math.isnan(grade.value)]
    return Grade(sum(values) / len(values) if values else math.nan, None)


def _columns_with_more(run: Run, selection: Selection) -> set[str]:
    """Those of `OPTIONAL_COLUMNS` that say something `logprob` does not."""
    rest = set(OPTIONAL_COLUMNS)
    columns = ["kind", "logprob", *OPTIONAL_COLUMNS]
    for rows in run.iter_row_groups("tokens", columns, selection.prompts, selection.kinds):
        rest -= {name for name in rest if _says_more(name, rows)}
        if not rest:
            break
    return set(OPTIONAL_COLUMNS) - rest


def _says_more(name: str, rows: pa.Table) -> bool:
    values, logprob = (rows[column].to_numpy().astype(np.float64) for column in (name, "logprob"))
    known = ~np.isnan(values)
    if name != "sampling_logprob":
        return bool(known.any())
    # A greedy token was not drawn: its sampling_logprob is 0, whatever the sampler.
    known &= pc.not_equal(rows["kind"], "greedy").to_numpy()
    own, other = values[known], logprob[known]
    return bool(((own != other) & ~(np.abs(own - other) < _SAME)).any())


def _grades(run: Run, grader: str | None) -> GradeSet | None:
    sets = grade_sets(run.path)
    return find_grades(sets, grader, str(run.path)) if sets or grader is not None else None


def _check_prompts(sources: Sequence[Source], selection: Selection) -> None:
    wanted = set(selection.prompts or ())
    for source in sources if wanted else ():
        wanted -= set(source.run.load("prompts", "prompt_id")["prompt_id"].to_pylist())
    for prompt in (one for one in selection.prompts or () if one in wanted):
        paths = " or ".join(str(source.run.path) for source in sources)
        raise ToolkitError(
            f"{argument('prompts')}: {quoted(prompt)} is not in {paths}; toolkit show lists ids"
        )


def _has_sequences(source: Source) -> bool:
    selection = source.selection
    groups = source.run.iter_row_groups("sequences", ["sample_index"], selection.prompts, selection.kinds)
    wanted = None if selection.samples is None else list(selection.samples)
    return any(
        rows.num_rows and (wanted is None or np.isin(rows["sample_index"].to_numpy(), wanted).any())
        for rows in groups
    )
