"""Text that is safe to print: control characters made visible, and widths in terminal columns.

Standard library only, so that error messages can use it at no cost. What a model wrote may hold escape
sequences, carriage returns or bidirectional overrides: they are shown here, never sent to a terminal.
"""

from __future__ import annotations

import unicodedata

_JOINERS = (
    "\u200c\u200d"  # zero-width (non-)joiner: emoji and several scripts need them, and they cannot reorder
)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_NAMED = {"\t": "⇥", "\x7f": "␡"}
ELLIPSIS = "…"


def visible(text: str, *, newlines: bool = False) -> str:
    r"""`text` with every character that a terminal would obey or hide replaced by a visible one.

    C0 controls become their pictures (ESC is `␛`), a newline `↵` and a tab `⇥`; other controls, format
    characters (bidirectional overrides, zero-width space), surrogates, noncharacters and the line and
    paragraph separators become `<U+XXXX>`. Joiners and combining marks stay.

    Parameters
    ----------
    text : str
    newlines : bool
        Keep the break after each `↵`.
    """
    lines = ("".join(map(_visible_character, line)) for line in text.split("\n"))
    return ("↵\n" if newlines else "↵").join(lines)


def _visible_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if character in _NAMED:
        return _NAMED[character]
    if character < " ":
        return chr(0x2400 + ord(character))
    hidden = unicodedata.category(character) in _HIDDEN
    return f"<U+{ord(character):04X}>" if hidden else character


def width(text: str) -> int:
    """Columns that `text` takes in a terminal: a wide character two, a combining mark or a joiner none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def is_joining(character: str) -> bool:
    """Whether a character is drawn over the one before it: combining marks, joiners, variation selectors."""
    return character in _JOINERS or unicodedata.category(character) in ("Mn", "Me")


def _columns(character: str) -> int:
    if is_joining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """`text` cut to at most `columns` columns; what was cut ends in an ellipsis."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for character in text:
        used += _columns(character)
        if used > columns - 1:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS if columns > 0 else ""


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `columns` columns; with `right`, the spaces come first."""
    spaces = " " * max(0, columns - width(text))
    return spaces + text if right else text + spaces


def quoted(value: object, limit: int = 60) -> str:
    """A value for an error message: visible, cut to `limit` columns, text in single quotes."""
    text = clip(visible(str(value)), limit)
    return f"'{text}'" if isinstance(value, str) else text
