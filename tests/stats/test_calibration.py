"""Calibration against published cases, plain loops over bins, scikit-learn and SciPy."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from toolkit.errors import ToolkitError
from toolkit.stats import calibration
from toolkit.stats.tally import Blocks

NAN = math.nan
CASES = json.loads((Path(__file__).parents[1] / "cases" / "metrics.json").read_text(encoding="utf-8"))[
    "calibration"
]
PROBABILITY = st.one_of(st.sampled_from([0.0, 0.1, 0.29, 0.3, 0.5, 0.7, 0.95, 1.0]), st.floats(0, 1))
UNITS = st.lists(st.tuples(PROBABILITY, st.sampled_from([0.0, 1.0])), max_size=15)
BINS = st.sampled_from([1, 2, 3, 10, 100])


def columns(units):
    return tuple(list(column) for column in zip(*units, strict=True)) if units else ([], [])


def width_bins(units, bins):
    """Edges are the nearest floats to i/bins, as a person would write them."""
    parts = [[] for _ in range(bins)]
    for c, y in units:
        at = sum(1 for i in range(1, bins) if c >= i / bins)
        parts[at].append((c, y))
    return [part for part in parts if part]


def mass_bins(units, bins):
    """Each block of equal confidence goes to the part where its middle falls."""
    parts = [[] for _ in range(bins)]
    for value in sorted({c for c, _ in units}):
        block = [u for u in units if u[0] == value]
        below = sum(1 for c, _ in units if c < value)
        middle = Fraction(2 * below + len(block), 2 * len(units))
        parts[math.floor(bins * middle)].extend(block)
    return [part for part in parts if part]


def gaps(parts):
    total = sum(len(part) for part in parts)
    for part in parts:
        confidence = sum(c for c, _ in part) / len(part)
        accuracy = sum(y for _, y in part) / len(part)
        yield len(part) / total, abs(confidence - accuracy)


@given(UNITS, BINS, st.sampled_from(["equal_width", "equal_mass"]))
def test_errors_are_those_of_a_loop_over_bins(units, bins, binning):
    parts = {"equal_width": width_bins, "equal_mass": mass_bins}[binning](units, bins)
    found = list(gaps(parts))
    expected = {
        "ece": sum(w * g for w, g in found),
        "mce": max((g for _, g in found), default=NAN),
        "rmsce": math.sqrt(sum(w * g * g for w, g in found)),
    }
    for name, value in expected.items():
        value = value if units else NAN
        result = getattr(calibration, name)(*columns(units), bins=bins, binning=binning)
        assert result == pytest.approx(value, nan_ok=True, abs=1e-9), name


@given(UNITS)
def test_brier_and_log_loss_are_those_of_a_loop(units):
    squares = [(c - y) ** 2 for c, y in units]
    losses, clipped = [], 0
    for c, y in units:
        p = min(max(c, 1e-15), 1 - 1e-15)
        clipped += p != c
        losses.append(-math.log(p if y else 1 - p))
    n = len(units)
    assert calibration.brier(*columns(units)) == pytest.approx(sum(squares) / n if n else NAN, nan_ok=True)
    found = calibration.log_loss(*columns(units))
    assert found.value == pytest.approx(sum(losses) / n if n else NAN, nan_ok=True)
    assert found.n_clipped == clipped


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_published_values(case):
    binning = case.get("binning", "equal_width")
    for name, value in case["expected"].items():
        found = getattr(calibration, name)(
            case["confidence"], case["correct"], bins=case["bins"], binning=binning
        )
        assert found == pytest.approx(value, abs=case.get("tolerance", 1e-9))


def test_adaptive_ece_is_ece_over_equal_mass_bins():
    confidence, correct = [0.1, 0.1, 0.1, 0.1, 0.7], [1, 0, 0, 0, 0]
    assert calibration.adaptive_ece(confidence, correct, bins=2) == pytest.approx(0.26)


def test_equal_mass_bins_of_distinct_values_differ_by_one_unit_at_most():
    rng = np.random.default_rng(1)
    curve = calibration.reliability_curve(rng.random(103), rng.integers(0, 2, 103), binning="equal_mass")
    assert curve.n.sum() == 103
    assert set(curve.n.tolist()) == {10, 11}


def test_an_edge_belongs_to_the_upper_bin_and_one_to_the_last():
    curve = calibration.reliability_curve([0.29, 0.3, 1.0], [1, 1, 1], bins=100)
    assert curve.lower.tolist() == [0.29, 0.3, 0.99]
    assert curve.upper.tolist() == [0.3, 0.31, 1.0]


def test_values_are_scikit_learns_on_ordinary_units():
    rng = np.random.default_rng(0)
    confidence = rng.random(300)
    correct = (rng.random(300) < confidence).astype(int)
    assert calibration.brier(confidence, correct) == pytest.approx(sk.brier_score_loss(correct, confidence))
    assert calibration.log_loss(confidence, correct).value == pytest.approx(sk.log_loss(correct, confidence))
    accuracy, mean = calibration_curve(correct, confidence, n_bins=7)
    curve = calibration.reliability_curve(confidence, correct, bins=7)
    assert curve.accuracy == pytest.approx(accuracy)
    assert curve.mean_confidence == pytest.approx(mean)


def test_curve_sums_to_the_error():
    rng = np.random.default_rng(2)
    confidence, correct = rng.random(80), rng.integers(0, 2, 80)
    for binning in calibration.BINNINGS:
        curve = calibration.reliability_curve(confidence, correct, binning=binning)
        gap = np.abs(curve.mean_confidence - curve.accuracy)
        assert calibration.ece(confidence, correct, binning=binning) == pytest.approx(
            np.average(gap, weights=curve.n)
        )
        assert calibration.mce(confidence, correct, binning=binning) == pytest.approx(gap.max())
        assert (curve.lower <= curve.mean_confidence).all()
        assert (curve.mean_confidence <= curve.upper).all()


@pytest.mark.parametrize(("right", "n"), [(0, 1), (3, 3), (7, 20), (50, 100)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_are_wilsons(right, n, level):
    low, high = calibration.wilson_interval([right], [n], level)
    expected = binomtest(right, n).proportion_ci(level, method="wilson")
    assert (low[0], high[0]) == (pytest.approx(expected.low), pytest.approx(expected.high))


ROWS = {
    "ece": calibration.ece_rows,
    "adaptive_ece": calibration.adaptive_ece_rows,
    "mce": calibration.mce_rows,
    "rmsce": calibration.rmsce_rows,
    "brier": calibration.brier_rows,
    "log_loss": calibration.log_loss_rows,
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_equal_units_repeated_as_often_as_counted(name):
    rng = np.random.default_rng(3)
    confidence, correct = np.round(rng.random(30), 1), rng.integers(0, 2, 30).astype(float)
    counts = rng.integers(0, 3, (20, 30))
    counts[0], counts[1, 1:] = 0, 0
    found = ROWS[name](Blocks.of(confidence, correct).tally(counts))
    for row, value in zip(counts, found, strict=True):
        alone = getattr(calibration, name)(np.repeat(confidence, row), np.repeat(correct, row))
        assert value == pytest.approx(alone.value if name == "log_loss" else alone, nan_ok=True)


def test_no_units_give_an_empty_curve_and_nan():
    curve = calibration.reliability_curve([NAN], [1])
    assert all(len(column) == 0 for column in curve)
    assert math.isnan(calibration.ece([], []))
    assert calibration.log_loss([], []).n_clipped == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibration.ece([1.2], [1]), r"confidence holds 1.2: give probabilities in \[0, 1\]"),
        (lambda: calibration.brier([-math.inf], [1]), "confidence holds -inf"),
        (lambda: calibration.ece([0.5], [0.5]), "correct holds 0.5"),
        (lambda: calibration.ece([0.5], [1], bins=0), "bins is 0"),
        (
            lambda: calibration.mce([0.5], [1], binning="even"),
            "binning is 'even': give one of equal_width, equal",
        ),
        (lambda: calibration.reliability_curve([0.5], [1], level=95), "level is 95"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ToolkitError, match=message):
        call()
