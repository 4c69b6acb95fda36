"""Selective prediction against published cases, and against plain loops over every order of tied units."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats import selective
from toolkit.stats.tally import Blocks

NAN, INF = math.nan, math.inf
CASES = json.loads((Path(__file__).parents[1] / "cases" / "metrics.json").read_text(encoding="utf-8"))[
    "selective"
]
CONFIDENCE = st.sampled_from([-INF, -1.0, 0.0, 0.5, 0.9, INF])
GRADED = st.lists(st.tuples(CONFIDENCE, st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=6)
BINARY = st.lists(st.tuples(CONFIDENCE, st.sampled_from([0.0, 1.0])), max_size=6)


def orders(units):
    """The qualities in each order that sorts confidence downwards."""
    groups = [[q for c, q in units if c == value] for value in sorted({c for c, _ in units}, reverse=True)]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [q for part in parts for q in part]


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else NAN


def prefix_risks(qualities):
    return [1 - sum(qualities[:k]) / k for k in range(1, len(qualities) + 1)]


def trapezoid(points):
    return sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in itertools.pairwise(points))


def plain_prefix_mean(units):
    return mean(mean(prefix_risks(order)) for order in orders(units)) if units else NAN


def plain_trapezoid(units):
    n = len(units)
    if n < 2:
        return NAN
    areas = []
    for order in orders(units):
        areas.append(trapezoid([((k + 1) / n, r) for k, r in enumerate(prefix_risks(order))]) / (1 - 1 / n))
    return mean(areas)


def working_points(units):
    """(coverage, risk) of each threshold."""
    points = []
    for threshold in sorted({c for c, _ in units}, reverse=True):
        answered = [q for c, q in units if c >= threshold]
        points.append((len(answered) / len(units), 1 - mean(answered)))
    return points


def plain_tie_merged(units):
    points = working_points(units)
    return trapezoid([(0, points[0][1]), *points]) if points else NAN


def plain_e_aurc(units):
    if not units:
        return NAN
    err = 1 - mean(q for _, q in units)
    return plain_tie_merged(units) - (err + ((1 - err) * math.log(1 - err) if err < 1 else 0))


def plain_augrc(units):
    return trapezoid([(0, 0), *((c, c * r) for c, r in working_points(units))]) if units else NAN


def plain_prr(units, max_rejection):
    n = len(units)
    r = math.floor(max_rejection * n)
    qualities = [q for _, q in units]
    if len(set(qualities)) < 2 or r < 2:
        return NAN

    def area(order):
        return mean(mean(order[:k]) for k in range(n - r + 1, n + 1))

    base = mean(qualities)
    return (mean(area(o) for o in orders(units)) - base) / (area(sorted(qualities, reverse=True)) - base)


PLAIN = {
    "aurc_prefix_mean": (selective.aurc_prefix_mean, plain_prefix_mean),
    "aurc_trapezoid": (selective.aurc_trapezoid, plain_trapezoid),
    "aurc_tie_merged": (selective.aurc_tie_merged, plain_tie_merged),
    "augrc": (selective.augrc, plain_augrc),
    "prr": (selective.prr, lambda units: plain_prr(units, 1.0)),
    "prr_half": (lambda c, q: selective.prr(c, q, max_rejection=0.5), lambda units: plain_prr(units, 0.5)),
}


def columns(units):
    return tuple(list(column) for column in zip(*units, strict=True)) if units else ([], [])


@pytest.mark.parametrize("name", PLAIN)
@given(units=GRADED)
@settings(max_examples=60, deadline=None)
def test_equals_the_mean_over_all_orders_of_ties(name, units):
    function, plain = PLAIN[name]
    assert function(*columns(units)) == pytest.approx(plain(units), nan_ok=True, abs=1e-12)


@given(BINARY)
@settings(deadline=None)
def test_e_aurc_is_the_area_less_the_closed_optimum(units):
    assert selective.e_aurc(*columns(units)) == pytest.approx(plain_e_aurc(units), nan_ok=True, abs=1e-12)


ROWS = {
    "aurc_prefix_mean": (selective.aurc_prefix_mean_rows, selective.aurc_prefix_mean),
    "aurc_trapezoid": (selective.aurc_trapezoid_rows, selective.aurc_trapezoid),
    "aurc_tie_merged": (selective.aurc_tie_merged_rows, selective.aurc_tie_merged),
    "e_aurc": (selective.e_aurc_rows, selective.e_aurc),
    "augrc": (selective.augrc_rows, selective.augrc),
    "prr": (selective.prr_rows, selective.prr),
    "risk_at_coverage": (
        lambda t: selective.risk_at_coverage_rows(t, 0.6),
        lambda c, q: selective.risk_at_coverage(c, q, 0.6),
    ),
    "coverage_at_risk": (
        lambda t: selective.coverage_at_risk_rows(t, 0.2),
        lambda c, q: selective.coverage_at_risk(c, q, 0.2),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_equal_units_repeated_as_often_as_counted(name):
    rows, function = ROWS[name]
    rng = np.random.default_rng(5)
    confidence, correct = rng.integers(0, 6, 12).astype(float), rng.integers(0, 2, 12).astype(float)
    counts = rng.integers(0, 3, (20, 12))
    counts[0], counts[1, 1:] = 0, 0
    found = rows(Blocks.of(confidence, correct).tally(counts))
    repeated = [function(np.repeat(confidence, row), np.repeat(correct, row)) for row in counts]
    assert found == pytest.approx(repeated, nan_ok=True)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_published_values(case):
    if "note" in case and "N=100" in case["note"]:
        confidence, quality = np.full(100, 0.7), np.arange(100) % 2
    else:
        confidence = case.get("confidence") or -np.asarray(case["uncertainty"])
        quality = case.get("correct") or case["quality"]
    functions = {name: getattr(selective, name, None) for name in case["expected"]}
    for name in ("rejection_area", "oracle_area"):  # the two areas that prr is made of: 1 − the prefix mean
        functions[name] = lambda c, q, name=name: (
            1 - selective.aurc_prefix_mean(q if "oracle" in name else c, q)
        )
    for name, value in case["expected"].items():
        assert functions[name](confidence, quality) == pytest.approx(value, abs=case.get("tolerance", 1e-9))


@given(GRADED)
def test_curve_has_each_working_point(units):
    curve = selective.risk_coverage(*columns(units))
    points = working_points(units)
    assert list(zip(curve.coverage, curve.risk, strict=True)) == [pytest.approx(p) for p in points]
    assert curve.threshold.tolist() == sorted({c for c, _ in units}, reverse=True)
    best = sorted((q for _, q in units), reverse=True)
    sizes = [round(c * len(units)) for c in curve.coverage]
    assert curve.optimum == pytest.approx([1 - mean(best[:k]) for k in sizes])
    assert curve.random == pytest.approx([1 - mean(best)] * len(points))
    assert (curve.optimum <= curve.risk + 1e-12).all()


@given(GRADED, st.sampled_from([0.1, 0.5, 0.7, 1.0]))
def test_risk_at_coverage_is_the_first_working_point_that_covers_it(units, coverage):
    found = selective.risk_at_coverage(*columns(units), coverage)
    reached = [risk for c, risk in working_points(units) if c >= coverage - 1e-9]
    assert found == pytest.approx(reached[0] if reached else NAN, nan_ok=True)


@given(GRADED, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_coverage_at_risk_is_the_largest_safe_working_point(units, risk):
    found = selective.coverage_at_risk(*columns(units), risk)
    safe = [c for c, r in working_points(units) if r <= risk + 1e-9]
    assert found == pytest.approx(max(safe, default=0.0) if units else NAN, nan_ok=True)


def test_a_share_of_a_hundred_is_the_whole_number_that_it_is_in_decimals():
    assert 0.07 * 100 > 7
    assert 0.29 * 100 < 29
    correct = np.arange(100) < 7
    assert selective.risk_at_coverage(-np.arange(100.0), correct, 0.07) == 0.0
    one = (np.arange(100) == 75).astype(float)
    area, best = sum(1 / k for k in range(76, 101)) / 29, sum(1 / k for k in range(72, 101)) / 29
    expected = (area - 0.01) / (best - 0.01)
    assert selective.prr(-np.arange(100.0), one, max_rejection=0.29) == pytest.approx(expected)


def test_perfect_and_reversed_rankings_are_one_and_below_zero():
    quality = [1, 1, 1, 0, 0]
    assert selective.prr([5, 4, 3, 2, 1], quality) == pytest.approx(1)
    assert selective.prr([1, 2, 3, 4, 5], quality) < 0


def test_half_a_prr_sees_the_order_of_the_less_confident_half_only():
    rng = np.random.default_rng(0)
    quality, confidence = rng.random(20), np.arange(20.0)[::-1]
    value = selective.prr(confidence, quality, max_rejection=0.5)
    for half, stays in ((slice(0, 10), True), (slice(10, 20), False)):
        other = quality.copy()
        other[half] = other[half][::-1]
        assert (selective.prr(confidence, other, max_rejection=0.5) == pytest.approx(value)) is stays


def test_prr_does_not_change_with_the_scale_of_quality():
    rng = np.random.default_rng(0)
    confidence, quality = rng.normal(size=50), rng.random(50)
    expected = selective.prr(confidence, quality)
    assert selective.prr(confidence, 40 * quality - 7) == pytest.approx(expected)


@pytest.mark.parametrize("quality", [[1, 1, 1], [0, 0, 0], [0.3, 0.3, 0.3], [1]])
def test_prr_of_one_quality_is_undefined(quality):
    assert math.isnan(selective.prr(np.arange(len(quality)), quality))


def test_everything_right_has_no_risk():
    assert selective.aurc_tie_merged([1, 2], [1, 1]) == 0
    assert selective.aurc_trapezoid([1, 2], [1, 1]) == 0
    assert selective.e_aurc([1, 2], [1, 1]) == 0


def test_undefined_units_are_left_out():
    assert selective.augrc([0.1, NAN, 0.5, 0.7], [1, 1, 0, NAN]) == selective.augrc([0.1, 0.5], [1, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: selective.aurc_prefix_mean([1, 2], [1, 2]), "quality holds 2"),
        (lambda: selective.e_aurc([1, 2], [1, 0.5]), "correct holds 0.5"),
        (lambda: selective.prr([1, 2], [1, 0], max_rejection=0), "max_rejection is 0"),
        (lambda: selective.prr([1, 2], [1, 0], max_rejection=1.5), "max_rejection is 1.5"),
        (lambda: selective.risk_at_coverage([1, 2], [1, 0], 0), "coverage is 0: give a share in \\(0, 1\\]"),
        (lambda: selective.coverage_at_risk([1, 2], [1, 0], -0.1), "risk is -0.1"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ToolkitError, match=message):
        call()
