"""Reductions over ranges of rows: empty, overlapping, weighted, and with values that are not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Ranges, count_values, sliding_sums

VALUES = st.lists(
    st.one_of(st.floats(-50, 50, width=32), st.sampled_from([-math.inf, math.nan, 0.0, -1.0, -1.0])),
    min_size=1,
    max_size=40,
)


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    values = draw(VALUES)
    edge = st.integers(0, len(values))
    pairs = draw(st.lists(st.tuples(edge, edge), max_size=10))
    return values, [(min(pair), max(pair)) for pair in pairs]


def ranges_of(pairs: list[tuple[int, int]], weights: list[float] | None = None) -> Ranges:
    starts, ends = [a for a, _ in pairs], [b for _, b in pairs]
    return Ranges(
        np.array(starts, np.int64), np.array(ends, np.int64), None if weights is None else np.array(weights)
    )


def plain_sum(values: list[float]) -> float:
    return math.fsum(values) if values else math.nan


def plain_min(values: list[float]) -> float:
    return math.nan if not values or any(map(math.isnan, values)) else min(values)


def plain_lowest(values: list[float], count: int) -> float:
    if not 0 < count <= len(values) or any(map(math.isnan, values)):
        return math.nan
    return math.fsum(sorted(values)[:count]) / count


@given(spans())
def test_sums_means_and_extremes_equal_plain_loops(case: tuple[list[float], list[tuple[int, int]]]) -> None:
    values, pairs = case
    ranges, column = ranges_of(pairs), np.array(values, np.float32)
    parts = [values[a:b] for a, b in pairs]
    np.testing.assert_allclose(ranges.sum(column), [plain_sum(p) for p in parts], rtol=1e-12, atol=1e-12)
    means = [plain_sum(p) / len(p) if p else math.nan for p in parts]
    np.testing.assert_allclose(ranges.mean(column), means, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ranges.min(column), [plain_min(p) for p in parts])
    np.testing.assert_array_equal(ranges.max(-column), [-plain_min(p) for p in parts])


@given(spans(), st.lists(st.integers(0, 12), min_size=10, max_size=10))
def test_the_mean_of_the_lowest_equals_a_sort_of_each_span(
    case: tuple[list[float], list[tuple[int, int]]], counts: list[int]
) -> None:
    values, pairs = case
    found = ranges_of(pairs).lowest_mean(np.array(values), np.array(counts[: len(pairs)], np.int64))
    expected = [plain_lowest(values[a:b], count) for (a, b), count in zip(pairs, counts, strict=False)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_missing_value_beside_an_infinite_one_leaves_the_mean_of_the_lowest_undefined() -> None:
    values = np.array([-np.inf, np.nan, -1.0, -2.0, -3.0])
    found = ranges_of([(0, 3), (2, 5)]).lowest_mean(values, np.array([2, 2]))
    np.testing.assert_array_equal(found, [np.nan, -2.5])


def test_many_spans_of_many_lengths_are_sorted_in_blocks_without_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=2000)
    starts = rng.integers(0, 1000, 300)
    ranges = Ranges(starts, starts + rng.integers(1, 1000, 300))
    counts = np.maximum(1, ranges.lengths // 3)
    whole = ranges.lowest_mean(values, counts)
    monkeypatch.setattr("toolkit.stats.ranges._BLOCK", 1000)
    np.testing.assert_array_equal(ranges.lowest_mean(values, counts), whole)


@given(VALUES, st.integers(1, 45))
def test_sliding_sums_equal_a_sum_of_each_window(values: list[float], length: int) -> None:
    found = sliding_sums(np.array(values), length)
    expected = [math.fsum(values[i : i + length]) for i in range(len(values) - length + 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_a_weight_scales_a_row_in_sums_and_means_and_not_in_extremes() -> None:
    column = np.array([-1.0, -2.0, -4.0])
    ranges = ranges_of([(0, 3), (1, 2)], [1.0, 0.5, 0.25, 0.5])
    np.testing.assert_allclose(ranges.sum(column), [-3.0, -1.0])
    np.testing.assert_allclose(ranges.mean(column), [-3.0 / 1.75, -2.0])
    np.testing.assert_allclose(ranges.min(column), [-4.0, -2.0])


def test_a_row_of_weight_zero_takes_no_part_even_where_it_is_infinite_or_not_computed() -> None:
    ranges = ranges_of([(0, 3), (0, 1), (0, 0)], [0.0, 1.0, 0.0, 0.0])
    column = np.array([-np.inf, -2.0, np.nan])
    np.testing.assert_array_equal(ranges.sum(column), [-2.0, np.nan, np.nan])
    np.testing.assert_array_equal(ranges.mean(column), [-2.0, np.nan, np.nan])


@pytest.mark.parametrize(
    ("starts", "ends", "weights", "words"),
    [
        ([2], [1], None, "range 0 is 2:1"),
        ([0, -1], [1, 1], None, "range 1 is -1:1"),
        ([0], [1, 2], None, "one shape"),
        ([0], [2], [1.0], "2 numbers"),
        ([0], [2], [1.0, -0.5], "at least 0"),
        ([0], [2], [1.0, math.nan], "at least 0"),
    ],
)
def test_impossible_ranges_are_refused(
    starts: list[int], ends: list[int], weights: list[float] | None, words: str
) -> None:
    with pytest.raises(ToolkitError, match=words):
        Ranges(np.array(starts), np.array(ends), None if weights is None else np.array(weights))


def test_a_range_past_the_column_is_refused() -> None:
    ranges = ranges_of([(0, 4)])
    for reduce in (ranges.sum, ranges.min, lambda column: ranges.lowest_mean(column, np.array([1]))):
        with pytest.raises(ToolkitError, match="past the column's 3 rows"):
            reduce(np.zeros(3))


def test_no_spans_and_no_rows_give_empty_results() -> None:
    none = ranges_of([])
    assert none.sum(np.zeros(0)).shape == none.lowest_mean(np.zeros(0), np.zeros(0, int)).shape == (0,)
    assert np.isnan(ranges_of([(0, 0)]).mean(np.zeros(0))).tolist() == [True]


def test_undefined_and_infinite_values_are_counted() -> None:
    assert count_values([1.0, math.nan, -math.inf, math.nan, 0.0]) == (5, 2, 1)


@given(
    values=VALUES,
    kinds=st.lists(st.sampled_from([0, 1, 1, 1, 1, 1, 1, 1, 2, 5]), min_size=20, max_size=40),
    seed=st.integers(0, 99),
)
def test_spans_of_mostly_one_row_are_reduced_as_each_alone(
    values: list[float], kinds: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    lengths = np.minimum(kinds, len(values))
    starts = rng.integers(0, len(values) - lengths + 1)
    together, column = Ranges(starts, starts + lengths), np.array(values)
    for reduced in (Ranges.sum, Ranges.mean, Ranges.min, Ranges.max):
        with np.errstate(invalid="ignore"):
            alone = [reduced(together.take(np.array([i])), column)[0] for i in range(len(together))]
            np.testing.assert_array_equal(reduced(together, column), alone)


def test_spans_of_one_row_past_the_column_are_refused() -> None:
    with pytest.raises(ToolkitError, match="a range ends at 3"):
        ranges_of([(0, 1), (2, 3)]).min(np.zeros(2))
