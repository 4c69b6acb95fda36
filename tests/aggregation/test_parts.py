"""Parts of texts: the answer, all, a match, a field."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.aggregation.parts import Part, field_places, is_thinking, parse_part
from toolkit.errors import ToolkitError

THOUGHT = "<think>Rome? No.</think>\n Paris \n"


def found(part: Part, text: str, opened: bool = False) -> str | None:
    at = part.find(text, opened=opened)
    assert at.text is None or part.name == "field" or text[at.start : at.end] == at.text
    return at.text


def test_the_answer_is_what_follows_the_last_thinking_block() -> None:
    assert found(Part(), THOUGHT) == "Paris"
    assert found(Part(), "<think>Rome") is None
    assert found(Part(), " Paris") == "Paris"


def test_the_sequence_is_all_of_it() -> None:
    assert found(Part("sequence"), THOUGHT) == THOUGHT.strip()
    assert found(Part("sequence"), "Rome", opened=True) == "Rome"


def test_a_text_that_begins_in_thinking_has_an_answer_after_its_end_mark_only() -> None:
    assert found(Part(), "Rome? No.</think>Paris", opened=True) == "Paris"
    assert found(Part(), "Rome? No.", opened=True) is None


def test_a_match_is_looked_for_in_the_answer() -> None:
    part = parse_part("regex:is (\\w+)")
    assert found(part, "<think>is Rome</think>It is Paris, it is Lyon") == "Lyon"
    assert found(parse_part("regex:is (\\w+)", match="first"), "It is Paris, it is Lyon") == "Paris"
    assert found(part, "<think>is Rome</think>Paris") is None
    assert found(parse_part("answer", line="first"), "\nParis\nLyon") == "Paris"


@pytest.mark.parametrize("path", ["$.city", "city", "$.city[0]", "city[0]"])
def test_a_field_is_found_by_its_path_with_or_without_the_root(path: str) -> None:
    value = "Paris" if path.endswith("city") else ["Paris"]
    text = '<think>{"city": "Rome"}</think>Sure: ' + json.dumps({"country": "France", "city": value}) + " ok"
    at = parse_part(f"field:{path}").find(text)
    assert (at.text, text[at.start : at.end]) == ("Paris", "Paris")


def test_a_field_that_is_not_there_is_an_empty_range_at_the_end_of_the_answer() -> None:
    text = '{"a": 1} '
    at = parse_part("field:b").find(text)
    assert (at.text, at.start, at.end) == (None, 8, 8)
    assert parse_part("field:a").find(text).text == "1"
    assert parse_part("field:a").find('{"a": true}').text == "true"
    assert parse_part("field:a").find('{"a": "\\u00e9"}').text == "é"


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4))
def test_every_field_of_an_object_has_its_place(fields: dict[str, int | str]) -> None:
    text = json.dumps(fields)
    places = field_places(text)
    assert len(places) == max(1, len(fields))
    for (start, end), value in zip(places.values(), fields.values(), strict=False):
        shown = text[start:end]
        assert json.loads(f'"{shown}"' if isinstance(value, str) and value else shown) == value


def test_marks_of_thinking_are_seen() -> None:
    assert is_thinking(THOUGHT)
    assert not is_thinking("I think so")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("anser", "there is no 'anser': give sequence, answer, regex:PATTERN or field:PATH"),
        ("regex", "regex needs a value"),
        ("regex:", "regex needs a value"),
        ("answer:x", "answer takes no value"),
        ("regex:(", "is no regular expression"),
    ],
)
def test_what_is_no_part_is_refused(text: str, message: str) -> None:
    with pytest.raises(ToolkitError, match=re.escape(message) if "(" not in message else message):
        parse_part(text)


def test_a_field_is_compared_with_the_same_field_of_a_reference_that_is_json() -> None:
    part = parse_part("field:name")
    references = ['{"name": "Ada", "age": 36}', '{"age": 36}', "Bob", "[1"]
    assert part.references(references) == ["Ada", "Bob", "[1"]
    assert parse_part("field:$.age").references(references[:2]) == ["36", "36"]
    assert parse_part("answer").references(references) == references
