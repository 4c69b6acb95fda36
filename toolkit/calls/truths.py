"""`toolkit.p_true`: is what it answered true? A model asked about a run's answers, kept beside the run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit.aggregation.parts import Part
from toolkit.aggregation.selection import KEY
from toolkit.aggregation.span_tables import opened_prompts
from toolkit.aggregation.targets import sample_kind
from toolkit.aggregation.units import default_part
from toolkit.calls.keeping import Keeping
from toolkit.collect.letters import Asked
from toolkit.collect.progress import Progress
from toolkit.collect.settings import RenderSettings
from toolkit.collect.truths import (
    IDEAS,
    MOST_SHOWN,
    TRUE_FALSE,
    WORDING,
    Proposal,
    Truth,
    plan_truth,
    shown,
    truths,
)
from toolkit.errors import ToolkitError, argument
from toolkit.store import open_run
from toolkit.store.beside import check_same_settings, read_beside
from toolkit.store.keys import Key, key_tuples
from toolkit.store.schemas import TRUTHS

if TYPE_CHECKING:
    from toolkit.models import Model
    from toolkit.store import Run

_BROKEN_OFF = ("error", "cancelled")  # not the model's answer


class Told(NamedTuple):
    """What came of asking about a run's answers."""

    frame: pd.DataFrame  # the table truths: all that is beside the run
    n_new: int
    n_before: int  # answers of the kinds wanted that had been asked about
    n_without_answer: int  # sequences that broke off, or say nothing: they are not asked about
    interrupted: bool


def p_true(
    run: Run | str | Path, model: Model, *, kinds: Sequence[str] | None = None, overwrite: bool = False
) -> pd.DataFrame:
    """Probability that a model calls a run's answers true, with and without samples shown before them.

    It is kept beside the run, in the table truths, where `toolkit.evaluate` finds it as the estimators p_true and
    p_true_with_samples. What was asked about already is not asked again.

    Parameters
    ----------
    run : Run, str or Path
    model : Model
        Who is asked: the one that answered, or another.
    kinds : sequence of str, optional
        Of the sequences asked about; greedy where the run has it, else its samples.
    overwrite : bool
        Ask again about everything, and forget what another model said.

    Returns
    -------
    DataFrame
        The table truths, a row an answer: p_true; mass, the probability of both replies together;
        p_true_with_samples and mass_with_samples (NaN where the prompt has no samples); n_shown.

    Raises
    ------
    ToolkitError
        The run has no answers of these kinds, was asked about with another model or wording, or a prompt does
        not fit in the model's context.

    Notes
    -----
    After Kadavath et al. 2022, arXiv 2207.05221. A text is its answer: what follows the last thinking block.
    """
    opened = open_run(run) if isinstance(run, str | Path) else run
    told = keep_truths(opened, model, kinds=kinds, overwrite=overwrite)
    if told.interrupted:
        raise KeyboardInterrupt
    return told.frame


def keep_truths(
    run: Run,
    model: Model,
    *,
    kinds: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], Progress] | None = None,
) -> Told:
    """`p_true`, with what came of it; an interruption keeps what was asked so far."""
    settings = _settings(model, _rendering(run))
    if not overwrite:
        check_same_settings(run.path, TRUTHS.name, settings)
    before = TRUTHS.schema.empty_table() if overwrite else read_beside(run.path, TRUTHS.name)
    found = _answers(run, kinds)
    stored = set(key_tuples(before))
    lacking = [one for one in found if one.key not in stored and one.text]
    plans = [_plan(model, one, _rendering(run)) for one in lacking]
    n_before = sum(one.key in stored for one in found)
    display = progress(n_before + len(plans), n_before) if progress is not None and plans else None
    complete = Keeping(run.path, TRUTHS.name, before, settings).keep(_asked(model, plans), display)
    frame = read_beside(run.path, TRUTHS.name).to_pandas()
    return Told(
        frame, len(frame) - before.num_rows, n_before, sum(not one.text for one in found), not complete
    )


class _Answer(NamedTuple):
    """A sequence's answer with its question; no text where it broke off or says nothing."""

    key: Key
    question: str
    text: str
    samples: tuple[str, ...]


class _Plan(NamedTuple):
    """What is asked about an answer: alone, and if there are samples after them."""

    key: Key
    texts: list[Asked]
    n_shown: int


def _asked(model: Model, plans: Sequence[_Plan]) -> Iterator[tuple[pa.Table, int]]:
    """The row of each answer, and the tokens that were read for it."""
    found = truths(model, (text for plan in plans for text in plan.texts))
    for plan in plans:
        row = _row(plan, [next(found) for _ in plan.texts])
        yield (
            pa.Table.from_pylist([row], TRUTHS.schema),
            sum(len(text.token_ids) for text in plan.texts),
        )


