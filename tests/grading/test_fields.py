"""Fields of JSON answers."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.grading import Choice, Contains, Function, Number, grade_fields, json_fields
from toolkit.grading.fields import flatten

LEAVES = st.none() | st.booleans() | st.integers(-9, 10**6) | st.text(max_size=5)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), TREES, max_size=3) | st.lists(TREES, max_size=3)


def values(rows):
    return {row.path: row.value for row in rows}


def test_each_leaf_of_the_reference_is_graded_by_its_kind():
    reference = {
        "name": "Paris",
        "people": 2_100_000,
        "area": {"km2": 105.4},
        "tags": ["big", "old"],
        "sea": False,
        "x": None,
    }
    answer = {
        "name": "paris.",
        "people": "2.1 million",
        "area": {"km2": 105.40000000001},
        "tags": ["old"],
        "sea": 0,
        "x": None,
    }
    assert values(grade_fields(json.dumps(answer), [json.dumps(reference)])) == {
        "$.name": 1,
        "$.people": 1,
        "$.area.km2": 1,
        "$.tags[0]": 0,
        "$.tags[1]": 0,
        "$.sea": 0,
        "$.x": 1,
    }


def test_what_was_found_and_expected_is_shown():
    rows = grade_fields(
        '{"a": "x", "b": true, "c": 1.5}', ['{"a": "y", "b": false, "c": 1, "d": [], "e": "z"}']
    )
    assert [row[2:] for row in rows] == [
        ("x", "y"),
        ("true", "false"),
        ("1.5", "1"),
        (None, "[]"),
        (None, "z"),
    ]
    assert [row.value for row in rows] == [0, 0, 0, 0, 0]


def test_graders_can_be_chosen():
    rows = grade_fields(
        '{"a": "the city of Paris", "n": 3.1, "m": "3,2"}',
        ['{"a": "Paris", "n": 3, "m": 3.1}'],
        text_grader=Contains(),
        number_grader=Number(absolute=0.2, decimal=","),
    )
    assert [row.value for row in rows] == [1, 1, 1]


def test_of_several_references_the_best_counts_for_all_fields():
    references = ['{"a": 1, "b": 2}', '{"a": 3, "b": 4}']
    assert values(grade_fields('{"a": 3, "b": 2}', references)) == {"$.a": 0, "$.b": 1}
    assert values(grade_fields('{"a": 3, "b": 4}', references)) == {"$.a": 1, "$.b": 1}
    assert grade_fields('{"a": 3}', []) == []


@pytest.mark.parametrize("huge", ["1e999", "1" + "0" * 400])
def test_a_number_too_large_to_compare_is_ungraded(huge):
    (row,) = grade_fields('{"a": 5}', [f'{{"a": {huge}}}'])
    assert math.isnan(row.value)
    assert values(grade_fields(f'{{"a": {huge}}}', ['{"a": 5}'])) == {"$.a": 0}


def test_a_field_whose_grader_cannot_say_is_ungraded():
    (row,) = grade_fields('{"a": "B"}', ['{"a": "Paris"}'], text_grader=Choice())
    assert math.isnan(row.value)


@pytest.mark.parametrize(("found", "value"), [('""', 1), ('" "', 1), ('"x"', 0), ("0", 0), ("null", 0)])
def test_an_empty_text_is_right_where_the_answer_has_one(found, value):
    reference = ['{"a": ""}']
    assert values(grade_fields(f'{{"a": {found}}}', reference)) == {"$.a": value}
    assert values(grade_fields(f'{{"a": {found}}}', reference, text_grader=Contains())) == {"$.a": value}
    assert values(grade_fields("{}", reference)) == {"$.a": 0}


def test_a_grader_without_need_of_references_judges_an_empty_one_too():
    (row,) = grade_fields('{"a": "x"}', ['{"a": ""}'], text_grader=Function(lambda text, references: 0.5))
    assert row.value == 0.5


@pytest.mark.parametrize("text", ["no JSON", "", "{", '{"b": 1}'])
def test_a_missing_field_is_wrong(text):
    assert values(grade_fields(text, ['{"a": 1}'])) == {"$.a": 0}


@pytest.mark.parametrize("reference", ["Paris", "{", "", '{"a": NaN}', "[" * 100_000])
def test_a_reference_that_is_not_json_is_named(reference):
    with pytest.raises(ToolkitError, match="is not JSON, as grading by field needs"):
        grade_fields("{}", [reference])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"a": 1}\n```', {"$.a": 1}),
        ('See [1]. Here: {"a": [1, {"b": 2}]} ok {"c": 1}', {"$.a[0]": 1, "$.a[1].b": 2}),
        (r"\frac{1}{2} is {x}", None),
        ("plain", None),
        ("{}", {"$": {}}),
        ('{"a": {}, "two words": 1, "": 2}', {"$.a": {}, '$["two words"]': 1, '$[""]': 2}),
        # cut off
        ('{"a": 1, "b": 23', {"$.a": 1}),
        ('{"a": 1, "b": "x"', {"$.a": 1, "$.b": "x"}),
        ('{"a": 1, "b": "x', {"$.a": 1}),
        ('{"a": 1, "b": "x\\"', {"$.a": 1}),
        ('{"a": 1, "b', {"$.a": 1}),
        ('{"a": 1, "b":', {"$.a": 1}),
        ('{"a": [1, 2, 3', {"$.a[0]": 1, "$.a[1]": 2}),
        ('{"a": {"b": true', {"$.a.b": True}),
        ('{"a": {"b": tru', {"$.a": {}}),
        ('{"a": "}{,"', {"$.a": "}{,"}),
        ('{"a": 1},', {"$.a": 1}),
        ('{"a": 1]', None),
        ('{"a" 1, "b": 2', None),
        ("{ not", None),
        # not JSON
        ('{"a": 1,}', None),
        ("{'a': 1}", None),
    ],
)
def test_json_is_found_in_a_text(text, expected):
    assert json_fields(text) == expected


@given(OBJECTS)
def test_whole_json_has_all_its_leaves(tree):
    assert json_fields(f"Here you are: {json.dumps(tree)}\nDone.") == flatten(tree)


@given(OBJECTS, st.data())
def test_a_cut_leaves_only_leaves_of_the_whole(tree, data):
    text = json.dumps(tree)
    cut = json_fields(text[: data.draw(st.integers(0, len(text) - 1))]) or {}
    whole = flatten(tree)
    assert all(path in whole and whole[path] == leaf for path, leaf in cut.items() if leaf not in ({}, []))


@given(OBJECTS)
def test_an_answer_like_its_reference_is_right_everywhere(tree):
    rows = grade_fields(json.dumps(tree), [json.dumps(tree)])
    assert [row.path for row in rows] == list(flatten(tree))
    assert all(row.value == 1 for row in rows)


@pytest.mark.parametrize("text", ["{" * 20_000, "[" * 20_000, '{"a":' * 5_000, "{}" * 5_000, '["' * 20_000])
def test_long_and_deep_texts_end(text):
    found = json_fields(text)
    assert found is None or isinstance(found, dict)
