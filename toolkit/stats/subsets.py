"""What k samples would have done, from K: unbiased means over all subsets of size k.

Exact: subsets are counted with whole numbers, none is drawn.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.equivalence import NO_ANSWER
from toolkit.stats.ranges import Floats

Counts = NDArray[np.object_]  # whole numbers of any size


def pass_at_k(correct: ArrayLike, k: int) -> float:
    """The chance that at least one of k samples is right: 1 − C(n−c, k)/C(n, k), c of n samples being right.

    Probability in [0, 1]; NaN where k is above n or a sample is not graded. Source: Chen et al. 2021, arXiv
    2107.03374. 1 − (1 − c/n)^k, often used for it, is biased.

    Parameters
    ----------
    correct : (n,) 0 or 1
    k : at least 1

    Raises
    ------
    ToolkitError
        For a k below 1, or a grade other than 0 and 1.
    """
    grades = _grades(correct, k)
    right = grades[~np.isnan(grades)]
    if not np.isin(right, (0, 1)).all():
        raise ToolkitError("pass_at_k takes grades of 0 and 1: cut a graded quality at a threshold first")
    if k > len(grades) or len(right) < len(grades):
        return nan
    return 1 - comb(len(grades) - int(right.sum()), k) / comb(len(grades), k)


def majority_at_k(classes: ArrayLike, correct: ArrayLike, k: int) -> float:
    """The expected grade of the most frequent answer among k samples.

    In [0, 1]; NaN where k is above K or a sample is not graded. Tied answers share the win, which is what
    "the first drawn" gives on average over the orders of drawing. Samples without an answer do not vote, and
    a subset of only such scores 0. Source: the majority of Wang et al. 2022, arXiv 2203.11171, over all
    subsets as in Chen et al. 2021, arXiv 2107.03374.

    Parameters
    ----------
    classes : (K,) integers, -1 for no answer
    correct : (K,) grades in [0, 1]; an answer's grade is the mean over its samples
    k : at least 1

    Raises
    ------
    ToolkitError
        For a k below 1, or arrays of different lengths.
    """
    grades, ids = _grades(correct, k), np.asarray(classes)
    if ids.shape != grades.shape:
        raise ToolkitError(
            f"classes have shape {ids.shape} and correct {grades.shape}: they must be the same"
        )
    if k > len(grades) or np.isnan(grades).any():
        return nan
    answered = ids != NO_ANSWER
    _, number, sizes = np.unique(ids[answered], return_inverse=True, return_counts=True)
    means = np.bincount(number, grades[answered], minlength=len(sizes)) / sizes
    wins = {size: _win_share(sizes.tolist(), size, len(ids) - len(number), k) for size in set(sizes.tolist())}
    return float(sum(mean * wins[size] for mean, size in zip(means, sizes.tolist(), strict=True)))


def _grades(correct: ArrayLike, k: int) -> Floats:
    if k < 1:
        raise ToolkitError(f"k={k}: it must be at least 1")
    return np.asarray(correct, np.float64)


def _win_share(sizes: list[int], size: int, n_silent: int, k: int) -> float:
    """The share of the k-subsets that one class of `size` wins, a tie of m classes counting 1/m."""
    others = sizes.copy()
    others.remove(size)
    won = Fraction(0)
    for votes in range(1, min(size, k) + 1):
        ways = _ways(others, n_silent, votes, k - votes)
        shares = sum((Fraction(int(n), ties + 1) for ties, n in enumerate(ways)), Fraction(0))
        won += comb(size, votes) * shares
    return float(won / comb(sum(sizes) + n_silent, k))


def _ways(sizes: list[int], n_silent: int, votes: int, rest: int) -> Counts:
    """In how many ways `rest` samples give no class over `votes`, by how many classes get `votes`."""
    # ways[t, s]: s samples drawn so far, t classes with just `votes`
    ways = np.zeros((rest // votes + 1, rest + 1), dtype=object)
    ways[0, 0] = 1
    for size in sizes:
        drawn = np.zeros_like(ways)
        for n in range(min(size, votes, rest) + 1):
            source = ways[:, : rest + 1 - n] * comb(size, n)
            if n < votes:
                drawn[:, n:] += source
            else:
                drawn[1:, n:] += source[:-1]
        ways = drawn
    silent = [comb(n_silent, rest - s) for s in range(rest + 1)]
    return ways @ np.array(silent, dtype=object)
