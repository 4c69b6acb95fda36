"""Similarities by an embedding model: the cosine of two texts' vectors, 0 where it is below 0.

The model is a function from texts to vectors; `load_embedder` makes one of a model2vec model, whose package is an
extra and is imported only here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toolkit.aggregation.answer_pairs import Measure, TextPair
from toolkit.characters import quoted
from toolkit.errors import ToolkitError, argument

Embed = Callable[[Sequence[str]], ArrayLike]
"""Texts to (n, d) vectors."""

_EXTRA = 'pip install "token-confidence-toolkit[embeddings]"'


def load_embedder(name: str) -> Embed:
    """The model2vec model in a folder, or of a repository.

    Raises
    ------
    ToolkitError
        The package is not installed, or there is no such model.
    """
    try:
        from model2vec import StaticModel
    except ImportError:
        raise ToolkitError(
            f"{argument('embeddings')}: it needs the package model2vec, which is not installed: {_EXTRA}"
        ) from None
    try:
        model: Any = StaticModel.from_pretrained(name)
    except Exception as error:  # of the hub's client, of files, of JSON: whatever is wrong with the model
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ToolkitError(
            f"{argument('embeddings')}: {quoted(name)} cannot be loaded ({reason:.200}): name the folder of a "
            "model2vec model, or its repository"
        ) from None
    return lambda texts: model.encode(list(texts))


def embedding_measure(embed: Embed) -> Measure:
    """A measure by the cosine of two vectors; a vector of zeros, of a text without a known word, is like no other.

    Raises
    ------
    ToolkitError
        The vectors are not one a text.
    """

    def measure(pairs: Sequence[TextPair]) -> Iterator[tuple[TextPair, float]]:
        texts = sorted({text for pair in pairs for text in pair[1:]})
        vectors = np.asarray(embed(texts), np.float64)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ToolkitError(
                f"embeddings have shape {vectors.shape}: they must be ({len(texts)}, dimensions), a row a text"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = dict(zip(texts, vectors / np.where(lengths > 0, lengths, 1), strict=True))
        for pair in pairs:
            yield pair, float(np.clip(unit[pair.first] @ unit[pair.second], 0, 1))

    return measure
