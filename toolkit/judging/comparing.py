"""Two runs on the same prompts: paired differences of accuracy, confidence, calibration and ranking.

The second run less the first, everywhere. The same prompts are drawn for both in every resample, so that how
hard a prompt is cancels; see `toolkit.stats.paired`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.aggregation.parts import Part
from toolkit.aggregation.targets import Units
from toolkit.aggregation.units import default_part
from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.judging.evaluation import judged_units, part_of, sampler_of
from toolkit.judging.evaluation_table import is_binary
from toolkit.judging.pairing import Pair, compare_prompts, pair_grades, pair_runs
from toolkit.judging.prompt_differences import prompt_differences
from toolkit.judging.question import Question
from toolkit.scale.engines import LOCAL, Engine
from toolkit.stats import Estimator, get
from toolkit.stats.bootstrap import Interval
from toolkit.stats.paired import Paired, Side, paired_means, paired_metrics, paired_shares
from toolkit.stats.ranges import Floats
from toolkit.stats.ranking import as_confidence
from toolkit.store import open_runs
from toolkit.store.grades import GradeSet, grade_sets
from toolkit.store.keys import Key
from toolkit.store.reader import Run, Runs

CONFIDENCE = "mean_logprob"
"""What prompts are put in order by, where nothing else is named."""

METRICS = ("accuracy", "confidence", "auroc", "ece", "brier")
_BETTER = {"accuracy": True, "auroc": True, "ece": False, "brier": False}  # whether higher is


class Compared(NamedTuple):
    """What two runs differ in.

    Attributes
    ----------
    differences : DataFrame
        A row a metric and estimator: `metric` (accuracy, confidence, auroc, ece or brier), `estimator` (none
        for accuracy), `a` and `b`, the two runs' values, and `difference`, b less a, each with the ends of
        its interval (`a_low`, `a_high`); `excludes_zero`, whether the interval of the difference does;
        `higher_is_better`, none for confidence; `n_prompts` that both runs have, `n_a` and `n_b` units of
        them, and `n_resamples_undefined`.
    prompts : DataFrame
        A row a prompt, those that differ most first; see `toolkit.judging.prompt_differences`.
    notes : list of str
        What has to be said beside them, a line each.
    context : dict
        What was compared: the runs with their models and samplers, target, over, grader, counts of prompts.
    judged : (frozenset, frozenset)
        (prompt_id, kind, sample_index) of what was judged in each run; of means over samples, the samples.
    """

    differences: pd.DataFrame
    prompts: pd.DataFrame
    notes: list[str]
    context: dict[str, Any]
    judged: tuple[frozenset[Key], frozenset[Key]]


def compare(
    run_a: Run | str | Path,
    run_b: Run | str | Path,
    *,
    confidence: str | None = None,
    engine: Engine = LOCAL,
    **question: Any,
) -> Compared:
    """How a second run differs from a first one on the prompts that both have.

    Parameters
    ----------
    run_a, run_b : Run, str or Path
        Two models, quantisations, temperatures or prompts, on the same prompt ids.
    confidence : str, optional
        The estimator that prompts are put in order by: the first of `estimators`, else mean_logprob.
    engine : Engine
        What reads and aggregates runs that are given by their paths.
    **question
        The attributes of `Question`: grader, target, over, estimators, bootstrap, level, ...

    Returns
    -------
    Compared
        Of runs that are not graded, differences of confidence alone.

    Raises
    ------
    ToolkitError
        The runs are one, share no prompt, or were graded otherwise; or as in `toolkit.evaluate`.

    Examples
    --------
    >>> found = toolkit.compare("data/raw/a", "data/raw/b", estimators=["mean_logprob"])
    >>> found.differences[["metric", "estimator", "difference", "difference_low", "difference_high"]]
    """
    paths = [run.path if isinstance(run, Run) else run for run in (run_a, run_b)]
    runs = open_runs(paths, run_a.engine if isinstance(run_a, Run) else engine)
    return compare_runs(runs, Question(**question), confidence)


def compare_runs(runs: Runs, question: Question, confidence: str | None = None) -> Compared:
    """`compare` of two runs that are open.

    Raises
    ------
    ToolkitError
        There are not two; or as in `compare`.
    """
    if len(runs) != 2:
        raise ToolkitError(f"{count(len(runs), 'run')} named: compare takes two")
    if question.by is not None:
        raise ToolkitError(f"by is {question.by}: whole answers are compared: leave it out")
    chosen = _estimators(question, confidence)
    ranked_by = chosen[-1] if confidence is not None else _default_confidence(question, chosen)
    names = [str(label["run"]) for label in runs.labels]
    grades, notes = pair_grades(list(runs), names, question.grader)
    pair = pair_runs(list(runs), names, question.target)
    part = _part(runs, question)
    asked = replace(question, over=part)
    units = [_units(run, pair, i, chosen, asked, grades) for i, run in enumerate(runs)]
    notes = [*notes, *pair.notes, *compare_prompts(list(runs), pair.prompts)]
    notes += _outcome_notes(names, units) if grades is not None else []
    context = {
        "runs": [label | {"sampler": sampler_of(run)} for label, run in zip(runs.labels, runs, strict=True)],
        "target": pair.target,
        "over": str(part),
        "grader": None if grades is None else grades[0].label,
        "grade_set": None if grades is None else f"{grades[0].grader}@{grades[0].config_hash}",
        "confidence": ranked_by.label,
        "level": question.level,
        "bootstrap": question.bootstrap,
        "n_prompts": len(pair.prompts),
        "n_only": [len(own) for own in pair.only],
    }
    differences = _differences(units, chosen, question, runs.runs[0].engine, graded=grades is not None)
    judged = (_judged_keys(units[0], pair.keys[0]), _judged_keys(units[1], pair.keys[1]))
    return Compared(differences, prompt_differences(list(runs), units, ranked_by), notes, context, judged)


def _judged_keys(units: Units, taken: frozenset[Key]) -> frozenset[Key]:
    """What was judged; of a mean over the samples of a prompt, these."""
    if any(kind == "mean" for _, kind, _ in units.keys):
        return frozenset(key for key in taken if key[1] != "greedy")
    return frozenset(units.keys)


def _estimators(question: Question, confidence: str | None) -> list[Estimator]:
    """Those asked for, with what prompts are put in order by last; the random baseline has no difference."""
    found = {one.label: one for one in question.chosen if one.name != "random"}
    if confidence is not None:
        last = get(confidence)
        found.pop(last.label, None)
        found[last.label] = last
    return list(found.values())


def _default_confidence(question: Question, chosen: Sequence[Estimator]) -> Estimator:
    if question.estimators:
        return get(question.estimators[0])
    return next((one for one in chosen if one.label == CONFIDENCE), chosen[0])


def _part(runs: Runs, question: Question) -> Part:
    """The same part of both: the answers where one of them has thinking blocks."""
    if question.over is not None:
        return part_of(runs.runs[0], question.over)
    parts = [default_part(run) for run in runs]
    return next((part for part in parts if part.name == "answer"), parts[0])


def _units(
    run: Run,
    pair: Pair,
    place: int,
    chosen: Sequence[Estimator],
    question: Question,
    grades: tuple[GradeSet, GradeSet] | None,
) -> Units:
    """The judged answers of a run to the prompts that both have."""
    sets = [grades[place]] if grades is not None else grade_sets(run.path)[:1]
    named = f"{sets[0].grader}@{sets[0].config_hash}" if sets else None
    asked = replace(question, target=pair.target, grader=named)
    found = judged_units(run, asked, chosen, must_be_graded=False, keys=pair.keys[place]).units
    return found if grades is not None else found._replace(outcome=np.full(len(found.keys), np.nan))


def _outcome_notes(names: Sequence[str], units: Sequence[Units]) -> list[str]:
    notes = []
    for name, own in zip(names, units, strict=True):
        graded = own.outcome[~np.isnan(own.outcome)]
        if len(graded) < len(own.outcome):
            n = len(own.outcome) - len(graded)
            notes.append(f"{name}: not graded, and left out: {n} of {count(len(own.outcome), 'unit')}")
        if len(graded) and graded.min() == graded.max():
            said = {1.0: "right", 0.0: "wrong"}.get(float(graded[0]), f"graded {graded[0]:g}")
            notes.append(f"{name}: {count(len(graded), 'unit')}, all {said}: AUROC is undefined")
        elif not is_binary(graded):
            notes.append(
                f"{name}: grades lie between 0 and 1: AUROC and calibration are undefined; give a threshold"
            )
    return notes


def _differences(
    units: Sequence[Units], chosen: Sequence[Estimator], question: Question, engine: Engine, *, graded: bool
) -> pd.DataFrame:
    binary = all(is_binary(own.outcome) for own in units)
    ask = _Asked(
        units[0].prompts, units[1].prompts, units[0].outcome, units[1].outcome, question, graded, binary
    )
    tasks = [_Task(one, units[0].values[one.label], units[1].values[one.label]) for one in chosen]
    found = [row for rows in engine.map(ask, tasks) for row in rows]
    rows = ([ask.row("accuracy", None, ask.accuracy())] if graded else []) + found
    rows.sort(key=lambda row: METRICS.index(row["metric"]))
    return pd.DataFrame(rows)


class _Task(NamedTuple):
    """An estimator with its values in both runs."""

    estimator: Estimator
    a: Floats
    b: Floats


@dataclass(frozen=True)
class _Asked:
    """What is asked of every estimator; called with one, it gives its rows."""

    prompts_a: Any  # (n,) as are the others of a run
    prompts_b: Any
    outcome_a: Floats
    outcome_b: Floats
    question: Question
    graded: bool
    binary: bool

    def __call__(self, task: _Task) -> list[dict[str, Any]]:
        one = task.estimator
        sides = (Side(self.prompts_a, task.a), Side(self.prompts_b, task.b))
        rows = [self.row("confidence", one, paired_means(*sides, **self._how))]
        if self.graded and self.binary:
            rows += [self.row(name, one, found) for name, found in self._metrics(task).items()]
        return rows

    def accuracy(self) -> Paired:
        sides = (Side(self.prompts_a, self.outcome_a), Side(self.prompts_b, self.outcome_b))
        return paired_shares(*sides, **self._how)

    def row(self, metric: str, one: Estimator | None, found: Paired) -> dict[str, Any]:
        cells: dict[str, float] = {}
        for name, interval in (("a", found.first), ("b", found.second), ("difference", found.difference)):
            cells |= _cells(name, interval)
        return {
            "metric": metric,
            "estimator": None if one is None else one.label,
            **cells,
            "excludes_zero": found.excludes_zero,
            "higher_is_better": _BETTER.get(metric),
            "n_prompts": found.n_prompts,
            "n_a": found.n_first,
            "n_b": found.n_second,
            "n_resamples_undefined": found.difference.n_undefined,
        }

    def _metrics(self, task: _Task) -> dict[str, Paired]:
        """AUROC, and calibration of what is a probability."""
        one = task.estimator
        probability = one.higher_is_confident and one.range[0] >= 0 and one.range[1] <= 1
        first, second = (
            Side(prompts, as_confidence(values, one.higher_is_confident), outcome)
            for prompts, values, outcome in (
                (self.prompts_a, task.a, self.outcome_a),
                (self.prompts_b, task.b, self.outcome_b),
            )
        )
        found = paired_metrics(first, second, ["auroc", *(["brier"] if probability else [])], **self._how)
        if probability:  # percentiles: the other intervals of a binned error are too short
            found |= paired_metrics(first, second, ["ece"], **self._how, method="percentile")
        return found

    @property
    def _how(self) -> dict[str, Any]:
        asked = self.question
        return {"n_resamples": asked.bootstrap, "level": asked.level, "seed": asked.seed}


def _cells(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
