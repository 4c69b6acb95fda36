"""Estimators over a similarity matrix against plain loops, published values and known spectra."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm, fractional_matrix_power, logm

from tests.stats.sample_tables import Drawn, drawn_samples
from tests.stats.token_tables import case
from toolkit.errors import ToolkitError
from toolkit.stats import Samples, Target, agreement, estimate, graphs
from toolkit.stats.similarity import jaccard_matrix

NAN = math.nan


def symmetric(drawn: Drawn) -> np.ndarray:
    matrix = np.array(drawn.similarity)
    return (matrix + matrix.T) / 2


@given(drawn_samples())
def test_degree_and_mean_similarity_equal_plain_loops(drawn: Drawn) -> None:
    n, w = len(drawn), drawn.similarity
    total = sum(sum(row) for row in w)
    assert graphs.similarity_degree(w) == pytest.approx(1 - total / n**2)
    pairs = [(w[i][j] + w[j][i]) / 2 for i in range(n) for j in range(i)]
    assert agreement.mean_similarity(w) == pytest.approx(sum(pairs) / len(pairs))


@given(drawn_samples())
def test_the_spectrum_equals_that_of_the_random_walk_on_the_graph(drawn: Drawn) -> None:
    # I − D⁻¹W has the normalised Laplacian's eigenvalues, and D^-½ v as its eigenvectors.
    w = symmetric(drawn)
    values = np.linalg.eigvals(np.eye(len(w)) - w / w.sum(axis=1, keepdims=True)).real
    expected = sum(max(0.0, 1 - value) for value in values)
    assert graphs.similarity_eigenvalue(drawn.similarity) == pytest.approx(expected, abs=1e-6)


@given(drawn_samples())
def test_the_eccentricity_is_that_of_the_projection_on_the_kept_eigenvectors(drawn: Drawn) -> None:
    # Σ‖v − mean v‖² = Σ‖v‖² − (Σv)²/K = trace P − 1ᵀP1/K, whatever basis spans P.
    w = symmetric(drawn)
    scale = np.diag(1 / np.sqrt(w.sum(axis=1)))
    values, vectors = np.linalg.eigh(np.eye(len(w)) - scale @ w @ scale)
    if np.abs(values - 0.9).min() < 1e-9:
        return
    projection = sum(
        (np.outer(v, v) for value, v in zip(values, vectors.T, strict=True) if value < 0.9), np.zeros_like(w)
    )
    expected = math.sqrt(max(0.0, np.trace(projection) - projection.sum() / len(w)))
    assert graphs.similarity_eccentricity(drawn.similarity) == pytest.approx(expected, abs=1e-6)


def test_separate_groups_of_equal_samples_are_counted_by_the_eigenvalue() -> None:
    groups = np.kron(np.eye(3), np.ones((2, 2)))
    assert graphs.similarity_eigenvalue(groups) == pytest.approx(3)
    assert graphs.similarity_eccentricity(groups) == pytest.approx(math.sqrt(2))
    assert graphs.similarity_eigenvalue(np.ones((4, 4))) == pytest.approx(1)
    assert graphs.similarity_eccentricity(np.ones((4, 4))) == pytest.approx(0, abs=1e-7)


def test_values_equal_lm_polygraphs() -> None:
    published = case("estimators.json")
    samples, expected = Samples(texts=published["sample_texts"]), published["expected"]
    ours = {
        "DegMat[similarity_score=Jaccard_score]": estimate("jaccard_degree", samples).value,
        "Eccentricity[similarity_score=Jaccard_score]": estimate("jaccard_eccentricity", samples).value,
        "EigValLaplacian[similarity_score=Jaccard_score]": estimate("jaccard_eigenvalue", samples).value,
        "LexicalSimilarity[metric=rouge1]": -estimate("lexical_similarity(rouge1)", samples).value,
        "LexicalSimilarity[metric=rouge2]": -estimate("lexical_similarity(rouge2)", samples).value,
        "LexicalSimilarity[metric=rougeL]": -estimate("lexical_similarity(rougeL)", samples).value,
    }
    for name, value in ours.items():
        assert value == pytest.approx(expected[name], abs=1e-6), name


@given(drawn_samples())
def test_a_plugged_in_jaccard_matrix_gives_the_jaccard_estimators(drawn: Drawn) -> None:
    samples = Samples(texts=drawn.texts, similarity=jaccard_matrix(drawn.texts))
    for name in ("degree", "eigenvalue", "eccentricity"):
        assert estimate(f"jaccard_{name}", samples).value == estimate(f"similarity_{name}", samples).value


@given(drawn_samples(), st.sampled_from([0.001, 1.0]))
def test_sentence_sar_equals_a_plain_loop(drawn: Drawn, t: float) -> None:
    p, w = [math.exp(s) for s in drawn.sums], symmetric(drawn)
    total = 0.0
    for i in range(len(drawn)):
        relevance = p[i] + sum(w[i][j] * p[j] for j in range(len(drawn)) if j != i) / t
        total -= math.log(relevance) if relevance else -math.inf
    assert agreement.sentence_sar(drawn.sums, drawn.similarity, t=t) == pytest.approx(
        total / len(drawn), rel=1e-9, abs=1e-9
    )


def test_sentence_sar_does_not_underflow() -> None:
    shifted = agreement.sentence_sar([-2001.0, -2002.0], np.ones((2, 2)))
    assert shifted == pytest.approx(2000 + agreement.sentence_sar([-1.0, -2.0], np.ones((2, 2))))


@given(drawn_samples(), st.sampled_from([0.3, 2.0]))
def test_kernel_language_entropy_equals_the_formula_with_matrix_functions(drawn: Drawn, t: float) -> None:
    w = symmetric(drawn)
    laplacian = np.diag(w.sum(axis=1)) - w
    heat = expm(-t * laplacian)
    matern = fractional_matrix_power(2 * 1.5 / 0.8**2 * np.eye(len(w)) + laplacian, -1.5)
    for kernel, matrix in (("heat", heat), ("matern", matern)):
        unit = matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix))) / len(w)
        jittered = unit + 1e-12 * np.eye(len(w))
        expected = -np.trace(jittered @ logm(jittered)).real
        found = graphs.kernel_language_entropy(
            drawn.similarity,
            kernel=kernel,  # type: ignore[arg-type]
            t=t,
            nu=1.5,
            kappa=0.8,
        )
        assert found == pytest.approx(expected, abs=1e-6)


def test_kernel_language_entropy_of_unlike_samples_is_the_largest() -> None:
    assert graphs.kernel_language_entropy(np.eye(5)) == pytest.approx(math.log(5))
    assert graphs.kernel_language_entropy(np.eye(5), scaled=True) == pytest.approx(1)
    alike = graphs.kernel_language_entropy(np.ones((5, 5)), t=100.0)
    assert alike == pytest.approx(0, abs=1e-9)


@given(drawn_samples())
def test_cocoa_is_the_uncertainty_times_the_mean_distance(drawn: Drawn) -> None:
    row = drawn.similarity[0]
    values = {"sum_logprob": -3.0, "mean_prob": 0.25, "mean_entropy": 1.5, "min_k_percent(k=0.5)": -2.0}
    apart = Target(similarity=np.array(row), values=values)
    inside = Target(similarity=np.array(row), values=values, index=0)
    for u, uncertainty in (
        ("sum_logprob", 3.0),
        ("mean_prob", 0.75),
        ("mean_entropy", 1.5),
        ("min_k_percent(0.5)", 2.0),
        (0.5, 0.5),
    ):
        expected = uncertainty * sum(1 - s for s in row) / len(row)
        assert agreement.cocoa(apart, u=u) == pytest.approx(expected)
        expected = uncertainty * sum(1 - s for s in row[1:]) / (len(row) - 1)
        assert agreement.cocoa(inside, u=u) == pytest.approx(expected)
    assert estimate("cocoa(mean_entropy)", Samples(target=apart)).value == agreement.cocoa(
        apart, u="mean_entropy"
    )


def test_cocoa_takes_an_entropy_that_rounding_left_below_0_as_0() -> None:
    target = Target(similarity=np.array([0.5, 0.5]), values={"mean_entropy": -1e-9})
    assert agreement.cocoa(target, u="mean_entropy") == 0
    assert agreement.cocoa(target, u=-1e-9) == 0
    assert math.isnan(agreement.cocoa(target, u=math.nan))
    with pytest.raises(ToolkitError, match=r"u is -0\.001"):
        agreement.cocoa(target, u=-0.001)


def test_cocoa_says_what_it_lacks() -> None:
    row = np.array([1.0, 0.5])
    for target, u, words in (
        (Target(), "sum_logprob", "similarity"),
        (Target(similarity=row), "sum_logprob", "sum_logprob of the target"),
        (Target(similarity=row, values={"self_certainty": 1.0}), "self_certainty", "no uncertainty"),
        (Target(similarity=row), -1.0, "at least 0"),
        (Target(similarity=row), "nonsense", "there is no estimator"),
    ):
        with pytest.raises(ToolkitError, match=words):
            agreement.cocoa(target, u=u)
    assert math.isnan(agreement.cocoa(Target(similarity=row[:1], index=0), u=1.0))
    assert math.isnan(agreement.cocoa(Target(similarity=row, values={"sum_logprob": NAN})))


def test_one_sample_and_a_matrix_with_a_hole_are_undefined() -> None:
    hole = np.array([[1.0, NAN], [NAN, 1.0]])
    for function in (
        graphs.similarity_degree,
        graphs.similarity_eigenvalue,
        graphs.similarity_eccentricity,
        agreement.mean_similarity,
        graphs.kernel_language_entropy,
    ):
        assert math.isnan(function(np.ones((1, 1))))  # type: ignore[operator]
        assert math.isnan(function(hole))  # type: ignore[operator]
    assert math.isnan(agreement.sentence_sar([-1.0], np.ones((1, 1))))
    assert math.isnan(agreement.sentence_sar([-1.0, NAN], np.ones((2, 2))))
    assert math.isnan(agreement.lexical_similarity(["one"]))
    assert math.isnan(graphs.similarity_eigenvalue(np.zeros((2, 2))))


def test_pairs_without_words_do_not_count_as_unlike() -> None:
    assert math.isnan(agreement.lexical_similarity(["Paris", "Paris"], metric="rouge2"))
    texts = ["Paris", "Rome", "Paris is", "Paris is"]
    assert agreement.lexical_similarity(texts, metric="rouge2") == pytest.approx(1 / 5)


def test_empty_texts_are_alike() -> None:
    assert agreement.lexical_similarity(["", " ..."]) == 1
    assert agreement.lexical_similarity(["", "", "Paris is", "Paris is"]) == pytest.approx(2 / 6)


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.ones(4), -np.ones((2, 2))])
def test_a_matrix_that_is_no_similarity_is_refused(matrix: np.ndarray) -> None:
    with pytest.raises(ToolkitError, match="similarity has"):
        graphs.similarity_degree(matrix)


def test_parameters_out_of_range_are_refused_by_name() -> None:
    for arguments, words in (
        ({"t": 0.0}, "t=0"),
        ({"nu": -1.0}, "nu=-1"),
        ({"kernel": "x"}, "heat or matern"),
    ):
        with pytest.raises(ToolkitError, match=words):
            graphs.kernel_language_entropy(np.ones((2, 2)), **arguments)  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="t=0"):
        agreement.sentence_sar([-1.0, -1.0], np.ones((2, 2)), t=0.0)
    with pytest.raises(ToolkitError, match=r"\(3, 3\)"):
        agreement.sentence_sar([-1.0, -1.0, -1.0], np.ones((2, 2)))
