"""One step of a beam search: which continuations of which beams are the best. NumPy only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Candidates(NamedTuple):
    """The best continuations of a prompt's beams, best first."""

    ancestors: NDArray[np.intp]  # (k,), rows of the beams
    token_ids: NDArray[np.int32]  # (k,)
    totals: NDArray[np.float64]  # (k,), cumulative log-probability


def best_candidates(logprobs: ArrayLike, totals: ArrayLike, k: int) -> Candidates:
    """The k best (beam, token) pairs by cumulative log-probability.

    Parameters
    ----------
    logprobs : (beams, vocabulary), nats; -inf is not allowed to be taken
    totals : (beams,), cumulative log-probability before the step
    k : how many; fewer come back where fewer are finite

    Returns
    -------
    Candidates
        Ties go to the earlier beam, then to the lower id.
    """
    scores = np.asarray(logprobs, np.float64) + np.asarray(totals, np.float64)[:, None]
    flat = scores.ravel()
    k = min(k, flat.size)
    floor = np.partition(flat, flat.size - k)[flat.size - k]
    places = np.flatnonzero((flat >= floor) & (flat > -np.inf))
    places = places[np.argsort(-flat[places], kind="stable")[:k]]
    ancestors, token_ids = np.divmod(places, scores.shape[1])
    return Candidates(ancestors, token_ids.astype(np.int32), flat[places])


def score(total: float, length: int, length_penalty: float) -> float:
    """A hypothesis's score: its log-probability over its generated length to the power of the penalty.

    The end token counts as length. A penalty of 0 compares sums, 1 means; above 1 favours long texts.
    """
    return total / length**length_penalty


def best_possible(total: float, length: int, longest: int, length_penalty: float) -> float:
    """The highest score that a beam of this length can still reach: no token adds to its log-probability.

    With a positive penalty that is at the largest length, else at the next.
    """
    return score(total, longest if length_penalty > 0 else min(length + 1, longest), length_penalty)
