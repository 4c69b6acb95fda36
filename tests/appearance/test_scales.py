"""The fixed scales."""

from __future__ import annotations

import math

import pytest

from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES, Scale, scale_of
from toolkit.errors import ToolkitError

ALL = {**TOKEN_SCALES, **SPAN_SCALES}


@pytest.mark.parametrize("metric", ALL)
def test_ends_and_middle_of_every_scale(metric: str) -> None:
    scale = ALL[metric]
    assert scale.confidence(scale.unsure) == 0.0
    assert scale.confidence(scale.sure) == 1.0
    assert scale.value(0.0) == pytest.approx(scale.unsure)
    for place in (0.1, 0.5, 0.9):
        assert scale.confidence(scale.value(place)) == pytest.approx(place)


def test_values_beyond_the_ends_count_as_the_end_and_nan_stays() -> None:
    scale = Scale(-4.0, 0.0)
    assert (scale.confidence(-math.inf), scale.confidence(3.0)) == (0.0, 1.0)
    assert math.isnan(scale.confidence(math.nan))
    falling = Scale(100.0, 1.0, logarithmic=True)
    assert (falling.confidence(math.inf), falling.confidence(0.0)) == (0.0, 1.0)
    assert falling.confidence(10.0) == pytest.approx(0.5)


def test_an_unknown_metric_lists_those_there_are() -> None:
    assert scale_of("entropy", TOKEN_SCALES) == TOKEN_SCALES["entropy"]
    with pytest.raises(ToolkitError, match=r"'confidence'; use one of logprob, .*entropy"):
        scale_of("confidence", TOKEN_SCALES)
