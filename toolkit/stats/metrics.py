"""Every metric of evaluation under its name, so that tables and intervals need one loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from numpy.typing import ArrayLike

from toolkit.errors import ToolkitError
from toolkit.stats import calibration, ranking, selective
from toolkit.stats.tally import (
    Judged,
    RowMetric,
    judge,
    of_units,
    require_binary,
    require_probability,
    require_quality,
)


@dataclass(frozen=True)
class Metric:
    """A metric of confidence against right and wrong.

    Attributes
    ----------
    name : str
    rows : function
        The metric of each resample of a tally, (b,).
    higher_is_better : bool
    probability : bool
        It needs confidences in [0, 1].
    graded : bool
        It also takes qualities that are neither 0 nor 1.
    scale_free : bool
        The quality may be on any scale.
    """

    name: str
    rows: RowMetric
    higher_is_better: bool
    probability: bool = False
    graded: bool = False
    scale_free: bool = False

    def check(self, judged: Judged) -> Judged:
        """The same units, if this metric takes them.

        Raises
        ------
        ToolkitError
            If outcomes are graded and it needs 0 and 1, or a confidence is no probability and it needs one.
        """
        if self.probability:
            require_probability(judged)
        if self.scale_free:
            return judged
        return require_quality(judged) if self.graded else require_binary(judged)

    def __call__(self, confidence: ArrayLike, outcome: ArrayLike) -> float:
        """The metric of the units where both are defined; NaN where it is undefined."""
        return of_units(self.rows, self.check(judge(confidence, outcome)))


_ALL = (
    Metric("auroc", ranking.auroc_rows, higher_is_better=True),
    Metric("auprc", ranking.auprc_rows, higher_is_better=True),
    Metric("prr", selective.prr_rows, higher_is_better=True, graded=True, scale_free=True),
    Metric(
        "prr_half",
        partial(selective.prr_rows, max_rejection=0.5),
        higher_is_better=True,
        graded=True,
        scale_free=True,
    ),
    Metric("aurc_prefix_mean", selective.aurc_prefix_mean_rows, higher_is_better=False, graded=True),
    Metric("aurc_trapezoid", selective.aurc_trapezoid_rows, higher_is_better=False, graded=True),
    Metric("aurc_tie_merged", selective.aurc_tie_merged_rows, higher_is_better=False, graded=True),
    Metric("e_aurc", selective.e_aurc_rows, higher_is_better=False),
    Metric("augrc", selective.augrc_rows, higher_is_better=False, graded=True),
    Metric("ece", calibration.ece_rows, higher_is_better=False, probability=True),
    Metric("adaptive_ece", calibration.adaptive_ece_rows, higher_is_better=False, probability=True),
    Metric("mce", calibration.mce_rows, higher_is_better=False, probability=True),
    Metric("rmsce", calibration.rmsce_rows, higher_is_better=False, probability=True),
    Metric("brier", calibration.brier_rows, higher_is_better=False, probability=True),
    Metric("log_loss", calibration.log_loss_rows, higher_is_better=False, probability=True),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def find_metrics(names: Iterable[str]) -> Sequence[Metric]:
    """The metrics of these names, in this order.

    Raises
    ------
    ToolkitError
        If one is unknown; the message lists what there is.
    """
    asked = list(names)
    for name in asked:
        if name not in METRICS:
            raise ToolkitError(f"unknown metric {name!r}: give one of {', '.join(METRICS)}")
    return [METRICS[name] for name in asked]
