"""Questions with choices from JSON Lines: what each line means, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolkit.collect.questions import Question, read_questions
from toolkit.errors import ToolkitError

CITIES = ["Lyon", "Paris", "Nice"]
GOOD: dict[str, Any] = {"prompt": "Capital of France?", "choices": CITIES}


def read(folder: Path, *lines: dict[str, Any], **more: Any) -> list[Question]:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return read_questions(path, **more)


@pytest.mark.parametrize("reference", ["Paris", "B", " B ", 1, ["Paris"], ["B", 1]])
def test_a_reference_is_a_text_a_letter_or_a_place(tmp_path: Path, reference: Any) -> None:
    (question,) = read(tmp_path, {**GOOD, "id": "fr", "reference": reference, "topic": "cities"})
    assert question.choices == tuple(CITIES)
    assert question.right == {1}
    assert set(question.prompt.reference) == {"Paris"}
    assert question.prompt.id == "fr"
    assert question.prompt.metadata == {"topic": "cities"}


def test_several_may_be_right_and_nobody_has_to_say_which(tmp_path: Path) -> None:
    several, none = read(tmp_path, {**GOOD, "reference": ["Lyon", "C"]}, GOOD)
    assert several.right == {0, 2}
    assert several.prompt.reference == ("Lyon", "Nice")
    assert none.right == frozenset() == frozenset(none.prompt.reference)


def test_a_text_comes_before_a_letter_and_a_number_is_a_place(tmp_path: Path) -> None:
    letters, numbers = (["B", "A"], ["1", "0"])
    found = read(
        tmp_path,
        {"prompt": "Which?", "choices": letters, "reference": "A"},
        {"prompt": "How many?", "choices": numbers, "reference": "1"},
        {"prompt": "How many?", "choices": numbers, "reference": 1},
    )
    assert [set(question.right) for question in found] == [{1}, {0}, {1}]


def test_fields_can_have_other_names_and_the_rest_be_left_alone(tmp_path: Path) -> None:
    line = {"question": "Which?", "options": CITIES, "answer": 2}
    mapping = {"prompt": "question", "choices": "options", "reference": "answer"}
    (question,) = read(tmp_path, line, {"prompt": ""}, mapping=mapping, limit=1)
    assert question.right == {2}
    assert question.prompt.prompt == "Which?"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"choices": None}, "has no choices"),
        ({"choices": "A"}, "choices is a string; use an array"),
        ({"choices": ["one"]}, "there are 1 choices; give 2 to 26"),
        ({"choices": [str(i) for i in range(27)]}, "there are 27 choices; give 2 to 26"),
        ({"choices": ["a", "b", "a "]}, "choice 3 is 'a ', as is choice 1; choices must differ"),
        ({"choices": ["a", " "]}, "choice 2 is empty"),
        ({"choices": ["a", 2]}, "choice 2 is a number"),
        (
            {"reference": "Rome"},
            "reference 'Rome' is none of the choices; give one of 'Lyon', 'Paris', 'Nice'",
        ),
        ({"reference": "D"}, "its letter (A to C)"),
        ({"reference": 3}, "or its place (0 to 2)"),
        ({"reference": -1}, "none of the choices"),
        ({"reference": ["Paris", "Rome"]}, "reference 'Rome'"),
        ({"reference": True}, "reference is or has true or false"),
        ({"reference": {}}, "reference is or has an object"),
        ({"reference": 1.5}, "none of the choices"),
        ({"prompt": " "}, "prompt is empty"),
        ({"messages": []}, "has both prompt and messages"),
        ({"prompt": None, "messages": [{"role": "assistant", "content": "So?"}]}, "the last of messages"),
        ({"choises": ["a", "b"], "choices": None}, "did you mean choices?"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolkitError) as caught:
        read(tmp_path, GOOD, {**GOOD, **changed})
    assert str(caught.value).startswith(f"{tmp_path / 'questions.jsonl'}:2: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_id_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match="id 'a' is on line 1 already"):
        read(tmp_path, {**GOOD, "id": "a"}, {**GOOD, "id": "a"})
