"""The four-choice questions come from the committed facts, and the docs quote what was found with them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.analyses.made import ROOT, script, support
from tests.judging.test_asked import RIGHT, ROWS, asked_run, pick_of
from toolkit.collect.questions import read_questions
from toolkit.stats.choices import SCORES

FOLDER = ROOT / "data" / "prompts"
PAGE = (ROOT / "docs" / "choices.md").read_text(encoding="utf-8")
FOUND = json.loads((ROOT / "docs" / "choices.json").read_text(encoding="utf-8"))
choices, make_choices = script("07_choices"), script("make_choices")
SOURCE = [json.loads(line) for line in (FOLDER / "capitals.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_same_facts_make_the_same_file() -> None:
    lines = (FOLDER / "choices.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == make_choices.questions(SOURCE)


def test_each_question_has_one_right_capital_and_three_of_its_continent() -> None:
    questions = read_questions(FOLDER / "choices.jsonl")
    assert len(questions) == len(SOURCE) >= 100
    continents = {make_choices.capital(row): row["metadata"]["continent"] for row in SOURCE}
    for question, row in zip(questions, SOURCE, strict=True):
        (right,) = question.right
        assert question.choices[right] in row["reference"]
        wrong = [choice for place, choice in enumerate(question.choices) if place != right]
        assert not {name.casefold() for name in wrong} & {name.casefold() for name in row["reference"]}
        assert {continents[choice] for choice in question.choices} == {row["metadata"]["continent"]}
        assert question.prompt.prompt == row["prompt"].removesuffix(make_choices.ONLY_THE_NAME)
    places = Counter(next(iter(question.right)) for question in questions)
    assert min(places.values()) > len(questions) / 4 / 1.5


def test_the_docs_quote_what_was_found() -> None:
    assert PAGE.endswith(choices.HEADING + choices.page(FOUND).removeprefix(choices.HEADING))
    assert FOUND["n_questions"] == len(SOURCE) == FOUND["truth"]["n"]


def test_another_result_would_be_another_page() -> None:
    for path in (["mass"], ["picks", 0, "accuracy", "value"], ["truth", "aurocs", 0, "auroc", "low"]):
        changed = json.loads(json.dumps(FOUND))
        place = changed
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] += 0.017
        assert choices.page(changed) != choices.page(FOUND)


def test_chance_is_named_by_the_interval() -> None:
    interval = {"value": 0.3, "low": 0.2, "high": 0.4}
    assert [choices._against(interval, chance) for chance in (0.1, 0.3, 0.5)] == [
        "better than chance",
        "no better than chance",
        "worse than chance",
    ]


@pytest.mark.parametrize("score", SCORES)
def test_accuracy_is_the_share_of_right_picks(tmp_path: Path, score: str) -> None:
    options = support("options").Options(tmp_path, tmp_path, quick=True)
    found = choices.pick_of(asked_run(tmp_path / "run"), score, None, options)
    own = [pick_of(name, score) for name in RIGHT]
    right = [RIGHT[name] == place for name, place in zip(RIGHT, own, strict=True)]
    surest = [ROWS[name, place][f"p_{score}"] for name, place in zip(RIGHT, own, strict=True)]
    assert found["accuracy"].value == pytest.approx(sum(right) / len(right))
    assert found["probability"].value == pytest.approx(sum(surest) / len(surest))
