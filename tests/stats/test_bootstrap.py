"""Bootstrap over prompts against a plain loop that repeats units, and against SciPy's intervals."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats

from toolkit.errors import ToolkitError
from toolkit.stats import bootstrap, metrics, ranking
from toolkit.stats.tally import judge

NAN = math.nan
RANKING = [name for name, metric in metrics.METRICS.items() if not metric.probability]


def units(n=60, n_prompts=20, seed=0):
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.random(n), 1)
    correct = (rng.random(n) < confidence).astype(float)
    prompts = np.array([f"p{i}" for i in rng.integers(n_prompts, size=n)])
    return confidence, correct, prompts


def all_counts(prompts, n_resamples=40, seed=3):
    codes = np.unique(prompts, return_inverse=True)[1]
    return np.concatenate(list(bootstrap.resamples(codes, n_resamples, seed)))


def test_whole_prompts_are_drawn_as_many_as_there_are():
    _, _, prompts = units()
    counts = all_counts(prompts, 200)
    assert counts.shape == (200, 60)
    names, first = np.unique(prompts, return_index=True)
    for name in names:
        of_prompt = counts[:, prompts == name]
        assert (of_prompt == of_prompt[:, :1]).all()
    assert (counts[:, first].sum(axis=1) == len(names)).all()
    # Each prompt is drawn once on average, with the variance of so many draws.
    assert counts[:, first].mean() == 1
    assert counts[:, first].var() == pytest.approx(1 - 1 / len(names), rel=0.1)


def test_resamples_depend_on_the_seed_alone(monkeypatch):
    _, _, prompts = units()
    together = all_counts(prompts)
    assert (all_counts(prompts) == together).all()
    assert (all_counts(prompts, seed=0) != together).any()
    assert (all_counts(prompts, 10) == together[:10]).all()
    monkeypatch.setattr(bootstrap, "_BLOCK", 7)
    assert (all_counts(prompts) == together).all()


@pytest.mark.parametrize("name", metrics.METRICS)
def test_each_metric_over_counts_is_the_metric_of_repeated_units(name):
    confidence, correct, prompts = units()
    metric = metrics.METRICS[name]
    counts = all_counts(prompts)
    fast = bootstrap.of_metrics(judge(confidence, correct), [metric])(counts)[:, 0]
    slow = bootstrap.of_indices(lambda i: metric(confidence[i], correct[i]))(counts)
    assert fast == pytest.approx(slow, nan_ok=True)
    assert np.ptp(fast) > 0


def test_graded_quality_is_resampled_too():
    confidence, _, prompts = units()
    quality = np.random.default_rng(9).random(len(confidence))
    counts = all_counts(prompts)
    metric = metrics.METRICS["prr_half"]
    fast = bootstrap.of_metrics(judge(confidence, quality), [metric])(counts)[:, 0]
    slow = bootstrap.of_indices(lambda i: metric(confidence[i], quality[i]))(counts)
    assert fast == pytest.approx(slow)


def test_percentile_ends_are_the_quantiles_of_the_draws():
    confidence, correct, prompts = units()
    found = bootstrap.metric_intervals(
        confidence, correct, prompts, ["auroc"], n_resamples=40, seed=3, level=0.8, method="percentile"
    )["auroc"]
    draws = [
        ranking.auroc(np.repeat(confidence, row), np.repeat(correct, row)) for row in all_counts(prompts)
    ]
    assert found.value == pytest.approx(ranking.auroc(confidence, correct))
    assert (found.low, found.high) == pytest.approx(np.quantile(draws, [0.1, 0.9]))
    assert (found.n_resamples, found.n_undefined) == (40, 0)


def plain_bca(value, draws, jackknife, level):
    """Efron's formulas, one number at a time."""
    normal = NormalDist()
    z0 = normal.inv_cdf((sum(d < value for d in draws) + sum(d == value for d in draws) / 2) / len(draws))
    middle = sum(jackknife) / len(jackknife)
    cubes = sum((middle - j) ** 3 for j in jackknife)
    a = cubes / (6 * sum((middle - j) ** 2 for j in jackknife) ** 1.5)
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + normal.inv_cdf(tail)
        ends.append(np.quantile(draws, normal.cdf(z0 + z / (1 - a * z))))
    return ends


