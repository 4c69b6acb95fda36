"""The capital-city questions are as their README says."""

from __future__ import annotations

from pathlib import Path

from toolkit.collect.prompts import read_prompts
from toolkit.grading import Contains, Normalizer

FOLDER = Path(__file__).parents[1] / "data" / "prompts"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
PROMPTS = read_prompts(FOLDER / "capitals.jsonl")


def test_there_are_enough_and_the_readme_counts_them() -> None:
    assert len(PROMPTS) >= 150
    assert f"{len(PROMPTS)} questions" in README
    assert "CC BY 4.0" in README


def test_each_has_an_id_of_its_own_a_reference_and_a_continent() -> None:
    assert len({prompt.id for prompt in PROMPTS}) == len(PROMPTS)
    assert all(prompt.reference and prompt.metadata["continent"] for prompt in PROMPTS)


def test_no_question_names_its_answer() -> None:
    named = [p.id for p in PROMPTS if Contains().grade(p.prompt, list(p.reference)).value]
    assert named == []


def test_no_capital_is_right_for_another_country() -> None:
    plain = Normalizer()
    capitals = {f" {plain(prompt.reference[0])} ": prompt.id for prompt in PROMPTS}
    wrong = [
        (prompt.id, capital)
        for prompt in PROMPTS
        for reference in map(plain, prompt.reference)
        for capital, owner in capitals.items()
        if owner != prompt.id and f" {reference} " in capital
    ]
    assert wrong == []


def test_spellings_with_and_without_accents_are_right() -> None:
    by_id = {prompt.id: list(prompt.reference) for prompt in PROMPTS}
    for name, answer in [
        ("brazil", "Brasília"),
        ("brazil", "Brasilia"),
        ("ukraine", "Kiev"),
        ("china", "Peking"),
    ]:
        assert Contains().grade(f"It is {answer}.", by_id[f"capital-{name}"]).value == 1
