"""Agreement against confidence: a point a prompt, right and wrong told apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plots.drawn import artist, axes, caption, labelled, legend, points
from toolkit.plots import plot_agreement

AGREEMENT = np.array([1, 0.5, 0.25, 0.5, 0.75, 1])
CONFIDENCE = np.array([-0.1, -0.5, -2.0, -0.7, -0.3, -0.2])
CORRECT = np.array([1, 0, 0, 0.5, np.nan, 1])


def test_every_prompt_is_a_point_near_its_agreement_in_the_group_of_its_grade() -> None:
    with axes() as ax:
        plot_agreement(AGREEMENT, CONFIDENCE, CORRECT, estimator="mean_logprob", ax=ax)
    groups = {"right": [0, 5], "wrong": [1, 2], "partly right": [3], "not graded": [4]}
    for label, rows in groups.items():
        x, y = np.array(points(ax, label)).T
        assert y == pytest.approx(CONFIDENCE[rows])
        assert x == pytest.approx(AGREEMENT[rows], abs=0.021)
    assert legend(ax) == ["right (2)", "wrong (2)", "partly right (1)", "not graded (1)"]
    assert ax.get_ylabel() == "mean_logprob"
    assert (
        len({artist(ax, label).get_marker() + artist(ax, label).get_markerfacecolor() for label in groups})
        == 4
    )


def test_right_and_wrong_of_the_same_agreement_stand_side_by_side_and_nearer_than_the_next() -> None:
    agreement = np.repeat(np.arange(33) / 32, 2)
    with axes() as ax:
        plot_agreement(agreement, agreement, np.tile([1, 0], 33), ax=ax)
    right, wrong = (np.array(points(ax, label))[:, 0] for label in ("right", "wrong"))
    apart = wrong - right
    assert (apart > 0).all()
    assert (apart < 0.5 / 32).all()
    assert (right + wrong) / 2 == pytest.approx(np.arange(33) / 32)


def test_without_grades_there_is_one_group_and_no_legend() -> None:
    with axes() as ax:
        plot_agreement(AGREEMENT, CONFIDENCE, ax=ax)
    assert np.array(points(ax, "prompts")) == pytest.approx(np.stack([AGREEMENT, CONFIDENCE], axis=1))
    assert legend(ax) == []
    assert caption(ax) == "n = 6 prompts"


def test_what_is_left_out_is_counted_and_infinite_confidences_stand_at_the_edges() -> None:
    confidence = np.array([-np.inf, np.inf, np.nan, -0.7, -0.3, -0.2])
    with axes() as ax:
        plot_agreement(np.r_[AGREEMENT[:-1], np.nan], confidence, CORRECT, note="sampler", ax=ax)
    assert caption(ax) == "n = 4 prompts · 2 not computed · 1 not graded · 2 infinite · sampler"
    low, high = ax.get_ylim()
    assert (low, high) == pytest.approx((-0.7 - 0.06 * 0.4, -0.3 + 0.06 * 0.4))
    (below,) = labelled(ax, "right, infinite")
    (above,) = labelled(ax, "wrong, infinite")
    assert (below.get_ydata()[0], below.get_marker()) == (low, "v")
    assert (above.get_ydata()[0], above.get_marker()) == (high, "^")
    assert points(ax, "right") == []
    assert "infinite, at the edge" in legend(ax)


@pytest.mark.parametrize("confidence", [[0.5], [-np.inf], [0.0]])
def test_one_prompt_is_drawn(confidence: list[float]) -> None:
    with axes() as ax:
        plot_agreement([0.5], confidence, [1], ax=ax)
    assert np.isfinite(ax.get_ylim()).all()
    assert caption(ax).startswith("n = 1 prompt")


def test_many_points_are_smaller_and_paler() -> None:
    rng = np.random.default_rng(0)
    with axes() as ax:
        plot_agreement(rng.random(4000), rng.random(4000), rng.integers(0, 2, 4000), ax=ax)
    assert artist(ax, "right").get_markersize() < 4
    assert artist(ax, "right").get_alpha() < 0.5