def test_bca_ends_are_efrons():
    confidence, correct, prompts = units()
    found = bootstrap.metric_intervals(confidence, correct, prompts, ["auroc"], n_resamples=300, seed=3)[
        "auroc"
    ]
    draws = [
        ranking.auroc(np.repeat(confidence, row), np.repeat(correct, row)) for row in all_counts(prompts, 300)
    ]
    jackknife = [ranking.auroc(confidence[prompts != p], correct[prompts != p]) for p in np.unique(prompts)]
    assert (found.low, found.high) == pytest.approx(plain_bca(found.value, draws, jackknife, 0.95))


@pytest.mark.parametrize(("method", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
def test_intervals_of_a_mean_are_near_scipys(method, theirs):
    values = np.random.default_rng(0).exponential(size=80)
    found = bootstrap.intervals(bootstrap.mean_of(values), np.arange(80), n_resamples=4000, method=method)[0]
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=4000, method=theirs, rng=np.random.default_rng(1)
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_grouped_jackknife_gives_nearly_the_same_acceleration(monkeypatch):
    values = np.random.default_rng(0).exponential(size=150)
    each = bootstrap.intervals(bootstrap.mean_of(values), np.arange(150), n_resamples=2000)[0]
    monkeypatch.setattr(bootstrap, "_MOST_LEFT_OUT", 50)
    grouped = bootstrap.intervals(bootstrap.mean_of(values), np.arange(150), n_resamples=2000)[0]
    assert (grouped.low, grouped.high) == pytest.approx((each.low, each.high), abs=0.02)


def test_samples_of_one_prompt_widen_the_interval():
    values = np.repeat(np.random.default_rng(0).random(20), 10)
    by_prompt = bootstrap.intervals(bootstrap.mean_of(values), np.repeat(np.arange(20), 10))[0]
    by_sample = bootstrap.intervals(bootstrap.mean_of(values), np.arange(200))[0]
    assert by_prompt.high - by_prompt.low > 2 * (by_sample.high - by_sample.low)


def test_a_masked_value_is_in_the_mean_of_the_resamples_that_have_it():
    statistic = bootstrap.mean_of([0.0, -math.inf, 1.0, NAN])
    counts = np.array([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 3]])
    np.testing.assert_array_equal(statistic(counts), [0.5, -math.inf, NAN])
    both = bootstrap.mean_of([math.inf, -math.inf])
    np.testing.assert_array_equal(both(np.array([[1, 1], [1, 0]])), [NAN, math.inf])


@pytest.mark.parametrize("method", bootstrap.METHODS)
def test_an_interval_over_a_masked_value_reaches_down_to_it(method):
    values = [0.0, -math.inf, *np.linspace(0, 1, 18)]
    found = bootstrap.intervals(bootstrap.mean_of(values), np.arange(20), method=method)[0]
    assert (found.value, found.low) == (-math.inf, -math.inf)
    without = bootstrap.intervals(bootstrap.mean_of(values[2:]), np.arange(18), method=method)[0]
    assert 0 < without.low < without.high < 1


def test_mean_leaves_undefined_values_out():
    statistic = bootstrap.mean_of([1.0, NAN, 3.0])
    found = statistic(np.array([[1, 5, 1], [0, 1, 2], [0, 3, 0]]))
    assert found == pytest.approx([2, 3, NAN], nan_ok=True)


def test_undefined_resamples_are_counted():
    confidence, correct = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 1.0, 1.0, 1.0])
    found = bootstrap.metric_intervals(confidence, correct, np.arange(4), ["auroc"], n_resamples=500)["auroc"]
    assert found.n_resamples + found.n_undefined == 500
    assert 0.2 < found.n_undefined / 500 < 0.45  # (3/4)⁴ of them draw no wrong unit, (1/4)⁴ no right one


@pytest.mark.parametrize("method", bootstrap.METHODS)
def test_all_right_has_no_interval_and_no_warning(method):
    found = bootstrap.metric_intervals(
        [0.1, 0.2, 0.3], [1, 1, 1], [0, 1, 2], ["auroc", "brier"], method=method, n_resamples=50
    )
    assert math.isnan(found["auroc"].value)
    assert math.isnan(found["auroc"].low)
    assert found["brier"].low <= found["brier"].value <= found["brier"].high


