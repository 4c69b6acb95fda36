"""Questions with choices put to a tiny random model: every number against a plain forward pass in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.collect.test_score import forward
from toolkit.calls.ask_runs import AskWork, ask_run
from toolkit.calls.asking import _given
from toolkit.collect import asking, letters
from toolkit.collect.asking import AskSettings
from toolkit.collect.settings import RenderSettings
from toolkit.errors import ToolkitError
from toolkit.judging.asked import choices_df, picks_df
from toolkit.store import open_run
from toolkit.store.beside import read_beside
from toolkit.store.validate import validate

CITY = {
    "id": "city",
    "prompt": "What is the capital?",
    "choices": ["Paris", "eight legs", "a spider"],
    "reference": "A",
}
LEGS = {"id": "legs", "prompt": "How many legs?", "choices": ["eight", "six"], "reference": 1}
OPEN = {"id": "open", "messages": [{"role": "user", "content": "да!"}], "choices": ["café", "🎉"]}
QUESTIONS = [CITY, LEGS, OPEN]


def chat(*turns: str) -> str:
    """The tiny model's template, written out."""
    roles = ["user", "assistant"] * len(turns)
    said = "".join(
        f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in zip(roles, turns, strict=False)
    )
    return f"{said}<|im_start|>assistant\n"


def listed(question: str, choices: Sequence[str], after: str = AskSettings().instruction) -> str:
    return "\n".join([question, *(f"{'ABC'[i]}. {choice}" for i, choice in enumerate(choices)), after])


def ids_of(model: Any, text: str) -> list[int]:
    return list(model.tokenizer.encode(text, add_special_tokens=False))


def text_logprob(model: Any, before: str, text: str) -> float:
    ids = ids_of(model, text)
    found = forward(model, ids_of(model, before), ids)
    return float(sum(found[i, one] for i, one in enumerate(ids)))


def letter_logprobs(model: Any, before: str, n: int) -> list[float]:
    return [text_logprob(model, before, letter) for letter in "ABC"[:n]]


def shares(values: Sequence[float]) -> list[float]:
    weights = [math.exp(value) for value in values]
    return [weight / sum(weights) for weight in weights]


