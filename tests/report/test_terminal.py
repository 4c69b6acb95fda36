"""Coloured text: what is marked and how, and that a model's text is never obeyed."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_characters import HARMFUL, TEXT, WHOLE
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES, Scale
from toolkit.characters import room, visible, width
from toolkit.report.pieces import Piece
from toolkit.report.terminal import ColourMode, bold, colour_mode, fold, legend, number, render

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
    pieces = [Piece("The", -0.1), Piece(" Nile", -3.21), Piece("?", None), Piece("!", -math.inf)]
    assert render(pieces, SCALE, ColourMode.NONE) == "The ⟦Nile -3.21⟧?⟦! -inf⟧"


def test_without_colour_what_was_not_computed_is_told_apart_from_the_sure() -> None:
    pieces = [Piece("a", math.nan), Piece(" b ", math.nan), Piece("c", 0.0), Piece("d", None)]
    assert render(pieces, SCALE, ColourMode.NONE) == "⟦a b ?⟧ cd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" \n", "⟦ ↵ -4⟧\n"),
        ("\n\n", "⟦↵↵ -4⟧\n\n"),
        ("a\n", "⟦a -4⟧↵\n"),
        ("a\nb ", "⟦a↵\nb -4⟧ "),
        ("aa", "⟦aa -4⟧"),
        (" ", "⟦  -4⟧"),
    ],
)
def test_spaces_and_breaks_around_a_bracketed_text_stay_outside(text: str, shown: str) -> None:
    assert render([Piece(text, -4.0)], SCALE, ColourMode.NONE) == shown


@pytest.mark.parametrize("value", [math.nan, None])
@pytest.mark.parametrize("mode", [ColourMode.XTERM256, ColourMode.TRUECOLOUR])
def test_what_has_no_value_has_no_colour(mode: ColourMode, value: float | None) -> None:
    assert render([Piece("x", value)], SCALE, mode) == "x"


@pytest.mark.parametrize("mode", [ColourMode.XTERM256, ColourMode.TRUECOLOUR])
def test_no_mark_reaches_over_a_line_break(mode: ColourMode) -> None:
    text = render([Piece("a\n\nb", -1.0)], SCALE, mode)
    assert ESCAPE.sub("", text) == "a↵\n↵\nb"
    assert_closed(text)


def assert_closed(text: str) -> None:
    """Every line opens what it closes, and nothing else."""
    for line in text.split("\n"):
        starts = ESCAPE.findall(line)
        assert starts[1::2] == ["\x1b[0m"] * (len(starts) // 2)
        assert "\x1b[0m" not in starts[::2]
        assert len(starts) % 2 == 0


@pytest.mark.parametrize("text", WHOLE)
@pytest.mark.parametrize("mode", MODES)
def test_a_character_of_several_pieces_stays_whole_and_takes_the_least_sure_mark(
    mode: ColourMode, text: str
) -> None:
    pieces = [Piece("a", 0.0), *(Piece(part, -float(i)) for i, part in enumerate(text)), Piece("b", 0.0)]
    worst = 1.0 - len(text)
    whole = [Piece("a", 0.0), Piece(text, worst), Piece("b", 0.0)]
    assert render(pieces, SCALE, mode) == render(whole, SCALE, mode)
    assert text in render(pieces, SCALE, mode)


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क्\u200dष", "👩\u200d🔬🇫🇷"])
@pytest.mark.parametrize("mode", MODES)
def test_joiners_stay_where_letters_meet_across_places_of_a_line(mode: ColourMode, text: str) -> None:
    assert text in render([Piece(text, 0.0)], SCALE, mode)


VALUES = st.floats(max_value=0.0) | st.just(math.nan) | st.none()
PIECES = st.lists(st.builds(Piece, TEXT, VALUES), max_size=6)


@given(PIECES, st.sampled_from(MODES), st.none() | st.integers(1, 60))
def test_only_our_own_escapes_reach_the_terminal(
    pieces: list[Piece], mode: ColourMode, columns: int | None
) -> None:
    """Nothing else moves the cursor, reorders, hides or colours, whatever a model wrote and wherever it is cut."""
    rendered = render(pieces, SCALE, mode, columns=columns, indent="  ")
    assert_closed(rendered)
    rest = ESCAPE.sub("", rendered).replace("\n  ", "").replace("\n", "")
    assert HARMFUL.intersection(rest) <= set("\u200c\u200d\ufe0f")
    assert visible(rest) == rest


@given(PIECES, st.sampled_from(MODES))
def test_no_text_is_lost(pieces: list[Piece], mode: ColourMode) -> None:
    rendered = ESCAPE.sub("", render(pieces, SCALE, mode))
    whole = "".join(piece.text for piece in pieces)
    if mode is not ColourMode.NONE:
        assert rendered == visible(whole, newlines=True)
    assert rendered.count("\n") == whole.count("\n")


@given(PIECES, st.sampled_from(MODES), st.integers(30, 60))
def test_lines_keep_to_the_width_and_no_text_is_lost(
    pieces: list[Piece], mode: ColourMode, columns: int
) -> None:
    rendered = ESCAPE.sub("", render(pieces, SCALE, mode, columns=columns, indent="  "))
    lines = rendered.split("\n")
    assert all(room(line) <= columns for line in lines)
    assert all(line.startswith("  ") or not line for line in lines)
    unbroken = ESCAPE.sub("", render(pieces, SCALE, mode)).replace("\n", "")
    assert "".join(line[2:] for line in lines) == unbroken


def test_lines_break_between_words_and_the_space_there_has_no_colour() -> None:
    pieces = [Piece("The", 0.0), Piece(" capital", 0.0), Piece(" of", 0.0), Piece(" France", -4.0)]
    rendered = render(pieces, SCALE, ColourMode.TRUECOLOUR, columns=16, indent="  ")
    assert ESCAPE.sub("", rendered) == "  The capital \n  of France"
    assert rendered.split("\n")[0].endswith("\x1b[0m ")
    assert ESCAPE.sub("", render(pieces, SCALE, ColourMode.TRUECOLOUR, columns=15, indent="  ")) == (
        "  The capital \n  of France"
    )


def test_a_space_after_a_full_line_stays_at_its_end() -> None:
    assert render([Piece("x" * 12 + " y", 0.0)], SCALE, ColourMode.NONE, columns=13) == f"{'x' * 12} \ny"
    assert render([Piece("x" * 12 + "  y", 0.0)], SCALE, ColourMode.NONE, columns=13) == f"{'x' * 12} \n y"


def test_what_does_not_fit_behind_the_rest_of_a_line_gets_a_line_of_its_own() -> None:
    shown = render([Piece("漢ab\xad\U00018cd6", None)], SCALE, ColourMode.NONE, columns=18)
    assert shown == "漢\nab<U+00AD>\n<U+18CD6>"


def test_lines_break_between_ideographs_and_inside_a_word_only_where_it_is_too_long() -> None:
    assert (
        render([Piece("漢字かな交じり文", 0.0)], SCALE, ColourMode.NONE, columns=13) == "漢字かな交じ\nり文"
    )
    assert render([Piece("ab " + "x" * 30, 0.0)], SCALE, ColourMode.NONE, columns=21) == (
        f"ab \n{'x' * 20}\n{'x' * 10}"
    )


def test_a_long_text_without_a_space_is_rendered() -> None:
    rendered = render([Piece("x" * 300_000, -1.0)], SCALE, ColourMode.XTERM256, columns=80)
    assert rendered.count("\n") == 300_000 // 79


@pytest.mark.parametrize("mode", MODES)
def test_the_legend_names_metric_unit_ends_and_mark(mode: ColourMode) -> None:
    plain = ESCAPE.sub("", legend("logprob", SCALE, mode))
    assert plain.startswith("logprob (nats): ")
    assert "below -2" in plain
    assert mode is ColourMode.NONE or ("-4 " in plain and " 0 " in plain)
    assert "above" in legend("entropy", Scale(4.0, 0.0), mode)
    assert "not computed" not in plain
    assert "not computed" in legend("logprob", SCALE, mode, gaps=True)


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("metric", [*TOKEN_SCALES, *SPAN_SCALES])
def test_every_legend_fits_in_40_columns(metric: str, mode: ColourMode, gaps: bool) -> None:
    scale = (TOKEN_SCALES | SPAN_SCALES)[metric]
    text = legend(metric, scale, mode, columns=40, gaps=gaps)
    assert max(width(line) for line in ESCAPE.sub("", text).split("\n")) <= 40
    assert_closed(text)


def test_parts_are_folded_where_they_would_not_fit() -> None:
    assert fold(["ab", "cd", "ef"], None) == "ab  cd  ef"
    assert fold(["ab", "cd", "ef"], 6) == "ab  cd\n  ef"
    assert fold(["ab", "\x1b[1mcd\x1b[0m", "ef"], 6) == "ab  \x1b[1mcd\x1b[0m\n  ef"
    assert fold(["a" * 9, "b"], 6, indent="") == f"{'a' * 9}\nb"
    assert fold([], 6) == ""


def test_bold_text_is_plain_where_there_are_no_colours() -> None:
    assert bold("x", ColourMode.NONE) == "x"
    assert bold("x", ColourMode.XTERM256) == "\x1b[1mx\x1b[0m"


def test_numbers_for_people() -> None:
    values = [0.0, -0.0001, 4.2e-9, -3.217, 12.0, 1234.0, -1.5e300, math.nan, -math.inf]
    shown = ["0.00", "0.00", "4e-09", "-3.22", "12", "1234", "-1.5e+300", "?", "-inf"]
    assert [number(value) for value in values] == shown
