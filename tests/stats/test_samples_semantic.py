"""Estimators over classes of samples against plain loops and published values."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from tests.stats.sample_tables import Drawn, drawn_samples
from tests.stats.test_samples import record
from tests.stats.token_tables import case
from toolkit.errors import ToolkitError
from toolkit.stats import Samples, Target, registry, semantic

NAN = math.nan


def plain_entropy(shares: list[float]) -> float:
    return -sum(p * math.log(p) for p in shares if p > 0)


def log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def class_masses(drawn: Drawn, logs: list[float], unique: bool = False) -> dict[int, float]:
    masses: dict[int, float] = {}
    seen = set()
    for text, value, group in zip(drawn.texts, logs, drawn.classes, strict=True):
        if unique and (group, text) in seen:
            continue
        seen.add((group, text))
        masses[group] = masses.get(group, 0.0) + math.exp(value)
    return masses


@given(drawn_samples())
def test_counts_and_shares_of_classes_equal_plain_loops(drawn: Drawn) -> None:
    counts = Counter(drawn.classes)
    answered = [n for group, n in counts.items() if group != -1]
    n = len(drawn)
    assert semantic.number_of_classes(drawn.classes) == len(counts)
    assert semantic.discrete_semantic_entropy(drawn.classes) == pytest.approx(
        plain_entropy([c / n for c in counts.values()]), abs=1e-12
    )
    share = max(answered) / n if answered else NAN
    assert semantic.vote_share(drawn.classes) == pytest.approx(share, nan_ok=True)


@given(drawn_samples())
def test_the_exact_match_rate_leaves_the_target_out(drawn: Drawn) -> None:
    for index in (None, 0, len(drawn) - 1):
        group = drawn.classes[index or 0]
        others = [c for i, c in enumerate(drawn.classes) if i != index]
        expected = NAN if group == -1 else sum(c == group for c in others) / len(others)
        found = semantic.exact_match_rate(drawn.classes, Target(group, index=index))
        assert found == pytest.approx(expected, nan_ok=True)


@given(drawn_samples())
def test_polygraphs_semantic_entropy_is_the_mean_of_the_class_masses(drawn: Drawn) -> None:
    for unique in (False, True):
        masses = class_masses(drawn, drawn.sums, unique)
        expected = -sum(log(masses[c]) for c in drawn.classes) / len(drawn)
        found = registry.get(f"semantic_entropy(unique={unique})")(record(drawn))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(drawn_samples())
def test_farquhars_semantic_entropy_is_of_normalised_classes(drawn: Drawn) -> None:
    for unique in (False, True):
        for count_end in (False, True):
            lengths = [n + (count_end and end) for n, end in zip(drawn.lengths, drawn.ends, strict=True)]
            logs = [s / n for s, n in zip(drawn.sums, lengths, strict=True)]
            masses = class_masses(drawn, logs, unique)
            total = sum(masses.values())
            expected = plain_entropy([m / total for m in masses.values()]) if total else NAN
            label = f"semantic_entropy(farquhar, unique={unique}, count_end={count_end})"
            found = registry.get(label)(record(drawn))
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@given(drawn_samples())
def test_the_direct_semantic_entropy_adds_the_masses_over_samples(drawn: Drawn) -> None:
    for unique in (False, True):
        masses = class_masses(drawn, drawn.sums, unique)
        expected = -sum(masses[c] * log(masses[c]) for c in drawn.classes if masses[c])
        found = registry.get(f"semantic_entropy(direct, unique={unique})")(record(drawn))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(drawn_samples(infinite=False))
def test_semantic_negentropy_counts_the_original_answer_once(drawn: Drawn) -> None:
    whole = semantic.semantic_entropy(drawn.sums, drawn.classes, drawn.lengths, variant="farquhar")
    expected = 1 - whole / math.log(len(drawn))
    inside = registry.get("semantic_negentropy")(record(drawn, target=Target(index=0)))
    assert inside == pytest.approx(expected)
    if len(drawn) > 2:
        samples = record(drawn)
        apart = Samples(
            sum_logprob=samples.sum_logprob[1:],
            n_tokens=samples.n_tokens[1:],
            classes=samples.classes[1:],
            target=Target(drawn.classes[0], None, drawn.sums[0], float(drawn.lengths[0])),
        )
        assert registry.get("semantic_negentropy")(apart) == pytest.approx(expected)
        frequency = registry.get("semantic_negentropy(frequency)")(apart)
        discrete = semantic.discrete_semantic_entropy(drawn.classes)
        assert frequency == pytest.approx(1 - discrete / math.log(len(drawn)))


@given(drawn_samples(infinite=False))
def test_importance_weights_enter_shares_and_means(drawn: Drawn) -> None:
    raw = [math.exp(s - q) for s, q in zip(drawn.sums, drawn.sampling, strict=True)]
    weights = [w / sum(raw) for w in raw]
    shares: dict[int, float] = {}
    for group, weight in zip(drawn.classes, weights, strict=True):
        shares[group] = shares.get(group, 0.0) + weight
    masses = class_masses(drawn, drawn.sums)
    samples = record(drawn, target=Target(2))
    expected = {
        "discrete_semantic_entropy(importance)": plain_entropy(list(shares.values())),
        "exact_match_rate(importance)": shares.get(2, 0.0),
        "vote_share(importance)": max((s for c, s in shares.items() if c != -1), default=NAN),
        "semantic_entropy(weights=importance)": -sum(
            w * math.log(masses[c]) for c, w in zip(drawn.classes, weights, strict=True)
        ),
    }
    for label, value in expected.items():
        assert registry.get(label)(samples) == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), label


def test_one_sample_can_neither_agree_nor_disagree() -> None:
    one = Samples(
        texts=["Paris"],
        sum_logprob=np.array([-1.0]),
        n_tokens=np.array([1.0]),
        classes=np.array([0]),
        target=Target(0, index=0),
    )
    for label in (
        "number_of_classes",
        "vote_share",
        "exact_match_rate",
        "discrete_semantic_entropy",
        "semantic_negentropy",
        "semantic_entropy",
        "semantic_entropy(farquhar)",
        "semantic_entropy(direct)",
    ):
        assert math.isnan(registry.get(label)(one)), label


def test_a_sample_whose_probability_was_not_computed_leaves_its_entropy_undefined() -> None:
    for variant in ("polygraph", "farquhar", "direct"):
        assert math.isnan(semantic.semantic_entropy([NAN, -1.0], [0, 1], [1, 1], variant=variant))  # type: ignore[arg-type]


def test_probabilities_that_underflow_do_not_lose_a_class() -> None:
    found = semantic.semantic_entropy([-2000.0, -2000.0, -2001.0], [0, 0, 1])
    assert found == pytest.approx((2 * (2000 - math.log(2)) + 2001) / 3)


def test_values_equal_lm_polygraphs() -> None:
    published = case("estimators.json")
    sums, classes = published["sample_logprob"], published["semantic_class"]
    expected = published["expected"]
    assert semantic.semantic_entropy(sums, classes) == pytest.approx(expected["SemanticEntropy"], abs=1e-6)
    assert semantic.semantic_entropy(sums, classes, variant="direct") == pytest.approx(
        expected["SemanticEntropy[entropy_estimation=direct]"], abs=1e-6
    )
    assert semantic.discrete_semantic_entropy(classes) == pytest.approx(
        expected["SemanticEntropy[class_probability_estimation=frequency]"], abs=1e-6
    )


@pytest.mark.parametrize("number", range(3))
def test_values_equal_uqlms(number: int) -> None:
    published = case("metrics.json")["semantic_entropy_from_cluster_sizes"][number]
    classes = np.repeat(np.arange(len(published["sizes"])), published["sizes"])
    expected = published["expected"]
    assert semantic.discrete_semantic_entropy(classes) == pytest.approx(
        expected["discrete_entropy"], rel=1e-12
    )
    if "confidence" in expected:
        assert semantic.semantic_negentropy(classes, mass="frequency") == pytest.approx(
            expected["confidence"]
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"variant": "other"}, "polygraph, farquhar or direct"),
        ({"variant": "farquhar"}, "n_tokens"),
        ({"unique": True}, "texts"),
        ({"variant": "direct", "weights": "importance"}, "takes no mean"),
    ],
)
def test_what_a_variant_needs_is_named(arguments: dict, words: str) -> None:
    with pytest.raises(ToolkitError, match=words):
        semantic.semantic_entropy([-1.0, -2.0], [0, 1], **arguments)


def test_semantic_negentropy_needs_likelihoods_unless_it_counts() -> None:
    with pytest.raises(ToolkitError, match="sum_logprob and n_tokens"):
        semantic.semantic_negentropy([0, 1])
