"""Which pairs are asked about, each once; what is stored is not asked again, and an interrupt keeps what is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from tests.answers import Answer, add_answers, greedy, make_answers, prompt, sample
from tests.store.factory import make_manifest
from toolkit.aggregation import answer_pairs
from toolkit.aggregation.answer_pairs import (
    TextPair,
    answers_of,
    keep_similarities,
    plan_pairs,
    stored_values,
    text_pair,
)
from toolkit.aggregation.parts import Part
from toolkit.errors import ToolkitError
from toolkit.store import Run, RunWriter, open_run
from toolkit.store.similarities import read_similarities, similarity_sets

WHOLE = Part("sequence")
SETTINGS = {"source": "test", "over": "sequence"}
PROMPTS = [prompt("p0", "a", text="Q0"), prompt("p1", "a", text="Q1", index=1)]


def texts_of(prompt_id: str, *texts: str) -> list[Answer]:
    """A greedy answer and samples."""
    first, *others = texts
    return [
        greedy(prompt_id, first, -1.0),
        *(sample(prompt_id, i, text, -1.0) for i, text in enumerate(others)),
    ]


ANSWERS = [*texts_of("p0", "a", "a", "b", "c", "b "), *texts_of("p1", "a", "b", "", "e\u0301", "\u00e9")]


class Asked:
    """A measure that keeps what it was asked; `fails_after` so many."""

    def __init__(
        self, fails_after: int | None = None, error: type[BaseException] = KeyboardInterrupt
    ) -> None:
        self.pairs: list[TextPair] = []
        self._fails_after, self._error = fails_after, error

    def __call__(self, pairs: Sequence[TextPair]) -> Iterator[tuple[TextPair, float]]:
        for pair in pairs:
            if len(self.pairs) == self._fails_after:
                raise self._error
            self.pairs.append(pair)
            yield pair, value_of(pair)


def value_of(pair: TextPair) -> float:
    return len(pair.first + pair.second) % 7 / 10 + (0.05 if pair.question == "Q1" else 0)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_answers(tmp_path / "run", PROMPTS, ANSWERS)


def compare(run: Run, measure: Asked, settings: dict[str, str] | None = None) -> dict[str, float]:
    """Compare as the command does; the stored values by `prompt kind index kind index`."""
    used = SETTINGS if settings is None else settings
    answers = answers_of(run, WHOLE)
    plan = plan_pairs(answers, stored_values(run, "model", used, answers))
    keep_similarities(run, plan, measure, "model", used)
    return stored(run)


def stored(run: Run) -> dict[str, float]:
    rows = [
        list(row.values()) for one in similarity_sets(run.path) for row in read_similarities(one).to_pylist()
    ]
    return {" ".join(map(str, row[:-1])): row[-1] for row in rows}


def plain(answers: Sequence[Answer], value: Callable[[TextPair], float] = value_of) -> dict[str, float]:
    found = {}
    for name in ("p0", "p1"):
        own = sorted(
            (answer for answer in answers if answer.prompt_id == name), key=lambda answer: answer.key
        )
        for one, other in combinations(own, 2):
            a, b = (answer.text.strip().replace("e\u0301", "\u00e9") for answer in (one, other))
            same = (
                1.0
                if a == b
                else 0.0
                if not a or not b
                else value(text_pair(name.upper().replace("P", "Q"), a, b))
            )
            found[" ".join(map(str, (*one.key, *other.key[1:])))] = same
    return found


def test_every_pair_of_sequences_gets_the_value_of_its_texts(run: Run) -> None:
    assert compare(run, Asked()) == plain(ANSWERS)


def test_each_pair_of_different_texts_is_asked_about_once_for_its_question(run: Run) -> None:
    measure = Asked()
    compare(run, measure)
    assert sorted(measure.pairs) == sorted(
        [
            *(("Q0", "a", "b"), ("Q0", "a", "c"), ("Q0", "b", "c")),
            *(("Q1", "a", "b"), ("Q1", "a", "\u00e9"), ("Q1", "b", "\u00e9")),
        ]
    )


def test_without_questions_a_pair_of_two_prompts_is_one() -> None:
    answers = [
        answer_pairs.Answers(name, "", [("sample", 0), ("sample", 1)], ["b", "a"]) for name in ("x", "y")
    ]
    assert plan_pairs(answers, {}).asked == [("", "a", "b")]


def test_what_is_stored_is_not_asked_again(run: Run) -> None:
    compare(run, Asked())
    again = Asked()
    assert compare(run, again) == plain(ANSWERS)
    assert again.pairs == []


def test_samples_that_came_since_are_compared_and_nothing_else(run: Run) -> None:
    compare(run, Asked())
    more = [sample("p0", 4, "d", -1.0)]
    with RunWriter.open(run.path, make_manifest()) as writer:
        add_answers(writer, more)
    measure = Asked()
    assert compare(open_run(run.path), measure) == plain([*ANSWERS, *more])
    assert sorted(measure.pairs) == [("Q0", "a", "d"), ("Q0", "b", "d"), ("Q0", "c", "d")]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ToolkitError])
@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_an_interrupt_keeps_what_is_done(run: Run, n: int, error: type[BaseException]) -> None:
    first, second = Asked(n, error), Asked()
    with pytest.raises(error):
        compare(run, first)
    assert compare(run, second) == plain(ANSWERS)
    assert len(first.pairs) == n
    assert len(first.pairs) + len(second.pairs) == 6
    assert not set(first.pairs) & set(second.pairs)


def test_a_commit_comes_after_so_many_pairs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_pairs, "PAIRS_A_COMMIT", 2)
    monkeypatch.setattr(
        answer_pairs, "write_similarities", counted := Counted(answer_pairs.write_similarities)
    )
    compare(run, Asked())
    assert counted.n_rows[:-1] == sorted(counted.n_rows[:-1])
    assert len(counted.n_rows) == 4  # three chunks of two, and the end


class Counted:
    """A function that writes rows, and how many each time."""

    def __init__(self, write: Callable[..., object]) -> None:
        self.n_rows: list[int] = []
        self._write = write

    def __call__(self, run: Path, rows: object, *more: object) -> object:
        self.n_rows.append(rows.num_rows)  # type: ignore[attr-defined]
        return self._write(run, rows, *more)


def test_what_was_made_with_other_settings_is_not_added_to(run: Run) -> None:
    compare(run, Asked())
    with pytest.raises(ToolkitError, match="'model' was made with source 'test', and now it is 'other'"):
        compare(run, Asked(), {**SETTINGS, "source": "other"})
    with pytest.raises(ToolkitError, match="made with dtype none, and now it is 'float16'"):
        compare(run, Asked(), {**SETTINGS, "dtype": "float16"})


def test_the_question_is_the_last_of_the_user_or_the_prompt(tmp_path: Path) -> None:
    from dataclasses import replace

    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "One?"}]
    prompts = [replace(PROMPTS[0], messages=messages), PROMPTS[1]]
    run = make_answers(tmp_path / "run", prompts, ANSWERS)
    assert [one.question for one in answers_of(run, WHOLE)] == ["One?", "Q1"]


def test_the_part_is_compared_and_what_has_none_is_empty(run: Run) -> None:
    (one, _) = answers_of(run, Part("regex", "(b)"))
    assert one.texts == ["", "", "b", "", "b"]
    assert one.members == [("greedy", 0), *(("sample", i) for i in range(4))]


def test_a_run_without_samples_is_refused(tmp_path: Path) -> None:
    run = make_answers(tmp_path / "run", PROMPTS, [greedy("p0", "a", -1.0)])
    with pytest.raises(ToolkitError, match="no samples to compare: collect some first"):
        answers_of(run, WHOLE)


def test_settings_are_kept_as_json(run: Run) -> None:
    compare(run, Asked())
    assert json.loads(json.dumps(similarity_sets(run.path)[0].settings)) == SETTINGS
