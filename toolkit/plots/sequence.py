"""Confidence along a sequence: the probability of each token, and what the alternatives had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.errors import ToolkitError
from toolkit.plots.arguments import matrix, same_length, vector
from toolkit.plots.keys import Key, Look, confidences, line_key, missing_fill, missing_key, scale_key
from toolkit.plots.layout import (
    Floats,
    add_caption,
    counted,
    legend_above,
    make_axes,
    say,
    size_in_inches,
)
from toolkit.plots.style import Theme, confidence_map, theme_of
from toolkit.plots.text import token_label

_LABEL_SIZE = 7.5
_PITCH = 1.25 * _LABEL_SIZE / 72  # inches between upright labels
_PER_INCH = 32  # bars: of more tokens, several share one
_SPACED = 60  # bars that have gaps between them
_ROUNDING = 1e-4  # nats above 0 that float32 may leave


def plot_sequence(
    texts: Sequence[str],
    logprobs: ArrayLike,
    alternatives: ArrayLike | None = None,
    *,
    ranks: ArrayLike | None = None,
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """The probability of each token, and above it that of the likely tokens that were not taken.

    A bar goes from 0 to the token's probability, coloured by its log-probability on the fixed scale. On top of
    it stand the alternatives, the most likely first; what is then left up to 1 is the rest of the vocabulary.
    Tokens are named below; where they have no room, the least sure are, with their index. Of more tokens than
    there can be bars, several share one: it has their mean probability, and the caption says so.

    Parameters
    ----------
    texts : sequence of str, length n
    logprobs : (n,) array_like
        Natural log, in nats. NaN, not computed, is hatched; -inf, masked out, gets a cross.
    alternatives : (n, k) array_like, optional
        Log-probabilities of likely tokens, NaN where there are fewer. The token itself may be among them and
        is not counted twice: it is the one at its rank, else the first of the same log-probability.
    ranks : (n,) array_like, optional
        Rank of each token from 1; a triangle marks those that were not the most likely.
    note : str
        Estimator, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is the token index, y a probability.

    Raises
    ------
    ToolkitError
        If lengths or shapes differ, or a log-probability is above 0.
    """
    tokens, bars = _tokens(texts, logprobs, alternatives, ranks), None
    ax = make_axes(ax)
    ax.set_ylabel("probability")
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    if not tokens.texts:
        ax.set_xticks([])
        say(ax, "no tokens")
    else:
        bars = _bars(tokens, int(_PER_INCH * size_in_inches(ax)[0]))
        keys = _draw(ax, tokens, bars)
        _name_tokens(ax, tokens)
        legend_above(ax, keys)
    add_caption(ax, _counts(tokens, 1 if bars is None else bars.size), note)
    return ax


class _Tokens(NamedTuple):
    texts: Sequence[str]
    logprobs: Floats  # (n,)
    others: Floats  # (n, k) probabilities of what was not taken, the largest first; 0 where there is none
    ranks: Floats | None

    @property
    def known(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.logprobs)


class _Bars(NamedTuple):
    """What is drawn: a bar a token, or a bar of the means of several."""

    size: int  # tokens of a bar; the last may have fewer
    edges: Floats  # (m + 1,) on the axis of token indices
    chosen: Floats  # (m,) probabilities, NaN where none is computed
    others: Floats  # (m, k)


def _tokens(
    texts: Sequence[str], logprobs: ArrayLike, alternatives: ArrayLike | None, ranks: ArrayLike | None
) -> _Tokens:
    values = vector(logprobs, "logprobs")
    places = None if ranks is None else vector(ranks, "ranks")
    table = np.empty((len(values), 0)) if alternatives is None else matrix(alternatives, "alternatives")
    same_length(
        texts=texts, logprobs=values, alternatives=None if alternatives is None else table, ranks=places
    )
    for name, given in (("logprobs", values), ("alternatives", table)):
        if (given > _ROUNDING).any():
            raise ToolkitError(
                f"{name} holds {given[given > _ROUNDING][0]:g}: a log-probability is at most 0"
            )
    return _Tokens(list(texts), values, _others(values, table, places), places)


def _others(logprobs: Floats, table: Floats, ranks: Floats | None) -> Floats:
    """Probabilities of the alternatives without the chosen token itself, in falling order."""
    if ranks is not None:
        chosen = np.arange(1, table.shape[1] + 1) == ranks[:, None]
    else:
        same = np.isclose(table, logprobs[:, None], rtol=0, atol=1e-6)
        chosen = same & (np.cumsum(same, axis=1) == 1)
    found = np.exp(np.where(chosen | np.isnan(table), -np.inf, table))
    return -np.sort(-found, axis=1)


def _bars(tokens: _Tokens, most: int) -> _Bars:
    n = len(tokens.texts)
    size = -(-n // most)
    starts = np.arange(0, n, size)
    known = tokens.known.astype(np.float64)
    total = np.add.reduceat(np.where(tokens.known, np.exp(tokens.logprobs), 0), starts)
    others = np.add.reduceat(np.where(tokens.known[:, None], tokens.others, 0), starts, axis=0)
    counts = np.add.reduceat(known, starts)
    counts[counts == 0] = np.nan
    return _Bars(size, np.r_[starts, n] - 0.5, total / counts, others / counts[:, None])


def _draw(ax: Axes, tokens: _Tokens, bars: _Bars) -> list[Key]:
    theme, scale = theme_of(ax), TOKEN_SCALES["logprob"]
    known = ~np.isnan(bars.chosen)
    with np.errstate(divide="ignore"):
        confidence = confidences(scale, np.log(bars.chosen[known]))
    filled = _rectangles(bars, known, np.zeros(len(known)), bars.chosen)
    filled.set(array=confidence, cmap=confidence_map(), clim=(0, 1), label="_chosen")
    ax.add_collection(filled, autolim=False)
    if len(known) <= _SPACED:
        filled.set(edgecolor=theme.muted, linewidth=0.5)
    else:  # edges would cover the bars; sure ones are nearly paper, so their tops need a line
        ax.stairs(bars.chosen, bars.edges, color=theme.muted, linewidth=0.5, baseline=None)
    keys = [scale_key(theme, "logprob", scale)]
    keys += _draw_others(ax, bars, theme)
    if not known.all():
        hatched = _rectangles(bars, ~known, np.zeros(len(known)), np.ones(len(known)))
        hatched.set(label="_missing", **missing_fill(theme))
        ax.add_collection(hatched, autolim=False)
        keys.append(missing_key(theme))
    ax.set_xlim(-0.6, len(tokens.texts) - 0.4)
    return keys + (_draw_marks(ax, tokens, theme) if bars.size == 1 else [])


def _rectangles(bars: _Bars, which: NDArray[np.bool_], low: Floats, high: Floats) -> PolyCollection:
    """Upright bars as one artist, from `low` to `high`; with gaps between them where there is room."""
    gap = 0.08 if len(bars.chosen) <= _SPACED else 0.0
    left, right = bars.edges[:-1] + gap, bars.edges[1:] - gap
    corners = np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2)
    return PolyCollection(list(corners[which]))


def _draw_others(ax: Axes, bars: _Bars, theme: Theme) -> list[Key]:
    known = ~np.isnan(bars.chosen)
    low = np.where(known, bars.chosen, 0)
    drawn = False
    for column in np.nan_to_num(bars.others).T:
        high = np.minimum(low + column, 1)
        if (column > 0).any():
            steps = _rectangles(bars, column > 0, low, high)
            steps.set(facecolor=theme.alternative, label="_alternatives", linewidth=0)
            if len(low) <= _SPACED:
                steps.set(edgecolor=theme.paper, linewidth=0.5)
            ax.add_collection(steps, autolim=False)
            drawn = True
        low = high
    key = Patch(facecolor=theme.alternative), "likely alternatives" + ", one a step" * (len(low) <= _SPACED)
    return [key] if drawn else []


def _draw_marks(ax: Axes, tokens: _Tokens, theme: Theme) -> list[Key]:
    """Triangles above tokens that were not the most likely, crosses where the token was masked out."""
    masked = np.isneginf(tokens.logprobs)
    unlikely = np.zeros_like(masked) if tokens.ranks is None else tokens.ranks > 1
    size = float(np.clip(250 / len(tokens.texts), 2, 5))
    keys = []
    for which, height, marker, label in (
        (unlikely, 1.02, "v", "not the most likely token"),
        (masked, 0.02, "x", "masked out, −∞"),
    ):
        at = np.flatnonzero(which)
        look: Look = {"marker": marker, "color": theme.ink, "linestyle": "none"}
        if len(at):
            ax.plot(at, np.full(len(at), height), markersize=size, clip_on=False, label=f"_{label}", **look)
            keys.append(line_key(label, {**look, "markersize": 4}))
    return keys


def _name_tokens(ax: Axes, tokens: _Tokens) -> None:
    n = len(tokens.texts)
    columns = int(np.clip(3.4 * size_in_inches(ax)[1], 6, 16))
    slots = max(1, int((size_in_inches(ax)[0] - 0.8) / _PITCH))
    if n <= slots:
        places = np.arange(n)
        labels = [token_label(text, columns) for text in tokens.texts]
        ax.set_xlabel("token")
    else:
        places = _spread(tokens.logprobs, slots)
        labels = [f"{token_label(tokens.texts[i], columns)}  {i:,}" for i in places.tolist()]
        ax.set_xlabel("token, the least sure named with their index")
    ax.set_xticks(places, labels, rotation=90, fontsize=_LABEL_SIZE)
    ax.tick_params(axis="x", length=2 if n <= slots else 4)


def _spread(logprobs: Floats, slots: int) -> NDArray[np.int64]:
    """Indices of the least sure tokens whose labels do not run into each other, in order."""
    apart = len(logprobs) / slots
    taken: list[int] = []
    for i in np.argsort(logprobs, kind="stable").tolist():  # NaN last
        if np.isnan(logprobs[i]) or len(taken) >= slots:
            break
        if all(abs(i - j) >= apart for j in taken):
            taken.append(i)
    return np.array(sorted(taken), np.int64)


def _counts(tokens: _Tokens, size: int) -> list[str]:
    parts = counted(
        int(tokens.known.sum()),
        "token",
        not_computed=int((~tokens.known).sum()),
        masked_out=int(np.isneginf(tokens.logprobs).sum()),
    )
    if size == 1:
        return parts
    unlikely = 0 if tokens.ranks is None else int((tokens.ranks > 1).sum())
    parts.append(f"a bar is the mean of {size:,} tokens")
    return parts + [f"{unlikely:,} not the most likely"] * bool(unlikely)
