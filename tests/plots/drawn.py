"""Axes to draw on, and what was drawn: artists by the label they carry, captions, legends, texts and their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from toolkit import plots
from toolkit.plots.style import style

RNG = np.random.default_rng(3)


@contextmanager
def axes(
    theme: str = "light", size: tuple[float, float] = (7.0, 4.4), *, draw: bool = True
) -> Iterator[Axes]:
    """An axes of a theme, drawn once when the block ends: warnings of drawing are errors there."""
    with style(theme):
        figure = Figure(figsize=size, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        yield figure.subplots()
        if draw:
            canvas.draw()


def artist(ax: Axes, label: str) -> Any:
    """The one artist, or container of artists, of this label."""
    found = [one for one in [*ax.get_children(), *ax.containers] if one.get_label() == f"_{label}"]
    assert len(found) == 1, (label, [one.get_label() for one in ax.get_children()])
    return found[0]


def labelled(ax: Axes, label: str) -> list[Any]:
    """All artists of this label."""
    return [one for one in ax.get_children() if one.get_label() == f"_{label}"]


def points(ax: Axes, label: str) -> list[tuple[float, float]]:
    """The points of the one line of this label."""
    return [(float(x), float(y)) for x, y in artist(ax, label).get_xydata()]


def boxes(ax: Axes, label: str) -> np.ndarray:
    """(m, 4) left, low, right and high of the rectangles of a collection, in its order."""
    corners = np.array([path.vertices[:4] for path in artist(ax, label).get_paths()]).reshape(-1, 4, 2)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def caption(ax: Axes) -> str:
    """What is written below the axes, on one line."""
    lines = [one for one in ax.get_children() if type(one).__name__ == "_Line"]
    return " ".join(lines[0].get_text().split()).replace("\u00a0", " ")


def texts(ax: Axes) -> list[str]:
    """What is written among the data."""
    return [one.get_text() for one in ax.texts if type(one).__name__ != "_Line"]


def legend(ax: Axes) -> list[str]:
    """What the legend says."""
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def written(ax: Axes) -> list[Text]:
    """Every text that can be seen; matplotlib keeps ticks outside the view and draws none of them."""
    hidden: set[Text] = set()
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = axis.get_major_ticks() + axis.get_minor_ticks()
        hidden |= {tick.label1 for tick in ticks if not low <= tick.get_loc() <= high}
    found = ax.figure.findobj(Text)
    return [one for one in found if one.get_visible() and one.get_text().strip() and one not in hidden]


def places(ax: Axes) -> dict[str, Bbox]:
    """Where every text stands that can be seen, in pixels."""
    return {f"{i} {one.get_text()}": one.get_window_extent() for i, one in enumerate(written(ax))}


def rows_of(ax: Axes) -> list[str]:
    """The labels of the rows, from top to bottom."""
    return [text.get_text() for text in ax.get_yticklabels()]


def tokens(n: int) -> dict[str, Any]:
    """A sequence with alternatives, the chosen token among them or not."""
    table = np.sort(np.log(RNG.dirichlet(np.ones(8), size=n)), axis=1)[:, ::-1][:, :5]
    ranks = RNG.integers(1, 8, size=n)
    chosen = np.where(ranks <= 5, table[np.arange(n), np.minimum(ranks, 5) - 1], table[:, 4] - 1)
    texts = [f" word{i}" for i in range(n)]
    return {"texts": texts, "logprobs": chosen, "alternatives": table, "ranks": ranks}


def evaluation(n: int = 12, metric: str = "auroc") -> pd.DataFrame:
    """A table as `toolkit.evaluate` gives it."""
    value = RNG.uniform(0.5, 0.95, n)
    names = ["random", "n_tokens", *(f"estimator_{i}" for i in range(n - 2))]
    frame = pd.DataFrame({"estimator": names, metric: value})
    return frame.assign(**{f"{metric}_low": value - 0.05, f"{metric}_high": value + 0.04, "n": 185})


def differences(n: int = 12, metric: str = "auroc") -> pd.DataFrame:
    """A table as `toolkit.compare` gives it; every third interval lacks 0."""
    value = RNG.uniform(-0.04, 0.04, n)
    value[::3] += np.where(RNG.random(len(value[::3])) < 0.5, 0.2, -0.2)
    names = ["n_tokens", *(f"estimator_{i}" for i in range(n - 1))]
    ends = {"difference_low": value - 0.06, "difference_high": value + 0.07}
    return pd.DataFrame({"metric": metric, "estimator": names, "difference": value, **ends, "n_prompts": 185})


def votes() -> pd.DataFrame:
    """A table as `vote_df` gives it."""
    rows = [
        {"rule": rule, "k": k, "accuracy": 0.1 * i + 0.05 * np.log2(k) + 0.2}
        for i, rule in enumerate(["majority", "weighted", "filtered", "borda", "pass"])
        for k in (1, 2, 4, 8)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(low=frame.accuracy - 0.06, high=frame.accuracy + 0.05, n=185, n_undefined=0)


def thresholds() -> pd.DataFrame:
    """A table as `early_stopping_df` gives it."""
    accuracy = np.array([0.39, 0.39, 0.38])
    return pd.DataFrame(
        {
            "percentile": [10.0, 50.0, 90.0],
            "saved": [0.05, 0.15, 0.3],
            "accuracy": accuracy,
            "low": accuracy - 0.07,
            "high": accuracy + 0.06,
            "accuracy_whole": 0.4,
            "n": 185,
        }
    )


def samples(n: int = 5, length: int = 8) -> list[list[tuple[str, float]]]:
    """Samples that begin alike."""
    return [
        [(f" t{j if j < 2 else i * 10 + j}", float(-RNG.exponential())) for j in range(length)]
        for i in range(n)
    ]


def judged(n: int = 185) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and whether each was right."""
    confidence = RNG.beta(3, 2, size=n)
    return confidence, (RNG.random(n) < confidence**2).astype(float)


