"""Units with estimators' values to a table of metrics: a row an estimator, the best first.

Knows nothing of runs. Values keep their sign; `higher_is_confident` says which way is more confident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toolkit.aggregation.targets import Units
from toolkit.judging.question import Question
from toolkit.stats import Estimator
from toolkit.stats.bootstrap import Interval, Statistic, intervals, mean_of, of_metrics, paired_differences
from toolkit.stats.ranges import Floats
from toolkit.stats.ranking import as_confidence, within_prompt_auroc
from toolkit.stats.tally import judge

_NONE = Interval(np.nan, np.nan, np.nan, 0, 0)


def metric_table(units: Units, estimators: Sequence[Estimator], question: Question) -> pd.DataFrame:
    """Every metric of every estimator, with intervals.

    Parameters
    ----------
    units : Units
    estimators : sequence of Estimator
    question : Question
        Its metrics and resamples.

    Returns
    -------
    DataFrame
        Columns as `toolkit.evaluate` says. Calibration is of estimators whose values are in [0, 1] and rise
        with confidence. Where outcomes lie between 0 and 1, what needs right and wrong is NaN, and the best
        is the one with the largest prr, else the largest auroc.
    """
    return _Table(units, estimators, question).frame()


def is_binary(outcome: Floats) -> bool:
    """Whether every outcome is 0, 1 or NaN."""
    return bool((np.isnan(outcome) | np.isin(outcome, (0, 1))).all())


class _Table:
    def __init__(self, units: Units, estimators: Sequence[Estimator], question: Question) -> None:
        self.units, self.estimators, self.question = units, estimators, question
        self.binary = is_binary(units.outcome)
        self.main = "auroc" if self.binary else "prr"
        self.clustered = len(np.unique(units.prompts)) < len(units.prompts)
        self.confidences = {
            one.label: as_confidence(units.values[one.label], one.higher_is_confident) for one in estimators
        }

    def frame(self) -> pd.DataFrame:
        rows = [self._row(one) for one in self.estimators]
        known = [row for row in rows if not np.isnan(row[self.main])]
        best = max(known, key=lambda row: row[self.main], default=None)
        for row, one in zip(rows, self.estimators, strict=True):
            row |= _cells("auroc_difference", _NONE)
            row |= _cells(f"{self.main}_difference", self._difference(row, best))
            row |= self._within(one)
        frame = pd.DataFrame(rows)
        return frame.sort_values(
            self.main, ascending=False, kind="stable", na_position="last", ignore_index=True
        )

    def _row(self, one: Estimator) -> dict[str, Any]:
        judged = judge(self.confidences[one.label], self.units.outcome, name="outcome")
        found = self._metrics(one, self.confidences[one.label])
        metrics: dict[str, float] = {}
        for metric in self.question.metrics:
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
            "effective_samples": self.units.effective_samples.get(one.label, np.nan),
        }

    def _metrics(self, one: Estimator, confidence: Floats) -> dict[str, Interval]:
        """The metrics that apply, by name."""
        probability = one.higher_is_confident and one.range[0] >= 0 and one.range[1] <= 1
        applying = [
            metric
            for metric in self.question.metrics
            if (self.binary or metric.graded) and (probability or not metric.probability)
        ]
        judged = judge(confidence, self.units.outcome, name="outcome")
        if judged.n == 0 or not applying:
            return {}
        found = self._intervals(of_metrics(judged, applying), self.units.prompts[judged.kept])
        return {metric.name: interval for metric, interval in zip(applying, found, strict=True)}

    def _difference(self, row: Mapping[str, Any], best: Mapping[str, Any] | None) -> Interval:
        """The main metric less that of the best, on the units where both are defined."""
        if best is None or np.isnan(row[self.main]):
            return _NONE
        first, second = (self.confidences[of["estimator"]] for of in (row, best))
        found = paired_differences(
            first,
            second,
            self.units.outcome,
            self.units.prompts,
            [self.main],
            n_resamples=max(1, self.question.bootstrap),
            level=self.question.level,
            seed=self.question.seed,
        )[self.main]
        return found if self.question.bootstrap else Interval(found.value, np.nan, np.nan, 0, 0)

    def _within(self, one: Estimator) -> dict[str, Any]:
        """AUROC inside each prompt, averaged over those that have right and wrong."""
        none = {**_cells("auroc_within", _NONE), "n_prompts_within": 0}
        if not (self.clustered and self.binary) or one.level != "token-span":
            return none
        found = within_prompt_auroc(self.confidences[one.label], self.units.outcome, self.units.prompts)
        if found.n_prompts == 0:
            return none
        (interval,) = self._intervals(mean_of(found.aurocs), found.prompts)
        return {**_cells("auroc_within", interval), "n_prompts_within": found.n_prompts}

    def _intervals(self, statistic: Statistic, prompts: NDArray[Any]) -> list[Interval]:
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


def _cells(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
