"""Recalibrate an estimator on a graded run, and use the map on another run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from toolkit import stats
from toolkit.aggregation.targets import Units
from toolkit.errors import ToolkitError
from toolkit.judging.evaluation import judged_units
from toolkit.judging.question import Question
from toolkit.stats import Estimator
from toolkit.stats.metrics import METRICS
from toolkit.stats.ranges import Floats
from toolkit.stats.ranking import as_confidence
from toolkit.stats.recalibration import cross_validate
from toolkit.stats.recalibration_file import Recalibration
from toolkit.stats.tally import judge

if TYPE_CHECKING:
    from toolkit.store import Run

_METRICS = ("auroc", "ece", "adaptive_ece", "brier", "log_loss")


class Fitted(NamedTuple):
    """A recalibration, and what it does to prompts that it has not seen."""

    recalibration: Recalibration  # fitted on all units
    comparison: pd.DataFrame  # metrics before and after, after by maps that did not see the unit's prompt


class Applied(NamedTuple):
    """The values of a run's units, as probabilities too."""

    values: pd.DataFrame  # the key, the estimator's value, probability, grade (NaN where there is none)
    comparison: pd.DataFrame | None  # metrics before and after, where the run is graded


def fit_run(
    run: Run, estimator: str, method: str, question: Question, *, folds: int = 5, bins: int = 10
) -> Fitted:
    """Fit a map from an estimator's values to the probability of being right.

    Parameters
    ----------
    run : Run
        Graded already.
    estimator : str
    method : {"isotonic", "platt", "temperature", "histogram"}
    question : Question
        Whose grades, of what; its estimators are not used.
    folds : int
        Of the cross-validation over prompts.
    bins : int
        Of a histogram, at most.

    Returns
    -------
    Fitted

    Raises
    ------
    ToolkitError
        The run is not graded, an estimator or method is unknown, `temperature` is asked of values that are no
        probabilities, or nothing can be fitted on.
    """
    one, units = _units(run, estimator, question, must_be_graded=True)
    if method == "temperature" and not (one.higher_is_confident and one.range[0] >= 0 and one.range[1] <= 1):
        raise ToolkitError(
            f"method temperature takes probabilities, and {one.label} is none: give isotonic, platt or histogram"
        )
    confidence = _confidence(units, one)
    validated = cross_validate(
        method, confidence, units.outcome, units.prompts, folds=folds, bins=bins, seed=question.seed
    )
    judged = judge(confidence, units.outcome)
    n_prompts = len(np.unique(units.prompts[judged.kept]))
    recalibration = Recalibration(one.label, validated.final, judged.n, n_prompts)
    return Fitted(recalibration, _compare(confidence, validated.calibrated, units.outcome))


def apply_run(run: Run, recalibration: Recalibration, question: Question) -> Applied:
    """Probabilities of being right for a run, by a map fitted elsewhere.

    Parameters
    ----------
    run : Run
        Graded or not.
    recalibration : Recalibration
        As `toolkit.stats.recalibration_file.load_recalibration` reads it.
    question : Question
        Of what; its estimators are not used.

    Raises
    ------
    ToolkitError
        The map's estimator is unknown, or its values do not fit the map.
    """
    one, units = _units(run, recalibration.estimator, question, must_be_graded=False)
    confidence = _confidence(units, one)
    probability = recalibration(confidence)
    keys = pd.DataFrame(units.keys, columns=["prompt_id", "kind", "sample_index"])
    values = keys.assign(
        **{one.label: units.values[one.label], "probability": probability, "grade": units.outcome}
    )
    graded = not np.isnan(units.outcome).all()
    return Applied(values, _compare(confidence, probability, units.outcome) if graded else None)


def _units(run: Run, estimator: str, question: Question, *, must_be_graded: bool) -> tuple[Estimator, Units]:
    one = stats.get(estimator)
    chosen = list({e.label: e for e in (stats.get("n_tokens"), one)}.values())
    return one, judged_units(run, question, chosen, must_be_graded=must_be_graded).units


def _confidence(units: Units, one: Estimator) -> Floats:
    """Values in the direction where higher is more confident, as a recalibration takes them."""
    return as_confidence(units.values[one.label], one.higher_is_confident)


def _compare(before: Floats, after: Floats, outcome: Floats) -> pd.DataFrame:
    """Metrics of the units where both are defined; NaN for calibration of what is no probability."""
    both = ~np.isnan(before) & ~np.isnan(after) & ~np.isnan(outcome)
    rows = []
    for when, values in (("before", before[both]), ("after", after[both])):
        probability = bool(((values >= 0) & (values <= 1)).all())
        found = {
            name: METRICS[name](values, outcome[both])
            if probability or not METRICS[name].probability
            else np.nan
            for name in _METRICS
        }
        undefined = int((~np.isnan(outcome)).sum() - both.sum())
        rows.append({"when": when, "n": int(both.sum()), "n_undefined": undefined, **found})
    return pd.DataFrame(rows)
