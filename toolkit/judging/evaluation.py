"""Estimators against right and wrong: for each, how well it ranks and how well it is calibrated.

Reads the grades that `toolkit grade` put beside a run. Which way an estimator is confident comes from its
registration; values are never given another sign.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.aggregation.parts import Part, parse_part
from toolkit.aggregation.selection import KEY
from toolkit.aggregation.targets import Units, check_target, make_units, sample_kind, token_estimators
from toolkit.aggregation.units import default_part, sequence_values, span_values
from toolkit.characters import count
from toolkit.errors import ToolkitError, argument
from toolkit.judging.asked import (
    asked_estimators,
    computed_estimators,
    pick_score,
    picks,
    target_of,
    with_asked,
)
from toolkit.judging.evaluation_table import is_binary, metric_table
from toolkit.judging.question import Question
from toolkit.scale.engines import LOCAL, Engine
from toolkit.stats import Estimator, Ranges
from toolkit.stats.ranges import Floats
from toolkit.store import open_run
from toolkit.store.grades import GradeSet, find_grades, grade_sets, read_grades
from toolkit.store.reader import Run, Runs

if TYPE_CHECKING:
    from toolkit.store.keys import Key


_NEUTRAL = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}  # filters that let every token through


class Evaluation(NamedTuple):
    """A table of estimators, and what has to be said about it."""

    frame: pd.DataFrame
    notes: list[str]  # a line each: undefined metrics, units that are not graded
    context: dict[str, Any]  # what was judged: grader, target, over, sampler, n, accuracy


def evaluate(run: Run | Runs | str | Path, *, engine: Engine = LOCAL, **question: Any) -> pd.DataFrame:
    """Every estimator against right and wrong.

    Parameters
    ----------
    run : Run, Runs, str or Path
        A run, several, or a run's path. Graded already, see `toolkit.grade`.
    engine : Engine
        What reads and evaluates a run given by its path; one that is open has its own.
    **question
        The attributes of `Question`: grader, target, over, by, estimators, bootstrap, ...

    Returns
    -------
    DataFrame
        A row an estimator, the best first: its metrics, each with the ends of its interval (`auroc`,
        `auroc_low`, `auroc_high`); the difference of its AUROC from the best one's; AUROC within prompts
        where several of a prompt are judged; n and n_undefined; what was judged and how it was sampled.
        NaN where a metric is undefined or does not apply. Of several runs, with the columns run, model,
        temperature and top_p first.

    Raises
    ------
    ToolkitError
        The run is not graded, or there is no such grader, target, estimator or part.

    Warns
    -----
    UserWarning
        All are right or all are wrong, or some are not graded.
    """
    asked = Question(**question)
    run = open_run(run, engine) if isinstance(run, str | Path) else run
    results = [evaluate_run(one, asked) for one in (run if isinstance(run, Runs) else [run])]
    for result in results:
        for note in result.notes:
            warnings.warn(note, stacklevel=2)
    return joined(run, [result.frame for result in results])


def joined(run: Run | Runs, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of runs, one below the other, labelled where there are several."""
    if not isinstance(run, Runs) or len(run) == 1:
        return frames[0]
    labelled = [
        pd.concat([pd.DataFrame([label] * len(frame)), frame], axis=1)
        for label, frame in zip(run.labels, frames, strict=True)
    ]
    return pd.concat(labelled, ignore_index=True)


def evaluate_run(run: Run, question: Question) -> Evaluation:
    """`evaluate` of one run, with its notes beside the table."""
    chosen = [*question.chosen, *(asked_estimators(run) if question.takes_all else ())]
    judged = judged_units(run, question, chosen)
    units, grades = judged.units, judged.grades
    context = {
        "grader": grades.grader if grades is not None else None,
        "config_hash": grades.config_hash if grades is not None else None,
        "target": judged.target,
        "over": judged.over,
        "sampler": sampler_of(run),
    }
    counts = {
        "accuracy": _mean(units.outcome),
        "n_ungraded": int(np.isnan(units.outcome).sum()),
        "n_prompts": len(set(units.prompts)),
    }
    frame = metric_table(units, chosen, question, run.engine).assign(**counts, **context)
    notes = [f"{run.path}: {note}" for note in _notes(units)]
    return Evaluation(frame, notes, {**context, **counts, "n": int((~np.isnan(units.outcome)).sum())})


def sampler_of(run: Run) -> str:
    """How the samples of a run were drawn, in words: the temperature, and the filters that were used."""
    sampler = run.manifest.setting("sampler")
    if not isinstance(sampler, Mapping):
        return "given completions"
    used = {name: value for name, value in sampler.items() if value != _NEUTRAL.get(name)}
    names = [name for name in ("temperature", *_NEUTRAL) if isinstance(used.get(name), int | float)]
    return ", ".join(f"{name} {used[name]:g}" for name in names)


class Judged(NamedTuple):
    """The units of a run, and what they are."""

    units: Units
    target: str
    over: str
    grades: GradeSet | None


