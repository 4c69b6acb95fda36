"""The figures of a report: each in a light and a dark version, as addresses that hold the picture itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.errors import DataFault, ToolkitError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from toolkit.figures import Drawing
    from toolkit.judging.evaluation import Evaluation
    from toolkit.report.reading import Source
    from toolkit.store import Runs

ORDER = (
    "estimators",
    "reliability",
    "risk-coverage",
    "distribution",
    "entropy-logprob",
    "agreement",
    "votes",
    "early-stopping",
    "sequence",
    "samples",
    "entropy-map",
)
"""The figures of a report, those of the evaluation first. What else there is comes after them."""

MOST_SEQUENCES = 5_000
"""Above, figures that would take longer than all the rest of the report are left to `toolkit plot`."""

_SLOW = ("votes", "early-stopping")
_MOST_ROWS = 20  # estimators
_WIDE = 800  # CSS pixels; a figure beyond has a row of its own
_SELECTION = ("prompts", "kinds", "samples")


class Picture(NamedTuple):
    """A figure, drawn."""

    kind: str
    help: str
    light: str  # data: addresses
    dark: str
    width: int  # CSS pixels
    height: int
    wide: bool


class Missing(NamedTuple):
    """A figure that could not be drawn."""

    kind: str
    reason: str


class Pictures(NamedTuple):
    """The figures of a report."""

    drawn: list[Picture]
    missing: list[Missing]


def draw_pictures(
    runs: Runs, sources: Sequence[Source], evaluations: Mapping[int, Evaluation | str]
) -> Pictures:
    """Draw every kind of figure that these runs can have.

    Where one needs what the runs lack, its error's text stands in its place.

    Parameters
    ----------
    runs : Runs
    sources : sequence of Source
        The same runs.
    evaluations : mapping of int to Evaluation or str
        By the run's number: what the figure of the estimators shows, so that nothing is evaluated twice.

    Raises
    ------
    DataFault
        A file cannot be read.
    """
    from toolkit.figures import KINDS

    pictures = Pictures([], [])
    many = sum(source.n_sequences for source in sources) > MOST_SEQUENCES
    for kind in sorted(KINDS, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)):
        try:
            if many and kind in _SLOW:
                paths = " ".join(str(source.run.path) for source in sources)
                raise ToolkitError(
                    f"left out, since it takes long for more than {MOST_SEQUENCES:,} sequences: "
                    f"toolkit plot {paths} {kind} -o {kind}.png draws it"
                )
            drawing = _drawing(runs, sources, kind, evaluations)
            pictures.drawn.append(picture(kind, KINDS[kind].help, drawing))
        except DataFault:
            raise
        except ToolkitError as error:
            pictures.missing.append(Missing(kind, str(error)))
    return pictures


def _drawing(
    runs: Runs, sources: Sequence[Source], kind: str, evaluations: Mapping[int, Evaluation | str]
) -> Drawing:
    from toolkit.figures import KINDS, prepare

    evaluated = [(source, evaluations.get(source.number)) for source in sources]
    known = [
        (source, found) for source, found in evaluated if found is not None and not isinstance(found, str)
    ]
    if kind == "estimators" and len(known) == len(sources):
        return _estimators(known)
    return prepare(runs, kind, **_options(sources, KINDS[kind].options))


def _estimators(known: Sequence[tuple[Source, Evaluation]]) -> Drawing:
    """The figure of the estimators, from evaluations that are there."""
    import pandas as pd

    from toolkit.figures import Drawing, Panel
    from toolkit.plots import plot_estimators
    from toolkit.plots.layout import rows_height

    frame = pd.concat([found.frame.assign(run=source.name) for source, found in known], ignore_index=True)
    metric = "auroc" if frame["auroc"].notna().any() else "prr"
    if frame[metric].isna().all():
        raise ToolkitError(next((note for _, found in known for note in found.notes), "no metric is defined"))
    several = len(known) > 1
    notes = {
        f"{source.name}: "
        * several
        + f"target {found.context['target']}, over {found.context['over']}, grader {found.context['grader']}; "
        f"{found.context['sampler']}"
        for source, found in known
    }
    shown = frame if several else frame.drop(columns="run")
    draw = partial(plot_estimators, shown, metric=metric, limit=_MOST_ROWS, note=" · ".join(sorted(notes)))
    n_rows = min(_MOST_ROWS, shown["estimator"].nunique()) * (2 if several else 1)
    return Drawing(f"{metric.upper()} of estimators of confidence", [Panel("", draw, rows_height(n_rows))])


def _options(sources: Sequence[Source], known: Sequence[str]) -> dict[str, Any]:
    """What the report was asked for, as far as a kind of figure takes it."""
    graders = {source.grader for source in sources if source.grader is not None}
    asked: dict[str, Any] = dict(zip(_SELECTION, sources[0].selection, strict=True))
    if len(graders) == 1:
        asked["grader"] = graders.pop()
    return {name: value for name, value in asked.items() if value is not None and name in known}


def picture(kind: str, help_: str, drawing: Drawing) -> Picture:
    """A drawing in both themes."""
    light, dark = (drawing.figure(theme=theme) for theme in ("light", "dark"))
    width, height = (round(96 * inches) for inches in light.get_size_inches())
    return Picture(kind, help_, _address(light), _address(dark), width, height, width > _WIDE)


def _address(figure: Figure) -> str:
    """The picture as PNG of 256 colours, a third of one of all colours; none is off by what an eye would see.

    The same figures as SVG take two to five times as much, since text has to be drawn as paths.
    """
    from PIL import Image

    from toolkit.figures import figure_bytes

    full = Image.open(io.BytesIO(figure_bytes(figure, "png"))).convert("RGB")
    reduced = full.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    reduced.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
