"""Recalibration of a run's estimators, kept and used on another run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.answers import greedy, make_answers, prompt
from toolkit.errors import ToolkitError
from toolkit.judging.grades import grade
from toolkit.judging.question import Question
from toolkit.judging.recalibrating import apply_run, fit_run
from toolkit.stats.recalibration import cross_validate, fit
from toolkit.stats.recalibration_file import load_recalibration
from toolkit.store import Run

N = 40


def make_run(path: Path, seed: int, *, graded: bool = True) -> Run:
    """Greedy answers of one token; overconfident: right less often than their probability says."""
    rng = np.random.default_rng(seed)
    probabilities = rng.uniform(0.5, 0.99, N)
    answers = [
        greedy(f"p{i:02}", "Yes" if rng.random() < p**4 else "No", math.log(p), end=None)
        for i, p in enumerate(probabilities)
    ]
    run = make_answers(path, [prompt(f"p{i:02}", "Yes") for i in range(N)], answers)
    if graded:
        grade(run, "exact")
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("recalibrating") / "run", 1)


def values(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean probability, right or wrong, prompt of each greedy answer."""
    frame = run.sequences_df().merge(run.grades_df()[["prompt_id", "value"]], on="prompt_id")
    return (
        np.exp(frame["sum_logprob"].to_numpy()),
        frame["value"].to_numpy(),
        frame["prompt_id"].to_numpy(str),
    )


@pytest.mark.parametrize("method", ["isotonic", "platt", "temperature", "histogram"])
def test_each_answer_is_judged_by_a_map_that_did_not_see_its_prompt(run: Run, method: str) -> None:
    p, right, prompts = values(run)
    fitted = fit_run(run, "mean_prob", method, Question())
    before, after = fitted.comparison.to_dict("records")
    unseen = cross_validate(method, p, right, prompts).calibrated
    assert before["brier"] == pytest.approx(np.mean((p - right) ** 2), abs=1e-6)
    assert after["brier"] == pytest.approx(np.mean((unseen - right) ** 2), abs=1e-5)
    assert (before["n"], after["n"]) == (N, N)
    assert after["ece"] < before["ece"]
    whole = fit(method, p, right)
    assert fitted.recalibration(p) == pytest.approx(whole(p), abs=1e-5)
    assert (fitted.recalibration.n_units, fitted.recalibration.n_prompts) == (N, N)


def test_what_is_no_probability_has_no_calibration_before(run: Run) -> None:
    fitted = fit_run(run, "perplexity", "platt", Question())
    before, after = fitted.comparison.to_dict("records")
    assert math.isnan(before["ece"])
    assert not math.isnan(after["ece"])
    assert 0.5 < before["auroc"] <= 1  # in the direction of confidence


def test_a_map_is_used_on_another_run(run: Run, tmp_path: Path) -> None:
    fitted = fit_run(run, "perplexity", "platt", Question())
    fitted.recalibration.save(tmp_path / "map.json")
    loaded = load_recalibration(tmp_path / "map.json")
    other = make_run(tmp_path / "other", 2)
    applied = apply_run(other, loaded, Question())
    p, _, _ = values(other)
    assert applied.values["perplexity"].to_numpy() == pytest.approx(1 / p, rel=1e-5)
    assert applied.values["probability"].to_numpy() == pytest.approx(fitted.recalibration(-1 / p), rel=1e-5)
    assert applied.comparison is not None
    assert list(applied.values.columns[:3]) == ["prompt_id", "kind", "sample_index"]


def test_a_run_that_is_not_graded_gets_probabilities_too(run: Run, tmp_path: Path) -> None:
    fitted = fit_run(run, "mean_prob", "isotonic", Question())
    applied = apply_run(make_run(tmp_path / "other", 3, graded=False), fitted.recalibration, Question())
    assert applied.comparison is None
    assert applied.values["probability"].between(0, 1).all()
    assert applied.values["grade"].isna().all()


@pytest.mark.parametrize(
    ("estimator", "method", "message"),
    [
        ("mean_logprob", "temperature", "temperature takes probabilities, and mean_logprob is none"),
        ("mean_prob", "magic", "unknown recalibration 'magic': give one of isotonic"),
        ("mean_prb", "platt", "there is no estimator 'mean_prb'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(run: Run, estimator: str, method: str, message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        fit_run(run, estimator, method, Question())


def test_fitting_needs_grades(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match="nothing is graded"):
        fit_run(make_run(tmp_path / "run", 4, graded=False), "mean_prob", "platt", Question())
