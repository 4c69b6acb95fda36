"""Samples as strips: colours on the fixed scale, texts inside their boxes, where each leaves the first."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from tests.plots.drawn import artist, axes, boxes, caption, labelled, legend, rows_of, samples
from toolkit.appearance import palette
from toolkit.appearance.palette import RGB, contrast
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES
from toolkit.characters import width
from toolkit.plots import plot_samples
from toolkit.plots.layout import rows_height

ROWS = [
    [("The", -0.1), (" capital", -0.2), (" is", -3.0), (" Paris", -0.05)],
    [("The", -0.1), (" capital", -0.2), (" city", -9.0)],
    [("A", -5.0), (" town", -1.0)],
    [("The", -0.1), (" capital", -0.2), (" is", -3.0), (" Paris", -0.05)],
    [("The", -0.1)],
    [],
]


def letters(ax: object) -> list[Text]:
    return [one for one in ax.get_children() if type(one).__name__ == "_Letters"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("metric", ["logprob", "entropy", "rank", "mean_logprob"])
def test_boxes_have_the_colour_of_their_value_on_the_fixed_scale(metric: str) -> None:
    scale = {**TOKEN_SCALES, **SPAN_SCALES}[metric]
    values = [scale.value(place) for place in (0.0, 0.3, 0.77, 1.0)] + [scale.unsure * 5]
    with axes() as ax:
        plot_samples([[(" x", value) for value in values]], metric=metric, ax=ax)
    expected = [palette.colour(scale.confidence(value)) for value in values]
    faces = [
        tuple(round(255 * part) for part in face[:3]) for face in artist(ax, "tokens-0").get_facecolors()
    ]
    assert np.array(faces) == pytest.approx(np.array(expected), abs=2)
    assert metric in legend(ax)[0]


def test_boxes_follow_each_other_as_wide_as_their_text() -> None:
    with axes() as ax:
        plot_samples(ROWS, ax=ax)
    for i, row in enumerate(ROWS[:-1]):
        found = boxes(ax, f"tokens-{i}")
        widths = [width(text) + 0.7 for text, _ in row]
        assert found[:, 2] == pytest.approx(np.cumsum(widths))
        assert found[:, 0] == pytest.approx(np.cumsum(widths) - widths)
        assert found[0, 1] < i < found[0, 3]
    assert [text.get_text() for text in letters(ax)] == [text for row in ROWS for text, _ in row]
    assert ax.get_xlabel() == "tokens, as wide as their text"


@pytest.mark.parametrize(
    ("size", "times"), [((12.0, 4.0), 1), ((7.0, 4.4), 1), ((6.5, 6.0), 5), ((7.0, 2.4), 5)]
)
def test_letters_stay_inside_their_boxes_whatever_the_size(size: tuple[float, float], times: int) -> None:
    rows = [row * times for row in ROWS[:-1]]
    with axes(size=size) as ax:
        plot_samples(rows, ax=ax)
    places = np.concatenate([boxes(ax, f"tokens-{i}") for i in range(len(rows))])
    for one, place in zip(letters(ax), places, strict=True):
        box = one.get_window_extent()
        (x0, y0), (x1, y1) = ax.transData.transform(place.reshape(2, 2))
        assert x0 - 1 <= box.x0 <= box.x1 <= x1 + 1
        assert min(y0, y1) - 1 <= box.y0 <= box.y1 <= max(y0, y1) + 1


def test_letters_can_be_read_on_every_colour() -> None:
    values = np.linspace(-4.5, 0, 40)
    with axes("dark", (14, 3)) as ax:
        plot_samples([[("x", value) for value in values] + [("?", np.nan)]], ax=ax)
    faces = artist(ax, "tokens-0").get_facecolors()
    for one, face in zip(letters(ax), faces, strict=False):
        ink = RGB(*(int(to_hex(one.get_color())[i : i + 2], 16) for i in (1, 3, 5)))
        assert contrast(ink, RGB(*(round(255 * part) for part in face[:3]))) >= 4.5


def test_bars_stand_where_each_leaves_the_first_and_a_line_where_one_first_does() -> None:
    with axes() as ax:
        plot_samples(ROWS, labels=["greedy", "1", "2", "3", "4", "5"], ax=ax)
    bars = {round(segment[:, 1].mean()): segment[0, 0] for segment in artist(ax, "partings").get_segments()}
    the, capital = boxes(ax, "tokens-0")[:2, 2]
    assert bars == pytest.approx({1: capital, 2: 0, 4: the, 5: 0})  # 3 is the first again
    assert artist(ax, "first-parting").get_xdata()[0] == 0
    assert rows_of(ax) == ["greedy", "1", "2", "3", "4", "5"]


def test_samples_that_are_all_alike_do_not_part() -> None:
    with axes() as ax:
        plot_samples([ROWS[0]] * 3, ax=ax)
    assert labelled(ax, "partings") == labelled(ax, "first-parting") == []
    assert "leaves the first row" not in legend(ax)


def test_without_room_for_letters_tokens_are_equally_wide() -> None:
    with axes() as ax:
        plot_samples(samples(30, 200), ax=ax)
    found = boxes(ax, "tokens-0")
    assert found[:, 0] == pytest.approx(np.arange(200) - 0.5)
    assert found[:, 2] == pytest.approx(np.arange(200) + 0.5)
    assert letters(ax) == []
    assert ax.get_xlabel() == "token"
    bars = {round(segment[:, 1].mean()): segment[0, 0] for segment in artist(ax, "partings").get_segments()}
    assert bars == pytest.approx({i: 1.5 for i in range(1, 24)} | {i: 1.5 for i in bars})


def test_what_is_not_computed_is_hatched_and_no_box() -> None:
    with axes() as ax:
        plot_samples([[("a", np.nan), ("b", -np.inf), ("c", None), ("d", -1.0)]], ax=ax)  # type: ignore[list-item]
    assert len(boxes(ax, "missing-0")) == 2
    assert artist(ax, "missing-0").get_hatch()
    assert artist(ax, "tokens-0").get_array().tolist() == [0, 0.75]  # masked out is the least sure
    assert caption(ax) == "1 sample · n = 2 tokens · 2 not computed"
    assert "not computed" in legend(ax)


@pytest.mark.parametrize("n", [1, 30])
def test_one_sample_and_thirty_fit_into_a_figure_of_their_height(n: int) -> None:
    with axes(size=(7.0, rows_height(n))) as ax:
        plot_samples(samples(n, 20), note="sampler", ax=ax)
    assert rows_of(ax) == [str(i) for i in range(n)]
    assert caption(ax).startswith(f"{n} sample")


def test_samples_without_room_are_counted() -> None:
    with axes(size=(7.0, 3.0)) as ax:
        plot_samples(samples(100), ax=ax)
    kept = len(rows_of(ax))
    assert caption(ax) == f"{kept} samples · n = {8 * kept} tokens · {100 - kept} more samples without room"


def test_texts_of_a_model_are_drawn_literally() -> None:
    row = [
        ("$x^2$", -1.0),
        ("\x1b[31m", -1.0),
        ("東京", -1.0),
        ("  ", -1.0),
        ("z" * 10_000, -1.0),
        ("", -1.0),
    ]
    with axes(size=(14, 3)) as ax:
        plot_samples([row], labels=["_$\n"], ax=ax)
    shown = [one.get_text() for one in letters(ax)]
    assert shown[0] == r"\$x^2\$"
    assert shown[1] == "<U+001B>[31m"
    assert shown[3] == "␣␣"
    assert shown[4] == "z" * 23 + "…"
    assert rows_of(ax) == [r" _\$↵"]


def test_ten_thousand_tokens_are_drawn() -> None:
    with axes() as ax:
        plot_samples(samples(3, 10_000), ax=ax)
    assert len(artist(ax, "tokens-2").get_array()) == 10_000
    assert artist(ax, "tokens-2").get_rasterized()