def _row(plan: _Plan, found: Sequence[Truth]) -> dict[str, Any]:
    alone, *after = found
    shown_too = after[0] if after else Truth(np.nan, np.nan)
    numbers = {
        "p_true": alone.p_true,
        "mass": alone.mass,
        "p_true_with_samples": shown_too.p_true,
        "mass_with_samples": shown_too.mass,
    }
    known = {name: None if np.isnan(value) else value for name, value in numbers.items()}
    return {**dict(zip(KEY, plan.key, strict=True)), **known, "n_shown": plan.n_shown}


def _plan(model: Model, answer: _Answer, render: RenderSettings) -> _Plan:
    alone = Proposal(answer.key[0], answer.question, answer.text)
    both = [alone, alone._replace(ideas=answer.samples)] if answer.samples else [alone]
    return _Plan(answer.key, [plan_truth(model, one, render) for one in both], len(answer.samples))


def _answers(run: Run, kinds: Sequence[str] | None) -> list[_Answer]:
    """The answers of the kinds wanted, in the order of their keys."""
    part, opened = default_part(run), opened_prompts(run)
    texts = {key: text for key, text in _texts(run, part, opened)}
    wanted = _kinds(run, kinds, {key[1] for key in texts})
    samples = defaultdict(list)
    for key in sorted(texts):
        if key[1] == "sample":
            samples[key[0]].append(texts[key])
    ideas = {prompt_id: shown(own) for prompt_id, own in samples.items()}
    questions = dict(_questions(run))
    return [
        _Answer(key, questions[key[0]], texts[key], ideas.get(key[0], ()))
        for key in sorted(texts)
        if key[1] in wanted
    ]


def _kinds(run: Run, kinds: Sequence[str] | None, there: set[str]) -> set[str]:
    if not there:
        raise ToolkitError(f"{run.path}: it has no answers: collect some first")
    chosen = {"greedy"} if "greedy" in there else {sample_kind(sorted(there)) or ""}
    wanted = chosen if kinds is None else set(kinds)
    if not wanted & there:
        raise ToolkitError(
            f"{argument('kinds')}: {run.path} has no {' or '.join(sorted(wanted))} sequences: "
            f"give {' or '.join(sorted(there))}"
        )
    return wanted


def _texts(run: Run, part: Part, opened: frozenset[str]) -> Iterator[tuple[Key, str]]:
    names = [*KEY, "text", "finish_reason"]
    for rows in run.iter_row_groups("sequences", names):
        values = (rows[name].to_pylist() for name in ("text", "finish_reason"))
        for key, text, reason in zip(key_tuples(rows), *values, strict=True):
            answer = part.find(text, opened=key[0] in opened).text or ""
            yield key, "" if reason in _BROKEN_OFF else answer.strip()


def _questions(run: Run) -> Iterator[tuple[str, str]]:
    """What each prompt asks: its message, or the turns of its chat; the text where it had no messages."""
    for rows in run.iter_row_groups("prompts", ["prompt_id", "text", "messages"]):
        for prompt_id, text, messages in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            turns = [one for one in json.loads(messages or "[]") if one["role"] != "system"]
            if len(turns) == 1:
                yield prompt_id, str(turns[0]["content"]).strip()
            else:
                yield (
                    prompt_id,
                    "\n".join(f"{one['role']}: {one['content']}" for one in turns) or text.strip(),
                )


def _rendering(run: Run) -> RenderSettings:
    """How the run's own prompts were rendered, without a reply begun for the model."""
    stored = run.manifest.content_config.get("render")
    render = stored if isinstance(stored, dict) else {}
    return RenderSettings(
        system_prompt=render.get("system_prompt"),
        ignore_chat_template=bool(render.get("ignore_chat_template")),
        chat_template_config=render.get("chat_template_config") or {},
    )


def _settings(model: Model, render: RenderSettings) -> dict[str, Any]:
    """What an answer's probability depends on."""
    return {
        "weights_hash": model.weights_hash,
        "tokenizer_hash": model.tokenizer_hash,
        "template_hash": model.template_hash,
        "dtype": model.dtype,
        "render": vars(render),
        "wording": [IDEAS, WORDING, *TRUE_FALSE],
        "most_shown": MOST_SHOWN,
    }


def truths_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a kind of answers: how many, and the means of the table truths; NaN where nothing is known."""
    columns = ["p_true", "mass", "p_true_with_samples", "mass_with_samples"]
    rows = [
        {"kind": kind, "n": len(own), **{name: float(own[name].mean()) for name in columns}}
        for kind, own in frame.groupby("kind", sort=True)
    ]
    return pd.DataFrame(rows, columns=["kind", "n", *columns])