def judged_units(
    run: Run,
    question: Question,
    chosen: Sequence[Estimator],
    *,
    must_be_graded: bool = True,
    keys: Collection[Key] | None = None,
) -> Judged:
    """What a question asks of a run: the things judged, with their grades and the values of estimators.

    Of whole answers, `keys` are the sequences that take part; all by default.

    Raises
    ------
    ToolkitError
        As in `evaluate`; that grades are missing, only where they must be known.
    """
    sets = [one for one in grade_sets(run.path) if one.settings.get("by") == question.by]
    if must_be_graded and not sets and grade_sets(run.path):
        how = "by field" if question.by else f"as whole answers, without {argument('by')}"
        raise ToolkitError(f"{run.path}: nothing is graded {how}: run toolkit grade {run.path} so first")
    known = must_be_graded or question.grader is not None or bool(sets)
    grades = find_grades(sets, question.grader, str(run.path)) if known else None
    if question.by and grades is not None:
        found = _by_field(run, grades, question, chosen)
    else:
        found = _by_prompt(run, grades, question, chosen, keys)
    units = found.units._replace(
        values=found.units.values | _random_values(found.units, chosen, question.seed),
        outcome=_cut(found.units.outcome, question.threshold),
    )
    return found._replace(units=units)


def _by_prompt(
    run: Run,
    grades: GradeSet | None,
    question: Question,
    chosen: Sequence[Estimator],
    keys: Collection[Key] | None,
) -> Judged:
    kinds = kinds_of(run)
    target = target_of(run, question.target, kinds)
    part = part_of(run, question.over)
    outcomes = {} if grades is None else outcomes_of(grades)
    values = sequence_values(run, part, token_estimators(chosen), kinds, include_end=question.include_end)
    if (score := pick_score(target)) is not None:
        picked = picks(run, score)
        keys = picked if keys is None else picked.intersection(keys)
    units = make_units(
        values if keys is None else values.of(keys),
        outcomes,
        computed_estimators(run, chosen),
        "each" if score is not None else target,
        comparison=question.comparison.of_run(run, part),
        sampler=sampler_of(run),
        engine=run.engine,
    )
    return Judged(with_asked(run, units, chosen), target, str(part), grades)


def _by_field(run: Run, grades: GradeSet, question: Question, chosen: Sequence[Estimator]) -> Judged:
    rows = read_grades([grades], [*KEY, "span_start", "span_end", "value"]).to_pandas()
    kinds = kinds_of(run)
    target = check_target(question.target, kinds)
    rows = rows[rows["kind"] == ("greedy" if target == "greedy" else sample_kind(kinds))]
    if target == "first":
        rows = rows[rows["sample_index"] == rows.groupby("prompt_id")["sample_index"].transform("min")]
    values = span_values(run, rows, [one for one in chosen if one.name != "random"])
    found = {str(name): column.to_numpy(np.float64) for name, column in values.estimates.items()}
    keys = list(values.rows[KEY].itertuples(index=False, name=None))
    prompts, outcome = (values.rows[name].to_numpy() for name in ("prompt_id", "value"))
    units = Units(keys, prompts.astype(np.str_), outcome.astype(np.float64), found, {})
    return Judged(units, target, "field", grades)


def kinds_of(run: Run) -> list[str]:
    """The kinds of sequences that a run has."""
    found: set[str] = set()
    for rows in run.iter_row_groups("sequences", ["kind"]):
        found.update(rows["kind"].unique().to_pylist())
    if not found:
        raise ToolkitError(f"{run.path}: it has no sequences")
    return sorted(found)


def part_of(run: Run, over: str | Part | None) -> Part:
    """The part asked for, or the run's default."""
    if over is None:
        return default_part(run)
    return parse_part(over) if isinstance(over, str) else over


def outcomes_of(grades: GradeSet) -> dict[Key, float]:
    """The grade of each sequence that was judged."""
    rows = read_grades([grades], [*KEY, "value"]).to_pandas()
    return dict(zip(rows[KEY].itertuples(index=False, name=None), rows["value"].to_numpy(), strict=True))


def _random_values(units: Units, chosen: Sequence[Estimator], seed: int) -> dict[str, Floats]:
    """The random baseline: a number a unit, NaN where a unit has no tokens."""
    ends = np.arange(1, len(units.keys) + 1)
    found = {}
    for one in chosen:
        if one.name == "random":
            bound = one.bind(seed=seed) if one.label == "random" else one
            some = units.values["n_tokens"] > 0
            found[one.label] = np.where(some, bound({}, Ranges(ends - 1, ends)), np.nan)
    return found


def _cut(outcome: Floats, threshold: float | None) -> Floats:
    if threshold is None:
        return outcome
    return np.where(np.isnan(outcome), np.nan, outcome >= threshold)


def _notes(units: Units) -> list[str]:
    graded = units.outcome[~np.isnan(units.outcome)]
    notes = []
    if len(graded) < len(units.outcome):
        n = len(units.outcome) - len(graded)
        notes.append(f"not graded, and left out: {n} of {count(len(units.outcome), 'unit')}")
    if not len(graded):
        notes.append("no unit is graded: every metric is undefined")
    elif graded.min() == graded.max():
        said = {1.0: "right", 0.0: "wrong"}.get(float(graded[0]), f"graded {graded[0]:g}")
        notes.append(
            f"{count(len(graded), 'unit')}, all {said}: AUROC, AUPRC and PRR are undefined; "
            "collect harder or easier prompts, or grade otherwise"
        )
    elif not is_binary(graded):
        notes.append("grades lie between 0 and 1: what needs right and wrong is undefined; give a threshold")
    return notes


def _mean(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
