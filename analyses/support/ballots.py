"""The samples of a prompt as voters: which give the same answer, their grades, and how confident each is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from support.intervals import Floats, mean
from support.options import Options
from toolkit.aggregation.agreement import Comparison
from toolkit.stats import Ranges
from toolkit.stats.bootstrap import Interval
from toolkit.stats.distributions import token_topk_nll
from toolkit.stats.stopping import EarlyStopping, replay_early_stopping
from toolkit.stats.votes import Vote
from toolkit.store.reader import Run

_KEY = ["prompt_id", "kind", "sample_index"]
_TOP = "top20_mean_logprob"


class Ballot(NamedTuple):
    """The K samples of a prompt, in the order drawn."""

    prompt: str
    texts: list[str]
    classes: NDArray[np.int64]  # (K,) the same for the same answer; -1 for none
    grades: Floats  # (K,)
    values: dict[str, Floats]  # (K,) by estimator
    tokens: Floats  # DeepConf's confidence of every token, one sample after another
    ranges: Ranges  # of the tokens of each sample

    @property
    def single(self) -> float:
        """The chance that a sample is right."""
        return float(self.grades.mean())

    @property
    def reachable(self) -> float:
        """Whether any sample is."""
        return float(self.grades.max())

    def grade(self, vote: Vote) -> float:
        """Of the answer that was elected; 0 where nobody voted."""
        return float(self.grades[vote.sample]) if vote.sample >= 0 else 0.0

    def replay(self, percentile: float, warmup: int, window: int) -> EarlyStopping:
        """As `toolkit.stats.stopping.replay_early_stopping`."""
        return replay_early_stopping(
            self.tokens, self.ranges, warmup=warmup, percentile=percentile, window=window
        )


def ballots_of(run: Run, grader: str, comparison: Comparison, estimators: Sequence[str]) -> list[Ballot]:
    """The ballots of a graded run, a prompt each."""
    table = run.spans_df(by="sequence", metrics=list(estimators), kinds="sample")
    table = table.merge(run.grades_df(grader)[[*_KEY, "value"]], on=_KEY)
    tokens = dict(iter(run.tokens_df(columns=[*_KEY, _TOP], kinds="sample").groupby("prompt_id")))

    def ballot(prompt: str, rows: pd.DataFrame) -> Ballot:
        counts = tokens[prompt].groupby("sample_index").size().to_numpy()
        ends = np.cumsum(counts)
        return Ballot(
            prompt,
            rows["text"].tolist(),
            comparison.classes(rows["text"].tolist()),
            rows["value"].to_numpy(np.float64),
            {name: rows[name].to_numpy(np.float64) for name in estimators},
            token_topk_nll({_TOP: tokens[prompt][_TOP].to_numpy(np.float64)}, 20),
            Ranges(ends - counts, ends),
        )

    return [ballot(str(prompt), rows) for prompt, rows in table.groupby("prompt_id")]


def over(ballots: Sequence[Ballot], value: Callable[[Ballot], float], options: Options) -> Interval:
    """The mean of a value of each prompt."""
    return mean([value(one) for one in ballots], [one.prompt for one in ballots], options)
