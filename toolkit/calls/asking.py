"""`toolkit.ask`: which choice of each question a model picks, and how surely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit.calls.ask_runs import AskWork, ask_run, rights_of, table_of
from toolkit.collect.asking import BARE, Asker, AskSettings, TextSums
from toolkit.collect.fields import mapped
from toolkit.collect.json_lines import Line, located
from toolkit.collect.questions import FIELDS, Question, make_question
from toolkit.collect.score import scored
from toolkit.collect.settings import RenderSettings
from toolkit.collect.steps import make_scorer
from toolkit.errors import ToolkitError
from toolkit.judging.asked import choices_df
from toolkit.records import SequenceRecord
from toolkit.store import open_run

if TYPE_CHECKING:
    from toolkit.models import Model


def ask(
    model: Model,
    questions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    rotate: bool = False,
    bare: str = BARE,
    output: str | Path | None = None,
    system_prompt: str | None = None,
    chat_template: bool = True,
) -> pd.DataFrame:
    """Which choice of each question a model picks, and how surely: by letter and by the choices' texts.

    Parameters
    ----------
    model : Model
        From `toolkit.load`.
    questions : mapping, or a sequence of them
        As a line of a file has them: `prompt` or `messages`, `choices` (2 to 26 texts), and if wanted `id`,
        `reference` (the right choice: its text, its letter, or its place from 0; or a list of such) and `metadata`.
    rotate : bool
        Whether the letters are those of every rotation of the choices, averaged.
    bare : str
        The prompt without the question, after which each choice is scored for its PMI.
    output : str or Path, optional
        A run to keep it in; what is there already is not asked again. In memory only by default.
    system_prompt : str, optional
    chat_template : bool
        Whether a text is one user message, where the model has a chat template.

    Returns
    -------
    DataFrame
        A row a choice: prompt_id, sample_index (its place), text, right (1, 0, or NaN without a reference), and
        the columns of the table choices: `letter`, `letter_logprob`, `sum_logprob`, ..., `p_letter`, `p_sum`,
        `p_mean`, `p_byte`, `p_pmi`. The pick by a score is the choice of the largest `p_`.

    Raises
    ------
    ToolkitError
        A question is not as described (the message numbers it), a letter is no single token, or a prompt does
        not fit in the context.

    Examples
    --------
    >>> toolkit.ask(model, {"prompt": "Capital of France?", "choices": ["Lyon", "Paris"]})  # doctest: +SKIP
    """
    render = RenderSettings(system_prompt=system_prompt, ignore_chat_template=not chat_template)
    settings = AskSettings(render=render, rotate=rotate, bare=bare)
    work = AskWork(model, settings, _given(questions))
    if output is not None:
        ask_run(work, output)
        return choices_df(open_run(output))
    return _in_memory(work)


def _in_memory(work: AskWork) -> pd.DataFrame:
    plans = work.planned
    asker = Asker(work.model, work.questions, plans, work.settings)
    steps = scored(work.model, make_scorer(work.model, 0), plans)
    sums = _sums_of(record for step in steps for record in step.records)
    rows = asker.rows(lambda plan: sums[plan.prompt.prompt_id])
    frame = pa.concat_tables(map(table_of, rows)).to_pandas().drop(columns="kind")
    frame.insert(2, "text", [choice for question in work.questions for choice in question.choices])
    frame.insert(3, "right", [value for question in work.questions for value in rights_of(question)])
    return frame


def _sums_of(records: Iterable[SequenceRecord]) -> dict[str, TextSums]:
    """What scoring the choices of each prompt gave; records of a prompt come in order."""
    found: dict[str, list[tuple[float, int]]] = {}
    for record in records:
        total = float(record.statistics.logprob.sum(dtype=np.float64))
        known = total if record.finish_reason != "error" else np.nan
        found.setdefault(record.prompt_id, []).append((known, max(1, len(record.token_ids))))
    return {name: TextSums(*np.array(pairs, np.float64).T) for name, pairs in found.items()}


def _given(questions: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Question]:
    several = [questions] if isinstance(questions, Mapping) else list(questions)
    if not several:
        raise ToolkitError("questions: there is none; give at least one")
    found = []
    for index, one in enumerate(several):
        where = f"questions[{index}]"
        if not isinstance(one, Mapping):
            raise ToolkitError(
                f"{where}: {str(one)[:60]!r} is no question; give a mapping with prompt and choices"
            )
        with located(where):
            fields = mapped({**one, **_as_list(one)}, {}, FIELDS)
            found.append(make_question(Line(where, index + 1, index, fields)))
    return found


def _as_list(question: Mapping[str, Any]) -> dict[str, Any]:
    """Choices as JSON has them; a tuple of them is as good."""
    choices = question.get("choices")
    return {"choices": list(choices)} if isinstance(choices, tuple) else {}
