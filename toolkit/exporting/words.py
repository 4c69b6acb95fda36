"""What the token ids of a run stand for, as text to put beside each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import DataFault
from toolkit.store import Run, VocabularyEntry


class Words:
    """A text for each token id of a run.

    Parameters
    ----------
    run : Run
    text : function
        From what an id stands for to its text.
    """

    def __init__(self, run: Run, text: Callable[[VocabularyEntry], str]) -> None:
        entries = sorted(run.vocabulary.items())
        self._path = run.path
        self._ids = np.array([token_id for token_id, _ in entries], np.int64)
        self._texts = pa.array([text(entry) for _, entry in entries], pa.string())

    def of(self, ids: pa.ChunkedArray) -> pa.Array:
        """The text of each token id.

        Raises
        ------
        DataFault
            The vocabulary does not have one of them.
        """
        return self._texts.take(pa.array(self._places(ids)))

    def same(self, ids: pa.ChunkedArray) -> NDArray[np.int64]:
        """Numbers that are equal where the texts are."""
        numbers = self._texts.dictionary_encode().indices.to_numpy().astype(np.int64)
        return numbers[self._places(ids)]

    def _places(self, ids: pa.ChunkedArray) -> NDArray[np.int64]:
        wanted = ids.to_numpy()
        places = np.searchsorted(self._ids, wanted)
        known = places < len(self._ids)
        known[known] = self._ids[places[known]] == wanted[known]
        if not known.all():
            token_id = wanted[~known][0]
            raise DataFault(f"{self._path}: token id {token_id} is not in vocabulary: run toolkit validate")
        return places
