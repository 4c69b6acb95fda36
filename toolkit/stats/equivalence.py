"""Which samples of a prompt say the same: classes under an equivalence that the user picks.

Every function returns (K,) integers for K samples, equal for samples of one class: 0 for the first sample's
class, then in order of appearance, and -1 (`NO_ANSWER`) for a sample without an answer. Estimators take those
without an answer as one class; votes leave them out.

Equality within a tolerance or over a threshold is not transitive: a may equal b and b equal c, but a not c.
So `linkage` says what makes a class: "greedy", a sample joins the first class whose first member equals it
(Kuhn 2023, and LM-Polygraph); or "transitive", a class is all that hangs together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from toolkit.errors import ToolkitError
from toolkit.stats.answers import extract_choice, extract_match, extract_number, normalize_text
from toolkit.stats.similarity import square

Classes = NDArray[np.int64]
Linkage = Literal["greedy", "transitive"]
By = Literal["exact", "number", "choice", "regex"]

NO_ANSWER = -1


def classify(
    texts: Sequence[str],
    by: By | Callable[[str], Hashable | None] = "exact",
    *,
    pattern: str | None = None,
    tolerance: float = 0.0,
    letters: str = "ABCDE",
    linkage: Linkage = "greedy",
) -> Classes:
    """Classes of texts, by what each answers.

    Parameters
    ----------
    texts : K texts
    by : "exact", the same normalised text; "number", the same last number within `tolerance`; "choice", the
        same letter of `letters`; "regex", the same normalised match of `pattern`; or a function from a text
        to its answer, None for none
    pattern : regular expression, for "regex"
    tolerance : largest difference of two numbers that count as the same, for "number"
    letters : for "choice"
    linkage : for "number"

    Raises
    ------
    ToolkitError
        For an unknown `by`, "regex" without a pattern, or a pattern that takes too long.
    """
    if callable(by):
        return answer_classes([by(text) for text in texts])
    if by == "exact":
        return answer_classes([normalize_text(text) for text in texts])
    if by == "number":
        return number_classes([extract_number(text) for text in texts], tolerance, linkage=linkage)
    if by == "choice":
        return answer_classes([extract_choice(text, letters) for text in texts])
    if by != "regex":
        raise ToolkitError(f"by={by!r}: it must be exact, number, choice, regex or a function of a text")
    if pattern is None:
        raise ToolkitError("by='regex' needs a pattern")
    found = [extract_match(text, pattern) for text in texts]
    return answer_classes([None if match is None else normalize_text(match) for match in found])


def answer_classes(answers: Sequence[Hashable | None]) -> Classes:
    """Classes of equal answers; None is no answer."""
    numbers: dict[Hashable, int] = {}
    return np.array(
        [NO_ANSWER if answer is None else numbers.setdefault(answer, len(numbers)) for answer in answers],
        np.int64,
    )


def number_classes(
    numbers: Sequence[float | None], tolerance: float = 0.0, *, linkage: Linkage = "greedy"
) -> Classes:
    """Classes of numbers that differ by at most `tolerance`; None and NaN are no answer."""
    if not tolerance >= 0:
        raise ToolkitError(f"tolerance={tolerance}: it must be at least 0")
    values = np.array([np.nan if number is None else number for number in numbers], np.float64)
    with np.errstate(invalid="ignore"):  # equal infinities have no difference
        near = np.abs(values[:, None] - values) <= tolerance
    return _classes(near | (values[:, None] == values), linkage)


def function_classes(
    texts: Sequence[str], same: Callable[[str, str], bool], *, linkage: Linkage = "greedy"
) -> Classes:
    """Classes under a user's function of two texts, such as entailment in both directions.

    Greedy linkage calls it for a text and the first member of each class so far, in this order: (first
    member, text). Transitive linkage calls it for every pair in which one is earlier: (earlier, later).
    """
    _check(linkage)
    if linkage == "transitive":
        equal = np.eye(len(texts), dtype=bool)
        for i, text in enumerate(texts):
            for j in range(i):
                equal[i, j] = same(texts[j], text)
        return _classes(equal | equal.T, linkage)
    leaders: list[str] = []
    classes = []
    for text in texts:
        number = next((k for k, leader in enumerate(leaders) if same(leader, text)), len(leaders))
        if number == len(leaders):
            leaders.append(text)
        classes.append(number)
    return np.array(classes, np.int64)


def threshold_classes(similarity: ArrayLike, threshold: float, *, linkage: Linkage = "greedy") -> Classes:
    """Classes of samples whose similarity is at least `threshold`.

    Parameters
    ----------
    similarity : (K, K); the mean of both directions is taken; a sample always equals itself
    threshold : in the matrix's unit
    linkage : "greedy" or "transitive"
    """
    matrix = square(similarity)
    return _classes((matrix >= threshold) | np.eye(len(matrix), dtype=bool), linkage)


def _classes(equal: NDArray[np.bool_], linkage: Linkage) -> Classes:
    """Classes of a symmetric (K, K) relation; a sample that does not equal itself has no answer."""
    answered = np.diag(equal)
    _check(linkage)
    found = _greedy(equal) if linkage == "greedy" else connected_components(equal, directed=False)[1]
    return answer_classes([int(k) if ok else None for k, ok in zip(found, answered, strict=True)])


def _check(linkage: Linkage) -> None:
    if linkage not in ("greedy", "transitive"):
        raise ToolkitError(f"linkage={linkage!r}: it must be greedy or transitive")


def _greedy(equal: NDArray[np.bool_]) -> Classes:
    leader = np.full(len(equal), NO_ANSWER)
    for i in range(len(equal)):
        if leader[i] == NO_ANSWER:
            leader[equal[i] & (leader == NO_ANSWER)] = i
    return leader
