"""What `toolkit.evaluate` says, as intervals by name; and the judged answers behind it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from support.intervals import Floats
from toolkit.aggregation.targets import Units
from toolkit.judging.evaluation import judged_units
from toolkit.judging.question import Question
from toolkit.stats.bootstrap import Interval
from toolkit.stats.ranking import as_confidence
from toolkit.stats.registry import get
from toolkit.store.reader import Run


def column(table: pd.DataFrame, metric: str) -> dict[str, Interval]:
    """A metric of each estimator of an evaluation, with its interval."""
    names = [metric, f"{metric}_low", f"{metric}_high"]
    return {
        row[0]: Interval(*row[1:], 0, 0)
        for row in table[["estimator", *names]].itertuples(index=False, name=None)
    }


def units_of(run: Run, **question: Any) -> Units:
    """The judged answers that a `Question` asks for, with the values of its estimators."""
    asked = Question(**question)
    return judged_units(run, asked, asked.chosen).units


def confidence(units: Units, estimator: str) -> Floats:
    """Values of an estimator in the direction where higher is more confident."""
    return as_confidence(units.values[estimator], get(estimator).higher_is_confident)
