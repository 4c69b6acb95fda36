"""The reliability diagram draws the curve of the statistics, with intervals and counts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plots.drawn import artist, axes, caption, judged, labelled, texts
from toolkit.plots import plot_reliability
from toolkit.stats.calibration import ece, reliability_curve


def binned(confidence: np.ndarray, correct: np.ndarray, bins: int) -> list[tuple[float, float, int]]:
    """Mean confidence, accuracy and number of each bin with units, the plain way."""
    found = []
    for i in range(bins):
        inside = (confidence >= i / bins) & ((confidence < (i + 1) / bins) | (i == bins - 1))
        if inside.any():
            found.append((confidence[inside].mean(), correct[inside].mean(), int(inside.sum())))
    return found


@pytest.mark.parametrize("bins", [1, 5, 20])
def test_points_are_accuracy_against_mean_confidence(bins: int) -> None:
    confidence, correct = judged(400)
    with axes() as ax:
        plot_reliability(confidence, correct, bins=bins, ax=ax)
    expected = binned(confidence, correct, bins)
    line = artist(ax, "accuracy").lines[0]
    assert line.get_xdata() == pytest.approx([mean for mean, _, _ in expected])
    assert line.get_ydata() == pytest.approx([accuracy for _, accuracy, _ in expected])
    heights = [bar.get_height() for bar in artist(ax, "counts")]
    counts = [n for _, _, n in expected]
    assert np.array(heights) / max(heights) == pytest.approx(np.array(counts) / max(counts))
    assert all(bar.get_y() + bar.get_height() < 0 for bar in artist(ax, "counts"))  # never among accuracies


@pytest.mark.parametrize("binning", ["equal_width", "equal_mass"])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_are_wilsons_at_the_level(binning: str, level: float) -> None:
    confidence, correct = judged(300)
    with axes() as ax:
        plot_reliability(confidence, correct, binning=binning, level=level, ax=ax)  # type: ignore[arg-type]
    curve = reliability_curve(confidence, correct, binning=binning, level=level)  # type: ignore[arg-type]
    (bars,) = artist(ax, "accuracy").lines[2]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends[:, 0] == pytest.approx(curve.low)
    assert ends[:, 1] == pytest.approx(curve.high)
    assert f"accuracy, {100 * level:g} % interval" in [
        text.get_text() for text in ax.get_legend().get_texts()
    ]


def test_bars_span_their_bins_and_carry_their_counts() -> None:
    confidence = np.array([0.05] * 3 + [0.95] * 1234)
    with axes() as ax:
        plot_reliability(confidence, np.ones(1237), ax=ax)
    low, high = artist(ax, "counts")
    assert (low.get_center()[0], high.get_center()[0]) == pytest.approx((0.05, 0.95))
    assert texts(ax) == ["3", "1,234"]


def test_counts_without_room_are_not_written_over_each_other() -> None:
    confidence, correct = judged(5000)
    with axes(size=(4.2, 3.0)) as ax:
        plot_reliability(confidence, correct, bins=100, ax=ax)
    assert len(texts(ax)) < 60


def test_what_is_left_out_is_counted_and_the_error_is_named_with_its_bins() -> None:
    confidence, correct = judged(100)
    given, graded = np.r_[confidence, np.nan, np.nan, 0.5], np.r_[correct, 1, 0, np.nan]
    with axes() as ax:
        plot_reliability(given, graded, bins=7, binning="equal_mass", estimator="min_prob", note="T 1", ax=ax)
    error = ece(confidence, correct, bins=7, binning="equal_mass")
    assert caption(ax) == (
        f"n = 100 · 2 not computed · 1 not graded · ECE {error:.3g} in 7 equal-mass bins · T 1"
    )
    assert ax.get_xlabel() == "confidence: min_prob"


def test_the_diagonal_is_perfect_calibration() -> None:
    with axes() as ax:
        plot_reliability([0.7], [1], ax=ax)
    assert artist(ax, "diagonal").get_xydata().tolist() == [[0, 0], [1, 1]]
    assert len(labelled(ax, "diagonal")) == 1


def test_equal_mass_bins_of_one_value_are_still_seen() -> None:
    with axes() as ax:
        plot_reliability([0.5] * 20, [0, 1] * 10, binning="equal_mass", ax=ax)
    (bar,) = artist(ax, "counts")
    assert bar.get_width() > 0.005
