"""Kinds of spans by name, and functions of the user's."""

from __future__ import annotations

import pickle

import pytest

from toolkit.errors import ToolkitError
from toolkit.spans import FORMS, Span, SpanKind, Window, span_kind

EXAMPLES = {
    "sentence": "sentence:de",
    "field": "field:a.b[0]",
    "key": "key:a",
    "regex": r"regex:(?P<year>\d{4}):",
    "thinking": "thinking:<a>,</a>",
    "answer": "answer:<a>,</a>",
    "window": "window:32:16",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_kind_has_its_name_and_can_be_sent_to_another_process(name: str) -> None:
    kind = span_kind(EXAMPLES.get(name, name))
    assert kind.name == name
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert span_kind(kind) is kind
    assert FORMS[name].usage.startswith(name)
    if kind.find is not None:
        spans = kind.find("It was 2024: not 2025.")
        assert all(isinstance(span, Span) for span in spans)


def test_an_argument_may_hold_colons_and_a_window_its_step() -> None:
    pattern = span_kind("regex:a:(b)").find
    assert pattern is not None
    assert [tuple(span) for span in pattern("a:b")] == [(2, 3, "1", True)]
    assert span_kind("window:32:16").window == Window(32, 16)
    assert span_kind("window:32").window == Window(32, 32)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("wrd", "there is no span 'wrd' (did you mean word?); use one of token, segment, word, sentence"),
        ("", "there is no span ''; use one of token,"),
        ("word:de", "span word takes nothing after it, and 'de' is given"),
        ("regex", "span regex needs a pattern after it"),
        ("regex:", "span regex needs a pattern after it"),
        ("window", "needs its number of tokens"),
        ("window:0", "needs its number of tokens"),
        ("window:4:0", "needs its number of tokens"),
        ("window:4:2:1", "needs its number of tokens"),
        ("window:-4", "needs its number of tokens"),
        ("sentence:\x1b", "'␛' is no language code"),
    ],
)
def test_what_is_no_kind_is_refused_with_what_there_is(by: str, message: str) -> None:
    with pytest.raises(ToolkitError) as caught:
        span_kind(by)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def found(function: object, text: str = "abc") -> list[Span]:
    kind = span_kind(function)  # type: ignore[arg-type]
    assert isinstance(kind, SpanKind)
    assert kind.find is not None
    return list(kind.find(text))


def test_a_function_gives_ranges_with_or_without_labels_in_any_order() -> None:
    assert found(lambda text: [(1, 3, "tail"), [0, 1], (2, 2)]) == [
        Span(0, 1),
        Span(1, 3, "tail"),
        Span(2, 2),
    ]
    assert found(lambda text: iter(())) == []


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([(0, 4)], "gave 0:4, and the text has 3 characters"),
        ([(-1, 2)], "gave -1:2"),
        ([(2, 1)], "gave 2:1"),
        ([5], "gave '5': a span is (start, end) or (start, end, label)"),
        ([(1,)], "a span is (start, end)"),
        ([(0, 1, "a", "b")], "a span is (start, end)"),
        ([("a", 1)], "a span is (start, end)"),
        (None, "raised TypeError"),
    ],
)
def test_a_function_that_gives_no_spans_is_named(result: object, message: str) -> None:
    def mine(text: str) -> object:
        return result

    with pytest.raises(ToolkitError) as caught:
        found(mine)
    assert message in str(caught.value)
    assert "mine" in str(caught.value)
