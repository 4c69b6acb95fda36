"""Recalibration against scikit-learn, first-order conditions and plain loops; files against damage."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from toolkit.errors import ToolkitError
from toolkit.stats import calibration, recalibration
from toolkit.stats.recalibration import RECALIBRATIONS, cross_validate, fit, prompt_folds
from toolkit.stats.recalibration_file import Recalibration, load_recalibration

NAN, INF = math.nan, math.inf


def overconfident(n=400, seed=0):
    """Probabilities whose log-odds are 3 times too large, and outcomes."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(size=n)
    correct = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(float)
    return 1 / (1 + np.exp(-3 * log_odds)), correct


@given(
    st.lists(
        st.tuples(st.sampled_from([-3.0, -1.0, 0.0, 0.25, 2.0]), st.sampled_from([0.0, 1.0])), min_size=1
    )
)
def test_isotonic_is_scikit_learns(units):
    score, right = (np.array(column) for column in zip(*units, strict=True))
    at = np.array([-9.0, -3.0, -2.2, -1.0, 0.1, 0.25, 1.0, 2.0, 9.0])
    expected = IsotonicRegression(out_of_bounds="clip").fit(score, right).predict(at)
    assert fit("isotonic", score, right)(at) == pytest.approx(expected)


def smoothed_targets(right):
    n_right, n_wrong = right.sum(), len(right) - right.sum()
    return np.where(right == 1, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))


@given(st.lists(st.tuples(st.integers(-20, 20), st.sampled_from([0.0, 1.0])), min_size=2, max_size=30))
@example([(0, 0.0)] * 4 + [(0, 1.0)] * 6 + [(1, 0.0), (-1, 0.0)])  # rounding stops Newton's line search
@settings(deadline=None)
def test_platt_has_no_slope_left_in_its_loss(units):
    score, right = (np.array(column, dtype=float) for column in zip(*units, strict=True))
    found = fit("platt", score, right)
    residual = found(score) - smoothed_targets(right)  # the gradient of the log loss
    assert residual.sum() == pytest.approx(0, abs=1e-6)
    assert residual @ (score - score.mean()) == pytest.approx(0, abs=1e-5 * max(1, np.abs(score).max()))


def test_platt_of_separable_classes_is_finite():
    found = fit("platt", [-900.0, -800.0, -2.0, -1.0], [0, 0, 1, 1])
    assert math.isfinite(found.slope)
    assert found.slope > 0
    assert 0 < found([-900.0])[0] < 0.5 < found([-1.0])[0] < 1


def test_platt_does_not_change_with_units_of_the_score():
    score, right = overconfident(100)
    here, there = fit("platt", score, right), fit("platt", 1000 * score - 5e4, right)
    assert there(1000 * score - 5e4) == pytest.approx(here(score), abs=1e-6)


def test_temperature_finds_the_factor_that_made_it_overconfident():
    p, right = overconfident(20000)
    assert fit("temperature", p, right).temperature == pytest.approx(3, rel=0.05)


def test_temperature_has_the_least_loss_on_a_grid():
    p, right = overconfident(300, seed=4)
    found = fit("temperature", p, right)
    best = calibration.log_loss(found(p), right).value
    for temperature in np.geomspace(0.02, 50, 60):
        other = recalibration.Temperature(float(temperature))
        assert best <= calibration.log_loss(other(p), right).value + 1e-9


def test_temperature_keeps_a_half_and_the_order():
    found = recalibration.Temperature(2.5)
    assert found([0.5])[0] == 0.5
    assert (np.diff(found([0.0, 0.2, 0.5, 0.9, 1.0])) > 0).all()
    assert recalibration.Temperature(1.0)([0.2, 0.9]) == pytest.approx([0.2, 0.9])


def test_histogram_gives_the_share_that_is_right_in_its_bin():
    score, right = [1.0, 2.0, 3.0, 10.0, 11.0, 12.0], [0, 0, 1, 1, 1, 0]
    found = fit("histogram", score, right, bins=2)
    assert found.edges == (6.5,)
    assert found([-5.0, 6.4, 6.5, 99.0]) == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])


