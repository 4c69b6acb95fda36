"""Paired differences of two sides against plain loops over the prompts, a case by hand, and their coverage."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats.bootstrap import resamples
from toolkit.stats.calibration import brier, ece
from toolkit.stats.paired import Side, paired_means, paired_metrics, paired_shares, score_interval
from toolkit.stats.ranking import auroc

NAN = math.nan
PLAIN = {"auroc": auroc, "ece": ece, "brier": brier}


def side(seed, n=40, n_prompts=14, shift=0.0, missing=0.1):
    """Several units a prompt, some without a value, some nobody could judge; not every prompt has one."""
    rng = np.random.default_rng(seed)
    prompts = np.array([f"p{i:02}" for i in rng.integers(n_prompts, size=n)])
    values = np.round(np.clip(rng.random(n) + shift, 0, 1), 1)
    outcome = (rng.random(n) < values).astype(float)
    values[rng.random(n) < missing] = NAN
    outcome[rng.random(n) < missing] = NAN
    return prompts, values, outcome


def drawn_units(own, shared, row):
    """The units of the prompts drawn, each as often as its prompt was."""
    return [
        unit[1:] for p, n in zip(shared, row, strict=True) for _ in range(n) for unit in own if unit[0] == p
    ]


def plain_loop(first, second, function, n_resamples, seed):
    """Values in each resample, unit lists made anew prompt by prompt: first, second, second less first."""
    shared = sorted({p for p, *_ in first} & {p for p, *_ in second})
    counts = np.concatenate(list(resamples(np.arange(len(shared)), n_resamples, seed)))
    found = []
    for row in counts:
        a, b = (function(drawn_units(own, shared, row)) for own in (first, second))
        found.append((a, b, b - a))
    return np.array(found)


def ends(draws, level=0.95):
    known = draws[~np.isnan(draws)]
    return pytest.approx(tuple(np.quantile(known, [(1 - level) / 2, (1 + level) / 2])))


def test_means_are_those_of_a_plain_loop_over_prompts_with_the_same_resamples():
    (prompts_a, values_a, _), (prompts_b, values_b, _) = side(1), side(2, n=50, shift=0.2)
    found = paired_means(
        Side(prompts_a, values_a), Side(prompts_b, values_b), n_resamples=60, method="percentile", seed=4
    )
    units = [
        [(p, v) for p, v in zip(prompts, values, strict=True) if not math.isnan(v)]
        for prompts, values in ((prompts_a, values_a), (prompts_b, values_b))
    ]
    draws = plain_loop(*units, lambda own: np.mean([v for (v,) in own]), 60, 4)
    shared = {p for p, _ in units[0]} & {p for p, _ in units[1]}
    means = [np.mean([v for p, v in own if p in shared]) for own in units]
    for i, interval in enumerate(found[:3]):
        assert interval.value == pytest.approx([*means, means[1] - means[0]][i])
        assert (interval.low, interval.high) == ends(draws[:, i])
    assert found.n_prompts == len(shared)
    assert found[4:] == tuple(sum(p in shared for p, _ in own) for own in units)


@pytest.mark.parametrize("name", PLAIN)
def test_metrics_are_those_of_a_plain_loop_over_prompts_with_the_same_resamples(name):
    first, second = side(3), side(4, n=55, shift=0.1)
    found = paired_metrics(
        Side(*first), Side(*second), [name], n_resamples=60, method="percentile", level=0.8, seed=1
    )[name]
    units = [[one for one in zip(*own, strict=True) if not (math.isnan(one[1]) or math.isnan(one[2]))]
             for own in (first, second)]  # fmt: skip
    draws = plain_loop(*units, lambda own: PLAIN[name](*np.transpose(own)), 60, 1)
    for i, interval in enumerate(found[:3]):
        assert (interval.low, interval.high) == ends(draws[:, i], 0.8)
        assert interval.n_undefined == np.isnan(draws[:, i]).sum()


def test_a_case_by_hand():
    # Three prompts in both; p9 and p8 are in one alone. Right at 0.9 and 0.6, wrong at 0.7; then all reversed.
    first = Side(["p1", "p2", "p3", "p9"], [0.9, 0.6, 0.7, 0.1], [1, 1, 0, 1])
    second = Side(["p3", "p2", "p1", "p8"], [0.2, 0.3, 0.8, 0.1], [1, 0, 1, 0])
    metrics = paired_metrics(first, second, ["auroc", "brier"], n_resamples=0)
    assert metrics["auroc"].first.value == 0.5  # 0.9 beats 0.7, 0.6 does not
    assert metrics["auroc"].second.value == 0.5  # 0.8 beats 0.3, 0.2 does not
    assert metrics["auroc"].difference.value == 0.0
    before, after = (0.01 + 0.16 + 0.49) / 3, (0.64 + 0.09 + 0.04) / 3
    assert metrics["brier"].difference.value == pytest.approx(after - before)
    mean = paired_means(first, second, n_resamples=0)
    assert mean.difference.value == pytest.approx((0.2 + 0.3 + 0.8 - 0.9 - 0.6 - 0.7) / 3)
    assert math.isnan(mean.difference.low)
    assert not mean.excludes_zero
    assert (mean.n_prompts, mean.n_first, mean.n_second) == (3, 3, 3)


def test_a_side_and_itself_do_not_differ_and_the_other_way_round_the_sign_changes():
    first, second = Side(*side(5)), Side(*side(6))
    for found in (paired_means(first, first), *paired_metrics(first, first, PLAIN, n_resamples=50).values()):
        assert found.difference[:3] == (0.0, 0.0, 0.0)
        assert not found.excludes_zero
    there = paired_metrics(first, second, ["auroc"], n_resamples=80, method="percentile")["auroc"]
    back = paired_metrics(second, first, ["auroc"], n_resamples=80, method="percentile")["auroc"]
    assert there.first == back.second
    assert there.difference[:3] == pytest.approx(
        (-back.difference.value, -back.difference.high, -back.difference.low)
    )


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_the_order_of_units_changes_nothing(seed):
    first, second = side(seed), side(seed + 1)
    order = np.random.default_rng(seed).permutation(len(first[0]))
    mixed = Side(*(part[order] for part in first))
    a = paired_metrics(Side(*first), Side(*second), ["auroc", "ece"], n_resamples=20)
    b = paired_metrics(mixed, Side(*second), ["auroc", "ece"], n_resamples=20)
    for name in a:
        assert a[name].difference[:3] == pytest.approx(b[name].difference[:3], nan_ok=True)


def made(rng, n, shift=0.0):
    """Confidence and outcome of both sides, on prompts whose difficulty they share."""
    hard = rng.normal(size=n)
    for extra in (0.0, shift):
        own = hard + 0.5 * rng.normal(size=n) + extra
        confidence = 1 / (1 + np.exp(-own - 0.7 * rng.normal(size=n)))
        yield confidence, (rng.random(n) < 1 / (1 + np.exp(-2 * own))).astype(float)


def test_intervals_of_sides_that_do_not_differ_hold_0_as_often_as_they_say():
    """Two samplings of the same: 80 % intervals of 200 simulations, within four standard errors, 69 to 91 %."""
    rng, n, n_simulations = np.random.default_rng(8), 60, 200
    prompts = np.arange(n)
    held = {"accuracy": 0, "confidence": 0, "auroc": 0, "brier": 0, "ece": 0}
    for seed in range(n_simulations):
        (conf_a, right_a), (conf_b, right_b) = made(rng, n)
        how = {"n_resamples": 150, "level": 0.8, "seed": seed}
        found = paired_metrics(
            Side(prompts, conf_a, right_a), Side(prompts, conf_b, right_b), ["auroc", "brier"], **how
        )
        found |= paired_metrics(
            Side(prompts, conf_a, right_a),
            Side(prompts, conf_b, right_b),
            ["ece"],
            **how,
            method="percentile",
        )
        found["accuracy"] = paired_shares(Side(prompts, right_a), Side(prompts, right_b), **how)
        found["confidence"] = paired_means(Side(prompts, conf_a), Side(prompts, conf_b), **how)
        for name in held:
            held[name] += not found[name].excludes_zero
    rates = {name: count / n_simulations for name, count in held.items()}
    assert all(0.69 < rates[name] < 0.91 for name in ("accuracy", "confidence", "auroc", "brier")), rates
    assert rates["ece"] > 0.8, rates  # a binned error: its percentiles are on the safe side


def test_a_true_difference_is_found_and_pairing_makes_its_interval_shorter():
    rng, n = np.random.default_rng(9), 200
    (conf_a, right_a), (conf_b, right_b) = made(rng, n, shift=1.0)
    prompts = np.arange(n)
    paired = paired_means(Side(prompts, conf_a), Side(prompts, conf_b))
    apart = paired.first.high - paired.first.low + paired.second.high - paired.second.low
    assert paired.excludes_zero
    assert paired.difference.low > 0
    assert paired.difference.high - paired.difference.low < 0.5 * apart
    assert paired_means(Side(prompts, right_a), Side(prompts, right_b)).difference.value > 0


def test_infinities_are_kept_and_two_of_them_have_no_difference():
    prompts = ["a", "b"]
    lower = paired_means(Side(prompts, [-1.0, -np.inf]), Side(prompts, [-1.0, -2.0]), n_resamples=0)
    assert (lower.first.value, lower.difference.value) == (-np.inf, np.inf)
    both = paired_means(Side(prompts, [-1.0, -np.inf]), Side(prompts, [-np.inf, -2.0]), n_resamples=0)
    assert math.isnan(both.difference.value)


def test_without_shared_prompts_or_with_one_verdict_alone_there_is_nothing_to_say():
    nothing = paired_means(Side(["a"], [1.0]), Side(["b"], [1.0]))
    assert nothing.n_prompts == 0
    assert math.isnan(nothing.difference.value)
    apart = paired_metrics(Side(["a"], [1.0], [1]), Side(["b"], [1.0], [0]), ["auroc", "brier"])
    assert [math.isnan(one.difference.value) for one in apart.values()] == [True, True]
    right = Side(["a", "b"], [0.5, 0.7], [1, 1])
    assert math.isnan(paired_metrics(right, right, ["auroc"])["auroc"].difference.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_means(Side(["a"], [1.0, 2.0]), Side(["a"], [1.0])), "values has 2 and prompts has 1"),
        (
            lambda: paired_metrics(Side(["a"], [1.0], [1, 0]), Side(["a"], [1.0], [1]), ["auroc"]),
            "outcome has 2 and prompts has 1",
        ),
        (lambda: paired_metrics(Side(["a"], [1.0]), Side(["a"], [1.0], [1]), ["auroc"]), "outcome is None"),
        (
            lambda: paired_metrics(Side(["a"], [1.0], [1]), Side(["a"], [1.0], [1]), ["x"]),
            "unknown metric 'x'",
        ),
        (lambda: paired_means(Side(["a", "b"], [1, 2]), Side(["a", "b"], [1, 2]), level=2), "level is 2"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ToolkitError, match=message):
        call()


def test_few_flips_of_one_kind_are_no_difference():
    """Three gained and none lost of 185: McNemar's z is the root of 3, though every resample gains."""
    before = np.r_[np.ones(80), np.zeros(105)]
    after = before.copy()
    after[80:83] = 1
    prompts = np.arange(185)
    found = paired_shares(Side(prompts, before), Side(prompts, after))
    assert found.difference.value == pytest.approx(3 / 185)
    assert found.difference.low < 0
    assert not found.excludes_zero
    assert paired_means(Side(prompts, before), Side(prompts, after)).difference.low >= 0


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 60), st.sampled_from([0.8, 0.95]))
@settings(max_examples=60)
def test_the_score_interval_lacks_0_where_mcnemars_test_rejects(gained, lost, rest, level):
    low, high = score_interval(gained, lost, gained + lost + rest, level)
    assert -1 <= low <= (gained - lost) / (gained + lost + rest) <= high <= 1
    z = (gained - lost) / math.sqrt(gained + lost) if gained + lost else 0.0
    assert (low > 0 or high < 0) == (abs(z) > NormalDist().inv_cdf((1 + level) / 2))
    assert score_interval(lost, gained, gained + lost + rest, level) == pytest.approx((-high, -low), abs=1e-9)


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(3, 0, 40), (7, 2, 30), (0, 0, 25), (5, 11, 60), (4, 0, 4)]
)
def test_the_ends_of_the_score_interval_are_where_a_plain_score_test_is_at_its_limit(gained, lost, n):
    """The likeliest share lost under a difference, by trying all on a fine grid."""
    for end in score_interval(gained, lost, n):
        if abs(end) == 1:
            continue
        shares = np.linspace(max(0.0, -end), (1 - end) / 2, 400_001)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [k * np.log(p) if k else 0.0 for k, p in
                    ((gained, shares + end), (lost, shares), (n - gained - lost, 1 - 2 * shares - end))]  # fmt: skip
        best = shares[np.nanargmax(sum(logs))]
        z = (gained - lost - n * end) / math.sqrt(n * (2 * best + end - end**2))
        assert abs(z) == pytest.approx(NormalDist().inv_cdf(0.975), rel=2e-3)


def test_shares_of_several_units_or_of_qualities_are_means():
    several = Side(["a", "a", "b"], [1, 0, 1]), Side(["a", "b", "b"], [0, 0, 1])
    partly = Side(["a", "b", "c"], [0.5, 1, 0]), Side(["a", "b", "c"], [1, 0.2, 1])
    for pair in (several, partly):
        assert paired_shares(*pair, n_resamples=40) == paired_means(*pair, n_resamples=40)
