"""What legends explain: the fixed scale of confidence, what was not computed, and numbers as people read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from toolkit.appearance.palette import hex_colour
from toolkit.appearance.scales import Scale
from toolkit.plots.layout import Floats, Handle
from toolkit.plots.style import GroupStyle, Theme

_STEPS = 9

Look = dict[str, Any]  # keywords of an artist
Key = tuple[Handle, str]  # what is drawn in a legend, and what it says


def confidences(scale: Scale, values: Floats) -> Floats:
    """The place of each value on a scale, in [0, 1]; NaN stays NaN."""
    return np.vectorize(scale.confidence, otypes=[np.float64])(values)


def number(value: float) -> str:
    """A number with few digits and a true minus sign; NaN as `?`."""
    if math.isnan(value):
        return "?"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.3g}".replace("-", "−")


def scale_key(theme: Theme, metric: str, scale: Scale) -> Key:
    """A strip of the palette from unsure to sure, with the values at its ends."""
    steps = tuple(
        Patch(facecolor=hex_colour(i / (_STEPS - 1)), edgecolor=theme.muted, linewidth=0.3)
        for i in range(_STEPS)
    )
    bound = "≤" if scale.unsure < scale.sure else "≥"
    unit = f" ({scale.unit})" if scale.unit else ""
    return steps, f"{metric}: {bound} {number(scale.unsure)} unsure, {number(scale.sure)} sure{unit}"


def missing_key(theme: Theme, label: str = "not computed") -> Key:
    """The hatching of what was not computed."""
    return Patch(**missing_fill(theme)), label


def missing_fill(theme: Theme) -> Look:
    """How an area is filled where nothing was computed: never as if it were certain."""
    return {"facecolor": theme.missing, "edgecolor": theme.muted, "hatch": "/////", "linewidth": 0.0}


def reference(theme: Theme, *, dotted: bool = False) -> Look:
    """A line to compare with: dashed for chance and what is expected, dotted for what cannot be exceeded."""
    line = (0, (1, 1.2)) if dotted else (0, (5, 2))
    return {"color": theme.muted, "linestyle": line, "linewidth": 1.4 if dotted else 1.2}


def of_group(group: GroupStyle, *, line: bool = True) -> Look:
    """Markers of a group, on its line or without one."""
    return {
        "color": group.colour,
        "marker": group.marker,
        "markersize": 5.0,
        "linestyle": group.line if line else "none",
    }


def line_key(label: str, look: Look) -> Key:
    """A line, or a marker where the look has no line."""
    return Line2D([], [], **look), label
