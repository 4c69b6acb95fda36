"""The register of estimators: names with parameters, messages, and estimators of the user's."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from toolkit.errors import ToolkitError
from toolkit.stats import Ranges, Samples, registry
from toolkit.stats.ranges import Columns, Floats


@pytest.fixture(autouse=True)
def _same_register_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))


# The names of the formulas' tables; those of votes and of right and wrong are functions, not estimators.
TOKEN_SPAN = """sum_logprob mean_logprob min_logprob min_prob perplexity geometric_mean_prob mean_prob
    min_k_percent mean_entropy max_entropy mean_varentropy self_certainty renyi_divergence fisher_rao
    min_k_plus mean_surprise mean_margin mean_rank greedy_fraction topk_negentropy mean_topk_nll lowest_window
    bottom_windows tail mean_boosted_prob random n_tokens"""
SAMPLES = """mc_sequence_entropy mc_normalized_sequence_entropy monte_carlo_probability exact_match_rate
    vote_share jaccard_degree jaccard_eigenvalue jaccard_eccentricity lexical_similarity number_of_classes
    discrete_semantic_entropy semantic_entropy semantic_negentropy cocoa sentence_sar
    kernel_language_entropy"""
ASKED = """choice_letter choice_sum choice_mean choice_byte choice_pmi choice_margin choice_entropy p_true
    p_true_with_samples"""


def test_every_published_estimator_is_registered_under_its_name_and_level() -> None:
    assert set(TOKEN_SPAN.split()) <= set(registry.names("token-span"))
    assert set(SAMPLES.split()) <= set(registry.names("samples"))
    assert set(ASKED.split()) <= set(registry.names("asked"))
    assert registry.names() == [name for level in registry.LEVELS for name in registry.names(level)]


@pytest.mark.parametrize("estimator", registry.estimators(), ids=registry.names())
def test_every_estimator_states_what_it_is(estimator: registry.Estimator) -> None:
    assert estimator.source
    assert estimator.range[0] < estimator.range[1]
    assert estimator.summary.endswith((".", "`."))
    text = " ".join((estimator.function.__doc__ or "").split())
    assert any(word in text for word in ("arXiv", "doi", "aclanthology")) or estimator.source == "baseline"
    assert any(word in text for word in ("more confident", "rises with confidence", "means nothing"))
    assert registry.get(estimator.label) == estimator


@pytest.mark.parametrize(
    ("text", "parameters", "label"),
    [
        ("mean_logprob", {"which": "logprob"}, "mean_logprob"),
        (" mean_logprob() ", {"which": "logprob"}, "mean_logprob"),
        ("min_k_percent(0.1)", {"k": 0.1, "which": "logprob"}, "min_k_percent(k=0.1)"),
        ("min_k_percent(k=1)", {"k": 1, "which": "logprob"}, "min_k_percent(k=1)"),
        ("min_k_percent(0.2)", {"k": 0.2, "which": "logprob"}, "min_k_percent"),
        (
            "min_k_percent(which='sampling', k=0.5)",
            {"k": 0.5, "which": "sampling"},
            "min_k_percent(k=0.5, which=sampling)",
        ),
        (
            "lexical_similarity(rouge1)",
            {"metric": "rouge1", "tokens": "stemmed"},
            "lexical_similarity(metric=rouge1)",
        ),
        ("cocoa('min_k_percent(k=0.5)')", {"u": "min_k_percent(k=0.5)"}, "cocoa(u='min_k_percent(k=0.5)')"),
        ("cocoa(2)", {"u": 2}, "cocoa(u=2)"),
        ("jaccard_eccentricity(inf)", {"cutoff": math.inf}, "jaccard_eccentricity(cutoff=inf)"),
        ("jaccard_eccentricity(cutoff=-inf)", {"cutoff": -math.inf}, "jaccard_eccentricity(cutoff=-inf)"),
    ],
)
def test_a_text_names_an_estimator_and_its_parameters(text: str, parameters: dict, label: str) -> None:
    found = registry.get(text)
    assert found.parameters == parameters
    assert found.label == label
    assert registry.get(label) == found


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("topk_negentropy", ("top15_entropy",)),
        ("topk_negentropy(5)", ("alternative_logprobs",)),
        ("lowest_window(64)", ("top20_mean_logprob",)),
        ("min_k_plus(which=constrained)", ("constrained_logprob", "entropy", "varentropy")),
        ("mc_sequence_entropy(importance)", ("sum_logprob", "sum_sampling_logprob")),
        ("semantic_entropy(farquhar, unique=True)", ("sum_logprob", "classes", "n_tokens", "texts")),
    ],
)
def test_parameters_decide_what_is_read(text: str, inputs: tuple[str, ...]) -> None:
    assert registry.get(text).inputs == inputs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mean_logpro", "did you mean mean_logprob"),
        ("confidence", "toolkit summarize --list, or toolkit.stats.names(), has all"),
        ("min_k_percent(j=1)", "no parameter 'j': it takes k=0.2, which=logprob"),
        ("min_k_percent(half)", "k must be a number, not 'half'"),
        ("min_k_percent(True)", "k must be a number, not True"),
        ("min_k_percent(nan)", "k must be a number, not 'nan'"),
        ("lowest_window(2.5)", "window must be a whole number"),
        ("mean_logprob(draft)", "which must be one of logprob, constrained, sampling"),
        ("mean_logprob(logprob, 2)", "got 2 values"),
        ("min_k_percent(0.1, k=0.2)", "k is given twice"),
        ("semantic_entropy(unique=1)", "unique must be True or False"),
        ("n_tokens(3)", "n_tokens takes no parameters"),
        ("min_k_percent(k=[0.1])", "must be a name, or a name with values"),
        ("min_k_percent(__import__('os'))", "must be a name"),
        ("min_k_percent(k=0.1)(2)", "must be a name"),
        ("min_k_percent(**{})", "must be a name"),
        ("a.b", "must be a name"),
        ("min_k_percent(0.1", "must be a name"),
        ("", "must be a name"),
        ("(" * 5000, "must be a name"),
    ],
)
def test_a_wrong_name_or_parameter_says_what_there_is(text: str, words: str) -> None:
    with pytest.raises(ToolkitError) as caught:
        registry.get(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numpys_numbers_are_parameters_as_pythons_are() -> None:
    found = registry.get("lowest_window").bind(window=np.int64(5), k=np.int32(20))
    assert found == registry.get("lowest_window(window=5)")
    assert found.label == "lowest_window(window=5)"
    assert registry.get("min_k_percent").bind(np.float32(0.5)).label == "min_k_percent(k=0.5)"
    with pytest.raises(ToolkitError, match="k must be a number, not nan"):
        registry.get("min_k_percent").bind(np.float64("nan"))
    with pytest.raises(ToolkitError, match="k must be a number, not True"):
        registry.get("min_k_percent").bind(np.True_)


def test_a_user_adds_an_estimator_in_ten_lines() -> None:
    @registry.register(
        "mean_gap",
        inputs=("top1_logprob", "logprob"),
        higher_is_confident=False,
        range=(0, math.inf),
        source="x",
    )
    def mean_gap(columns: Columns, ranges: Ranges, *, power: float = 1.0) -> Floats:
        """Mean of how much more likely the most likely token was, in nats."""
        return ranges.mean((columns["top1_logprob"] - columns["logprob"]) ** power)

    columns = {"top1_logprob": np.array([-0.5, -1.0]), "logprob": np.array([-2.5, -1.0])}
    whole = Ranges(np.array([0]), np.array([2]))
    assert registry.get("mean_gap")(columns, whole) == 1.0
    assert registry.get("mean_gap(2)")(columns, whole) == 2.0
    assert registry.names("token-span")[-1] == "mean_gap"
    assert mean_gap(columns, whole) == 1.0


def test_a_user_adds_an_estimator_over_samples() -> None:
    @registry.register(
        "longest",
        level="samples",
        inputs=("texts",),
        higher_is_confident=False,
        range=(0, math.inf),
        source="x",
    )
    def longest(texts: list[str], *, spaces=True) -> float:  # type: ignore[no-untyped-def]
        """Length of the longest text."""
        return float(max(len(text) if spaces else len(text.replace(" ", "")) for text in texts))

    assert registry.get("longest")(Samples(texts=["a b", "c"])) == 3.0
    assert registry.get("longest(spaces=False)")(Samples(texts=["a b", "c"])) == 2.0


def test_a_name_that_is_taken_or_impossible_is_refused() -> None:
    def other(columns: Columns, ranges: Ranges) -> Floats:
        return ranges.mean(columns["logprob"])

    def add(name: str, **changes: object) -> None:
        settings = {"inputs": (), "higher_is_confident": True, "range": (0, 1), "source": "x", **changes}
        registry.register(name, **settings)(other)  # type: ignore[arg-type]

    with pytest.raises(ToolkitError, match=r"is already toolkit\.stats\.tokens\.mean_logprob"):
        add("mean_logprob")
    with pytest.raises(ToolkitError, match="identifier"):
        add("mean logprob")
    with pytest.raises(ToolkitError, match="token-span, samples"):
        add("other", level="token")
    add("other")
    add("other", source="a cell of a notebook, run again")
    assert registry.get("other").source.startswith("a cell")


def test_a_parameter_without_a_default_is_refused() -> None:
    def needy(columns: Columns, ranges: Ranges, *, k: int) -> Floats:
        return ranges.mean(columns["logprob"])

    with pytest.raises(ToolkitError, match="needs a default"):
        registry.register("needy", inputs=(), higher_is_confident=True, range=(0, 1), source="x")(needy)


def test_estimators_can_be_sent_to_another_process() -> None:
    for estimator in registry.estimators():
        assert pickle.loads(pickle.dumps(estimator)).label == estimator.label
