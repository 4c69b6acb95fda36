"""How the samples of a prompt are compared: which say the same, and how alike any two are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolkit.aggregation.stored_similarity import (
    STORED,
    THRESHOLD,
    StoredMatrices,
    StoredName,
    parse_stored,
    stored_matrices,
)
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.stats.equivalence import NO_ANSWER, classify, threshold_classes
from toolkit.stats.ranges import Floats
from toolkit.stats.similarity import ROUGE_METRICS, edit_matrix, jaccard_matrix, rouge_matrix

if TYPE_CHECKING:
    from toolkit.aggregation.parts import Part
    from toolkit.store import Run
    from toolkit.store.keys import Key

Matrix = Callable[[Sequence[str]], Any]

EQUIVALENCES = (
    "exact, number, number:TOLERANCE, choice, choice:LETTERS, regex:PATTERN, stored or stored:THRESHOLD"
)
SIMILARITIES = ("jaccard", *ROUGE_METRICS, "edit")


@dataclass(frozen=True)
class Comparison:
    """An equivalence and a similarity.

    Attributes
    ----------
    equivalence : str or function
        "exact", the same normalised text; "number" or "number:TOLERANCE", the same last number; "choice" or
        "choice:LETTERS", the same letter; "regex:PATTERN", the same match; "stored", "stored:THRESHOLD",
        "stored:NAME" or "stored:NAME:THRESHOLD", a similarity kept beside the run of at least the threshold
        (0.5); or a function from a text to its answer, None for none.
    similarity : str or function
        "rouge1", "rouge2", "rougeL" over words of any script, "jaccard", "edit"; "stored" or "stored:NAME", what
        is kept beside the run; or a function from K texts to a (K, K) matrix.

    Raises
    ------
    ToolkitError
        For another word.
    """

    equivalence: str | Callable[[str], Any] = "exact"
    similarity: str | Matrix = "rougeL"
    _classes_of: StoredMatrices | None = field(default=None, init=False, repr=False)
    _matrix_of: StoredMatrices | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if _stored(self.equivalence) is None:
            self._classify([""])
        named = _stored(self.similarity)
        if named is not None and named.threshold is not None:
            raise ToolkitError(
                f"similarity: {self.similarity}: it takes no threshold: give stored or stored:NAME"
            )
        if not callable(self.similarity) and named is None and self.similarity not in SIMILARITIES:
            allowed = ", ".join([*SIMILARITIES, STORED])
            raise ToolkitError(f"similarity: there is no {quoted(self.similarity)}: give one of {allowed}")

    def of_run(self, run: Run, part: Part) -> Comparison:
        """The same comparison, knowing what is stored of a run where that is what it compares by.

        Raises
        ------
        ToolkitError
            There is no such set, or it compares another part of the texts.
        """
        bound = replace(self)
        for name, how in (("_classes_of", self.equivalence), ("_matrix_of", self.similarity)):
            if (named := _stored(how)) is not None:
                object.__setattr__(bound, name, stored_matrices(run, named.name, str(part)))
        return bound

    def classes(self, texts: Sequence[str | None], keys: Sequence[Key] = ()) -> NDArray[np.int64]:
        """(K,) classes of texts, -1 for no answer; None is none.

        `keys` are (prompt_id, kind, sample_index) of each, for what is stored. There, a greedy text of which
        nothing is stored is as one without an answer.
        """
        none = np.array([text is None for text in texts], bool)
        named = _stored(self.equivalence)
        if named is not None:
            matrix = _known(self._classes_of).matrix(keys)
            found = threshold_classes(matrix, THRESHOLD if named.threshold is None else named.threshold)
            none |= (np.isnan(matrix).sum(axis=1) == len(keys) - 1) & (len(keys) > 1)
        else:
            found = self._classify(["" if text is None else text for text in texts])
        return np.where(none, NO_ANSWER, found)

    def matrix(self, texts: Sequence[str | None], keys: Sequence[Key] = ()) -> Floats:
        """(K, K) similarity; NaN where a pair has nothing that could be compared. None is an empty text.

        `keys` as of `classes`.
        """
        if _stored(self.similarity) is not None:
            return _known(self._matrix_of).matrix(keys)
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


def _stored(how: str | Callable[..., Any]) -> StoredName | None:
    return None if callable(how) else parse_stored(how)


def _known(stored: StoredMatrices | None) -> StoredMatrices:
    if stored is None:
        raise ToolkitError("stored is a comparison of a run's sequences: take Comparison.of_run first")
    return stored


def _number(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise ToolkitError(
            f"equivalence: number:{text:.40}: the tolerance is a number, as number:0.01"
        ) from None
