"""DeepConf's early stopping, replayed, against a plain replay token by token."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Ranges
from toolkit.stats.stopping import EarlyStopping, replay_early_stopping

SAMPLES = st.lists(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=15), min_size=1, max_size=8)


def replay(samples: list[list[float]], warmup: int, percentile: float, window: int) -> EarlyStopping:
    ends = np.cumsum([len(sample) for sample in samples])
    ranges = Ranges(ends - [len(sample) for sample in samples], ends)
    values = np.array([value for sample in samples for value in sample])
    return replay_early_stopping(values, ranges, warmup=warmup, percentile=percentile, window=window)


def lowest(sample: list[float], window: int) -> float:
    if len(sample) < window:
        return sum(sample) / len(sample)
    return min(sum(sample[i - window : i]) / window for i in range(window, len(sample) + 1))


@given(SAMPLES, st.integers(1, 4), st.sampled_from([0.0, 10.0, 90.0]), st.integers(1, 6))
def test_a_later_sample_is_cut_at_its_first_low_window(
    samples: list[list[float]], warmup: int, percentile: float, window: int
) -> None:
    found = replay(samples, warmup, percentile, window)
    threshold = np.percentile([lowest(sample, window) for sample in samples[:warmup]], percentile)
    assert found.threshold == pytest.approx(threshold)
    for number, sample in enumerate(samples):
        kept, cut = len(sample), False
        for n in range(window, len(sample) + 1):
            if number >= warmup and sum(sample[n - window : n]) / window < found.threshold:
                kept, cut = n, True
                break
        assert (found.n_kept[number], found.cut[number]) == (kept, cut)
        assert found.lowest_window[number] == pytest.approx(lowest(sample, window))
    total = sum(map(len, samples))
    assert found.saved == pytest.approx(1 - found.n_kept.sum() / total)


def test_samples_below_the_threshold_do_not_vote() -> None:
    samples = [[4.0] * 4, [6.0] * 4, [5.0] * 4, [9.0, 1.0, 1.0, 9.0], [1.0], [8.0] * 4]
    found = replay(samples, warmup=3, percentile=50, window=2)
    assert found.threshold == 5.0
    assert found.cut.tolist() == [False, False, False, True, False, False]
    assert found.n_kept.tolist() == [4, 4, 4, 3, 1, 4]
    # The first is a warm-up below the threshold, the fourth is cut, the fifth is too short to be.
    vote = found.vote([0, 1, 2, 0, 0, 2])
    assert (vote.winner, vote.n_voters, vote.share) == (2, 3, pytest.approx(13 / 19))


def test_samples_that_fill_no_window_are_never_cut() -> None:
    found = replay([[5.0] * 3, [1.0] * 3], warmup=1, percentile=10, window=2048)
    assert (found.saved, found.cut.any()) == (0.0, False)


def test_without_a_warm_up_value_nothing_is_cut() -> None:
    found = replay([[math.nan, 1.0], [0.5, 0.5]], warmup=1, percentile=10, window=1)
    assert math.isnan(found.threshold)
    assert not found.cut.any()
    assert found.vote([0, 1]).winner == 1
    nothing = replay([], warmup=1, percentile=10, window=1)
    assert math.isnan(nothing.saved)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"warmup": 0, "percentile": 10, "window": 1}, "warmup=0"),
        ({"warmup": 1, "percentile": 101, "window": 1}, "percentile=101"),
        ({"warmup": 1, "percentile": 10, "window": 0}, "window=0"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict, words: str) -> None:
    with pytest.raises(ToolkitError, match=words):
        replay([[1.0]], **arguments)
