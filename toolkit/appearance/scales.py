"""The fixed scale of each statistic: which value counts as unsure, and which as sure.

A scale does not depend on the data, so that a colour means the same in every view and every run.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from toolkit.characters import quoted
from toolkit.errors import ToolkitError, argument


class Scale(NamedTuple):
    """From `unsure` (confidence 0) to `sure` (confidence 1); values beyond count as the end."""

    unsure: float
    sure: float
    unit: str = ""
    logarithmic: bool = False

    def confidence(self, value: float) -> float:
        """Place of a value on the scale, in [0, 1]. NaN, which is not computed, stays NaN."""
        if math.isnan(value):
            return math.nan
        unsure, sure = self._place(self.unsure), self._place(self.sure)
        return min(max((self._place(value) - unsure) / (sure - unsure), 0.0), 1.0)

    def value(self, confidence: float) -> float:
        """The value at a place in [0, 1] of the scale."""
        unsure, sure = self._place(self.unsure), self._place(self.sure)
        place = unsure + confidence * (sure - unsure)
        return math.exp(place) if self.logarithmic else place

    def _place(self, value: float) -> float:
        return math.log(max(value, 1e-300)) if self.logarithmic else value


_LOGPROB = Scale(-4.0, 0.0, "nats")
_ENTROPY = Scale(4.0, 0.0, "nats")
_SHARE = Scale(0.0, 1.0)
_RANK = Scale(50.0, 1.0, logarithmic=True)

TOKEN_SCALES: dict[str, Scale] = {  # columns of the tokens table
    "logprob": _LOGPROB,
    "constrained_logprob": _LOGPROB,
    "sampling_logprob": _LOGPROB,
    "entropy": _ENTROPY,
    "rank": _RANK,
    "boosted_prob": _SHARE,
}
SPAN_SCALES: dict[str, Scale] = {  # statistics of a segment or a sequence
    "mean_logprob": _LOGPROB,
    "min_logprob": _LOGPROB,
    "sum_logprob": Scale(-40.0, 0.0, "nats"),
    "perplexity": Scale(math.exp(4.0), 1.0, logarithmic=True),
    "min_prob": _SHARE,
    "mean_prob": _SHARE,
    "geometric_mean_prob": _SHARE,
    "mean_entropy": _ENTROPY,
    "max_entropy": _ENTROPY,
    "mean_margin": _SHARE,
    "mean_rank": _RANK,
    "greedy_fraction": _SHARE,
}


def scale_of(metric: str, scales: dict[str, Scale]) -> Scale:
    """The scale of a statistic.

    Raises
    ------
    ToolkitError
        There is none of that name; the message lists those there are.
    """
    if metric not in scales:
        raise ToolkitError(
            f"{argument('metric')}: no scale for {quoted(metric)}; use one of {', '.join(scales)}"
        )
    return scales[metric]
