"""Questions put to a model and kept as a run: choices as scored sequences, their scores and grades beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.calls.keeping import Keeping
from toolkit.collect.asking import Asker, AskSettings, ChoiceRows, TextSums, plan_questions
from toolkit.collect.collector import Outcome
from toolkit.collect.progress import Progress
from toolkit.collect.questions import Question
from toolkit.collect.score import ScoreWork, score
from toolkit.grading import config_hash
from toolkit.judging.asked import CHOICE_GRADER
from toolkit.store import open_run
from toolkit.store.beside import read_beside
from toolkit.store.grades import grade_sets, read_grades, write_grades
from toolkit.store.schemas import CHOICES, GRADES

if TYPE_CHECKING:
    from toolkit.collect.scoring_plans import ScoringPlan
    from toolkit.models import Model
    from toolkit.store import Run

MakeProgress = Callable[[int, int], Progress]


@dataclass(frozen=True)
class AskWork:
    """Questions that are about to be put to a model."""

    model: Model
    settings: AskSettings
    questions: Sequence[Question]
    input_hash: str | None = None

    @property
    def planned(self) -> list[ScoringPlan]:
        """The choices as completions of their prompts."""
        return plan_questions(self.model, self.questions, self.settings)


def ask_run(
    work: AskWork,
    output: str | Path,
    *,
    resume: bool = True,
    overwrite: bool = False,
    progress: Callable[[str], MakeProgress] | None = None,
) -> Outcome:
    """Ask the questions that the run at `output` lacks, and keep all that came of them.

    The choices are sequences of the kind scored; their scores are the table choices beside the run, and whether
    each is right is kept as grades by `choices`.

    Parameters
    ----------
    work : what is wanted
    output : the run's folder; made if it is not there
    resume : go on with a run that is there; else it is refused
    overwrite : replace a run that is there
    progress : makes the maker of a progress display from its label; none by default

    Raises
    ------
    ToolkitError
        As `toolkit.collect.score.score`, and `toolkit.collect.asking.Asker`.
    """
    began = time.monotonic()
    plans = work.planned
    # What cannot be asked is refused before anything is kept.
    Asker(work.model, work.questions, plans, work.settings)
    scoring = ScoreWork(work.model, work.settings, plans, input_hash=work.input_hash)
    outcome = score(
        scoring,
        output,
        resume=resume,
        overwrite=overwrite,
        progress=None if progress is None else progress("choices"),
    )
    if outcome.interrupted:
        return outcome
    run = open_run(output)
    stored = _stored(run)
    _keep_grades(run.path, work.questions, plans, stored)
    complete = _ask(run.path, work, plans, stored, None if progress is None else progress("letters"))
    return Outcome(**{**vars(outcome), "interrupted": not complete, "seconds": time.monotonic() - began})


class _Text(NamedTuple):
    """What a run says of a choice that was scored."""

    logprob: float  # NaN where the logits were not finite
    n_tokens: int
    n_characters: int


Stored = dict[tuple[str, int], _Text]


def _stored(run: Run) -> Stored:
    names = ["prompt_id", "sample_index", "sum_logprob", "n_tokens", "text", "finish_reason"]
    found: Stored = {}
    for rows in run.iter_row_groups("sequences", names, kinds="scored"):
        for prompt_id, place, total, n, text, reason in zip(
            *(rows[x].to_pylist() for x in names), strict=True
        ):
            known = total if reason != "error" else np.nan
            found[prompt_id, place] = _Text(known, max(1, n), len(text))
    return found


def _sums(plan: ScoringPlan, stored: Stored) -> TextSums:
    texts = [stored[plan.prompt.prompt_id, place] for place in range(len(plan.completions))]
    return TextSums(*np.array([text[:2] for text in texts], np.float64).T)


def _ask(
    run: Path, work: AskWork, plans: Sequence[ScoringPlan], stored: Stored, make: MakeProgress | None
) -> bool:
    """Ask the questions whose rows are not all in the table choices; False where it was interrupted."""
    rows = read_beside(run, CHOICES.name)
    counts = rows["prompt_id"].value_counts().to_pylist()
    have = {one["values"]: one["counts"] for one in counts}
    pairs = zip(work.questions, plans, strict=True)
    lacking = [(q, p) for q, p in pairs if have.get(p.prompt.prompt_id) != len(q.choices)]
    if not lacking:
        return True
    questions, own = map(list, zip(*lacking, strict=True))
    asker = Asker(work.model, questions, own, work.settings)
    found = ((table_of(one), one.n_read) for one in asker.rows(lambda plan: _sums(plan, stored)))
    display = None if make is None else make(len(plans), len(plans) - len(own))
    others = _without(rows, [plan.prompt.prompt_id for plan in own])
    return Keeping(run, CHOICES.name, others, {}).keep(found, display)


def _without(rows: pa.Table, prompts: Sequence[str]) -> pa.Table:
    """The rows but those of some questions, which have other choices now."""
    return rows.filter(pc.invert(pc.is_in(rows["prompt_id"], value_set=pa.array(prompts, pa.string()))))


def table_of(rows: ChoiceRows) -> pa.Table:
    """Rows of a question as the table choices has them."""
    n = len(rows.columns["letter"])
    key = {"prompt_id": [rows.prompt_id] * n, "kind": ["scored"] * n, "sample_index": list(range(n))}
    return pa.table({**key, **rows.columns}, schema=CHOICES.schema)


def rights_of(question: Question) -> list[float]:
    """Of each choice 1 or 0; NaN where nobody said."""
    if not question.right:
        return [np.nan] * len(question.choices)
    return [float(place in question.right) for place in range(len(question.choices))]


def _keep_grades(
    run: Path, questions: Sequence[Question], plans: Sequence[ScoringPlan], stored: Stored
) -> None:
    """Whether each choice is right, as grades; those of questions that are not asked now stay."""
    if not any(question.right for question in questions):
        return
    settings = {"grader": CHOICE_GRADER, "over": "sequence", "by": None, "named": CHOICE_GRADER}
    digits = config_hash({"grader": CHOICE_GRADER})
    rows = [
        {
            "prompt_id": plan.prompt.prompt_id,
            "kind": "scored",
            "sample_index": place,
            "span_kind": "sequence",
            "span_start": 0,
            "span_end": stored[plan.prompt.prompt_id, place].n_characters,
            "grader": CHOICE_GRADER,
            "config_hash": digits,
            "value": None if np.isnan(value) else value,
            "extracted": question.choices[place],
        }
        for question, plan in zip(questions, plans, strict=True)
        for place, value in enumerate(rights_of(question))
    ]
    new = pa.Table.from_pylist(rows, GRADES.schema)
    before = read_grades([one for one in grade_sets(run) if one.grader == CHOICE_GRADER]).cast(GRADES.schema)
    ours = pa.array({row["prompt_id"] for row in rows}, pa.string())
    kept = before.filter(pc.invert(pc.is_in(before["prompt_id"], value_set=ours)))
    write_grades(run, pa.concat_tables([kept, new]), CHOICE_GRADER, digits, settings)
