"""Texts of a model, a person or a file, made safe to draw.

A plot never obeys a text: control characters are made visible, `$` begins no formula, and a character that no
font has is written as its code point, where matplotlib would warn and draw a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import matplotlib as mpl
from matplotlib import font_manager

from toolkit.characters import clip, clusters, visible

_LONGEST = 200  # columns; a text of a megabyte is neither read nor drawn


def drawable(text: object, columns: int = _LONGEST, family: Sequence[str] | None = None) -> str:
    r"""A text as matplotlib draws it literally, on one line.

    Parameters
    ----------
    text : object
        Any text, or what `str` makes one of.
    columns : int
        Where it is cut, with an ellipsis; a wide character takes two.
    family : sequence of str, optional
        Fonts that it will be drawn with; those of the active settings by default.

    Returns
    -------
    str
        `$` is escaped as `\$`, which matplotlib undoes.
    """
    known = _code_points(mpl.rcParams["font.family"] if family is None else family)
    # Cut twice: no more than can be kept is looked at, and what is made visible is longer than it was.
    some = clusters(str(text)[: 2 * columns + 16])
    shown = clip("".join(_shown(cluster, known) for cluster in some), columns)
    shown = f" {shown}" if shown.startswith("_") else shown  # legends leave out what begins with _
    return shown.replace("$", r"\$") if mpl.rcParams["text.parse_math"] else shown


def token_label(text: str, columns: int, family: Sequence[str] | None = None) -> str:
    """`drawable` of a token: one of spaces only shows them as `␣`."""
    return drawable("␣" * len(text) if text.isspace() and not text.strip(" ") else text, columns, family)


def _shown(cluster: str, known: frozenset[int]) -> str:
    """A cluster as it is, else its code points: of a control character the character's own, not its picture's."""
    seen = visible(cluster)
    if all(ord(c) in known for c in seen):
        return seen
    return "".join(c if ord(c) in known and c.isprintable() else f"<U+{ord(c):04X}>" for c in cluster)


def _code_points(family: Sequence[str]) -> frozenset[int]:
    """What the fonts of a family can draw."""
    names = font_manager.FontProperties(family=list(family)).get_family()
    paths = [font_manager.findfont(font_manager.FontProperties(family=[name])) for name in names]
    return _charmaps(tuple(str(path) for path in paths))


@cache
def _charmaps(paths: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for path in paths:
        found.update(font_manager.get_font(path).get_charmap())
    return frozenset(found)
