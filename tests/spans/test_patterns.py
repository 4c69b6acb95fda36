"""Groups of regular expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.spans import Groups, patterns


def found(pattern: str, text: str) -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.label) for span in Groups(pattern)(text)]


def test_groups_are_labelled_with_name_or_number() -> None:
    assert found(r"(?P<year>\d{4})-(\d\d)", "2024-05 and 1999-12") == [
        ("2024", "year"),
        ("05", "2"),
        ("1999", "year"),
        ("12", "2"),
    ]


def test_without_groups_the_matches_are_the_spans() -> None:
    assert found(r"\d+", "a1b22c") == [("1", ""), ("22", "")]


def test_a_repeated_group_gives_each_capture_and_nested_ones_all() -> None:
    assert found(r"(?:(\w),?)+", "a,b,c") == [("a", "1"), ("b", "1"), ("c", "1")]
    assert found(r"(a(b))", "ab") == [("ab", "1"), ("b", "2")]


def test_groups_that_match_nothing_are_no_spans() -> None:
    assert found(r"(x)?(y*)z", "z yz") == [("y", "2")]
    assert found(r"q*", "abc") == []


@given(st.text("ab1 "))
def test_matches_are_those_of_the_standard_library(text: str) -> None:
    expected = [
        (*match.span(group), str(group)) for match in re.finditer("(a+)(1)?", text) for group in (1, 2)
    ]
    assert [span[:3] for span in Groups("(a+)(1)?")(text)] == [row for row in expected if row[0] < row[1]]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ToolkitError, match=r"pattern '\(a' is no regular expression: missing \)"):
        Groups("(a")


def test_a_pattern_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_SECONDS", 0.01)
    with pytest.raises(ToolkitError, match="avoid nested repeats"):
        Groups("(?:a|aa|a?b)+$")("a" * 40 + "!")
