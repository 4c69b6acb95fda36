"""Samples of a prompt, generated, for the tests of samples estimators."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

WORDS = ["the", "cat", "sat", "cats", "running", "Paris", "42", "a"]


@dataclass
class Drawn:
    texts: list[str]
    sums: list[float]
    sampling: list[float]
    lengths: list[int]
    ends: list[bool]
    classes: list[int]
    similarity: list[list[float]]

    def __len__(self) -> int:
        return len(self.sums)


def make(n: int, seed: int, infinite: bool) -> Drawn:
    """n samples: repeated and empty texts, ties, one class or many, and some -inf where `infinite`."""
    rng = np.random.default_rng(seed)
    alike = rng.choice([0.1, 0.5, 0.9])  # how often a value is one of a few, so that there are ties
    sums = np.where(rng.random(n) < alike, rng.choice([-1.0, 0.0], n), rng.uniform(-40, 0, n))
    if infinite:
        sums[rng.random(n) < 0.15] = -math.inf
    few = rng.choice([0.0, 0.25, 0.9, 1.0], (n, n))
    similarity = np.where(rng.random((n, n)) < alike, few, rng.random((n, n)))
    np.fill_diagonal(similarity, 1)
    return Drawn(
        texts=[" ".join(rng.choice(WORDS[: rng.integers(1, 9)], rng.integers(0, 5))) for _ in range(n)],
        sums=sums.tolist(),
        sampling=rng.uniform(-40, 0, n).tolist(),
        lengths=rng.integers(1, 10, n).tolist(),
        ends=rng.integers(0, 2, n).astype(bool).tolist(),
        classes=rng.integers(-1, rng.integers(0, 5), n).tolist(),
        similarity=similarity.tolist(),
    )


def drawn_samples(min_size: int = 2, infinite: bool = True) -> st.SearchStrategy[Drawn]:
    # A seed for each example: hypothesis takes ten times as long to draw the numbers one by one.
    return st.builds(make, st.integers(min_size, 7), st.integers(0, 2**32 - 1), st.just(infinite))
