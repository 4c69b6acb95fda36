"""DeepConf's window estimators against loops over windows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stats.token_tables import columns_of, random_ranges, random_tokens
from toolkit.errors import ToolkitError
from toolkit.stats import registry
from toolkit.stats.ranges import Ranges

WINDOWS = ["lowest_window", "bottom_windows", "tail"]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def plain_windows(values: list[float], window: int) -> list[float]:
    if len(values) < window:
        return [mean(values)]
    return [mean(values[i : i + window]) for i in range(len(values) - window + 1)]


def plain_bottom(values: list[float], window: int, fraction: float) -> float:
    means = sorted(plain_windows(values, window))
    return mean(means[: max(1, math.floor(round(fraction * len(means), 6)))])


def evaluate(label: str, confidences: list[list[float]]) -> np.ndarray:
    """Over spans of these token confidences, one after another."""
    ends = np.cumsum([len(span) for span in confidences])
    starts = np.concatenate([[0], ends[:-1]])
    columns = {"top20_mean_logprob": -np.array([value for span in confidences for value in span])}
    return registry.get(label)(columns, Ranges(starts, ends))


CONFIDENCES = st.lists(st.lists(st.floats(0, 30), max_size=25), min_size=1, max_size=6)


@given(CONFIDENCES, st.integers(1, 12))
def test_the_lowest_window_is_the_smallest_mean(spans: list[list[float]], window: int) -> None:
    expected = [min(plain_windows(span, window)) for span in spans]
    np.testing.assert_allclose(evaluate(f"lowest_window({window})", spans), expected, rtol=1e-9, atol=1e-9)


@given(CONFIDENCES, st.integers(1, 12), st.sampled_from([0.1, 0.3, 1.0]))
def test_the_bottom_windows_are_the_lowest_share_and_at_least_one(
    spans: list[list[float]], window: int, fraction: float
) -> None:
    expected = [plain_bottom(span, window, fraction) for span in spans]
    found = evaluate(f"bottom_windows({fraction}, {window})", spans)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@given(CONFIDENCES, st.integers(1, 12))
def test_the_tail_is_the_mean_of_the_last_tokens(spans: list[list[float]], length: int) -> None:
    expected = [mean(span[-length:]) for span in spans]
    np.testing.assert_allclose(evaluate(f"tail({length})", spans), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WINDOWS)
def test_with_the_published_window_a_short_span_has_its_plain_mean(name: str) -> None:
    columns, ranges = columns_of(random_tokens(40, seed=1)), random_ranges(40, seed=2)
    plain = registry.get("mean_topk_nll")(columns, ranges)
    np.testing.assert_allclose(registry.get(name)(columns, ranges), plain)


@pytest.mark.parametrize("name", WINDOWS)
def test_another_k_takes_the_stored_alternatives(name: str) -> None:
    columns, ranges = columns_of(random_tokens(40, seed=3)), random_ranges(40, seed=4)
    found = registry.get(f"{name}(k=3)")(columns, ranges)
    np.testing.assert_allclose(found, registry.get("mean_topk_nll(3)")(columns, ranges))


def test_an_infinite_confidence_stays_inside_its_windows() -> None:
    span = [math.inf, 2.0, 1.0, 3.0, 4.0]
    assert evaluate("lowest_window(2)", [span, [5.0, 6.0]]).tolist() == [1.5, 5.5]


def test_weights_do_not_change_windows() -> None:
    columns = columns_of(random_tokens(10, seed=5))
    starts, ends = np.array([0, 4]), np.array([4, 10])
    weighted = Ranges(starts, ends, np.linspace(0.1, 1, 10))
    for label in ("lowest_window(2)", "bottom_windows(0.5, 2)", "tail(2)", "lowest_window", "tail"):
        estimator: Callable[..., np.ndarray] = registry.get(label)
        np.testing.assert_allclose(estimator(columns, weighted), estimator(columns, Ranges(starts, ends)))


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("lowest_window(0)", "window=0"),
        ("bottom_windows(window=0)", "window=0"),
        ("bottom_windows(0.0)", "fraction=0"),
        ("tail(0)", "length=0"),
        ("tail(k=0)", "k=0"),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(label: str, words: str) -> None:
    with pytest.raises(ToolkitError, match=words):
        evaluate(label, [[1.0, 2.0]])
