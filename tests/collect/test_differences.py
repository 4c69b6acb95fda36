"""The tally of differences equals what NumPy says of all of them at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toolkit.collect.differences import Tally

VALUES = st.floats(0, 2.0**100, width=32, allow_subnormal=False)


@settings(deadline=None)
@given(arrays(np.float32, st.integers(1, 300), elements=VALUES), st.integers(0, 300))
def test_it_equals_numpy(values: np.ndarray, cut: int) -> None:
    tally = Tally()
    tally.add(values[:cut])
    tally.add(values[cut:])
    found = tally.differences()
    assert found is not None
    assert (found.n, found.largest) == (len(values), float(values.max()))
    assert found.mean == pytest.approx(values.mean(dtype=np.float64))
    for share, quantile in ((0.5, found.median), (0.99, found.p99)):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert quantile == pytest.approx(float(exact), rel=0.01, abs=1e-38)


def test_no_value_is_nothing_and_an_infinite_one_is_the_largest() -> None:
    tally = Tally()
    tally.add(np.array([[np.nan, np.nan]]))
    assert tally.differences() is None
    tally.add(np.array([np.inf, 1.0, np.nan]))
    found = tally.differences()
    assert found is not None
    assert (found.n, found.largest, found.mean) == (2, math.inf, math.inf)
    assert found.median == pytest.approx(1.0, rel=0.01)
    assert found.p99 == math.inf
