"""A model asked whether two answers mean the same: the share of yes, symmetric, each text read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import toolkit.collect.pair_judge as judging
from tests.asked import make_asked
from toolkit.collect.pair_judge import PairJudge, spellings
from toolkit.errors import ToolkitError
from toolkit.models import load

PAIRS = [
    ("What is the capital of France?", "Paris.", "The capital is Paris."),
    ("How many legs has a spider?", "eight", "Eight legs, and it is a spider, so eight in all."),
    ("Q", "a", "日本語"),
]


@pytest.fixture(scope="module")
def asked_model(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(make_asked(tiny_folder, tmp_path_factory.mktemp("asked") / "model"), quiet=True)


@pytest.fixture
def judge(asked_model: Any) -> PairJudge:
    return PairJudge(asked_model)


def plain_share(judge: PairJudge, model: Any, ids: list[int]) -> float:
    """The probability of yes over yes and no from a softmax over all logits of one text read alone."""
    logits = np.array(model.network(mx.array([ids]))[0, -1].astype(mx.float32), np.float64)
    weights = np.exp(logits - logits.max())
    softmax = weights / weights.sum()
    yes, no = (sum(softmax[i] for i in found.tolist()) for found in (judge.yes_ids, judge.no_ids))
    return float(yes / (yes + no))


def test_the_value_is_the_share_of_yes_in_a_softmax_over_the_logits(
    judge: PairJudge, asked_model: Any
) -> None:
    found = dict(judge(PAIRS))
    assert set(found) == set(PAIRS)
    for question, first, second in PAIRS:
        orders = (judge.token_ids(question, first, second), judge.token_ids(question, second, first))
        expected = np.mean([plain_share(judge, asked_model, ids) for ids in orders])
        assert found[question, first, second] == pytest.approx(expected, abs=1e-5)
    assert len(set(found.values())) == len(PAIRS)


def test_both_orders_are_asked_so_that_the_value_is_symmetric(judge: PairJudge) -> None:
    there = list(dict(judge(PAIRS)).values())
    back = list(dict(judge([judging.swapped(pair) for pair in PAIRS])).values())
    assert there == pytest.approx(back, abs=1e-6)
    one, other = judge.token_ids(*PAIRS[0]), judge.token_ids(*judging.swapped(PAIRS[0]))
    assert one != other


def test_each_order_of_a_pair_is_read_once(judge: PairJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[int]] = []
    plain = judging.last_logits
    monkeypatch.setattr(judging, "last_logits", lambda forward, texts: plain(forward, read_in(read, texts)))
    list(judge(PAIRS))
    assert len(read) == 2 * len(PAIRS)
    assert sum(map(len, read)) == judge.count_tokens(PAIRS)


def read_in(read: list[list[int]], texts: list[list[int]]) -> list[list[int]]:
    read += texts
    return texts


def test_the_question_and_both_answers_are_shown_in_the_chat_template(
    judge: PairJudge, asked_model: Any
) -> None:
    shown = asked_model.tokenizer.decode(judge.token_ids(*PAIRS[0]))
    assert shown.startswith("<|im_start|>user\n")
    assert shown.endswith("<|im_start|>assistant\n")
    question, first, second = (shown.index(part) for part in ("France?", "1: Paris.", "2: The capital is"))
    assert question < first < second


def test_without_a_chat_template_the_text_asks_for_a_reply(tiny_folder: Path, tmp_path: Path) -> None:
    model = load(make_asked(tiny_folder, tmp_path / "model", template=False), quiet=True)
    judge = PairJudge(model)
    assert model.tokenizer.decode(judge.token_ids(*PAIRS[0])).endswith("Yes or No.\nReply:")


def test_spellings_are_every_case_with_and_without_a_space(asked_model: Any) -> None:
    pieces = {asked_model.token_bytes.piece(i) for i in spellings(asked_model, "yes").tolist()}
    assert pieces == {b"Yes", b" Yes", b"yes", b" YES"}
    assert len(spellings(asked_model, "no")) == 3


def test_a_model_without_the_word_as_a_token_is_refused(tiny_model: Any) -> None:
    with pytest.raises(ToolkitError, match="it has no token for yes"):
        PairJudge(tiny_model)


def test_a_pair_longer_than_the_context_is_refused(judge: PairJudge) -> None:
    with pytest.raises(ToolkitError, match=r"'Long\?' are [\d,]+ tokens .* context is 512: .* part"):
        list(judge([("Long?", "word " * 300, "other " * 300)]))


def test_the_speed_is_that_of_one_pass_by_the_clock(judge: PairJudge) -> None:
    times = iter([10.0, 12.0])
    n = sum(len(judge.token_ids(*pair)) for pair in PAIRS)
    assert judge.tokens_a_second(PAIRS, lambda: next(times)) == n / 2


@pytest.mark.model
def test_the_default_model_has_the_words(model: Any) -> None:
    for word in ("yes", "no"):
        pieces = {model.token_bytes.piece(i) for i in spellings(model, word).tolist()}
        assert {word.capitalize().encode(), b" " + word.capitalize().encode()} <= pieces
