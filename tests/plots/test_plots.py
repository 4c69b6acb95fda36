"""What holds for every plot: where it draws, what it says, what it leaves alone."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.transforms import Bbox

from tests.plots.drawn import EXAMPLES, axes, caption, places, texts, written
from toolkit import plots
from toolkit.errors import ToolkitError
from toolkit.plots.style import theme_of

EXAMPLE = pytest.mark.parametrize("name", EXAMPLES)
NOTE = "sampler: temperature 0.7"

EMPTY = {
    "sequence": lambda ax: plots.plot_sequence([], [], np.empty((0, 5)), ranks=[], ax=ax),
    "distribution": lambda ax: plots.plot_distribution({}, metric="entropy", ax=ax),
    "reliability": lambda ax: plots.plot_reliability([], [], ax=ax),
    "risk-coverage": lambda ax: plots.plot_risk_coverage({}, ax=ax),
    "estimators": lambda ax: plots.plot_estimators(
        pd.DataFrame(columns=["estimator", "auroc", "auroc_low", "auroc_high", "n"]), ax=ax
    ),
    "samples": lambda ax: plots.plot_samples([], ax=ax),
    "samples without tokens": lambda ax: plots.plot_samples([[], []], ax=ax),
    "agreement": lambda ax: plots.plot_agreement([], [], [], ax=ax),
    "votes": lambda ax: plots.plot_votes(
        pd.DataFrame(columns=["rule", "k", "accuracy", "low", "high", "n", "n_undefined"]), ax=ax
    ),
    "entropy-logprob": lambda ax: plots.plot_entropy_logprob([], [], ax=ax),
    "entropy-map": lambda ax: plots.plot_entropy_map([], ax=ax),
    "entropy-map without positions": lambda ax: plots.plot_entropy_map(np.empty((3, 0)), ax=ax),
    "early-stopping": lambda ax: plots.plot_early_stopping(
        pd.DataFrame(columns=["percentile", "saved", "accuracy", "low", "high", "accuracy_whole", "n"]), ax=ax
    ),
}
NAN = [np.nan] * 4
UNKNOWN = {
    "distribution": lambda ax: plots.plot_distribution({"a": NAN}, metric="entropy", ax=ax),
    "reliability": lambda ax: plots.plot_reliability(NAN, [0, 1, 0, 1], ax=ax),
    "risk-coverage": lambda ax: plots.plot_risk_coverage({"a": (NAN, [0, 1, 0, 1])}, ax=ax),
    "sequence": lambda ax: plots.plot_sequence(list("abcd"), NAN, np.full((4, 2), np.nan), ax=ax),
    "samples": lambda ax: plots.plot_samples([[("a", np.nan)] * 4], ax=ax),
    "agreement": lambda ax: plots.plot_agreement(NAN, [1, 2, 3, 4], ax=ax),
    "entropy-logprob": lambda ax: plots.plot_entropy_logprob(NAN, [-1, -2, -3, -4], ax=ax),
    "entropy-map": lambda ax: plots.plot_entropy_map([NAN], ax=ax),
}


@EXAMPLE
def test_it_draws_on_the_axes_given_and_returns_it(name: str) -> None:
    opened = pyplot.get_fignums()
    with axes("dark") as ax:
        assert EXAMPLES[name](NOTE, ax) is ax
    assert ax.figure.axes == [ax]
    assert pyplot.get_fignums() == opened


@EXAMPLE
def test_without_an_axes_it_makes_one_that_is_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyplot, "show", lambda *_, **__: pytest.fail("it was shown"))
    before = dict(mpl.rcParams)
    with mpl.rc_context({"backend": "agg"}):
        ax = EXAMPLES[name](NOTE, None)
        assert isinstance(ax, Axes)
        pyplot.close(ax.figure)
    assert dict(mpl.rcParams) == before


@EXAMPLE
def test_it_changes_no_setting_of_matplotlib(name: str) -> None:
    with axes(draw=False) as ax:
        before = dict(mpl.rcParams)
        EXAMPLES[name](NOTE, ax)
        assert dict(mpl.rcParams) == before


@EXAMPLE
def test_it_says_n_and_the_note_below_and_units_or_names_on_the_axes(name: str) -> None:
    with axes(draw=False) as ax:
        EXAMPLES[name](NOTE, ax)
    assert "n = " in caption(ax)
    assert caption(ax).endswith(f"· {NOTE}")
    assert ax.get_xlabel()
    assert ax.get_ylabel() or [text.get_text() for text in ax.get_yticklabels()]


@EXAMPLE
@pytest.mark.parametrize("size", [(7.0, 4.4), (4.2, 3.0)])
def test_no_text_is_cut_off_or_runs_into_another(name: str, size: tuple[float, float]) -> None:
    with axes(size=size, draw=False) as ax:
        EXAMPLES[name](NOTE, ax)
        plots.add_title(ax, "data/raw/capitals")
        FigureCanvasAgg(ax.figure).draw()  # here, since the settings decide how many ticks there are
        found = {text: box for text, box in places(ax).items() if box.width > 0}
    whole = ax.figure.bbox
    for text, box in found.items():
        assert whole.x0 - 1 <= box.x0 < box.x1 <= whole.x1 + 1, text
        assert whole.y0 - 1 <= box.y0 < box.y1 <= whole.y1 + 1, text
    for (one, first), (other, second) in itertools.combinations(found.items(), 2):
        shared = Bbox.intersection(first, second)
        assert shared is None or min(shared.width, shared.height) <= 1.5, (one, other)


@EXAMPLE
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_what_they_stand_on(name: str, theme: str) -> None:
    with axes(theme, draw=False) as ax:
        EXAMPLES[name](NOTE, ax)
    chosen = theme_of(ax)
    inside = {"_Letters"}  # on the colours of confidence: tested with the samples
    colours = {to_hex(one.get_color()) for one in written(ax) if type(one).__name__ not in inside}
    assert colours <= {chosen.ink, chosen.muted}


@EXAMPLE
def test_it_can_be_saved_as_vectors_and_stays_small(name: str) -> None:
    with axes(draw=False) as ax:
        EXAMPLES[name](NOTE, ax)
        for file_format, start in (("svg", b"<?xml"), ("pdf", b"%PDF-")):
            buffer = io.BytesIO()
            ax.figure.savefig(buffer, format=file_format)
            assert buffer.getvalue().startswith(start)
            assert len(buffer.getvalue()) < 600_000


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_to_draw_is_said_in_a_sentence(name: str) -> None:
    with axes() as ax:
        EMPTY[name](ax)
    assert any(text.startswith("no ") for text in texts(ax))
    assert "n = 0" in caption(ax) or name == "estimators"
    assert ax.get_legend() is None


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_nothing_is_computed_it_is_said_and_no_confidence_is_drawn(name: str) -> None:
    with axes() as ax:
        UNKNOWN[name](ax)
    said = caption(ax)
    assert "n = 0" in said
    assert "4 not computed" in said or "4 without a value" in said
    drawn = [one.get_array() for one in [*ax.collections, *ax.images] if one.get_array() is not None]
    assert all(np.ma.count(values) == 0 for values in drawn)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plots.plot_sequence(["a"], [-1.0, -2.0]),
            "texts has 1 and logprobs has 2: give one of each",
        ),
        (lambda: plots.plot_sequence(["a"], [0.5]), "logprobs holds 0.5: a log-probability is at most 0"),
        (lambda: plots.plot_sequence(["a"], [-1.0], [[0.1]]), "alternatives holds 0.1"),
        (lambda: plots.plot_sequence(["a"], [-1.0], [-1.0]), r"alternatives has shape \(1,\)"),
        (lambda: plots.plot_sequence(["a"], ["b"]), "logprobs holds something that is not a number"),
        (lambda: plots.plot_entropy_map([["b"]]), "entropy holds something that is not a number"),
        (lambda: plots.plot_entropy_map([[1.0]], labels=["a", "b"]), "entropy has 1 and labels has 2"),
        (lambda: plots.plot_distribution({"a": [[1]]}, metric="m"), r"groups\['a'\] has shape \(1, 1\)"),
        (lambda: plots.plot_reliability([2.0], [1]), "confidence holds 2: give probabilities"),
        (lambda: plots.plot_reliability([0.5], [0.5]), "correct holds 0.5: give 0 or 1"),
        (lambda: plots.plot_risk_coverage({"a": ([1.0], [2.0])}), "quality holds 2"),
        (
            lambda: plots.plot_samples([[("a", -1.0)]], metric="sureness"),
            "no scale for 'sureness'; use one of",
        ),
        (lambda: plots.plot_samples([[]], labels=[]), "samples has 1 and labels has 0: give one of each"),
        (lambda: plots.plot_agreement([0.5], [1.0, 2.0]), "agreement has 1 and confidence has 2"),
        (lambda: plots.plot_agreement([1.5], [1.0]), r"agreement holds 1.5: it is a share, in \[0, 1\]"),
        (lambda: plots.plot_entropy_logprob([0.5], []), "entropy has 1 and logprob has 0"),
        (lambda: plots.plot_votes(pd.DataFrame({"rule": []})), "votes has no column 'k'"),
        (lambda: plots.plot_early_stopping(pd.DataFrame()), "frame has no column 'percentile'"),
        (lambda: plots.plot_estimators(pd.DataFrame()), "no 'auroc': it is not of toolkit.evaluate"),
    ],
)
def test_a_wrong_argument_is_named(call: object, message: str) -> None:
    opened = pyplot.get_fignums()
    with pytest.raises(ToolkitError, match=message):
        call()  # type: ignore[operator]
    assert pyplot.get_fignums() == opened  # no half-drawn figure is left


def test_every_public_function_has_an_example() -> None:
    named = {f"plot_{name.replace('-', '_')}" for name in EXAMPLES if " " not in name}
    assert named == {name for name in plots.__all__ if name.startswith("plot_")}


def test_matplotlib_is_imported_with_the_plots_only_and_pyplot_not_even_then() -> None:
    code = (
        "import sys, toolkit, toolkit.appearance.palette; assert 'matplotlib' not in sys.modules; "
        "import toolkit.plots; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