def _reliability(note: str, ax: Axes | None) -> Axes:
    return plots.plot_reliability(*judged(), estimator="mean_prob", note=note, ax=ax)


def _risk_coverage(note: str, ax: Axes | None) -> Axes:
    confidence, correct = judged()
    curves = {"mean_prob": (confidence, correct), "random": (RNG.random(185), correct)}
    return plots.plot_risk_coverage(curves, note=note, ax=ax)


def _distribution(note: str, ax: Axes | None) -> Axes:
    groups = {"right": RNG.normal(size=80), "wrong": RNG.normal(-1, 2, size=2000), "none": [np.nan]}
    return plots.plot_distribution(groups, metric="sum_logprob", unit="nats", note=note, ax=ax)


def _agreement(note: str, ax: Axes | None) -> Axes:
    confidence, correct = judged()
    agreement = RNG.integers(1, 9, size=185) / 8
    return plots.plot_agreement(agreement, confidence, correct, estimator="mean_prob", note=note, ax=ax)


def _entropy_logprob(note: str, ax: Axes | None) -> Axes:
    return plots.plot_entropy_logprob(RNG.gamma(2, size=4000), -RNG.gamma(2, size=4000), note=note, ax=ax)


def _entropy_map(note: str, ax: Axes | None) -> Axes:
    entropy = RNG.gamma(2, size=(6, 20))
    entropy[2, 12:] = np.nan
    return plots.plot_entropy_map(entropy, note=note, ax=ax)


def _paired_differences(note: str, ax: Axes | None) -> Axes:
    return plots.plot_paired_differences(differences(), names=("float32", "4-bit"), note=note, ax=ax)


def _paired_confidence(note: str, ax: Axes | None) -> Axes:
    first = -RNG.exponential(size=185)
    outcomes = np.where(RNG.random((2, 185)) < 0.1, np.nan, (RNG.random((2, 185)) < 0.5).astype(float))
    second = first + 0.2 * RNG.normal(size=185)
    return plots.plot_paired_confidence(
        first, second, *outcomes, estimator="mean_logprob", names=("float32", "4-bit"), note=note, ax=ax
    )


Example = Callable[[str, Axes | None], Axes]
EXAMPLES: dict[str, Example] = {
    "sequence": lambda note, ax: plots.plot_sequence(**tokens(24), note=note, ax=ax),
    "long sequence": lambda note, ax: plots.plot_sequence(**tokens(900), note=note, ax=ax),
    "distribution": _distribution,
    "reliability": _reliability,
    "risk-coverage": _risk_coverage,
    "estimators": lambda note, ax: plots.plot_estimators(evaluation(), note=note, ax=ax),
    "paired-differences": _paired_differences,
    "paired-confidence": _paired_confidence,
    "samples": lambda note, ax: plots.plot_samples(samples(), note=note, ax=ax),
    "agreement": _agreement,
    "votes": lambda note, ax: plots.plot_votes(votes(), note=note, ax=ax),
    "entropy-logprob": _entropy_logprob,
    "entropy-map": _entropy_map,
    "early-stopping": lambda note, ax: plots.plot_early_stopping(thresholds(), note=note, ax=ax),
}