def test_histogram_keeps_equal_scores_in_one_bin():
    found = fit("histogram", [0.1] * 4 + [0.7], [1, 0, 0, 0, 0], bins=2)
    assert found([0.1, 0.7]).tolist() == [0.25, 0.0]


@pytest.mark.parametrize("method", RECALIBRATIONS)
def test_recalibration_lowers_the_error_of_an_overconfident_score(method):
    p, right = overconfident()
    fitted = cross_validate(method, p, right, np.arange(400))
    assert calibration.ece(fitted.calibrated, right) < calibration.ece(p, right) - 0.05


@pytest.mark.parametrize("method", RECALIBRATIONS)
def test_a_units_own_prompt_does_not_move_its_value(method):
    p, right = overconfident(120)
    prompts = np.arange(120) // 4
    before = cross_validate(method, p, right, prompts, seed=1)
    changed = right.copy()
    changed[prompts == 7] = 1 - changed[prompts == 7]
    after = cross_validate(method, p, changed, prompts, seed=1)
    own = before.fold == before.fold[prompts == 7][0]
    assert (before.calibrated[own] == after.calibrated[own]).all()
    assert (before.calibrated[~own] != after.calibrated[~own]).any()


@pytest.mark.parametrize("method", RECALIBRATIONS)
def test_each_fold_is_fitted_on_the_others(method):
    p, right = overconfident(90)
    prompts = np.arange(90) // 3
    found = cross_validate(method, p, right, prompts, folds=3)
    for part in range(3):
        inside = found.fold == part
        alone = fit(method, p[~inside], right[~inside])
        assert found.calibrated[inside] == pytest.approx(alone(p[inside]))
    assert found.final(p) == pytest.approx(fit(method, p, right)(p))


@given(st.integers(2, 12), st.integers(2, 20), st.integers(0, 99))
def test_folds_hold_whole_prompts_and_are_even(folds, n_prompts, seed):
    prompts = np.repeat([f"q{i}" for i in range(n_prompts)], 3)
    part = prompt_folds(prompts, len(prompts), folds, seed)
    by_prompt = part.reshape(n_prompts, 3)
    assert (by_prompt == by_prompt[:, :1]).all()
    sizes = np.bincount(by_prompt[:, 0])
    assert len(sizes) == min(folds, n_prompts)
    assert sizes.max() - sizes.min() <= 1
    assert (prompt_folds(prompts, len(prompts), folds, seed) == part).all()


@pytest.mark.parametrize("method", ["isotonic", "platt", "histogram"])
def test_infinite_scores_count_as_the_nearest_finite_one(method):
    score, right = np.array([-INF, -3.0, -2.0, -1.0, INF]), np.array([0, 0, 1, 0, 1.0])
    clipped = np.array([-3.0, -3.0, -2.0, -1.0, -1.0])
    infinite, finite = fit(method, score, right), fit(method, clipped, right)
    assert infinite == finite
    assert np.isfinite(infinite(score)).all()


@pytest.mark.parametrize("method", RECALIBRATIONS)
def test_undefined_and_ungraded_units(method):
    p, right = overconfident(60)
    p[:3], right[5:9] = NAN, NAN
    found = cross_validate(method, p, right, np.arange(60))
    assert np.isnan(found.calibrated[:3]).all()
    assert ((found.calibrated[3:] >= 0) & (found.calibrated[3:] <= 1)).all()
    both = np.r_[3:5, 9:60]
    assert found.final == fit(method, p[both], right[both])


@pytest.mark.parametrize("method", RECALIBRATIONS)
@pytest.mark.parametrize("right", [[1, 1, 1, 1], [0, 0, 0, 0]])
def test_one_class_and_one_score_are_no_trouble(method, right):
    for score in ([0.5, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4]):
        value = fit(method, score, right)(score)
        assert ((value >= 0) & (value <= 1)).all()


def saved(tmp_path, method="isotonic"):
    p, right = overconfident(80)
    fitted = Recalibration("mean_prob", fit(method, p, right), 80, 80)
    fitted.save(tmp_path / "map.json")
    return fitted, p


