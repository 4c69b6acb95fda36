"""Monte-Carlo estimators over samples, importance weights, and the record that carries samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from tests.stats.sample_tables import Drawn, drawn_samples
from tests.stats.token_tables import case
from toolkit.errors import ToolkitError
from toolkit.stats import Samples, Target, estimate, registry, samples

NAN = math.nan


def plain_mean(values: list[float]) -> float:
    return sum(values) / len(values)


def record(drawn: Drawn, **others: object) -> Samples:
    return Samples(
        texts=drawn.texts,
        sum_logprob=np.array(drawn.sums),
        n_tokens=np.array(drawn.lengths, float),
        has_end=np.array(drawn.ends),
        sum_sampling_logprob=np.array(drawn.sampling),
        classes=np.array(drawn.classes),
        similarity=np.array(drawn.similarity),
        **others,  # type: ignore[arg-type]
    )


@given(drawn_samples(min_size=1))
def test_monte_carlo_estimators_equal_plain_loops(drawn: Drawn) -> None:
    per_token = [s / n for s, n in zip(drawn.sums, drawn.lengths, strict=True)]
    counted = [s / (n + end) for s, n, end in zip(drawn.sums, drawn.lengths, drawn.ends, strict=True)]
    expected = {
        "mc_sequence_entropy": -plain_mean(drawn.sums),
        "mc_normalized_sequence_entropy": -plain_mean(per_token),
        "mc_normalized_sequence_entropy(count_end=True)": -plain_mean(counted),
        "monte_carlo_probability": plain_mean([math.exp(x) for x in per_token]),
        "monte_carlo_probability(count_end=True)": plain_mean([math.exp(x) for x in counted]),
    }
    for label, value in expected.items():
        assert registry.get(label)(record(drawn)) == pytest.approx(value, rel=1e-9), label


@given(drawn_samples(infinite=False))
def test_importance_weights_are_self_normalised(drawn: Drawn) -> None:
    raw = [math.exp(s - q) for s, q in zip(drawn.sums, drawn.sampling, strict=True)]
    weights = [w / sum(raw) for w in raw]
    found = samples.sample_weights(len(drawn), "importance", drawn.sums, drawn.sampling)
    np.testing.assert_allclose(found, weights, rtol=1e-9)
    result = estimate("mc_sequence_entropy(importance)", record(drawn, sampler="temperature 0.5"))
    assert result.value == pytest.approx(-sum(w * s for w, s in zip(weights, drawn.sums, strict=True)))
    assert result.effective_sample_size == pytest.approx(1 / sum(w * w for w in weights))
    assert (result.n_samples, result.sampler) == (len(drawn), "temperature 0.5")


def test_importance_weights_recover_the_models_entropy_from_another_temperature() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, 30)
    model = logits - np.log(np.exp(logits).sum())
    sharp = 1.5 * logits - np.log(np.exp(1.5 * logits).sum())
    ids = rng.choice(30, 200_000, p=np.exp(sharp))
    entropy = -(np.exp(model) * model).sum()
    drawn = Samples(sum_logprob=model[ids], sum_sampling_logprob=sharp[ids])
    assert estimate("mc_sequence_entropy(importance)", drawn).value == pytest.approx(entropy, abs=0.02)
    assert estimate("mc_sequence_entropy", drawn).value < entropy - 0.2


def test_a_sample_that_the_model_cannot_draw_has_no_importance() -> None:
    drawn = Samples(sum_logprob=np.array([-math.inf, -1.0]), sum_sampling_logprob=np.array([-2.0, -1.0]))
    result = estimate("mc_sequence_entropy(importance)", drawn)
    assert (result.value, result.effective_sample_size) == (1.0, 1.0)
    assert estimate("mc_sequence_entropy", drawn).value == math.inf


def test_samples_that_cannot_be_weighed_are_undefined() -> None:
    impossible = Samples(sum_logprob=np.full(2, -math.inf), sum_sampling_logprob=np.full(2, -math.inf))
    assert math.isnan(estimate("mc_sequence_entropy(importance)", impossible).value)


def test_no_samples_a_missing_value_and_a_sample_without_tokens_are_undefined() -> None:
    nothing = Samples(sum_logprob=np.array([]), n_tokens=np.array([]))
    unknown = Samples(sum_logprob=np.array([-1.0, NAN]), n_tokens=np.array([1.0, 1.0]))
    for name in ("mc_sequence_entropy", "mc_normalized_sequence_entropy", "monte_carlo_probability"):
        assert math.isnan(registry.get(name)(nothing))
        assert math.isnan(registry.get(name)(unknown))
    empty = Samples(
        sum_logprob=np.array([-1.0, -2.0]), n_tokens=np.array([0.0, 2.0]), has_end=np.array([True] * 2)
    )
    assert math.isnan(estimate("mc_normalized_sequence_entropy", empty).value)
    assert estimate("mc_normalized_sequence_entropy(count_end=True)", empty).value == pytest.approx(5 / 6)


def test_values_equal_lm_polygraphs() -> None:
    published = case("estimators.json")
    drawn = Samples(
        sum_logprob=np.array(published["sample_logprob"]),
        n_tokens=np.array(published["sample_n_tokens"], float),
    )
    expected = published["expected"]
    assert estimate("mc_sequence_entropy", drawn).value == pytest.approx(
        expected["MonteCarloSequenceEntropy"], abs=1e-6
    )
    assert estimate("mc_normalized_sequence_entropy", drawn).value == pytest.approx(
        expected["MonteCarloNormalizedSequenceEntropy"], abs=1e-6
    )


def test_fields_of_different_numbers_of_samples_are_refused() -> None:
    with pytest.raises(ToolkitError, match="texts 2, sum_logprob 1"):
        Samples(texts=["a", "b"], sum_logprob=np.array([-1.0]))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ToolkitError, match="needs classes"):
        estimate("number_of_classes", Samples(texts=["a", "b"]))
    with pytest.raises(ToolkitError, match="needs n_tokens"):
        estimate("monte_carlo_probability", Samples(sum_logprob=np.array([-1.0])))
    with pytest.raises(ToolkitError, match="has_end"):
        samples.mc_normalized_sequence_entropy([-1.0], [1], count_end=True)
    with pytest.raises(ToolkitError, match="sum_sampling_logprob"):
        samples.mc_sequence_entropy([-1.0], weights="importance")


def test_an_estimator_of_token_spans_and_unknown_weights_are_refused() -> None:
    with pytest.raises(ToolkitError, match="token spans"):
        estimate("mean_logprob", Samples(texts=["a"]))
    with pytest.raises(ToolkitError, match="equal or importance"):
        samples.sample_weights(2, "other")  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="shape"):
        samples.mc_sequence_entropy([[-1.0, -2.0]])


# Agreement in full, and none, over four samples.
SURE = Samples(
    texts=["Paris"] * 4,
    sum_logprob=np.full(4, -0.1),
    n_tokens=np.ones(4),
    classes=np.zeros(4, int),
    similarity=np.ones((4, 4)),
    target=Target(0, np.ones(4), -0.1, 1.0, {"sum_logprob": -0.1}),
)
UNSURE = Samples(
    texts=["Paris", "Rome", "in Oslo", "Berne"],
    sum_logprob=np.full(4, -3.0),
    n_tokens=np.ones(4),
    classes=np.arange(4),
    similarity=np.eye(4),
    target=Target(7, np.zeros(4), -3.0, 1.0, {"sum_logprob": -3.0}),
)


@pytest.mark.parametrize("name", registry.names("samples"))
def test_the_direction_and_the_range_that_the_registry_states_hold(name: str) -> None:
    estimator = registry.get(name)
    sure, unsure = estimator(SURE), estimator(UNSURE)
    assert isinstance(sure, float)
    assert (sure > unsure) == estimator.higher_is_confident
    assert all(estimator.range[0] - 1e-9 <= value <= estimator.range[1] + 1e-9 for value in (sure, unsure))


@pytest.mark.parametrize("label", [*registry.names("samples"), "semantic_entropy(farquhar, unique=True)"])
def test_an_estimator_reads_only_the_fields_that_it_declares(label: str) -> None:
    estimator = registry.get(label)
    given_fields = {name: getattr(UNSURE, name) for name in ("texts", *estimator.inputs) if name != "jaccard"}
    assert estimator(Samples(**given_fields)) == estimator(UNSURE)
