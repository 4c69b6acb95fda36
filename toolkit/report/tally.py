"""What a report counts while it goes through its sequences: one record a kind of sequence, and the least sure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from toolkit.report.least import Least, least_answer, least_word
from toolkit.report.paging import Placed, PromptData
from toolkit.stats.bootstrap import intervals, mean_of
from toolkit.stats.calibration import wilson_interval


class Accuracy(NamedTuple):
    """The share that is right, of `n` that are graded; its 95 % interval, and how that was had."""

    value: float
    low: float
    high: float
    right: float
    n: int
    method: str


@dataclass
class KindTally:
    """Sequences of one kind in one run."""

    n_prompts: int = 0
    n_sequences: int = 0
    n_tokens: int = 0
    sum_logprob: float = 0.0
    finishes: Counter[str] = field(default_factory=Counter)
    outcomes: list[float] = field(default_factory=list)  # of those that are graded
    prompts: list[int] = field(default_factory=list)  # beside it, which prompt
    n_ungraded: int = 0

    @property
    def mean_prob(self) -> float:
        """Geometric mean of the probability of a token; NaN without tokens."""
        return math.exp(self.sum_logprob / self.n_tokens) if self.n_tokens else math.nan

    @cached_property
    def accuracy(self) -> Accuracy | None:
        """None where nothing is graded. To be asked for once all are counted.

        Wilson's interval takes every answer for independent. Those of one prompt are not, and a grade may lie
        between right and wrong: then prompts are drawn again, as for the estimators.
        """
        if not self.outcomes:
            return None
        outcomes, n = np.array(self.outcomes), len(self.outcomes)
        right = float(outcomes.sum())
        if n == len(set(self.prompts)) and np.isin(outcomes, (0, 1)).all():
            low, high = (float(end) for end in wilson_interval(right, n))
            return Accuracy(right / n, low, high, right, n, "Wilson")
        (found,) = intervals(mean_of(outcomes), self.prompts)
        return Accuracy(found.value, found.low, found.high, right, n, "bootstrap over prompts")

    def add(self, one: Placed, prompt: int) -> None:
        """Count a sequence."""
        fields = one.sequence.fields
        self.n_sequences += 1
        if one.sequence.n_kept:
            self.n_tokens += one.sequence.n_kept
            self.sum_logprob += one.sequence.kept_logprob
        self.finishes[fields["finish"]] += 1
        if fields["grade"] is None:
            self.n_ungraded += 1
        else:
            self.outcomes.append(fields["grade"])
            self.prompts.append(prompt)


class Tally:
    """Everything that is counted.

    Attributes
    ----------
    kinds : dict of (run, kind) to KindTally
    answers, words : Least
        The least sure: of each prompt one answer, and one word of each of its answers. Greedy answers where
        a run has them, since a sample is unsure by chance.
    """

    def __init__(self, greedy_runs: Iterable[int]) -> None:
        self.greedy_runs = frozenset(greedy_runs)
        self.kinds: dict[tuple[int, str], KindTally] = {}
        self.answers, self.words = Least(), Least()
        self._n_prompts = 0

    def add(self, prompt: PromptData, placed: list[Placed]) -> None:
        """Count a prompt's sequences."""
        self._n_prompts += 1
        for one in placed:
            tally = self.kinds.setdefault((prompt.run, one.sequence.key[1]), KindTally())
            tally.add(one, self._n_prompts)
        for kind in {one.sequence.key[1] for one in placed}:
            self.kinds[prompt.run, kind].n_prompts += 1
        looked_at = [one for one in placed if self._is_looked_at(prompt.run, one.sequence.key[1])]
        self.answers.add(least_answer(prompt, looked_at))
        for one in looked_at:
            self.words.add(least_word(prompt, one))

    def _is_looked_at(self, run: int, kind: str) -> bool:
        return kind == "greedy" or run not in self.greedy_runs
