"""Unbiased estimates over all subsets against an enumeration of the subsets."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats.subsets import majority_at_k, pass_at_k


@given(st.lists(st.integers(0, 1), min_size=1, max_size=9), st.integers(1, 9))
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(correct: list[int], k: int) -> None:
    subsets = list(combinations(correct, k))
    expected = np.mean([max(subset) for subset in subsets]) if subsets else math.nan
    assert pass_at_k(correct, k) == pytest.approx(expected, nan_ok=True)


@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=8),
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=8, max_size=8),
    st.integers(1, 8),
)
def test_majority_at_k_is_the_mean_over_subsets_with_ties_shared(
    classes: list[int], grades: list[float], k: int
) -> None:
    grades = grades[: len(classes)]
    answer = {c: np.mean([g for d, g in zip(classes, grades, strict=True) if d == c]) for c in classes}
    results = []
    for subset in combinations(classes, k):
        counts = Counter(c for c in subset if c != -1)
        winners = [c for c, n in counts.items() if n == max(counts.values())]
        results.append(np.mean([answer[c] for c in winners]) if winners else 0.0)
    expected = np.mean(results) if results else math.nan
    assert majority_at_k(classes, grades, k) == pytest.approx(expected, nan_ok=True)


def test_many_samples_are_counted_exactly() -> None:
    classes = np.repeat([0, 1, 2], [100, 60, 40])
    assert majority_at_k(classes, classes == 0, 200) == 1.0
    assert majority_at_k(classes, classes == 0, 1) == pytest.approx(0.5)
    assert 0.5 < majority_at_k(classes, classes == 0, 9) < majority_at_k(classes, classes == 0, 99) < 1
    assert pass_at_k(np.arange(1000) == 0, 500) == pytest.approx(0.5)


def test_samples_that_are_not_graded_leave_the_prompt_undefined() -> None:
    assert math.isnan(pass_at_k([1, math.nan], 1))
    assert math.isnan(majority_at_k([0, 1], [1, math.nan], 1))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ToolkitError, match="k=0"):
        pass_at_k([1], 0)
    with pytest.raises(ToolkitError, match="threshold"):
        pass_at_k([0.5], 1)
    with pytest.raises(ToolkitError, match="shape"):
        majority_at_k([0, 1], [1], 1)
