"""How samples are compared."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.aggregation.agreement import SIMILARITIES, Comparison
from toolkit.stats.equivalence import classify

TEXTS = ["Paris.", "paris", None, "Lyon", "", "?!"]


@pytest.mark.parametrize(
    ("how", "classes"),
    [
        ("exact", [0, 0, -1, 2, 1, 3]),
        ("regex:(?i)par", [0, 0, -1, -1, -1, -1]),
        (lambda text: len(text), [0, 1, -1, 3, 2, 4]),
    ],
)
def test_texts_that_say_the_same_are_of_one_class(how: object, classes: list[int]) -> None:
    found = Comparison(how).classes(TEXTS)  # type: ignore[arg-type]
    assert [found[i] == found[j] for i in range(6) for j in range(6)] == [
        classes[i] == classes[j] for i in range(6) for j in range(6)
    ]
    assert (found == -1).tolist() == [c == -1 for c in classes]


def test_numbers_and_letters_have_settings() -> None:
    texts = ["7", "7.2", "it is (F)", "F"]
    assert (
        Comparison("number:0.5").classes(texts).tolist() == classify(texts, "number", tolerance=0.5).tolist()
    )
    assert Comparison("choice:F").classes(texts).tolist() == [-1, -1, 0, 0]
    assert Comparison("choice").classes(texts).tolist() == [-1, -1, -1, -1]


@pytest.mark.parametrize("how", SIMILARITIES)
def test_equal_texts_are_alike_and_the_matrix_is_symmetric(how: str) -> None:
    texts = ["a b", "a b", "b", "", "", "?!", None, "日本"]
    matrix = Comparison(similarity=how).matrix(texts)
    assert np.array_equal(matrix, matrix.T, equal_nan=True)
    assert matrix[0, 1] == matrix[3, 4] == matrix[7, 7] == 1
    assert (np.diag(matrix) == 1).all()


def test_a_matrix_can_be_a_function_of_the_texts() -> None:
    matrix = Comparison(similarity=lambda texts: np.full((len(texts),) * 2, 0.25)).matrix(["a", "b"])
    assert matrix.tolist() == [[0.25, 0.25], [0.25, 0.25]]
