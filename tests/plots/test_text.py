"""Texts are drawn literally: no formula, no control character, no box for a character that no font has."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib import cbook, font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from toolkit.characters import width
from toolkit.plots.style import installed_fallbacks, style
from toolkit.plots.text import drawable, token_label

MONO = ["DejaVu Sans Mono"]
HOSTILE = [
    "$x^2$", r"\$x^2$", r"\frac{$a$}{$", "$", r"a\$b", "100 % & #_{}~^", "\x1b[31mred\x1b[0m", "a\x00b\r\nc\td",
    "\u202egnp.exe\u2066", "東京 is 北京", "नमस्ते", "👩‍👩‍👧 🇫🇷", "e\u0301\u0301\u0301", "\u0301", "\ud800",
    "\U0010ffff", "_hidden", "", " ",
]  # fmt: skip


def is_known(text: str, family: list[str]) -> bool:
    """Whether the fonts of a family have every character."""
    found: set[int] = set()
    for name in family:
        properties = font_manager.FontProperties(family=[name])
        found.update(font_manager.get_font(font_manager.findfont(properties)).get_charmap())
    return {ord(character) for character in text} <= found


def draw(text: str, family: list[str] | None = None) -> str:
    """Draw a text, where warnings are errors. What is seen of it: it may be no formula."""
    figure = Figure(figsize=(4, 3))
    figure.text(0.1, 0.5, text, family=family)
    FigureCanvasAgg(figure).draw()
    assert not cbook.is_math_text(text)
    return text.replace(r"\$", "$")  # as matplotlib does where there is no formula


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("theme", [None, "light"])
def test_hostile_texts_are_drawn_without_a_warning_or_a_formula(text: str, theme: str | None) -> None:
    with style(theme) if theme else mpl.rc_context():
        shown = drawable(text)
        assert "\n" not in shown
        draw(shown)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
@example("$$")
@example("\\$a$")
def test_any_text_is_drawn_literally(text: str) -> None:
    with style():
        for family in (None, MONO):
            shown = drawable(text, 60, family)
            assert width(draw(shown, family)) <= 61  # a space stands before a first underscore


@pytest.mark.parametrize("text", ["$5 or $6", r"\$5", r"\\$", "a$b$c", "no dollar"])
def test_dollars_and_backslashes_come_out_as_they_were(text: str) -> None:
    assert draw(drawable(text)) == text
    with mpl.rc_context({"text.parse_math": False}):
        assert drawable(text) == text


def test_what_no_font_has_is_written_as_its_code_point() -> None:
    assert drawable("a\x1bb", family=["DejaVu Sans"]) == "a<U+001B>b"
    assert drawable("\U0001f984", family=["DejaVu Sans"]) == "<U+1F984>"
    assert drawable("a\nb\tc", family=["DejaVu Sans"]) == "a↵b⇥c"
    assert drawable("naïve Ελλάδα да", family=["DejaVu Sans"]) == "naïve Ελλάδα да"


def test_a_fallback_font_is_used_where_one_is_installed() -> None:
    with style():
        assert is_known("京", mpl.rcParams["font.family"]) == (drawable("京") == "京")
        assert list(mpl.rcParams["font.family"]) == ["DejaVu Sans", *installed_fallbacks()]
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    assert set(installed_fallbacks()) <= installed


@pytest.mark.parametrize("columns", [1, 5, 24, 200])
def test_texts_are_cut_also_where_a_megabyte_or_escapes_come(columns: int) -> None:
    for text in ("x" * 1_000_000, "\x1b" * 1_000_000, "京" * 1000, "e" + "\u0301" * 1000):
        assert width(drawable(text, columns, MONO)) <= columns
    assert drawable("x" * 300, 10) == "x" * 9 + "…"


def test_no_label_begins_with_the_mark_that_legends_leave_out() -> None:
    assert drawable("_private") == " _private"


def test_tokens_of_spaces_are_seen() -> None:
    assert token_label("   ", 10, MONO) == "␣␣␣"
    assert token_label(" the", 10, MONO) == " the"
    assert token_label("\n\n", 10, MONO) == "↵↵"
    assert token_label("", 10, MONO) == ""
    assert token_label("\u0301", 10, MONO) == "◌\u0301"