@pytest.mark.parametrize("method", RECALIBRATIONS)
def test_a_saved_map_comes_back_exactly(method, tmp_path):
    fitted, p = saved(tmp_path, method)
    loaded = load_recalibration(tmp_path / "map.json")
    assert loaded == fitted
    assert (loaded(p) == fitted(p)).all()
    assert [path.name for path in tmp_path.iterdir()] == ["map.json"]


DAMAGE = {
    "format": ({"format": "other"}, "no recalibration"),
    "version": ({"version": 2}, "version 2: this toolkit reads version 1"),
    "method": ({"method": "magic"}, "method is 'magic': one of isotonic, platt, temperature, histogram"),
    "estimator": ({"estimator": 3}, "estimator is 3"),
    "n_units": ({"n_units": -1}, "n_units is -1"),
    "n_prompts": ({"n_prompts": True}, "n_prompts is True"),
    "no parameters": ({"parameters": None}, "parameters of isotonic are score, probability"),
    "another method's": ({"method": "platt"}, "parameters of platt are slope, intercept"),
    "no list": ({"parameters": {"score": 1, "probability": [0.5]}}, "score is 1: it should be a list"),
    "no number": ({"parameters": {"score": ["1"], "probability": [0.5]}}, "score holds '1'"),
    "too large": ({"parameters": {"score": [10**400], "probability": [0.5]}}, "not finite"),
    "no value": ({"parameters": {"score": [NAN], "probability": [0.5]}}, "not finite"),
    "empty": ({"parameters": {"score": [], "probability": []}}, "not of one length"),
    "lengths": ({"parameters": {"score": [1, 2], "probability": [0.5]}}, "not of one length"),
    "falls": ({"parameters": {"score": [1, 2], "probability": [0.5, 0.4]}}, "probability falls"),
    "unsorted": ({"parameters": {"score": [2, 2], "probability": [0.5, 0.6]}}, "score does not rise"),
    "above one": ({"parameters": {"score": [1, 2], "probability": [0.5, 1.1]}}, r"outside \[0, 1\]"),
    "cold": ({"method": "temperature", "parameters": {"temperature": 0}}, "temperature is not above 0"),
    "bins": ({"method": "histogram", "parameters": {"edges": [1], "probability": [0.5]}}, "not one longer"),
    "edges": (
        {"method": "histogram", "parameters": {"edges": [2, 1], "probability": [0, 1, 1]}},
        "do not rise",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_by_name(damage, tmp_path):
    saved(tmp_path)
    change, message = DAMAGE[damage]
    path = tmp_path / "map.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ToolkitError, match=message) as caught:
        load_recalibration(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format": NaN}', "\xff", "[" * 100_000])
def test_what_is_not_such_a_file_is_refused(text, tmp_path):
    path = tmp_path / "map.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ToolkitError, match=r"map\.json"):
        load_recalibration(path)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path):
    with pytest.raises(ToolkitError, match="cannot be read"):
        load_recalibration(tmp_path / "none.json")
    with pytest.raises(ToolkitError, match="cannot be written"):
        Recalibration("x", recalibration.Platt(1.0, 0.0), 1, 1).save(tmp_path / "no" / "map.json")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit("magic", [0.1], [1]), "unknown recalibration 'magic': give one of isotonic, platt"),
        (lambda: fit("platt", [NAN, 0.1], [1, NAN]), "no graded unit has a finite confidence"),
        (lambda: fit("platt", [-INF], [1]), "no graded unit has a finite confidence"),
        (lambda: fit("temperature", [-1.0], [1]), "confidence holds -1: give probabilities"),
        (lambda: fit("platt", [0.1], [0.5]), "correct holds 0.5"),
        (lambda: fit("histogram", [0.1], [1], bins=0), "bins is 0"),
        (lambda: cross_validate("platt", [0.1, 0.2], [0, 1], [7, 7]), "at least 2 of them, and there is 1"),
        (lambda: cross_validate("platt", [0.1, 0.2], [0, 1], [7, 8], folds=1), "folds is 1"),
        (lambda: recalibration.Temperature(2.0)([1.5]), r"probabilities in \[0, 1\]"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ToolkitError, match=message):
        call()
