"""Early stopping, replayed: what DeepConf's online rule would have cut from samples already drawn."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import ToolkitError
from toolkit.stats.equivalence import NO_ANSWER
from toolkit.stats.ranges import Floats, Ranges
from toolkit.stats.votes import Vote, weighted_vote
from toolkit.stats.windows import lowest_window_mean, window_means


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """What the rule would have done to the K samples of a prompt."""

    threshold: float  # nats; NaN where no warm-up sample has a confidence: then nothing is cut
    lowest_window: Floats  # (K,) of the whole samples
    n_tokens: NDArray[np.int64]  # (K,) as drawn
    n_kept: NDArray[np.int64]  # (K,) tokens until the cut, the one that caused it included
    cut: NDArray[np.bool_]  # (K,)

    @property
    def saved(self) -> float:
        """The share of all tokens that the rule would have saved, in [0, 1]; NaN without tokens."""
        total = int(self.n_tokens.sum())
        return 1 - int(self.n_kept.sum()) / total if total else nan

    def vote(self, classes: ArrayLike) -> Vote:
        """The weighted vote of the samples that are left, each weighing its lowest window.

        As in DeepConf's code, a sample whose lowest window is below the threshold does not vote, be it one of
        the warm-up or too short to be cut.

        Parameters
        ----------
        classes : (K,) integers, -1 for no answer
        """
        below = self.lowest_window < self.threshold  # all that were cut, and more
        return weighted_vote(np.where(below, NO_ANSWER, classes), self.lowest_window)


def replay_early_stopping(
    token_confidence: Floats,
    ranges: Ranges,
    *,
    warmup: int = 16,
    percentile: float = 10.0,
    window: int = 2048,
) -> EarlyStopping:
    """Replay DeepConf's online rule on the samples of a prompt.

    The threshold is a percentile of the lowest windows of the first samples, which are drawn whole. A later
    sample is cut at the first token whose window, the mean over the last `window` tokens, falls below it; a
    sample that never fills a window is not. Source: Fu et al. 2025, arXiv 2508.15260; percentile 10 is
    DeepConf-high, 90 DeepConf-low.

    Parameters
    ----------
    token_confidence : (n_tokens,) nats, `token_topk_nll`
    ranges : the tokens of the K samples, in the order drawn
    warmup : number of first samples, at least 1
    percentile : in [0, 100]
    window : tokens in a window, at least 1; short answers never fill the published 2,048

    Raises
    ------
    ToolkitError
        For an argument out of range.
    """
    if warmup < 1 or not 0 <= percentile <= 100:
        raise ToolkitError(f"warmup={warmup}, percentile={percentile}: at least 1, and within 0 to 100")
    lowest = lowest_window_mean(token_confidence, ranges, window)
    first = lowest[:warmup]
    defined = first[~np.isnan(first)]
    threshold = float(np.percentile(defined, percentile)) if defined.size else nan
    windows = window_means(token_confidence, ranges, window)
    place = np.arange(len(windows.means))
    below = np.where(windows.means < threshold, place, np.inf)
    cut_at = windows.ranges.min(below) - windows.ranges.starts + window
    kept = ranges.lengths.astype(np.float64)
    later = windows.full >= warmup
    kept[windows.full[later]] = np.minimum(kept[windows.full[later]], cut_at[later])
    cut = np.zeros(len(ranges), dtype=bool)
    cut[windows.full[later]] = np.isfinite(cut_at[later])
    return EarlyStopping(threshold, lowest, ranges.lengths, kept.astype(np.int64), cut)
