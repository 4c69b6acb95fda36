"""Matrices of similarity between texts against plain implementations and published values."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolkit.errors import ToolkitError
from toolkit.stats import get, similarity
from toolkit.stats.ranges import Floats
from toolkit.stats.similarity import ROUGE_METRICS, RougeMetric
from toolkit.stats.stemming import stem

WORDS = st.sampled_from(["the", "cat", "Cats", "sat.", "running", "ran", "a-b", "42"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), min_size=1, max_size=5)


def plain_jaccard(a: str, b: str) -> float:
    first, second = set(a.lower().split()), set(b.lower().split())
    return len(first & second) / len(first | second) if first | second else 1.0


def common_subsequence(a: list, b: list) -> int:
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if x == y else max(lengths[i][j + 1], lengths[i + 1][j])
    return lengths[-1][-1]


def plain_rouge(a: list[str], b: list[str], metric: RougeMetric) -> float:
    if metric == "rouge2":
        a, b = (
            [" ".join(a[i : i + 2]) for i in range(len(a) - 1)],
            [" ".join(b[i : i + 2]) for i in range(len(b) - 1)],
        )
    shared = common_subsequence(a, b) if metric == "rougeL" else sum((Counter(a) & Counter(b)).values())
    if not a and not b:
        return math.nan
    if not shared:
        return 0.0
    precision, recall = shared / len(a), shared / len(b)
    return 2 * precision * recall / (precision + recall)


@given(TEXTS)
def test_jaccard_equals_sets_of_words(texts: list[str]) -> None:
    expected = [[plain_jaccard(a, b) for b in texts] for a in texts]
    np.testing.assert_allclose(similarity.jaccard_matrix(texts), expected)


@given(TEXTS, st.sampled_from(ROUGE_METRICS), st.sampled_from(["stemmed", "words", "characters"]))
def test_rouge_equals_a_plain_f_measure(texts: list[str], metric: RougeMetric, tokens: str) -> None:
    words = [similarity.rouge_tokens(text, tokens) for text in texts]  # type: ignore[arg-type]
    expected = [
        [
            1.0 if i == j or not (texts[i] or texts[j]) else plain_rouge(a, b, metric)
            for j, b in enumerate(words)
        ]
        for i, a in enumerate(words)
    ]
    found = similarity.rouge_matrix(texts, metric, tokens=tokens)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected)


# F-measures that rouge-score 0.1.2 gives with use_stemmer=True.
PUBLISHED = [
    ("the cat sat on the mat", "the cats are sitting on mats", (2 * 4 / 12, 2 * 1 / 10, 2 * 4 / 12)),
    ("day days played", "days play", (0.8, 2 / 3, 0.8)),
    ("naïve café", "naive cafe", (0.0, 0.0, 0.0)),
]


@pytest.mark.parametrize(("first", "second", "expected"), PUBLISHED)
def test_rouge_equals_the_rouge_score_package(first: str, second: str, expected: tuple[float, ...]) -> None:
    for metric, value in zip(ROUGE_METRICS, expected, strict=True):
        assert similarity.rouge_matrix([first, second], metric)[0, 1] == pytest.approx(value), metric


# As nltk.stem.porter.PorterStemmer gives them.
STEMS = {
    "caresses": "caress",
    "ponies": "poni",
    "ties": "tie",
    "tied": "tie",
    "keys": "key",
    "playing": "play",
    "trying": "tri",
    "uses": "use",
    "using": "use",
    "ones": "one",
    "goodbye": "goodby",
    "dying": "die",
    "skies": "sky",
    "news": "news",
    "proceed": "proceed",
    "carefully": "care",
    "fully": "fulli",
    "possibly": "possibl",
    "really": "realli",
    "additionally": "addit",
    "topology": "topolog",
    "relational": "relat",
    "hopping": "hop",
    "generalizations": "gener",
    "sky2": "sky2",
}


@pytest.mark.parametrize("word", STEMS)
def test_stems_equal_nltks(word: str) -> None:
    assert stem(word) == STEMS[word]


@pytest.mark.parametrize(
    ("tokens", "text", "expected"),
    [
        ("stemmed", "The CATS' 3.5 mats—naïve", ["the", "cat", "3", "5", "mat", "na", "ve"]),
        ("stemmed", "it was his cars", ["it", "was", "his", "car"]),
        ("words", "Ünïted NATIONS, हिन्दी 2.0_x", ["ünïted", "nations", "हिन्दी", "2", "0", "x"]),
        ("words", "e\u0301te\u0301", ["\u00e9t\u00e9"]),
        ("characters", "東京、2 です。", ["東", "京", "2", "で", "す"]),
        ("characters", "हिन्दी", ["हि", "न्", "दी"]),
    ],
)
def test_tokens_of_rouge(tokens: str, text: str, expected: list[str]) -> None:
    assert similarity.rouge_tokens(text, tokens) == expected  # type: ignore[arg-type]


def test_scripts_without_spaces_have_a_similarity_by_characters() -> None:
    texts = ["東京です", "東京", "京都"]
    np.testing.assert_array_equal(similarity.rouge_matrix(texts), np.where(np.eye(3), 1, np.nan))
    found = similarity.rouge_matrix(texts, tokens="characters")
    np.testing.assert_allclose(found[0, 1:], [4 / 6, 2 / 6])


def test_a_text_without_words_equals_itself_and_empty_ones_each_other() -> None:
    nan = np.nan
    found = similarity.rouge_matrix(["", " ...", "Paris", "\U0001f44d", "\U0001f44d"])
    rows = [[1, 1, 0, nan, nan], [1, 1, 0, nan, nan], [0, 0, 1, 0, 0], [nan, nan, 0, 1, nan], [nan] * 5]
    rows[4] = [nan, nan, 0, nan, 1]
    np.testing.assert_array_equal(found, rows)
    # Equal pairs of them would all be 1, were others left out: three answers of which one differs, all alike.
    pairs = similarity.rouge_matrix(["Paris", "Rome", "Paris", "in Paris"], "rouge2")
    np.testing.assert_array_equal(pairs, [[1, nan, nan, 0], [nan, 1, nan, 0], [nan, nan, 1, 0], [0, 0, 0, 1]])


def test_one_empty_sample_leaves_its_prompt_defined() -> None:
    matrix = similarity.rouge_matrix(["Paris", "Paris it is", ""])
    for name in ("similarity_degree", "similarity_eigenvalue", "kernel_language_entropy", "mean_similarity"):
        assert np.isfinite(get(name).function(matrix)), name


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 60)), min_size=1, max_size=4))
def test_words_in_common_are_counted_as_often_as_both_have_them(counts: list[dict[str, int]]) -> None:
    words = [[word for word, n in text.items() for _ in range(n)] for text in counts]
    expected = [[sum((Counter(a) & Counter(b)).values()) for b in words] for a in words]
    np.testing.assert_array_equal(similarity._overlaps(words), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_DENSE", 0)  # as many different words would have it
        np.testing.assert_array_equal(similarity._overlaps(words), expected)


def test_a_repeated_word_costs_no_more_than_a_single_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    plain = similarity._common

    def counting(cells: NDArray[np.int64], shape: tuple[int, int]) -> Floats:
        shapes.append(shape)
        return plain(cells, shape)

    monkeypatch.setattr(similarity, "_common", counting)
    found = similarity.rouge_matrix(["on and on and " * 1250] * 8, "rouge1")
    assert (found == 1).all()
    assert shapes == [(8, 2)]


def test_rouge_takes_more_different_words_than_a_plane_of_unicode() -> None:
    texts = [" ".join(f"w{i}" for i in range(0, 10_000, step)) for step in (1, 2)]
    found = similarity.rouge_matrix(texts, tokens="words")
    assert found[0, 1] == pytest.approx(2 * 5_000 / 15_000)


@given(st.lists(st.text(max_size=8), min_size=1, max_size=5))
def test_edit_similarity_equals_a_plain_distance(texts: list[str]) -> None:
    def distance(a: str, b: str) -> int:
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            previous, row[0] = row[0], i
            for j, y in enumerate(b, 1):
                previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
        return row[-1]

    expected = [[1 - distance(a, b) / max(len(a), len(b), 1) for b in texts] for a in texts]
    np.testing.assert_allclose(similarity.edit_matrix(texts), expected, atol=1e-12)


def test_a_function_is_asked_in_both_orders_and_not_on_the_diagonal() -> None:
    asked = []

    def prefix(a: str, b: str) -> float:
        asked.append((a, b))
        return float(b.startswith(a))

    found = similarity.function_matrix(["Paris", "Paris is", "Rome"], prefix)
    np.testing.assert_array_equal(found, [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    assert len(asked) == 6


def test_embeddings_are_compared_by_their_angle() -> None:
    vectors = {"a": [1.0, 0.0], "b": [2.0, 2.0], "c": [-3.0, 0.0], "zero": [0.0, 0.0]}
    found = similarity.embedding_matrix(list(vectors), lambda texts: [vectors[text] for text in texts])
    half = math.sqrt(0.5)
    np.testing.assert_allclose(found[:3, :3], [[1, half, -1], [half, 1, -half], [-1, -half, 1]], atol=1e-12)
    assert np.isnan(found[3]).all()
    with pytest.raises(ToolkitError, match="dimensions"):
        similarity.cosine_matrix([1.0, 2.0])


def test_no_texts_give_an_empty_matrix() -> None:
    for found in (
        similarity.jaccard_matrix([]),
        similarity.edit_matrix([]),
        similarity.function_matrix([], lambda a, b: 1.0),
        *(similarity.rouge_matrix([], metric) for metric in ROUGE_METRICS),
    ):
        assert found.shape == (0, 0)


def test_an_unknown_metric_or_kind_of_tokens_is_refused() -> None:
    with pytest.raises(ToolkitError, match="rouge1, rouge2, rougeL"):
        similarity.rouge_matrix(["a"], "rouge3")  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="stemmed, words or characters"):
        similarity.rouge_matrix(["a"], tokens="bytes")  # type: ignore[arg-type]
