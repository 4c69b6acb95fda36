"""Every token-span estimator against a plain loop over generated tokens, and its published values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.stats.token_tables import Token, case, columns_of, entropy_of, lse, random_ranges, random_tokens
from toolkit.errors import ToolkitError
from toolkit.stats import distributions, registry, tokens
from toolkit.stats.ranges import Ranges

NAN = math.nan
Plain = Callable[[list[Token]], float]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else NAN


def lowest(values: list[float], k: float) -> float:
    count = math.floor(round(k * len(values), 6))
    return mean(sorted(values)[:count])


def over(value: Callable[[Token], float], combine: Callable[[list[float]], float]) -> Plain:
    return lambda span: combine([value(token) for token in span]) if span else NAN


def logprob(token: Token) -> float:
    return token.logprob


def self_certainty(token: Token) -> float:
    return -mean([math.log(len(token.finite) * math.exp(x)) for x in token.logprobs if x > -math.inf])


def tempered(token: Token) -> list[float]:
    """Square roots of the probabilities at temperature 2."""
    total = lse([z / 2 for z in token.logits])
    return [math.exp((z / 2 - total) / 2) for z in token.logits]


def renyi(token: Token) -> float:
    # 1/(α − 1) ln Σ q^α u^(1 − α) with α = ½ and u = 1/V
    return -2 * math.log(sum(root / math.sqrt(len(token.finite)) for root in tempered(token)))


def fisher(token: Token) -> float:
    cosine = sum(root / math.sqrt(len(token.finite)) for root in tempered(token))
    return 2 / math.pi * math.acos(min(1.0, cosine))


def z_score(token: Token) -> float:
    return (token.logprob + token.entropy) / math.sqrt(token.varentropy)


def margin(token: Token) -> float:
    first, second = sorted((math.exp(x) for x in token.logprobs), reverse=True)[:2]
    return first - second


PLAIN: dict[str, Plain] = {
    "sum_logprob": over(logprob, sum),
    "mean_logprob": over(logprob, mean),
    "min_logprob": over(logprob, min),
    "min_prob": over(lambda t: math.exp(t.logprob), min),
    "perplexity": over(logprob, lambda x: math.prod(math.exp(-v / len(x)) for v in x)),
    "geometric_mean_prob": over(logprob, lambda x: math.prod(math.exp(v) for v in x) ** (1 / len(x))),
    "mean_prob": over(lambda t: math.exp(t.logprob), mean),
    "min_k_percent": over(logprob, lambda x: lowest(x, 0.2)),
    "min_k_percent(0.5)": over(logprob, lambda x: lowest(x, 0.5)),
    "min_k_percent(1.0)": over(logprob, mean),
    "mean_entropy": over(lambda t: t.entropy, mean),
    "max_entropy": over(lambda t: t.entropy, max),
    "mean_varentropy": over(lambda t: t.varentropy, mean),
    "self_certainty": over(self_certainty, mean),
    "renyi_divergence": over(renyi, mean),
    "fisher_rao": over(fisher, mean),
    "min_k_plus": over(z_score, lambda x: lowest(x, 0.2)),
    "min_k_plus(0.7)": over(z_score, lambda x: lowest(x, 0.7)),
    "mean_surprise": over(lambda t: -t.logprob - t.entropy, mean),
    "mean_margin": over(margin, mean),
    "mean_rank": over(lambda t: 1 + sum(z > t.logits[t.drawn] for z in t.logits), mean),
    "greedy_fraction": over(lambda t: float(t.logits[t.drawn] == max(t.logits)), mean),
    "topk_negentropy": over(lambda t: 1 - entropy_of(t.top(15)) / math.log(15), mean),
    "topk_negentropy(15, min)": over(lambda t: 1 - entropy_of(t.top(15)) / math.log(15), min),
    "topk_negentropy(4)": over(lambda t: 1 - entropy_of(t.top(4)) / math.log(4), mean),
    "min_topk_negentropy": over(lambda t: 1 - entropy_of(t.top(15)) / math.log(15), min),
    "min_topk_negentropy(5)": over(lambda t: 1 - entropy_of(t.top(5)) / math.log(5), min),
    "mean_topk_nll": over(lambda t: -mean(t.top(20)), mean),
    "mean_topk_nll(3)": over(lambda t: -mean(t.top(3)), mean),
    "mean_boosted_prob": over(lambda t: math.exp(t.logprob), mean),
    "n_tokens": len,
}

SITUATIONS: dict[str, list[Token]] = {
    "generated": random_tokens(60, seed=1),
    "tied": random_tokens(60, seed=2, tied=True),
    "masked": random_tokens(60, seed=3, masked=True),
    "all equal": random_tokens(1, seed=4) * 30,
    "one token": random_tokens(1, seed=5),
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("label", PLAIN)
def test_each_estimator_equals_a_plain_loop(label: str, situation: str) -> None:
    rows = SITUATIONS[situation]
    ranges = random_ranges(len(rows), seed=7)
    found = registry.get(label)(columns_of(rows), ranges)
    expected = [PLAIN[label](rows[a:b]) for a, b in zip(ranges.starts, ranges.ends, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert found.dtype == np.float64


def test_all_registered_token_estimators_are_compared_with_a_loop_somewhere() -> None:
    elsewhere = {"lowest_window", "bottom_windows", "tail", "random"}  # below, and in test_tokens_windows
    assert {registry.get(label).name for label in PLAIN} | elsewhere == set(registry.names("token-span"))


def test_a_masked_situation_has_minus_infinity_and_it_goes_through_sums() -> None:
    rows = SITUATIONS["masked"]
    assert -math.inf in [token.logprob for token in rows]
    everything = Ranges(np.array([0]), np.array([len(rows)]))
    assert tokens.sum_logprob(columns_of(rows), everything)[0] == -math.inf
    assert tokens.perplexity(columns_of(rows), everything)[0] == math.inf
    assert 0 < tokens.mean_prob(columns_of(rows), everything)[0] < 1


@pytest.mark.parametrize("name", [n for n in registry.names("token-span") if n not in ("n_tokens", "random")])
def test_a_value_that_was_not_computed_gives_nan_for_its_spans_only(name: str) -> None:
    columns = columns_of(random_tokens(12, seed=8))
    for values in columns.values():
        values[3] = NAN
    found = registry.get(name)(columns, Ranges(np.array([0, 4, 2]), np.array([6, 12, 5])))
    assert np.isnan(found).tolist() == [True, False, True]


@pytest.mark.parametrize("name", registry.names("token-span"))
def test_values_lie_in_the_range_that_the_registry_states(name: str) -> None:
    estimator = registry.get(name)
    rows = random_tokens(80, seed=9)
    found = estimator(columns_of(rows), random_ranges(80, seed=10))
    found = found[~np.isnan(found)]
    low, high = estimator.range
    assert found.size
    assert low - 1e-12 <= found.min() <= found.max() <= high + 1e-12


CONFIDENT = Token([15.0] + [0.0] * 23, 0)
UNSURE = Token([4.0, 3.0] + [0.0] * 22, 23)


@pytest.mark.parametrize("name", [n for n in registry.names("token-span") if n not in ("n_tokens", "random")])
def test_the_direction_that_the_registry_states_holds_for_a_sure_and_an_unsure_span(name: str) -> None:
    estimator = registry.get(name)
    columns = columns_of([CONFIDENT] * 10 + [UNSURE] * 10)
    sure, unsure = estimator(columns, Ranges(np.array([0, 10]), np.array([10, 20])))
    assert (sure > unsure) == estimator.higher_is_confident


@pytest.mark.parametrize("which", ["logprob", "constrained", "sampling"])
@pytest.mark.parametrize("name", [n for n in PLAIN if "(" not in n and "which" in registry.get(n).parameters])
def test_which_picks_the_column(name: str, which: str) -> None:
    columns = dict(columns_of(random_tokens(30, seed=11)))
    ranges = random_ranges(30, seed=12)
    found = registry.get(f"{name}(which={which})")
    swapped = {**columns, "logprob": columns[tokens.LOGPROB_COLUMNS[which]]}
    np.testing.assert_array_equal(found(columns, ranges), registry.get(name)(swapped, ranges))
    assert found.inputs[0] == tokens.LOGPROB_COLUMNS[which]


@pytest.mark.parametrize("label", [*PLAIN, "lowest_window(3)", "bottom_windows(0.5, 2)", "tail(3)", "random"])
def test_an_estimator_reads_only_the_columns_that_it_declares(label: str) -> None:
    estimator = registry.get(label)
    columns = columns_of(random_tokens(30, seed=13))
    ranges = random_ranges(30, seed=14)
    declared = {name: columns[name] for name in estimator.inputs}
    np.testing.assert_array_equal(estimator(declared, ranges), estimator(columns, ranges))
    for name in estimator.inputs:
        with pytest.raises(ToolkitError, match=name):
            estimator({key: column for key, column in columns.items() if key != name}, ranges)


def test_float32_columns_are_added_in_float64() -> None:
    column = np.full(1_000_000, -0.1, np.float32)
    found = tokens.sum_logprob({"logprob": column}, Ranges(np.array([0]), np.array([len(column)])))
    assert found[0] == pytest.approx(float(np.float32(-0.1)) * 1e6, rel=1e-12)


@pytest.mark.parametrize(("n", "count"), [(4, 1), (7, 2), (100, 29), (3, 0)])
def test_the_lowest_share_is_the_floor_of_the_decimal_product(n: int, count: int) -> None:
    assert tokens.lowest_share(np.array([n]), 0.29)[0] == count


def test_a_k_beyond_the_stored_alternatives_is_undefined_and_not_an_error() -> None:
    columns, ranges = columns_of(random_tokens(10, seed=15)), random_ranges(10, seed=16)
    assert np.isnan(distributions.topk_negentropy(columns, ranges, k=6)).all()
    assert np.isnan(distributions.mean_topk_nll(columns, ranges, k=6)).all()
    without = {**columns, "alternative_logprobs": np.empty((10, 0))}
    assert np.isnan(distributions.mean_topk_nll(without, ranges, k=1)).all()


def test_a_token_without_variance_makes_min_k_plus_undefined() -> None:
    columns = dict(columns_of(random_tokens(10, seed=17)))
    columns["varentropy"] = columns["varentropy"].copy()
    columns["varentropy"][2] = 0
    found = distributions.min_k_plus(columns, Ranges(np.array([0, 5]), np.array([5, 10])))
    assert np.isnan(found).tolist() == [True, False]


def test_random_does_not_depend_on_how_spans_are_divided() -> None:
    columns = columns_of(random_tokens(40, seed=18))
    ranges = random_ranges(40, seed=19)
    whole = tokens.random(columns, ranges, seed=5)
    for cut in (1, 6, 7, 8, 11):
        first, rest = (ranges.take(index) for index in np.split(np.arange(len(ranges)), [cut]))
        parts = [tokens.random(columns, first, seed=5), tokens.random(columns, rest, seed=5, first=cut)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert np.isnan(whole).sum() == (ranges.lengths == 0).sum()
    assert not np.array_equal(whole, tokens.random(columns, ranges, seed=6), equal_nan=True)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("min_k_percent(0)", "k=0"),
        ("min_k_percent(1.5)", "k=1.5"),
        ("min_k_plus(-1)", "k=-1"),
        ("topk_negentropy(1)", "k=1"),
        ("mean_topk_nll(0)", "k=0"),
        ("random(seed=-1)", "seed=-1"),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(label: str, words: str) -> None:
    columns, ranges = columns_of(random_tokens(5, seed=20)), random_ranges(5, seed=21)
    with pytest.raises(ToolkitError, match=words):
        registry.get(label)(columns, ranges)


def test_values_equal_lm_polygraphs() -> None:
    published = case("estimators.json")
    rows = [Token(z, t) for z, t in zip(published["full_logprobs"], published["tokens"], strict=True)]
    columns, whole = columns_of(rows), Ranges(np.array([0]), np.array([len(rows)]))
    log_size = math.log(published["vocabulary"])
    ours = {
        "MaximumSequenceProbability": -tokens.sum_logprob(columns, whole)[0],
        "Perplexity": -tokens.mean_logprob(columns, whole)[0],
        "MeanTokenEntropy": distributions.mean_entropy(columns, whole)[0],
        "SelfCertainty": -distributions.self_certainty(columns, whole)[0],
        "RenyiNeg": distributions.renyi_divergence(columns, whole)[0] - 2 * log_size,
        "FisherRao": distributions.fisher_rao(columns, whole)[0],
    }
    for name, value in ours.items():
        assert value == pytest.approx(published["expected"][name], abs=1e-6), name


def test_values_equal_uqlms() -> None:
    published = case("metrics.json")["token"][0]
    columns = {"logprob": np.array(published["logprobs"])}
    whole = Ranges(np.array([0]), np.array([2]))
    assert tokens.geometric_mean_prob(columns, whole)[0] == pytest.approx(
        published["expected"]["geometric_mean_prob"], rel=1e-9
    )
    assert tokens.min_prob(columns, whole)[0] == pytest.approx(published["expected"]["min_prob"], rel=1e-9)
