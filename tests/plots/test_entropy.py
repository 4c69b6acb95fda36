"""Entropy against log-probability, and entropy over samples and positions."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from tests.plots.drawn import artist, axes, caption, labelled, legend, points, rows_of
from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.plots import plot_entropy_logprob, plot_entropy_map
from toolkit.plots.layout import rows_height
from toolkit.plots.style import THEMES


def test_each_of_few_tokens_is_a_point() -> None:
    rng = np.random.default_rng(0)
    entropy, logprob = rng.gamma(2, size=500), -rng.gamma(2, size=500)
    with axes() as ax:
        plot_entropy_logprob(entropy, logprob, note="sampler", ax=ax)
    assert np.array(points(ax, "tokens")) == pytest.approx(np.stack([entropy, logprob], axis=1))
    assert caption(ax) == "n = 500 tokens · sampler"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("entropy (nats)", "logprob (nats)")


def test_the_line_is_minus_the_entropy() -> None:
    with axes() as ax:
        plot_entropy_logprob([1.0, 2.0], [-1.0, -0.5], ax=ax)
    x, y = artist(ax, "expected").get_xydata().T
    assert y == pytest.approx(-x)
    assert "logprob = −entropy" in legend(ax)


def test_the_density_of_many_tokens_counts_each_once() -> None:
    rng = np.random.default_rng(1)
    entropy, logprob = rng.gamma(2, size=20_000), -rng.gamma(2, size=20_000)
    with axes() as ax:
        plot_entropy_logprob(entropy, logprob, ax=ax)
    counts = artist(ax, "density").get_array()
    assert counts.sum() == 20_000
    assert f"1 to {int(counts.max()):,} tokens, logarithmic" in legend(ax)
    centres = artist(ax, "density").get_offsets()
    assert centres[np.argmax(counts)] == pytest.approx([1, -1], abs=1)  # the mode of both


@pytest.mark.parametrize("n", [10, 4000])
def test_masked_tokens_stand_at_the_lower_edge_and_unknown_ones_are_counted(n: int) -> None:
    rng = np.random.default_rng(2)
    entropy, logprob = rng.gamma(2, size=n), -rng.gamma(2, size=n)
    logprob[:3], logprob[3], entropy[4] = -np.inf, np.nan, np.nan
    with axes() as ax:
        plot_entropy_logprob(entropy, logprob, ax=ax)
    assert [x for x, _ in points(ax, "masked")] == pytest.approx(entropy[:3])
    assert {y for _, y in points(ax, "masked")} == {ax.get_ylim()[0]}
    assert caption(ax) == f"n = {n - 2:,} tokens · 2 not computed · 3 masked out"


@pytest.mark.parametrize(("entropy", "logprob"), [([0.0], [0.0]), ([1.0], [-np.inf]), ([3.0], [-0.1])])
def test_one_token_is_drawn(entropy: list[float], logprob: list[float]) -> None:
    with axes() as ax:
        plot_entropy_logprob(entropy, logprob, ax=ax)
    assert caption(ax).startswith("n = 1 token")
    assert ax.get_ylim()[0] < -0.01


@pytest.mark.parametrize("theme", THEMES)
def test_cells_have_their_place_on_the_fixed_scale_and_the_rest_is_hatched(theme: str) -> None:
    entropy = np.array([[0.0, 2.0, 9.0], [4.0, np.nan, np.nan]])
    with axes(theme) as ax:
        plot_entropy_map(entropy, labels=["greedy", "$0$"], note="prompt", ax=ax)
    image = artist(ax, "entropy")
    scale = TOKEN_SCALES["entropy"]
    drawn = image.get_array()
    assert drawn.mask.tolist() == [[False] * 3, [False, True, True]]
    assert drawn.compressed() == pytest.approx([scale.confidence(v) for v in (0.0, 2.0, 9.0, 4.0)])
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    assert image.get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert ax.patch.get_hatch()
    assert to_hex(ax.get_facecolor()) == THEMES[theme].missing
    assert rows_of(ax) == ["greedy", r"\$0\$"]
    assert caption(ax) == "2 samples · n = 4 tokens · 2 without a value · prompt"
    assert "ended, or not computed" in legend(ax)


def test_a_full_map_has_no_hatching() -> None:
    with axes() as ax:
        plot_entropy_map(np.ones((2, 3)), ax=ax)
    assert ax.patch.get_hatch() is None
    assert len(legend(ax)) == 1


@pytest.mark.parametrize("shape", [(1, 1), (1, 10_000), (30, 40), (500, 5)])
def test_maps_of_any_shape_are_drawn(shape: tuple[int, int]) -> None:
    with axes(size=(7.0, rows_height(min(shape[0], 30)))) as ax:
        plot_entropy_map(np.random.default_rng(0).gamma(2, size=shape), ax=ax)
    kept = len(rows_of(ax))
    assert kept == shape[0] or 30 <= kept < 500
    assert artist(ax, "entropy").get_array().shape == (kept, shape[1])
    said = caption(ax)
    assert ("more samples without room" in said) == (kept < shape[0])
    assert f"n = {kept * shape[1]:,} token" in said
    assert labelled(ax, "entropy")[0].get_interpolation() == ("nearest" if shape[1] < 300 else "antialiased")
