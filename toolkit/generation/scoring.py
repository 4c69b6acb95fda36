"""Statistics of given tokens: teacher forcing, a prompt read once for all its continuations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from toolkit.generation.engine import Batch, Statistics
from toolkit.generation.watching import NO_WATCH, Watch
from toolkit.records import TokenStatistics

CHUNK = 128  # positions whose logits are held at once


class Scorer:
    """Scores continuations under a model.

    Parameters
    ----------
    batch : the caches; its rows are not touched
    statistics : describes tokens
    watch : tokens that are described in continuations, however unlikely they are
    """

    def __init__(self, batch: Batch, statistics: Statistics, watch: Watch = NO_WATCH) -> None:
        self._batch = batch
        self._statistics = statistics
        self._watch = watch

    def continuations(
        self, prompt_ids: Sequence[int], continuations: Sequence[Sequence[int]]
    ) -> Iterator[TokenStatistics]:
        """Statistics of each continuation's tokens given the prompt and the tokens before them.

        Parameters
        ----------
        prompt_ids : at least one token
        continuations : token ids; an empty one has no statistics
        """
        prompt, first = self._batch.prefill(prompt_ids)
        for ids in continuations:
            yield self._score(prompt, first, list(ids), self._watch)

    def prompt_tokens(self, prompt_ids: Sequence[int]) -> TokenStatistics:
        """Statistics of a prompt's own tokens, n of them; those of the first are not computed."""
        prompt, first = self._batch.prefill(prompt_ids[:1])
        rest = self._score(prompt, first, list(prompt_ids[1:]), NO_WATCH)
        return TokenStatistics.concatenate([TokenStatistics.unknown(rest), rest])

    def _score(self, prompt: Any, first: Any, ids: list[int], watch: Watch) -> TokenStatistics:
        # The logits after the prompt are the first token's; each token's own are the next one's.
        parts = [self._describe(first, ids[:1], watch, 0)]
        start = 1
        for logits in self._batch.read(prompt, ids[:-1], CHUNK):
            parts.append(self._describe(logits, ids[start : start + logits.shape[0]], watch, start))
            start += logits.shape[0]
        return TokenStatistics.concatenate(parts).rows(slice(0, len(ids)))

    def _describe(self, logits: Any, ids: Sequence[int], watch: Watch, position: int) -> TokenStatistics:
        """Statistics of tokens that follow each other, the first of them at `position`."""
        n = logits.shape[0]
        forced = np.array([*ids, *[0] * (n - len(ids))], np.int32)
        given = watch.given(position)
        _, statistics = self._statistics(logits, np.zeros(n), np.zeros(n, bool), forced_ids=forced, **given)
        return watch.fill(statistics)
