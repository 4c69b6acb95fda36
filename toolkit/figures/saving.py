"""Figures as bytes and files: the same figure gives the same bytes, and a file is there whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import quoted
from toolkit.figures.options import wrong

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DPI = 150
MOST_PIXELS = 100_000_000

# A date would differ from one minute to the next, and a version between machines.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_SETTINGS: Any = {
    "svg.hashsalt": "toolkit",  # else ids inside are drawn by chance
    "svg.fonttype": "path",  # looks the same where the font is not installed
    "pdf.fonttype": 42,  # text that can be searched and copied
}


def output_format(path: Path, name: str | None = None) -> str:
    """The format of a figure's file: the one asked for, else that of its ending.

    Raises
    ------
    ToolkitError
        The ending is none of a figure, or says another format than the one asked for; or the file cannot be: it
        is a folder, or in none.
    """
    if path.is_dir():
        raise wrong("output", f"{quoted(str(path))} is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise wrong("output", f"there is no folder {quoted(str(path.parent))}; make it first")
    ending = path.suffix[1:].lower()
    allowed = ", ".join(f".{one}" for one in FORMATS)
    if name is None and ending not in FORMATS:
        has = f"ends in {quoted(path.suffix)}" if path.suffix else "has no ending"
        raise wrong("output", f"{quoted(path.name)} {has}; use one of {allowed}")
    if name is not None and name not in FORMATS:
        raise wrong("format", f"there is no {quoted(name)}; use one of {', '.join(FORMATS)}")
    if name is not None and ending in FORMATS and ending != name:
        raise wrong("format", f"{name}, and {quoted(path.name)} says {ending}; give one of them")
    return name or ending


def figure_bytes(figure: Figure, format: str, *, dpi: int = DPI) -> bytes:
    """A figure as PNG, SVG or PDF, without dates: equal figures give equal bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    format : {"png", "svg", "pdf"}
    dpi : int
        Of a PNG, and of what is drawn as pixels in the others.

    Raises
    ------
    ToolkitError
        The figure would have over 100 million pixels.
    """
    from matplotlib import rc_context

    width, height = (round(side * dpi) for side in figure.get_size_inches())
    if width * height > MOST_PIXELS:
        raise wrong(
            "dpi", f"{width} x {height} pixels are over {MOST_PIXELS:,}; give fewer, or a smaller size"
        )
    buffer = io.BytesIO()
    with rc_context(_SETTINGS):
        figure.savefig(buffer, format=format, dpi=dpi, metadata=_METADATA[format])
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path, *, format: str | None = None, dpi: int = DPI) -> None:
    """Write a figure to a file, at once or not at all. The ending says the format.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : str or Path
        Ends in .png, .svg or .pdf.
    format : {"png", "svg", "pdf"}, optional
        For a path without such an ending.
    dpi : int

    Raises
    ------
    ToolkitError
        The ending says no format, or as in `figure_bytes`.
    DataFault
        The file cannot be written.
    """
    from toolkit.store.files import write_result

    target = Path(path)
    write_result(target, figure_bytes(figure, output_format(target, format), dpi=dpi))
