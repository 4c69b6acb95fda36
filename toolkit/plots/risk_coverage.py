"""Risk and coverage: what is wrong among the answers that are given, where the least confident are withheld."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from toolkit.characters import count
from toolkit.plots.keys import Key, Look, line_key, number, of_group, reference
from toolkit.plots.layout import (
    add_caption,
    grid,
    legend_above,
    make_axes,
    percent,
    say,
    size_in_inches,
    sizes,
)
from toolkit.plots.style import Theme, group_style, theme_of
from toolkit.stats.selective import RiskCoverage, aurc_tie_merged, risk_coverage
from toolkit.stats.tally import Judged, judge

_NAMED, _NAMED_IF_SMALL = 8, 5  # curves with a colour and a place in the legend
_SMALL = 20  # square inches
_MARKED = 12  # working points of a curve up to which each has a marker


def plot_risk_coverage(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], *, note: str = "", ax: Axes | None = None
) -> Axes:
    """Risk against coverage for several estimators, between the best that a ranking can do and chance.

    The legend has each curve's area, `toolkit.stats.selective.aurc_tie_merged`. The first eight curves (five in
    a small axes) are told apart, the others are thin grey lines.

    Parameters
    ----------
    curves : mapping of str to (confidence, quality)
        Both (n,): confidence rises with certainty (-inf and inf are allowed); quality is in [0, 1], 1 right.
        Units where either is NaN are left out and counted.
    note : str
        Estimator, sampler, whatever belongs into the caption.
    ax : Axes, optional

    Returns
    -------
    Axes
        x is coverage, the share that is answered; y is risk, 1 − mean quality of the answered.

    Raises
    ------
    ToolkitError
        If lengths differ, or a quality is outside [0, 1].
    """
    found = [_curve(name, *pair) for name, pair in curves.items()]
    drawn = [curve for curve in found if curve.judged.n]
    ax = make_axes(ax)
    ax.set_xlabel("coverage: share answered")
    ax.set_ylabel("risk: share wrong")
    for axis in (ax.xaxis, ax.yaxis):
        percent(axis)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, _top(drawn))
    grid(ax)
    if drawn:
        keys = _draw(ax, drawn)
        legend_above(ax, keys)
    else:
        say(ax, "no graded answer has a confidence")
    add_caption(ax, _counts(found), note)
    return ax


class _Curve(NamedTuple):
    name: str
    judged: Judged
    points: RiskCoverage
    area: float

    @property
    def line(self) -> tuple[Any, Any]:
        """The curve from coverage 0, where it has the risk of its first point, as the area takes it."""
        return np.r_[0, self.points.coverage], np.r_[self.points.risk[:1], self.points.risk]


def _curve(name: str, confidence: ArrayLike, quality: ArrayLike) -> _Curve:
    judged = judge(confidence, quality, name="quality")
    pair = judged.confidence, judged.outcome
    return _Curve(name, judged, risk_coverage(*pair), aurc_tie_merged(*pair))


def _top(curves: list[_Curve]) -> float:
    risks = [max(curve.points.risk.max(), curve.points.random[0]) for curve in curves]
    return float(min(1.03, max([*risks, 0.05]) * 1.06))


def _draw(ax: Axes, curves: list[_Curve]) -> list[Key]:
    theme = theme_of(ax)
    wide, high = size_in_inches(ax)
    named = _NAMED if wide * high > _SMALL else _NAMED_IF_SMALL
    other: Look = {"color": theme.alternative, "linewidth": 0.7}
    for curve in curves[named:]:
        ax.plot(*curve.line, zorder=2, label=f"_{curve.name}", **other)
    keys = []
    for i, curve in enumerate(curves[:named]):
        group = group_style(theme, i)
        look = of_group(group)
        ax.plot(*curve.line, zorder=4 - i / 10, label=f"_{curve.name}", **{**look, "marker": ""})
        _mark(ax, curve, of_group(group, line=False))
        keys.append(line_key(f"{curve.name}, AURC {number(curve.area)}", look))
    if len(curves) > named:
        keys.append(line_key(count(len(curves) - named, "more curve"), other))
    return keys + _draw_bounds(ax, curves, theme)


def _mark(ax: Axes, curve: _Curve, look: Look) -> None:
    """Markers on the curve: at each working point where they are few, else evenly over the coverage."""
    coverage, risk = curve.points.coverage, curve.points.risk
    places = np.arange(len(coverage))
    if len(coverage) > _MARKED:
        places = np.unique(np.searchsorted(coverage, np.linspace(0.1, 1, 7) - 1e-9))
    ax.plot(coverage[places], risk[places], zorder=4, clip_on=False, label=f"_{curve.name}, marks", **look)


def _draw_bounds(ax: Axes, curves: list[_Curve], theme: Theme) -> list[Key]:
    """The optimum and chance, once for all curves of the same answers."""
    best, chance = reference(theme, dotted=True), reference(theme)
    seen: dict[bytes, _Curve] = {}
    for curve in curves:
        same = np.sort(curve.judged.outcome).tobytes()
        if same not in seen or len(curve.points.risk) > len(seen[same].points.risk):
            seen[same] = curve
    for curve in seen.values():
        points = curve.points
        ax.plot(
            np.r_[0, points.coverage], np.r_[points.optimum[:1], points.optimum], label="_optimum", **best
        )
        ax.plot([0, 1], [points.random[0]] * 2, label="_random", **chance)
    return [line_key("optimum", best), line_key("random ranking", chance)]


def _counts(curves: list[_Curve]) -> list[str]:
    """n, of each curve where they differ."""
    parts = [sizes(curve.judged.n for curve in curves)]
    undefined = max((curve.judged.n_undefined for curve in curves), default=0)
    ungraded = max((curve.judged.n_ungraded for curve in curves), default=0)
    most = "up to " if len(curves) > 1 else ""
    parts += [f"{most}{undefined:,} not computed"] * bool(undefined)
    return parts + [f"{most}{ungraded:,} not graded"] * bool(ungraded)
