"""The arithmetic questions are as their script makes them, and as their README says."""

from __future__ import annotations

import json
import re
from collections import Counter
from random import Random
from typing import Any

from tests.analyses.made import ROOT, script
from toolkit.collect.prompts import read_prompts

FOLDER = ROOT / "data" / "prompts"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
LINES = (FOLDER / "arithmetic.jsonl").read_text(encoding="utf-8").splitlines()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
QUESTION = re.compile(r"What is (.+)\?")


def value(expression: str) -> int:
    assert re.fullmatch(r"[\d+*\- ]+", expression)
    return int(eval(expression))


def test_the_script_makes_the_file() -> None:
    module = script("make_arithmetic")
    assert [json.dumps(row) for row in module.make_rows(Random(module.SEED))] == LINES


def test_the_readme_counts_them() -> None:
    assert f"{len(ROWS)} questions" in README.split("arithmetic.jsonl")[1]
    assert len(read_prompts(FOLDER / "arithmetic.jsonl")) == len(ROWS) == 100


def test_levels_are_of_one_size_and_take_turns() -> None:
    levels = [row["metadata"]["level"] for row in ROWS]
    assert set(Counter(levels).values()) == {20}
    assert levels == 20 * levels[:5]


def test_every_answer_and_every_example_is_right() -> None:
    for row in ROWS:
        *turns, last = row["messages"]
        asked = QUESTION.fullmatch(last["content"])
        assert asked is not None
        assert row["reference"] == [str(value(asked[1]))]
        for question, answer in zip(turns[::2], turns[1::2], strict=True):
            expression, _, result = answer["content"].partition(" = ")
            assert question["content"] == f"What is {expression}?"
            assert value(expression) == int(result)


def test_no_answer_can_be_copied() -> None:
    for row in ROWS:
        *turns, last = row["messages"]
        answers = [int(turn["content"].partition(" = ")[2]) for turn in turns[1::2]]
        assert len({*answers, int(row["reference"][0])}) == 4
        assert row["reference"][0] not in re.findall(r"\d+", last["content"])


def test_no_two_questions_of_a_level_have_the_same_numbers() -> None:
    asked = [
        (row["metadata"]["level"], tuple(sorted(re.findall(r"\d+", row["messages"][-1]["content"]))))
        for row in ROWS
    ]
    assert len(set(asked)) == len(asked)
