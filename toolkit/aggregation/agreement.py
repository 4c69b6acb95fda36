"""How the samples of a prompt are compared: which say the same, and how alike any two are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.stats.equivalence import NO_ANSWER, classify
from toolkit.stats.ranges import Floats
from toolkit.stats.similarity import ROUGE_METRICS, edit_matrix, jaccard_matrix, rouge_matrix

Matrix = Callable[[Sequence[str]], Any]

EQUIVALENCES = "exact, number, number:TOLERANCE, choice, choice:LETTERS or regex:PATTERN"
SIMILARITIES = ("jaccard", *ROUGE_METRICS, "edit")


@dataclass(frozen=True)
class Comparison:
    """An equivalence and a similarity.

    Attributes
    ----------
    equivalence : str or function
        "exact", the same normalised text; "number" or "number:TOLERANCE", the same last number; "choice" or
        "choice:LETTERS", the same letter; "regex:PATTERN", the same match; or a function from a text to its
        answer, None for none.
    similarity : str or function
        "rouge1", "rouge2", "rougeL" over words of any script, "jaccard", "edit"; or a function from K texts to
        a (K, K) matrix.

    Raises
    ------
    ToolkitError
        For another word.
    """

    equivalence: str | Callable[[str], Any] = "exact"
    similarity: str | Matrix = "rougeL"

    def __post_init__(self) -> None:
        self.classes([""])
        if not callable(self.similarity) and self.similarity not in SIMILARITIES:
            allowed = ", ".join(SIMILARITIES)
            raise ToolkitError(f"similarity: there is no {quoted(self.similarity)}: give one of {allowed}")

    def classes(self, texts: Sequence[str | None]) -> NDArray[np.int64]:
        """(K,) classes of texts, -1 for no answer; None is none."""
        found = self._classify(["" if text is None else text for text in texts])
        return np.where([text is None for text in texts], NO_ANSWER, found)

    def matrix(self, texts: Sequence[str | None]) -> Floats:
        """(K, K) similarity; NaN where a pair has nothing that could be compared. None is an empty text."""
        plain = ["" if text is None else text for text in texts]
        return np.asarray(self._similarity(plain), np.float64)

    def _classify(self, texts: list[str]) -> NDArray[np.int64]:
        if callable(self.equivalence):
            return classify(texts, self.equivalence)
        name, _, value = self.equivalence.partition(":")
        if name == "exact" and not value:
            return classify(texts, "exact")
        if name == "number":
            return classify(texts, "number", tolerance=_number(value))
        if name == "choice":
            return classify(texts, "choice", letters=value or "ABCDE")
        if name == "regex" and value:
            return classify(texts, "regex", pattern=value)
        raise ToolkitError(f"equivalence: there is no {quoted(self.equivalence)}: give {EQUIVALENCES}")

    def _similarity(self, texts: list[str]) -> Any:
        if callable(self.similarity):
            return self.similarity(texts)
        if self.similarity == "jaccard":
            return jaccard_matrix(texts)
        if self.similarity == "edit":
            return edit_matrix(texts)
        return rouge_matrix(texts, self.similarity, tokens="words")  # type: ignore[arg-type]


def _number(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise ToolkitError(
            f"equivalence: number:{text:.40}: the tolerance is a number, as number:0.01"
        ) from None
