"""Asking a tiny random model whether a run's answers are true: against a plain forward pass in float64."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit
from tests.answers import Answer, greedy, make_answers, sample
from tests.calls.test_asking import chat, ids_of, near
from tests.collect.test_score import forward
from toolkit.calls import truths as calls
from toolkit.calls.truths import keep_truths, truths_summary
from toolkit.collect import letters
from toolkit.errors import ToolkitError
from toolkit.records import PromptRecord
from toolkit.store import Run
from toolkit.store.beside import beside_settings
from toolkit.store.validate import validate

QUESTION = "What is the capital?"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
LOGPROBS = (-0.5,)


def prompt(name: str, messages: Any = MESSAGES) -> PromptRecord:
    return PromptRecord(name, int(name[1:]), f"rendered {name}", np.array([3, 4], np.int32), messages)


def answer(make: Any, *place: Any, text: str) -> Answer:
    return make(*place, text, *(-0.5 for _ in text), end=-0.1)  # type: ignore[no-any-return]


def run_with(path: Path, *answers: Answer, prompts: Any = None) -> Run:
    return make_answers(path, prompts or [prompt("p0"), prompt("p1", None)], answers)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return run_with(
        tmp_path / "run",
        answer(greedy, "p0", text="Paris"),
        answer(greedy, "p1", text="six"),
        *(
            answer(sample, "p0", i, text=text)
            for i, text in enumerate(["Paris", "Lyon", "", "Nice", "Rome", "a", "b"])
        ),
    )


def asked(question: str, text: str, ideas: list[str] | None = None) -> str:
    lines = [f"Question: {question}"]
    if ideas:
        lines.append("Here are some brainstormed ideas: " + "\n".join(ideas))
    lines += [f"Possible Answer: {text}", "Is the possible answer:", " (A) True", " (B) False"]
    return chat("\n".join([*lines, "The possible answer is:"]))


def plain(model: Any, text: str) -> tuple[float, float]:
    """p(True) over both, and the probability of both, after the parenthesis that the two replies share."""
    before = ids_of(model, f"{text}(")
    found = forward(model, before, ids_of(model, "A"))[0]
    true, false = (math.exp(found[ids_of(model, letter)[0]]) for letter in "AB")
    return true / (true + false), true + false


def test_the_probability_of_true_is_that_of_a_plain_forward_pass(run: Run, tiny_model: Any) -> None:
    found = toolkit.p_true(run, tiny_model).set_index("prompt_id")
    p, mass = plain(tiny_model, asked(QUESTION, "Paris"))
    assert found.loc["p0", ["p_true", "mass"]].tolist() == near([p, mass])
    ideas = ["Paris", "Lyon", "Nice", "Rome", "a"]
    p, mass = plain(tiny_model, asked(QUESTION, "Paris", ideas))
    assert found.loc["p0", ["p_true_with_samples", "mass_with_samples"]].tolist() == near([p, mass])
    assert found["n_shown"].to_dict() == {"p0": 5, "p1": 0}
    assert set(found["kind"]) == {"greedy"}


def test_without_messages_the_prompt_is_the_question_and_without_samples_none_are_shown(
    run: Run, tiny_model: Any
) -> None:
    found = toolkit.p_true(run, tiny_model).set_index("prompt_id").loc["p1"]
    assert found[["p_true", "mass"]].tolist() == near(plain(tiny_model, asked("rendered p1", "six")))
    assert found[["p_true_with_samples", "mass_with_samples"]].isna().all()


def test_the_turns_of_a_chat_are_told_as_turns(tmp_path: Path, tiny_model: Any) -> None:
    turns = [
        {"role": role, "content": text}
        for role, text in (("user", "Hi"), ("assistant", "da!"), ("user", "So?"))
    ]
    run = run_with(tmp_path / "run", answer(greedy, "p0", text="six"), prompts=[prompt("p0", turns)])
    found = toolkit.p_true(run, tiny_model)
    text = asked("user: Hi\nassistant: da!\nuser: So?", "six")
    assert found["p_true"].tolist() == near([plain(tiny_model, text)[0]])


def test_an_answer_is_what_follows_the_thinking(tmp_path: Path, tiny_model: Any) -> None:
    run = run_with(
        tmp_path / "run",
        answer(greedy, "p0", text="<think>Lyon?</think>\nParis"),
        answer(greedy, "p1", text="<think>no end"),
    )
    told = keep_truths(run, tiny_model)
    assert told.frame["p_true"].tolist() == near([plain(tiny_model, asked(QUESTION, "Paris"))[0]])
    assert (told.n_new, told.n_without_answer) == (1, 1)


def test_it_is_kept_beside_the_run_and_not_asked_again(
    run: Run, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = toolkit.p_true(run.path, tiny_model)
    assert list(validate(run.path)) == []
    settings = beside_settings(run.path, "truths")
    assert settings["weights_hash"] == tiny_model.weights_hash
    with monkeypatch.context() as patch:
        patch.setattr(letters, "_read", lambda forward, asked: pytest.fail("asked") if asked else iter(()))
        again = keep_truths(run, tiny_model)
    assert (again.n_new, again.n_before) == (0, 2)
    assert again.frame.equals(first)
    more = keep_truths(run, tiny_model, kinds=["sample"])
    assert (more.n_new, more.n_before, more.n_without_answer) == (6, 0, 1)
    assert len(more.frame) == 8
    assert truths_summary(more.frame)["n"].tolist() == [2, 6]


def test_another_model_is_refused_unless_all_is_asked_again(
    run: Run, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit.p_true(run, tiny_model, kinds=["greedy", "sample"])
    monkeypatch.setattr(calls, "MOST_SHOWN", 3)
    with pytest.raises(ToolkitError, match="most_shown: 5 -> 3"):
        toolkit.p_true(run, tiny_model)
    assert len(toolkit.p_true(run, tiny_model, overwrite=True)) == 2


def test_an_interruption_keeps_what_was_said(
    run: Run, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = toolkit.p_true(run, tiny_model, kinds=["sample"])
    row, rows = calls._row, []

    def interrupted(*arguments: Any) -> Any:
        rows.append(1)
        if len(rows) == 3:
            raise KeyboardInterrupt
        return row(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(calls, "_row", interrupted)
        told = keep_truths(run, tiny_model, kinds=["sample"], overwrite=True)
    assert told.interrupted
    assert told.n_new == len(told.frame) == 2
    found = keep_truths(run, tiny_model, kinds=["sample"])
    assert (found.n_new, found.n_before) == (4, 2)
    np.testing.assert_allclose(found.frame["p_true"], whole["p_true"], rtol=1e-4)


def test_a_run_without_answers_is_refused(tmp_path: Path, tiny_model: Any) -> None:
    empty = run_with(tmp_path / "empty")
    with pytest.raises(ToolkitError, match="it has no answers: collect some first"):
        toolkit.p_true(empty, tiny_model)
    run = run_with(tmp_path / "run", answer(greedy, "p0", text="six"))
    with pytest.raises(ToolkitError, match=r"kinds: .* has no beam sequences: give greedy"):
        toolkit.p_true(run, tiny_model, kinds=["beam"])


def test_an_answer_that_does_not_fit_is_refused_by_its_prompt(tmp_path: Path, tiny_model: Any) -> None:
    run = run_with(tmp_path / "run", answer(greedy, "p0", text="x" * 600))
    with pytest.raises(ToolkitError, match=r"prompt 'p0': .* tokens and the model's context is 512"):
        toolkit.p_true(run, tiny_model)
    assert not (run.path / "truths").exists()


def test_the_choices_of_questions_are_answers_too_and_asked_about_as_the_run_was_rendered(
    tmp_path: Path, tiny_model: Any
) -> None:
    question = {"prompt": "How many legs?", "choices": ["eight", "six"]}
    toolkit.ask(tiny_model, question, chat_template=False, output=tmp_path / "run")
    found = toolkit.p_true(tmp_path / "run", tiny_model)
    texts = [asked("How many legs?", one) for one in question["choices"]]
    bare = [text.removeprefix("<|im_start|>user\n").partition("<|im_end|>")[0] for text in texts]
    assert found["p_true"].tolist() == near(plain(tiny_model, f"{text} ")[0] for text in bare)
    assert found["kind"].tolist() == ["scored", "scored"]
