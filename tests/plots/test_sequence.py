"""Confidence along a sequence: heights are probabilities, colours are the fixed scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from tests.plots.drawn import artist, axes, boxes, caption, labelled, legend, points, tokens
from toolkit.appearance.palette import hex_colour
from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.plots import plot_sequence
from toolkit.plots.style import THEMES

TEXTS = [" a", " b", " c"]
LOGPROBS = [-0.1, -2.0, -5.0]
ALTERNATIVES = [[-0.1, -3.0], [-1.0, -2.0], [-0.5, -1.5]]


def heights(ax: object, label: str) -> list[float]:
    return [high - low for _, low, _, high in boxes(ax, label)]  # type: ignore[arg-type]


def test_a_bar_is_as_high_as_the_probability_and_coloured_by_the_log_probability() -> None:
    with axes() as ax:
        plot_sequence(TEXTS, LOGPROBS, ax=ax)
    assert heights(ax, "chosen") == pytest.approx([math.exp(v) for v in LOGPROBS])
    assert boxes(ax, "chosen")[:, 0] == pytest.approx([-0.42, 0.58, 1.58])
    scale = TOKEN_SCALES["logprob"]
    faces = [to_hex(face) for face in artist(ax, "chosen").get_facecolors()]
    expected = [hex_colour(scale.confidence(v)) for v in LOGPROBS]
    for face, colour in zip(faces, expected, strict=True):
        assert [int(face[i : i + 2], 16) for i in (1, 3, 5)] == pytest.approx(
            [int(colour[i : i + 2], 16) for i in (1, 3, 5)], abs=2
        )
    assert labelled(ax, "alternatives") == []


@pytest.mark.parametrize("ranks", [None, [1, 2, 9]])
def test_alternatives_stand_on_the_token_without_the_token_itself(ranks: list[int] | None) -> None:
    with axes() as ax:
        plot_sequence(TEXTS, LOGPROBS, ALTERNATIVES, ranks=ranks, ax=ax)
    found: dict[int, list[tuple[float, float]]] = {}
    for step in labelled(ax, "alternatives"):
        for path in step.get_paths():
            (left, low), (_, high) = path.vertices[0], path.vertices[1]
            found.setdefault(round(left + 0.42), []).append((low, high))
    first = math.exp(-5) + math.exp(-0.5)  # neither alternative of the last is the token
    expected = {
        0: [(math.exp(-0.1), math.exp(-0.1) + math.exp(-3))],
        1: [(math.exp(-2), math.exp(-2) + math.exp(-1))],
        2: [(math.exp(-5), first), (first, first + math.exp(-1.5))],
    }
    assert set(found) == set(expected)
    for token, steps in expected.items():
        assert np.array(found[token]) == pytest.approx(np.array(steps))


def test_of_two_alternatives_as_likely_as_the_token_one_stays() -> None:
    with axes() as ax:
        plot_sequence(["a"], [-1.0], [[-1.0, -1.0, np.nan]], ax=ax)
    (step,) = labelled(ax, "alternatives")
    assert step.get_paths()[0].vertices[:, 1].max() == pytest.approx(2 * math.exp(-1))


def test_the_mass_of_a_full_distribution_is_one() -> None:
    data = tokens(30)
    everything = np.sort(np.log(np.random.default_rng(0).dirichlet(np.ones(6), size=30)))[:, ::-1]
    with axes() as ax:
        plot_sequence(data["texts"], everything[:, 2], everything, ranks=np.full(30, 3), ax=ax)
    tops = [path.vertices[:, 1].max() for step in labelled(ax, "alternatives") for path in step.get_paths()]
    assert sum(top == pytest.approx(1) for top in tops) == 30


@pytest.mark.parametrize("theme", THEMES)
def test_what_is_not_computed_is_hatched_and_what_is_masked_is_no_bar(theme: str) -> None:
    with axes(theme) as ax:
        plot_sequence(list("abcd"), [np.nan, -np.inf, -1.0, np.nan], [[-1.0]] * 4, ax=ax)
    gap = artist(ax, "missing")
    assert boxes(ax, "missing")[:, [0, 1, 3]] == pytest.approx(np.array([[-0.42, 0, 1], [2.58, 0, 1]]))
    assert gap.get_hatch()
    assert to_hex(gap.get_facecolors()[0]) == THEMES[theme].missing
    assert heights(ax, "chosen") == pytest.approx([0, math.exp(-1)])
    assert points(ax, "masked out, −∞") == [(1, 0.02)]
    assert caption(ax) == "n = 2 tokens · 2 not computed · 1 masked out"
    assert {"not computed", "masked out, −∞"} <= set(legend(ax))


def test_tokens_that_were_not_the_most_likely_are_marked() -> None:
    with axes() as ax:
        plot_sequence(list("abcd"), [-1.0] * 4, ranks=[1, 2, np.nan, 7], ax=ax)
    assert [x for x, _ in points(ax, "not the most likely token")] == [1, 3]


def test_tokens_are_named_below_and_shown_as_they_are() -> None:
    texts = ["$x$", "\n", "\x1b", "   ", "y" * 5000]
    with axes() as ax:
        plot_sequence(texts, [-1.0] * 5, ax=ax)
    named = [text.get_text() for text in ax.get_xticklabels()]
    assert named[:4] == [r"\$x\$", "↵", "<U+001B>", "␣␣␣"]
    assert named[4].endswith("…")
    assert len(named[4]) <= 16


def test_of_many_tokens_the_least_sure_are_named_with_their_index() -> None:
    data = tokens(400)
    data["logprobs"] = np.where(np.isin(np.arange(400), [37, 250]), -9.0, np.maximum(data["logprobs"], -6))
    with axes() as ax:
        plot_sequence(data["texts"], data["logprobs"], ax=ax)
    named = [text.get_text() for text in ax.get_xticklabels()]
    assert " word37  37" in named
    assert " word250  250" in named
    assert 10 < len(named) < 60
    apart = np.diff(ax.get_xticks())
    assert apart.min() >= 400 / 60


def test_many_tokens_share_bars_of_their_means() -> None:
    rng = np.random.default_rng(1)
    logprobs = -rng.exponential(size=10_000)
    logprobs[:7] = np.nan
    table = np.log(rng.dirichlet(np.ones(6), size=10_000))[:, :3]
    with axes() as ax:
        plot_sequence(["t"] * 10_000, logprobs, table, ranks=np.full(10_000, 99), ax=ax)
    size = 45
    assert f"a bar is the mean of {size} tokens" in caption(ax)
    assert "10,000 not the most likely" in caption(ax)
    blocks = [np.exp(logprobs[i : i + size]) for i in range(0, 10_000, size)]
    assert heights(ax, "chosen") == pytest.approx([np.nanmean(block) for block in blocks])
    known = ~np.isnan(logprobs)
    masses = [
        np.exp(table[i : i + size][known[i : i + size]]).sum(axis=1).mean() for i in range(0, 10_000, size)
    ]
    tops = np.zeros(len(blocks))
    for step in labelled(ax, "alternatives"):
        tops = np.maximum(tops, [path.vertices[:, 1].max() for path in step.get_paths()])
    expected = np.minimum([np.nanmean(b) + m for b, m in zip(blocks, masses, strict=True)], 1)
    assert tops == pytest.approx(expected)


def test_where_tokens_share_bars_those_that_were_not_the_most_likely_are_counted() -> None:
    with axes(draw=False) as ax:
        plot_sequence(["t"] * 900, np.full(900, -1.0), ranks=np.arange(900) % 3 + 1, ax=ax)
    assert "600 not the most likely" in caption(ax)
    assert labelled(ax, "not the most likely token") == []


def test_a_bar_of_which_nothing_is_computed_is_hatched() -> None:
    logprobs = np.full(2000, -1.0)
    logprobs[500:1000] = np.nan
    with axes() as ax:
        plot_sequence(["t"] * 2000, logprobs, ax=ax)
    gaps = boxes(ax, "missing")
    assert gaps[0, 0] >= 499
    assert gaps[-1, 2] <= 1000
    assert heights(ax, "chosen") == pytest.approx([math.exp(-1)] * len(boxes(ax, "chosen")))
