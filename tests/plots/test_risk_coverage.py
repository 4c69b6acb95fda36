"""Risk and coverage: the curve of the statistics, between the optimum and a random ranking."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plots.drawn import RNG, artist, axes, caption, judged, labelled, legend
from toolkit.plots import plot_risk_coverage
from toolkit.stats.selective import aurc_tie_merged


def working_points(confidence: np.ndarray, quality: np.ndarray) -> list[tuple[float, float]]:
    """Coverage and risk at each threshold, the plain way."""
    found = []
    for threshold in sorted(set(confidence), reverse=True):
        answered = confidence >= threshold
        found.append((answered.mean(), 1 - quality[answered].mean()))
    return found


def test_the_line_goes_through_every_working_point_and_on_to_coverage_0() -> None:
    quality = judged(60)[1]
    confidence = RNG.integers(0, 15, size=60).astype(float)
    with axes() as ax:
        plot_risk_coverage({"a": (confidence, quality)}, ax=ax)
    expected = np.array(working_points(confidence, quality))
    drawn = artist(ax, "a").get_xydata()
    assert drawn[1:] == pytest.approx(expected)
    assert drawn[0].tolist() == [0, drawn[1, 1]]


def test_the_area_under_the_line_is_the_one_in_the_legend() -> None:
    confidence, correct = judged(185)
    with axes() as ax:
        plot_risk_coverage({"mean_prob": (confidence, correct)}, ax=ax)
    x, y = artist(ax, "mean_prob").get_xydata().T
    assert np.trapezoid(y, x) == pytest.approx(aurc_tie_merged(confidence, correct))
    assert legend(ax) == [
        f"mean_prob, AURC {aurc_tie_merged(confidence, correct):.3g}",
        "optimum",
        "random ranking",
    ]


def test_the_optimum_and_chance_are_drawn_once_for_the_same_answers() -> None:
    confidence, correct = judged(100)
    curves = {"a": (confidence, correct), "coarse": (np.round(confidence, 1), correct)}
    with axes() as ax:
        plot_risk_coverage(curves, ax=ax)
    (optimum,), (chance,) = labelled(ax, "optimum"), labelled(ax, "random")
    wrong = np.sort(1 - correct)
    expected = np.cumsum(wrong) / np.arange(1, 101)
    assert optimum.get_ydata()[1:] == pytest.approx(expected)
    assert chance.get_ydata() == pytest.approx([1 - correct.mean()] * 2)


def test_curves_of_other_answers_have_their_own_optimum_and_chance() -> None:
    one, other = judged(50), judged(80)
    with axes() as ax:
        plot_risk_coverage({"a": one, "b": other}, ax=ax)
    assert len(labelled(ax, "optimum")) == len(labelled(ax, "random")) == 2
    assert caption(ax) == "n = 50 to 80"


def test_no_curve_lies_below_the_optimum() -> None:
    curves = {str(i): (RNG.normal(size=90), RNG.random(90)) for i in range(3)}
    with axes() as ax:
        plot_risk_coverage(curves, ax=ax)
    bounds = labelled(ax, "optimum")
    for name, bound in zip(curves, bounds, strict=True):
        x, y = artist(ax, name).get_xydata().T
        assert (y >= np.interp(x, *bound.get_xydata().T) - 1e-9).all()
    assert ax.get_ylim()[1] >= max(artist(ax, name).get_ydata().max() for name in curves)


@pytest.mark.parametrize(("size", "named"), [((7.0, 4.4), 8), ((4.2, 3.0), 5)])
def test_of_fifty_curves_some_are_named_and_the_others_are_thin(
    size: tuple[float, float], named: int
) -> None:
    quality = judged(60)[1]
    curves = {f"estimator_{i}": (RNG.normal(size=60), quality) for i in range(50)}
    with axes(size=size) as ax:
        plot_risk_coverage(curves, ax=ax)
    widths = [artist(ax, name).get_linewidth() for name in curves]
    assert min(widths[:named]) > 1
    assert max(widths[named:]) < 1
    assert len(legend(ax)) == named + 3
    assert f"{50 - named} more curves" in legend(ax)
    looks = {
        (artist(ax, name).get_color(), str(artist(ax, name).get_linestyle())) for name in list(curves)[:5]
    }
    assert len(looks) == 5


def test_infinite_confidences_rank_and_undefined_ones_are_counted() -> None:
    confidence = np.array([-np.inf, np.inf, 0.5, np.nan, 1.0, 2.0])
    quality = np.array([0, 1, 0.5, 1, np.nan, 1])
    with axes() as ax:
        plot_risk_coverage({"a": (confidence, quality)}, note="sampler", ax=ax)
    assert artist(ax, "a").get_xydata()[1:] == pytest.approx(
        np.array([[0.25, 0], [0.5, 0], [0.75, 0.5 / 3], [1, 1.5 / 4]])
    )
    assert caption(ax) == "n = 4 · 1 not computed · 1 not graded · sampler"


def test_a_curve_without_units_is_left_out_beside_others() -> None:
    with axes() as ax:
        plot_risk_coverage({"none": ([np.nan], [1.0]), "a": ([1.0, 2.0], [0.0, 1.0])}, ax=ax)
    assert labelled(ax, "none") == []
    assert caption(ax) == "n = 0 to 2 · up to 1 not computed"


def test_names_are_shown_as_they_are() -> None:
    with axes() as ax:
        plot_risk_coverage({"_$a$\n": ([1.0, 2.0], [0.0, 1.0])}, ax=ax)
    assert legend(ax)[0].startswith(r" _\$a\$↵, AURC")