@pytest.mark.parametrize(("prompts", "n"), [([0, 0], 2), ([], 0)])
def test_fewer_than_two_prompts_have_no_interval(prompts, n):
    found = bootstrap.metric_intervals([0.1, 0.2][:n], [0, 1][:n], prompts, ["auroc"])["auroc"]
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_a_constant_has_an_interval_of_no_width():
    found = bootstrap.intervals(bootstrap.mean_of([2.0, 2.0, 2.0]), [0, 1, 2], n_resamples=50)[0]
    assert (found.low, found.high) == (2.0, 2.0)


def test_an_estimator_does_not_differ_from_itself():
    confidence, correct, prompts = units()
    found = bootstrap.paired_differences(confidence, confidence, correct, prompts, RANKING, n_resamples=50)
    assert all((d.value, d.low, d.high) == (0, 0, 0) for d in found.values())


def test_paired_differences_use_units_where_both_are_defined():
    confidence, correct, prompts = units()
    other = np.random.default_rng(8).random(len(confidence))
    holes, other_holes = confidence.copy(), other.copy()
    holes[:5], other_holes[3:9] = NAN, NAN
    found = bootstrap.paired_differences(
        holes, other_holes, correct, prompts, ["auroc", "prr"], n_resamples=50, seed=2
    )
    both = bootstrap.paired_differences(
        confidence[9:], other[9:], correct[9:], prompts[9:], ["auroc", "prr"], n_resamples=50, seed=2
    )
    assert found == both
    assert found["auroc"].value == pytest.approx(
        ranking.auroc(confidence[9:], correct[9:]) - ranking.auroc(other[9:], correct[9:])
    )


def test_pairing_narrows_the_difference_of_like_estimators():
    confidence, correct, prompts = units(200, 100)
    like = confidence + np.random.default_rng(1).normal(scale=0.02, size=200)
    paired = bootstrap.paired_differences(confidence, like, correct, prompts, ["auroc"])["auroc"]
    alone = bootstrap.metric_intervals(confidence, correct, prompts, ["auroc"])["auroc"]
    assert paired.high - paired.low < 0.5 * (alone.high - alone.low)


def test_a_better_estimator_is_told_apart():
    _, correct, prompts = units(200, 100)
    rng = np.random.default_rng(4)
    good, bad = correct + rng.normal(size=200), rng.normal(size=200)
    assert bootstrap.paired_differences(good, bad, correct, prompts, ["auroc"])["auroc"].low > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_resamples": 0}, "n_resamples is 0"),
        ({"level": 95}, "level is 95"),
        ({"method": "normal"}, "method is 'normal': give one of bca, percentile"),
        ({"seed": -1}, "seed is -1"),
        ({"metrics": ["auc"]}, "unknown metric 'auc': give one of auroc, auprc"),
        ({"metrics": ["ece"]}, "confidence holds 7"),
        ({"prompts": [0]}, r"prompts has shape \(1,\)"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    given = {"metrics": ["auroc"], "prompts": [0, 1]} | arguments
    with pytest.raises(ToolkitError, match=message):
        bootstrap.metric_intervals([0.5, 7.0], [0, 1], **given)


def test_graded_outcomes_are_refused_where_a_metric_needs_two_classes():
    with pytest.raises(ToolkitError, match=r"holds 0\.5"):
        bootstrap.metric_intervals([0.5, 0.7], [0.5, 1], [0, 1], ["prr", "auroc"])


@pytest.mark.parametrize("name", metrics.METRICS)
def test_registry_calls_the_documented_function(name):
    from toolkit.stats import calibration, selective

    confidence, correct, _ = units()
    named = {"prr_half": lambda c, y: selective.prr(c, y, max_rejection=0.5)}
    for module in (ranking, selective, calibration):
        named |= {n: getattr(module, n) for n in metrics.METRICS if hasattr(module, n)}
    expected = named[name](confidence, correct)
    assert metrics.METRICS[name](confidence, correct) == pytest.approx(getattr(expected, "value", expected))
