"""How alike the samples of a prompt are: matrices of similarity between texts.

Every function returns a symmetric (K, K) float64 matrix for K texts, a row and a column for each. What an
entailment or an embedding model says is such a matrix too, so every estimator takes one as an argument.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz import process
from rapidfuzz.distance import LCSseq, Levenshtein
from scipy.sparse import csr_array

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Floats
from toolkit.stats.stemming import stem

RougeMetric = Literal["rouge1", "rouge2", "rougeL"]
ROUGE_METRICS: tuple[RougeMetric, ...] = ("rouge1", "rouge2", "rougeL")
RougeTokens = Literal["stemmed", "words", "characters"]

_DENSE = 1 << 14  # elements up to which a plain matrix is multiplied faster than a sparse one is made
_LATIN = re.compile(r"[a-z0-9]+")


def jaccard_matrix(texts: Sequence[str]) -> Floats:
    """Shared words over all words of each pair of texts, words being `text.lower().split()`.

    Parameters
    ----------
    texts : K texts

    Returns
    -------
    (K, K) in [0, 1], 1 for two texts without words and on the diagonal. Source: Lin et al. 2023, arXiv
    2305.19187. LM-Polygraph's Jaccard_score; where both have no words it divides by 0.
    """
    shared = _overlaps([set(text.lower().split()) for text in texts])
    sizes = np.diag(shared)
    union = sizes[:, None] + sizes - shared
    return np.divide(shared, union, out=np.ones_like(shared), where=union > 0)


def rouge_matrix(
    texts: Sequence[str], metric: RougeMetric = "rougeL", *, tokens: RougeTokens = "stemmed"
) -> Floats:
    """ROUGE F-measure of each pair of texts.

    Parameters
    ----------
    texts : K texts
    metric : "rouge1" (words), "rouge2" (pairs of neighbouring words) or "rougeL" (longest common subsequence)
    tokens : "stemmed", as published: runs of a to z and digits, lower case, stemmed where longer than
        three letters; "words": runs of letters and digits of any script, case-folded;
        "characters": single letters and digits of any script, for those that put no spaces between words

    Returns
    -------
    (K, K) in [0, 1], 1 on the diagonal, 0 where only one of two texts has a word (for rouge2, a pair of
    words). Where neither has one, it is 1 for two texts that are empty but for spaces and punctuation, else
    NaN, since there is nothing to compare. Source: Lin 2004, aclanthology.org/W04-1013. The package
    rouge-score gives 0 where neither has one; elsewhere it agrees.

    Raises
    ------
    ToolkitError
        For an unknown metric or kind of tokens.
    """
    if metric not in ROUGE_METRICS:
        raise ToolkitError(f"metric={metric!r}: it must be one of {', '.join(ROUGE_METRICS)}")
    words = [rouge_tokens(text, tokens) for text in texts]
    if metric == "rouge2":
        words = [list(pairwise(text)) for text in words]
    sizes = np.array([len(text) for text in words], np.float64)
    shared = _common_subsequences(words) if metric == "rougeL" else _overlaps(words)
    total = sizes[:, None] + sizes
    # 2PR / (P + R) of P = shared / n and R = shared / m is 2 shared / (n + m).
    blank = np.array([not n and _is_blank(text) for text, n in zip(texts, sizes, strict=True)], bool)
    wordless = np.where(np.outer(blank, blank) | np.eye(len(blank), dtype=bool), 1, np.nan)
    return np.divide(2 * shared, total, out=wordless, where=total > 0)


def rouge_tokens(text: str, tokens: RougeTokens = "stemmed") -> list[Any]:
    """The tokens that ROUGE compares; see `rouge_matrix`."""
    if tokens == "stemmed":
        return [stem(word) if len(word) > 3 else word for word in _LATIN.findall(text.lower())]
    if tokens == "words":
        return _spelled(text).split()
    if tokens == "characters":
        return _characters(_spelled(text))
    raise ToolkitError(f"tokens={tokens!r}: it must be stemmed, words or characters")


def edit_matrix(texts: Sequence[str]) -> Floats:
    """1 − Levenshtein distance / length of the longer text, of each pair.

    (K, K) in [0, 1], 1 for equal texts. Source: Levenshtein 1966; rapidfuzz's normalized_similarity.
    """
    return process.cdist(texts, texts, scorer=Levenshtein.normalized_similarity, dtype=np.float64)


def function_matrix(texts: Sequence[str], function: Callable[[str, str], float]) -> Floats:
    """The similarity that a function gives for each pair of texts.

    Parameters
    ----------
    texts : K texts
    function : of two texts; called in both orders, and the mean is taken

    Returns
    -------
    (K, K) with 1 on the diagonal, where the function is not called
    """
    matrix = np.eye(len(texts))
    for i, first in enumerate(texts):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = (function(first, texts[j]) + function(texts[j], first)) / 2
    return matrix


def embedding_matrix(texts: Sequence[str], embed: Callable[[Sequence[str]], ArrayLike]) -> Floats:
    """Cosine similarity of the vectors that an embedding model gives.

    Parameters
    ----------
    texts : K texts
    embed : all texts at once to (K, d) vectors, such as the `encode` of a sentence-transformers model

    Returns
    -------
    (K, K) in [−1, 1]
    """
    return cosine_matrix(embed(texts))


def cosine_matrix(vectors: ArrayLike) -> Floats:
    """Cosine similarity of each pair of (K, d) vectors: (K, K) in [−1, 1], NaN for a vector of zeros."""
    array = np.asarray(vectors, np.float64)
    if array.ndim != 2:
        raise ToolkitError(f"vectors have shape {array.shape}: it must be (texts, dimensions)")
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    unit = array / np.where(lengths > 0, lengths, np.nan)
    return np.clip(unit @ unit.T, -1, 1)


def square(similarity: ArrayLike, n: int | None = None) -> Floats:
    """A similarity matrix as float64, made symmetric by the mean of both directions.

    Parameters
    ----------
    similarity : (K, K)
    n : the K that is expected, where known

    Raises
    ------
    ToolkitError
        Where it is not square, or not of n rows.
    """
    matrix = np.asarray(similarity, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or n not in (None, len(matrix)):
        expected = "(K, K)" if n is None else f"({n}, {n})"
        raise ToolkitError(f"similarity has shape {matrix.shape}: it must be {expected}, a row a sample")
    return (matrix + matrix.T) / 2


def nonnegative(similarity: ArrayLike, n: int | None = None) -> Floats:
    """`square`, and a ToolkitError where a value is negative, which no weight of a graph can be."""
    matrix = square(similarity, n)
    if (matrix < 0).any():
        raise ToolkitError(f"similarity has the value {matrix[matrix < 0][0]:g}: it must be at least 0")
    return matrix


def _spelled(text: str) -> str:
    """Letters, marks and digits of any script, case-folded, and spaces for all else."""
    folded = unicodedata.normalize("NFC", text.casefold())
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in folded)


def _characters(spelled: str) -> list[str]:
    """Single letters and digits, each with the marks that follow it."""
    found: list[str] = []
    for c in spelled.replace(" ", ""):
        if found and unicodedata.category(c)[0] == "M":
            found[-1] += c
        else:
            found.append(c)
    return found


def _is_blank(text: str) -> bool:
    """Nothing but white space, punctuation and control characters."""
    return all(c.isspace() or unicodedata.category(c)[0] in "CP" for c in text)


def _numbered(texts: Sequence[Any]) -> list[list[int]]:
    """The items of each text as numbers, equal items having one number."""
    numbers: dict[Any, int] = {}
    return [[numbers.setdefault(item, len(numbers)) for item in text] for text in texts]


def _overlaps(texts: Sequence[Any]) -> Floats:
    """(K, K) items in common, a repeated one as often as both have it."""
    numbered = _numbered(texts)
    shape = len(numbered), 1 + max((max(text, default=-1) for text in numbered), default=-1)
    items = np.array([item for text in numbered for item in text], np.int64)
    texts_of = np.repeat(np.arange(len(numbered)), [len(text) for text in numbered])
    cells, counts = np.unique(texts_of * shape[1] + items, return_counts=True)
    shared = np.zeros((len(numbered), len(numbered)))
    # min(a, b) is the sum of the steps between counts up to the largest that both a and b reach. Texts of n
    # words have about √n different counts at most, however often a word is repeated.
    reached = 0
    for n in np.unique(counts).tolist():
        shared += (n - reached) * _common(cells[counts >= n], shape)
        reached = n
    return shared


def _common(cells: NDArray[np.int64], shape: tuple[int, int]) -> Floats:
    """(K, K) cells that two rows of a matrix of this shape have in one column."""
    if shape[0] * shape[1] <= _DENSE:
        dense = np.zeros(shape)
        dense.ravel()[cells] = 1
        return dense @ dense.T
    row, column = np.divmod(cells, shape[1])
    present = csr_array((np.ones(len(row)), (row, column)), shape)
    return (present @ present.T).toarray()


def _common_subsequences(texts: Sequence[Any]) -> Floats:
    """(K, K) lengths of the longest common subsequences."""
    # One character an item, from past the surrogates, so that rapidfuzz compares strings and not objects.
    strings = ["".join(chr(0xE000 + item) for item in text) for text in _numbered(texts)]
    return process.cdist(strings, strings, scorer=LCSseq.similarity).astype(np.float64)
