"""Lines and paragraphs."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from toolkit.spans import Span, find_lines, find_paragraphs


def cut(text: str, spans: list[Span]) -> list[str]:
    return [text[span.start : span.end] for span in spans]


def test_lines_end_at_every_kind_of_line_end() -> None:
    text = "a\nb\r\nc\rd\x85e\u2028f\u2029g\vh\fi"
    assert cut(text, find_lines(text)) == list("abcdefghi")


def test_blank_lines_are_left_out_and_indentation_stays() -> None:
    text = "\n  first \n\t\n\u3000\nsecond"
    assert cut(text, find_lines(text)) == ["  first ", "second"]


def test_a_paragraph_ends_at_a_blank_line() -> None:
    text = "\n\none\ntwo\n \nthree\r\n\r\n\r\nfour\n"
    assert cut(text, find_paragraphs(text)) == ["one\ntwo", "three", "four"]


@given(st.text(st.sampled_from("ab \t\n\r\u2028é")))
def test_lines_are_those_of_the_standard_library_that_are_not_blank(text: str) -> None:
    assert cut(text, find_lines(text)) == [line for line in text.splitlines() if line.strip()]


@given(st.text(st.sampled_from("ab \n")))
def test_paragraphs_are_runs_of_lines_that_are_not_blank(text: str) -> None:
    runs = groupby(text.splitlines(), lambda line: bool(line.strip()))
    assert cut(text, find_paragraphs(text)) == ["\n".join(lines) for filled, lines in runs if filled]
