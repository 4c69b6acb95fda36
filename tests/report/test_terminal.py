"""Coloured text: what is marked and how, and that a model's text is never obeyed."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.appearance.scales import Scale
from toolkit.characters import visible
from toolkit.report.terminal import (
    ColourMode,
    Piece,
    colour_mode,
    legend,
    number,
    render,
    split_by_tokens,
)

SCALE = Scale(-4.0, 0.0, "nats")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
MODES = list(ColourMode)


@pytest.mark.parametrize(
    ("terminal", "environ", "choice", "mode"),
    [
        (True, {"TERM": "xterm-256color"}, "auto", ColourMode.XTERM256),
        (True, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "auto", ColourMode.TRUECOLOUR),
        (True, {"TERM": "xterm", "COLORTERM": "24bit"}, "auto", ColourMode.TRUECOLOUR),
        (True, {"TERM": "xterm-direct"}, "auto", ColourMode.TRUECOLOUR),
        (True, {"TERM": "xterm", "NO_COLOR": "1", "COLORTERM": "truecolor"}, "auto", ColourMode.NONE),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, "auto", ColourMode.XTERM256),
        (True, {"TERM": "dumb", "COLORTERM": "truecolor"}, "auto", ColourMode.NONE),
        (True, {}, "auto", ColourMode.NONE),
        (False, {"TERM": "xterm", "COLORTERM": "truecolor"}, "auto", ColourMode.NONE),
        (False, {"TERM": "xterm", "NO_COLOR": "1"}, "always", ColourMode.XTERM256),
        (True, {"TERM": "xterm", "COLORTERM": "truecolor"}, "never", ColourMode.NONE),
    ],
)
def test_the_terminal_and_the_user_choose_the_colours(
    terminal: bool, environ: dict[str, str], choice: str, mode: ColourMode
) -> None:
    assert colour_mode(terminal, environ, choice) is mode


def test_true_colour_carries_the_palette_and_an_underline_where_unsure() -> None:
    sure, unsure = (
        render([Piece("yes", 0.0)], SCALE, ColourMode.TRUECOLOUR),
        render([Piece("no", -4.0)], SCALE, ColourMode.TRUECOLOUR),
    )
    assert sure == "\x1b[38;2;0;0;0;48;2;252;246;231myes\x1b[0m"
    assert unsure == "\x1b[4;38;2;255;255;255;48;2;86;38;90mno\x1b[0m"


def test_256_colours_carry_the_palette_and_an_underline_where_unsure() -> None:
    text = render([Piece("yes", 0.0), Piece("no", -4.0)], SCALE, ColourMode.XTERM256)
    assert text == "\x1b[38;5;16;48;5;255myes\x1b[0m\x1b[4;38;5;231;48;5;53mno\x1b[0m"


def test_without_colour_the_unsure_stand_in_brackets_with_their_value() -> None:
    pieces = [Piece("The", -0.1), Piece(" Nile", -3.21), Piece("?", math.nan), Piece("!", -math.inf)]
    assert render(pieces, SCALE, ColourMode.NONE) == "The ⟦Nile -3.21⟧?⟦! -inf⟧"


@pytest.mark.parametrize(
    ("text", "shown"),
    [(" \n", "⟦ ↵\n -4⟧"), ("a\n", "⟦a -4⟧↵\n"), ("a\nb ", "⟦a↵\nb -4⟧ "), ("aa", "⟦aa -4⟧")],
)
def test_spaces_and_breaks_around_a_bracketed_text_stay_outside(text: str, shown: str) -> None:
    assert render([Piece(text, -4.0)], SCALE, ColourMode.NONE) == shown


@pytest.mark.parametrize("mode", MODES)
def test_what_was_not_computed_is_not_marked(mode: ColourMode) -> None:
    assert render([Piece("x", math.nan)], SCALE, mode) == "x"


@pytest.mark.parametrize("mode", [ColourMode.XTERM256, ColourMode.TRUECOLOUR])
def test_no_mark_reaches_over_a_line_break(mode: ColourMode) -> None:
    text = render([Piece("a\n\nb", -1.0)], SCALE, mode)
    assert ESCAPE.sub("", text) == "a↵\n↵\nb"
    for line in text.split("\n"):
        assert line.count("\x1b[") % 2 == 0
        assert not line or line.startswith("\x1b[")


def test_a_combining_mark_stays_with_the_character_before_it() -> None:
    text = render(
        [Piece("e", 0.0), Piece("\u0301x", -4.0), Piece("\ufe0f", 0.0)], SCALE, ColourMode.TRUECOLOUR
    )
    assert "e\u0301\x1b[0m" in text
    assert "mx\ufe0f\x1b[0m" in text


HOSTILE = st.text(st.characters(exclude_categories=[]), max_size=12)
PIECES = st.lists(st.builds(Piece, HOSTILE, st.floats(max_value=0.0) | st.just(math.nan)), max_size=6)


@given(PIECES, st.sampled_from(MODES))
def test_only_our_own_escapes_reach_the_terminal_and_no_text_is_lost(
    pieces: list[Piece], mode: ColourMode
) -> None:
    rendered = ESCAPE.sub("", render(pieces, SCALE, mode))
    assert not any(ord(c) < 32 and c != "\n" for c in rendered)
    if mode is not ColourMode.NONE:
        whole = "".join(piece.text for piece in pieces)
        assert rendered == visible(whole, newlines=True)


@pytest.mark.parametrize("mode", MODES)
def test_the_legend_names_metric_unit_ends_and_mark(mode: ColourMode) -> None:
    plain = ESCAPE.sub("", legend("logprob", SCALE, mode))
    assert plain.startswith("logprob (nats): ")
    assert "below -2" in plain
    assert mode is ColourMode.NONE or ("-4 " in plain and " 0.00 " in plain)
    assert "above" in legend("entropy", Scale(4.0, 0.0), mode)


def test_numbers_for_people() -> None:
    values = [0.0, -0.0001, -3.217, 12.0, math.nan, -math.inf]
    assert [number(value) for value in values] == ["0.00", "0.00", "-3.22", "12", "?", "-inf"]


def test_a_segment_is_cut_where_its_tokens_meet() -> None:
    tokens = [(10, 13, -0.5), (13, 15, -2.0)]
    assert split_by_tokens("The r", 10, 15, tokens, SCALE) == [Piece("The", -0.5), Piece(" r", -2.0)]


def test_a_character_of_several_tokens_takes_the_least_sure_value() -> None:
    tokens = [(0, 2, -0.5), (2, 3, -2.0), (3, 5, math.nan)]  # a, then € in three bytes over three tokens
    assert split_by_tokens("a€b", 0, 5, tokens, SCALE) == [
        Piece("a", -0.5),
        Piece("€", -2.0),
        Piece("b", pytest.approx(math.nan, nan_ok=True)),
    ]


def test_beyond_the_scale_the_least_sure_value_still_counts() -> None:
    assert split_by_tokens("é", 0, 2, [(0, 1, -9.0), (1, 2, -40.0)], SCALE) == [Piece("é", -40.0)]
    assert split_by_tokens("é", 0, 2, [(0, 1, 9.0), (1, 2, 40.0)], Scale(4.0, 0.0)) == [Piece("é", 40.0)]


def test_invalid_bytes_are_one_piece_with_the_least_sure_value() -> None:
    tokens = [(0, 1, -0.5), (1, 3, -2.0)]
    assert split_by_tokens("a\ufffd", 0, 3, tokens, SCALE) == [Piece("a\ufffd", -2.0)]
    assert split_by_tokens("", 0, 0, [], SCALE) == []


@given(st.data(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10))
def test_cutting_by_tokens_keeps_the_text(data: st.DataObject, text: str) -> None:
    size = len(text.encode())
    cuts = sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=4))) if size > 1 else []
    tokens = [(a, b, -float(a)) for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    pieces = split_by_tokens(text, 0, size, tokens, SCALE)
    assert "".join(piece.text for piece in pieces) == text
