"""JSON fields against the json module, on whole JSON and on every way that it can be cut off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.grading import json_fields
from toolkit.spans import Fields, Span, find_document, json_scan

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
KEYS = st.sampled_from(["a", "b1", "_c", "é", "two words", "", "x.y", '"', "\\"]) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = (st.lists(VALUES, max_size=4) | st.dictionaries(KEYS, VALUES, max_size=4)).flatmap(
    lambda value: st.builds(
        json.dumps, st.just(value), indent=st.sampled_from([None, 1]), ensure_ascii=st.booleans()
    )
)


def values(text: str) -> list[Span]:
    return list(Fields()(text))


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(path, value) of what holds nothing, in order."""
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, joined(path, key))]
    if isinstance(value, list) and value:
        return [leaf for i, inner in enumerate(value) for leaf in leaves(inner, f"{path}[{i}]")]
    return [(path or "$", value)]


def joined(path: str, key: str) -> str:
    step = key if key.isidentifier() else f"[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{step}" if path and not step.startswith("[") else path + step


def parsed(text: str, span: Span) -> Any:
    """What a span's text stands for, quotes put back where a string lost them."""
    inner = text[span.start : span.end]
    quoted = span.start and text[span.start - 1] == '"' and text[span.end : span.end + 1] == '"'
    return json.loads(f'"{inner}"' if quoted else inner)


@given(DOCUMENTS)
def test_fields_are_the_leaves_with_their_paths_and_values(text: str) -> None:
    spans = values(text)
    assert [(span.label, parsed(text, span)) for span in spans] == leaves(json.loads(text))
    assert all(span.complete for span in spans)
    assert sorted(spans) == spans


@given(DOCUMENTS)
def test_fields_are_those_that_are_graded(text: str) -> None:
    graded = json_fields(text)
    assert graded is not None
    found = {
        f"${'' if s.label.startswith(('[', '$')) else '.'}{s.label}": parsed(text, s) for s in values(text)
    }
    assert {path.replace("$$", "$"): value for path, value in found.items()} == graded


def complete_within(text: str, span: Span, n: int) -> bool:
    """Whether a field of the whole text is known to be complete from its first n characters."""
    if text[span.end : span.end + 1] == '"' and text[span.start - 1] == '"':
        return span.end < n
    return span.end < n if text[span.start] in "-0123456789" else span.end <= n


@settings(deadline=None, max_examples=60)
@given(DOCUMENTS)
def test_cut_off_json_has_the_fields_up_to_there(text: str) -> None:
    whole = find_document(text)
    assert whole is not None
    for n in range(1, len(text)):
        found = find_document(text[:n])
        assert found is not None
        assert not found.complete
        assert found.keys == [key for key in whole.keys if complete_within(text, key, n)]
        complete = [span for span in found.values if span.complete]
        assert complete == [span for span in whole.values if complete_within(text, span, n)]
        cut = found.values[len(complete) :]
        assert [span.end for span in cut] in ([], [n])
        assert {span[::2] for span in cut} <= {span[::2] for span in whole.values}  # starts and paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "x', [("a", "x", False)]),
        ('{"a": "x"', [("a", "x", True)]),
        ('{"a": "', []),
        ('{"a": "x\\', [("a", "x\\", False)]),
        ('{"a": "x\\u00', [("a", "x\\u00", False)]),
        ('{"a": 1', [("a", "1", False)]),
        ('{"a": -1.5e', [("a", "-1.5e", False)]),
        ('{"a": 1,', [("a", "1", True)]),
        ('{"a": tru', [("a", "tru", False)]),
        ('{"a": true', [("a", "true", True)]),
        ('{"a": [1, [', [("a[0]", "1", True)]),
        ('{"a": 1, "b', [("a", "1", True)]),
        ('{"a": 1, "b":', [("a", "1", True)]),
        ("[", []),
        ("{", []),
    ],
)
def test_the_value_at_the_cut_is_not_complete(text: str, expected: list[tuple[str, str, bool]]) -> None:
    assert [(s.label, text[s.start : s.end], s.complete) for s in values(text)] == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("Sure, here it is [1]:\n```json\n", "\n```\nAnything else?"),
        ('<think>\n{"a": "a much longer draft of the same"}\n</think>\n', ""),
        ("a {set} of [words], {", "} and {more}"),
        ("[0] ", " [1, 2]"),
    ],
)
def test_words_fences_and_drafts_around_do_not_matter(before: str, after: str) -> None:
    text = before + '{"a": {"b": [{"c": "Paris"}]}}' + after
    assert [(s.label, text[s.start : s.end]) for s in values(text)] == [("a.b[0].c", "Paris")]


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", "{x: 1}", "{'a': 1}", "{,}", "[1 2]", '{"a" 1}'),  # no mark where one belongs
        *('{"a": 1,}', "[1,]", '{"a": 1]', '{"a": "\\x"}'),
        *('{"a": 01}', '{"a": 1.}', '{"a": .5}', "[+1]", '{"a": NaN}', '{"a": truth}'),
    ],
)
def test_what_is_no_json_has_no_fields(text: str) -> None:
    assert values(text) == []


def test_a_key_is_a_span_too_also_of_a_list_or_an_object() -> None:
    text = '{"a": {"b": 1}, "": [], "two words": 2, "cut": '
    assert [(s.label, text[s.start : s.end]) for s in Fields(part="key")(text)] == [
        ("a", "a"),
        ("a.b", "b"),
        ('[""]', '""'),
        ('["two words"]', "two words"),
        ("cut", "cut"),
    ]


@pytest.mark.parametrize("path", ["a.b[0].c", "$.a.b[0].c"])
def test_one_field_can_be_asked_for(path: str) -> None:
    text = '{"a": {"b": [{"c": "Paris", "d": 1}]}, "c": 2}'
    assert [text[s.start : s.end] for s in Fields(path)(text)] == ["Paris"]
    assert Fields("a")(text) == []
    assert [s.label for s in Fields("$[0]")("[[], 1]")] == ["[0]"]
    assert [s.label for s in Fields("$")("{}")] == ["$"]


def test_a_repeated_key_gives_each_of_its_values() -> None:
    assert [span.label for span in values('{"a": 1, "a": 2}')] == ["a", "a"]


def test_line_breaks_inside_strings_are_let_pass() -> None:
    text = '{"a": "one\ntwo"}'
    assert [text[s.start : s.end] for s in values(text)] == ["one\ntwo"]


def test_half_a_surrogate_pair_in_a_key_stays_spelled() -> None:
    ((label,),) = [[span.label for span in values('{"\\ud83d": 1}')]]
    assert label == '["\\ud83d"]'
    assert label.encode()


def test_nesting_and_hostile_openings_have_an_end() -> None:
    deepest = json_scan._DEEPEST
    assert values("[" * deepest + "1") == [Span(deepest, deepest + 1, "[0]" * deepest, False)]
    assert values("[" * 100_000 + "1") == []
    assert values("[1 " * json_scan._MOST_TRIED + '{"a": 1}') == []
    assert values("[1 " * (json_scan._MOST_TRIED - 1) + '{"a": 1}') != []


@given(st.text(st.sampled_from('{}[]",:\\ \n1-.eEtruefalsn')))
def test_any_text_has_spans_inside_it_in_order(text: str) -> None:
    document = find_document(text)
    if document is not None:
        assert 0 <= document.start < document.end <= len(text)
        for spans in (document.keys, document.values):
            assert sorted(spans) == spans
            assert all(document.start < s.start < s.end <= document.end or s.label == "$" for s in spans)
        if document.complete:
            json.loads(text[document.start : document.end], strict=False)
