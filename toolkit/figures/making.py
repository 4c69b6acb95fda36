"""`make_figure` and `prepare`: a kind of figure of one run or of several."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.figures.drawing import MOST_PANELS, Drawing
from toolkit.figures.kinds import KINDS
from toolkit.figures.options import make_options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from toolkit.store import Run, Runs


def prepare(runs: Run | Runs | str | Path | Sequence[str | Path], kind: str, **options: Any) -> Drawing:
    """Read and compute what a figure shows; its method `figure` draws it, in either theme.

    Parameters
    ----------
    runs : Run, Runs, or one path or several
        Several are compared.
    kind : str
        A name in `KINDS`.
    **options
        The attributes of `toolkit.figures.options.Options` that the kind uses, see `FigureKind.options`.

    Returns
    -------
    Drawing

    Raises
    ------
    ToolkitError
        There is no such kind of figure; an option is unknown, not of this kind, or its value cannot be; or the
        run lacks what is needed: sequences, grades, samples, or a statistic that was not computed.
    """
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ToolkitError(f"kind: there is no figure {quoted(kind)}{hint}; use one of {', '.join(KINDS)}")
    from toolkit.figures.sources import check_needs, sources_of

    chosen = make_options(kind, options)
    sources = sources_of(runs)
    check_needs(sources, kind)
    module = import_module(f"toolkit.figures.{KINDS[kind].module}")
    drawing: Drawing = getattr(module, KINDS[kind].function)(sources, chosen)
    if len(drawing.panels) > MOST_PANELS:
        raise ToolkitError(
            f"{kind}: it would have {len(drawing.panels)} panels, and {MOST_PANELS} can be read: name fewer runs, "
            "prompts or estimators"
        )
    return drawing


def make_figure(
    runs: Run | Runs | str | Path | Sequence[str | Path],
    kind: str,
    *,
    theme: str = "light",
    size: tuple[float, float] | None = None,
    **options: Any,
) -> Figure:
    """A figure of one run or of several.

    Parameters
    ----------
    runs, kind, **options
        As of `prepare`.
    theme : {"light", "dark"}
    size : (width, height), optional
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ToolkitError
        As in `prepare`, or there is no such theme.
    """
    return prepare(runs, kind, **options).figure(theme=theme, size=size)
