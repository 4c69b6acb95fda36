"""Units with estimators' values to a table of metrics: a row an estimator, the best first.

Knows nothing of runs. Values keep their sign; `higher_is_confident` says which way is more confident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toolkit.aggregation.targets import Units
from toolkit.judging.question import Question
from toolkit.scale.engines import LOCAL, Engine
from toolkit.stats import Estimator
from toolkit.stats.bootstrap import Interval, Statistic, intervals, mean_of, of_metrics, paired_differences
from toolkit.stats.ranges import Floats
from toolkit.stats.ranking import as_confidence, within_prompt_auroc
from toolkit.stats.tally import Judged, judge

_NONE = Interval(np.nan, np.nan, np.nan, 0, 0)


def metric_table(
    units: Units, estimators: Sequence[Estimator], question: Question, engine: Engine = LOCAL
) -> pd.DataFrame:
    """Every metric of every estimator, with intervals.

    Parameters
    ----------
    units : Units
    estimators : sequence of Estimator
    question : Question
        Its metrics and resamples.
    engine : Engine
        What resamples, an estimator at a time.

    Returns
    -------
    DataFrame
        Columns as `toolkit.evaluate` says. Calibration is of estimators whose values are in [0, 1] and rise
        with confidence. Where outcomes lie between 0 and 1, what needs right and wrong is NaN, and the best
        is the one with the largest prr, else the largest auroc.
    """
    judged = _Judged.of(units, question)
    tasks = [
        _Task(
            one,
            as_confidence(units.values[one.label], one.higher_is_confident),
            units.effective_samples.get(one.label, np.nan),
        )
        for one in estimators
    ]
    rows = list(engine.map(_Rows(judged), tasks))
    known = [i for i, row in enumerate(rows) if not np.isnan(row[judged.main])]
    best = max(known, key=lambda i: rows[i][judged.main], default=None)
    compared = engine.map(
        _Comparisons(judged, None if best is None else tasks[best].confidence),
        [task._replace(main=row[judged.main]) for task, row in zip(tasks, rows, strict=True)],
    )
    frame = pd.DataFrame([row | more for row, more in zip(rows, compared, strict=True)])
    return frame.sort_values(
        judged.main, ascending=False, kind="stable", na_position="last", ignore_index=True
    )


def is_binary(outcome: Floats) -> bool:
    """Whether every outcome is 0, 1 or NaN."""
    return bool((np.isnan(outcome) | np.isin(outcome, (0, 1))).all())


class _Task(NamedTuple):
    """An estimator with its values."""

    estimator: Estimator
    confidence: Floats  # (n,)
    effective_samples: float
    main: float = np.nan  # its main metric, once it is known


class _Judged(NamedTuple):
    """What all estimators are judged by."""

    outcome: Floats  # (n,)
    prompts: NDArray[np.intp]  # (n,) numbers in the order of the ids
    question: Question
    binary: bool
    clustered: bool  # several units of a prompt

    @staticmethod
    def of(units: Units, question: Question) -> _Judged:
        names, codes = np.unique(units.prompts, return_inverse=True)
        clustered = len(names) < len(codes)
        return _Judged(units.outcome, codes, question, is_binary(units.outcome), clustered)

    @property
    def main(self) -> str:
        return "auroc" if self.binary else "prr"

    def intervals(self, statistic: Statistic, prompts: NDArray[Any]) -> list[Interval]:
        if self.question.bootstrap == 0:
            values = np.atleast_1d(np.squeeze(statistic(np.ones((1, len(prompts)), np.int64)), axis=0))
            return [Interval(float(value), np.nan, np.nan, 0, 0) for value in values]
        return intervals(
            statistic,
            prompts,
            n_resamples=self.question.bootstrap,
            level=self.question.level,
            seed=self.question.seed,
        )


@dataclass(frozen=True)
class _Rows:
    """The part of an estimator's row that needs no other one."""

    judged: _Judged

    def __call__(self, task: _Task) -> dict[str, Any]:
        one = task.estimator
        judged = judge(task.confidence, self.judged.outcome, name="outcome")
        found = self._metrics(one, judged)
        metrics: dict[str, float] = {}
        for metric in self.judged.question.metrics:
            metrics |= _cells(metric.name, found.get(metric.name, _NONE))
        return {
            "estimator": one.label,
            "level": one.level,
            "higher_is_confident": one.higher_is_confident,
            "n": judged.n,
            "n_undefined": judged.n_undefined,
            "n_infinite": int(np.isinf(judged.confidence).sum()),
            **metrics,
            "n_resamples_undefined": max((i.n_undefined for i in found.values()), default=0),
            "effective_samples": task.effective_samples,
        }

    def _metrics(self, one: Estimator, judged: Judged) -> dict[str, Interval]:
        """The metrics that apply, by name."""
        probability = one.higher_is_confident and one.range[0] >= 0 and one.range[1] <= 1
        applying = [
            metric
            for metric in self.judged.question.metrics
            if (self.judged.binary or metric.graded) and (probability or not metric.probability)
        ]
        if judged.n == 0 or not applying:
            return {}
        found = self.judged.intervals(of_metrics(judged, applying), self.judged.prompts[judged.kept])
        return {metric.name: interval for metric, interval in zip(applying, found, strict=True)}


@dataclass(frozen=True)
class _Comparisons:
    """The rest of an estimator's row: beside the best one, and within prompts."""

    judged: _Judged
    best: Floats | None  # (n,) its confidence; None where no metric is defined

    def __call__(self, task: _Task) -> dict[str, Any]:
        difference = _cells(f"{self.judged.main}_difference", self._difference(task))
        return {**_cells("auroc_difference", _NONE), **difference, **self._within(task)}

    def _difference(self, task: _Task) -> Interval:
        """The main metric less that of the best, on the units where both are defined."""
        question, main = self.judged.question, self.judged.main
        if self.best is None or np.isnan(task.main):
            return _NONE
        found = paired_differences(
            task.confidence,
            self.best,
            self.judged.outcome,
            self.judged.prompts,
            [main],
            n_resamples=max(1, question.bootstrap),
            level=question.level,
            seed=question.seed,
        )[main]
        return found if question.bootstrap else Interval(found.value, np.nan, np.nan, 0, 0)

    def _within(self, task: _Task) -> dict[str, Any]:
        """AUROC inside each prompt, averaged over those that have right and wrong."""
        judged, none = self.judged, {**_cells("auroc_within", _NONE), "n_prompts_within": 0}
        if not (judged.clustered and judged.binary) or task.estimator.level != "token-span":
            return none
        found = within_prompt_auroc(task.confidence, judged.outcome, judged.prompts)
        if found.n_prompts == 0:
            return none
        (interval,) = judged.intervals(mean_of(found.aurocs), found.prompts)
        return {**_cells("auroc_within", interval), "n_prompts_within": found.n_prompts}


def _cells(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