def of(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    return frame[frame["prompt_id"] == name].reset_index(drop=True)


def work(model: Any, questions: Sequence[Any] = QUESTIONS, **settings: Any) -> AskWork:
    return AskWork(model, AskSettings(**settings), _given(questions))


def near(values: Any) -> Any:
    return pytest.approx(list(values), rel=1e-4, abs=1e-5)


@pytest.fixture(scope="module")
def frame(tiny_model: Any) -> pd.DataFrame:
    return toolkit.ask(tiny_model, QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=["city", "legs", "open"])
def test_scores_are_those_of_a_plain_forward_pass(
    tiny_model: Any, frame: pd.DataFrame, question: Any
) -> None:
    found, choices = of(frame, question["id"]), question["choices"]
    prompt = question.get("prompt") or question["messages"][0]["content"]
    sums = [text_logprob(tiny_model, chat(prompt), choice) for choice in choices]
    bare = [text_logprob(tiny_model, chat("Answer:"), choice) for choice in choices]
    n_tokens = [len(ids_of(tiny_model, choice)) for choice in choices]
    per_token = [total / n for total, n in zip(sums, n_tokens, strict=True)]
    per_byte = [total / len(choice.encode()) for total, choice in zip(sums, choices, strict=True)]
    gains = [total - alone for total, alone in zip(sums, bare, strict=True)]
    of_letters = letter_logprobs(tiny_model, chat(listed(prompt, choices)), len(choices))
    assert found["text"].tolist() == choices
    assert found["letter"].tolist() == list("ABC"[: len(choices)])
    for name, expected in (
        ("letter_logprob", of_letters),
        ("sum_logprob", sums),
        ("mean_logprob", per_token),
        ("byte_logprob", per_byte),
        ("bare_logprob", bare),
        ("pmi", gains),
    ):
        assert found[name].tolist() == near(expected), name
    for name, scores in (
        ("letter", of_letters),
        ("sum", sums),
        ("mean", per_token),
        ("byte", per_byte),
        ("pmi", gains),
    ):
        assert found[f"p_{name}"].tolist() == near(shares(scores)), name


def test_right_is_said_of_each_choice_and_unknown_without_a_reference(frame: pd.DataFrame) -> None:
    assert of(frame, "city")["right"].tolist() == [1, 0, 0]
    assert of(frame, "legs")["right"].tolist() == [0, 1]
    assert of(frame, "open")["right"].isna().all()


def test_rotated_letters_are_the_average_over_all_orders(tiny_model: Any) -> None:
    found = toolkit.ask(tiny_model, CITY, rotate=True)
    choices = CITY["choices"]
    of_orders = []
    for r in range(3):
        order = [(place + r) % 3 for place in range(3)]
        text = chat(listed(CITY["prompt"], [choices[i] for i in order]))
        at_place = letter_logprobs(tiny_model, text, 3)
        of_orders.append([at_place[order.index(i)] for i in range(3)])
    mean = [sum(math.exp(row[i]) for row in of_orders) / 3 for i in range(3)]
    share = [sum(shares(row)[i] for row in of_orders) / 3 for i in range(3)]
    assert found["letter_logprob"].tolist() == near(map(math.log, mean))
    assert found["p_letter"].tolist() == near(share)
    plain = toolkit.ask(tiny_model, CITY)
    assert found["p_sum"].tolist() == plain["p_sum"].tolist()
    assert found["p_letter"].tolist() != near(plain["p_letter"])


def test_turning_the_choices_turns_the_rotated_result_with_them(tiny_model: Any) -> None:
    turned = {**CITY, "choices": [*CITY["choices"][1:], CITY["choices"][0]], "reference": "Paris"}
    one, other = (
        toolkit.ask(tiny_model, question, rotate=True).set_index("text") for question in (CITY, turned)
    )
    np.testing.assert_allclose(one["p_letter"], other.loc[one.index, "p_letter"], rtol=1e-4)


def test_without_a_template_letters_and_texts_are_further_words(tiny_model: Any) -> None:
    found = toolkit.ask(tiny_model, LEGS, chat_template=False, bare="So:")
    question, choices = LEGS["prompt"], LEGS["choices"]
    text = listed(question, choices, AskSettings().cue)
    # The tiny tokenizer has no token for a space and a letter: the letters part after the space.
    assert found["letter_logprob"].tolist() == near(letter_logprobs(tiny_model, f"{text} ", 2))
    assert found["sum_logprob"].tolist() == near(
        text_logprob(tiny_model, question, f" {one}") for one in choices
    )
    assert found["bare_logprob"].tolist() == near(
        text_logprob(tiny_model, "So:", f" {one}") for one in choices
    )


def test_a_system_prompt_comes_before_the_bare_prompt_too(tiny_model: Any) -> None:
    found = toolkit.ask(tiny_model, LEGS, system_prompt="Say da!")
    before = f"<|im_start|>system\nSay da!<|im_end|>\n{chat('Answer:')}"
    assert found["bare_logprob"].tolist() == near(
        text_logprob(tiny_model, before, one) for one in LEGS["choices"]
    )


def test_a_run_holds_the_choices_as_scored_sequences_with_scores_and_grades_beside(
    tiny_model: Any, frame: pd.DataFrame, tmp_path: Path
) -> None:
    outcome = ask_run(work(tiny_model), tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert (outcome.n_sequences, outcome.interrupted) == (7, False)
    assert list(validate(run.path)) == []
    sequences = run.sequences_df()
    assert sequences["kind"].unique().tolist() == ["scored"]
    assert sequences["text"].tolist() == [choice for q in QUESTIONS for choice in q["choices"]]
    stored = choices_df(run)
    pd.testing.assert_frame_equal(stored, frame, check_dtype=False, rtol=1e-5)
    assert stored["sum_logprob"].tolist() == near(sequences["sum_logprob"])
    grades = run.grades_df("choices")
    assert grades["value"].dropna().tolist() == [1, 0, 0, 0, 1]
    assert run.prompts_df(prompts="legs")["reference"].map(list).tolist() == [["six"]]
    assert run.tokens_df()["entropy"].notna().all()


def test_what_is_there_is_not_asked_again(
    tiny_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_run(work(tiny_model, QUESTIONS[:2]), tmp_path / "run")
    before = read_beside(tmp_path / "run", "choices")
    texts: list[int] = []
    read = letters._read
    monkeypatch.setattr(
        letters, "_read", lambda forward, asked: (texts.append(len(asked)), read(forward, asked))[1]
    )
    outcome = ask_run(work(tiny_model), tmp_path / "run")
    assert outcome.n_before == 5
    assert sum(texts) == 1
    after = read_beside(tmp_path / "run", "choices")
    assert after.num_rows == 7
    assert after.slice(0, 5).equals(before)
    assert len(open_run(tmp_path / "run").grades_df("choices")) == 7


def test_an_interruption_keeps_what_was_asked_and_the_same_call_goes_on(
    tiny_model: Any, tmp_path: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = asking.choice_columns
    calls: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return columns(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(asking, "choice_columns", interrupted)
        assert ask_run(work(tiny_model), tmp_path / "run").interrupted
    assert set(read_beside(tmp_path / "run", "choices")["prompt_id"].to_pylist()) == {"city", "legs"}
    assert not ask_run(work(tiny_model), tmp_path / "run").interrupted
    pd.testing.assert_frame_equal(choices_df(open_run(tmp_path / "run")), frame, check_dtype=False, rtol=1e-5)


def test_a_question_with_a_choice_more_is_asked_anew(tiny_model: Any, tmp_path: Path) -> None:
    ask_run(work(tiny_model, [LEGS]), tmp_path / "run")
    longer = {**LEGS, "choices": [*LEGS["choices"], "spider"]}
    ask_run(work(tiny_model, [longer]), tmp_path / "run")
    stored = choices_df(open_run(tmp_path / "run"))
    pd.testing.assert_frame_equal(stored, toolkit.ask(tiny_model, longer), check_dtype=False, rtol=1e-5)


@pytest.mark.parametrize("changed", [{"rotate": True}, {"bare": "So:"}])
def test_another_way_of_asking_is_refused_in_the_same_run(
    tiny_model: Any, tmp_path: Path, changed: dict[str, Any]
) -> None:
    ask_run(work(tiny_model, [LEGS]), tmp_path / "run")
    with pytest.raises(ToolkitError, match=next(iter(changed))):
        ask_run(work(tiny_model, [LEGS], **changed), tmp_path / "run")


def test_a_choice_whose_logits_are_not_finite_has_no_text_scores_and_its_letters_stay(
    tiny_model: Any, tmp_path: Path
) -> None:
    texts = asking.TextSums(np.array([np.nan, -2.0]), np.array([1.0, 1.0]))
    columns = asking.choice_columns(["a", "b"], np.log([[0.2, 0.3]]), texts, np.array([-1.0, -1.0]))
    assert columns["sum_logprob"] == [None, -2.0]
    assert columns["p_sum"] == columns["p_pmi"] == [None, None]
    assert columns["p_letter"] == near([0.4, 0.6])


def test_picks_are_counted_by_score(frame: pd.DataFrame) -> None:
    found = picks_df(frame).set_index("score")
    for score in ("letter", "sum", "mean", "byte", "pmi"):
        right, surest = [], []
        for question in QUESTIONS:
            own = of(frame, str(question["id"]))
            values = own[f"p_{score}"].tolist()
            pick = values.index(max(values))
            surest.append(values[pick])
            if "reference" in question:
                right.append(own["right"][pick])
        assert found.loc[score, "accuracy"] == pytest.approx(sum(right) / 2)
        assert found.loc[score, "probability"] == pytest.approx(sum(surest) / 3)
        assert (found.loc[score, "n"], found.loc[score, "n_graded"], found.loc[score, "n_undefined"]) == (
            3,
            2,
            0,
        )


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([], "questions: there is none"),
        (["What?"], r"questions\[0\]: 'What\?' is no question"),
        ([LEGS, {"prompt": "What?", "choices": ["one"]}], r"questions\[1\]: there are 1 choices"),
        ([{**LEGS, "reference": "four"}], r"questions\[0\]: reference 'four' is none of the choices"),
    ],
)
def test_a_question_that_is_none_is_refused_by_its_number(
    tiny_model: Any, questions: Any, message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        toolkit.ask(tiny_model, questions)


def test_a_tuple_of_choices_is_as_good(tiny_model: Any) -> None:
    assert len(toolkit.ask(tiny_model, {**LEGS, "choices": ("eight", "six")})) == 2


def test_a_question_that_does_not_fit_is_refused_before_anything_is_kept(
    tiny_model: Any, tmp_path: Path
) -> None:
    fits_alone = {"prompt": "z " * 100, "choices": ["y " * 50, "x " * 50, "w " * 50]}
    with pytest.raises(ToolkitError, match="tokens and the model's context is 512"):
        ask_run(work(tiny_model, [fits_alone]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ToolkitError, match="bare: with the longest choice it has"):
        toolkit.ask(tiny_model, LEGS, bare="café " * 200)
    with pytest.raises(ToolkitError, match="bare: it is empty"):
        toolkit.ask(tiny_model, LEGS, bare=" ", chat_template=False)


def test_a_letter_of_several_tokens_is_refused_with_what_it_becomes(tiny_model: Any) -> None:
    with pytest.raises(ToolkitError, match=r"'zz' is no single token .* among the answers a, zz .*'z', 'z'"):
        letters.parting(tiny_model, "So", True, ["a", "zz"], whole=True)
    with pytest.raises(ToolkitError, match=r"'A' is no single token .*nothing of its own"):
        letters.parting(tiny_model, "So", True, ["A", "A"], whole=False)
    assert letters.parting(tiny_model, "So", True, ["(a)", "(z)"], whole=False) == (
        ids_of(tiny_model, "So("),
        ids_of(tiny_model, "az"),
    )


def test_rendering_of_the_settings_is_that_of_all_prompts(tiny_model: Any, tmp_path: Path) -> None:
    settings = AskSettings(render=RenderSettings(ignore_chat_template=True))
    ask_run(replace(work(tiny_model, [LEGS]), settings=settings), tmp_path / "run")
    expected = toolkit.ask(tiny_model, LEGS, chat_template=False)
    stored = choices_df(open_run(tmp_path / "run"))
    assert stored["p_letter"].tolist() == near(expected["p_letter"])
