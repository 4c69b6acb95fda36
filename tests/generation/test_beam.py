"""Beam search against published steps, and against trying every text of a tiny model."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.mock import MockBatch, Rule, hashed_logits, numpy_statistics
from tests.generation.test_engine import END, always
from toolkit.errors import ToolkitError
from toolkit.generation.beam import BeamSearch, BeamSettings
from toolkit.generation.beam_step import best_candidates, best_possible, score
from toolkit.generation.engine import FinishedSequence, Limits
from toolkit.generation.plans import PromptPlan
from toolkit.generation.sampling import Sampler

STEPS = json.loads((Path(__file__).parents[1] / "cases" / "beam.json").read_text())["steps"]


def search(
    rule: Rule,
    prompts: dict[str, list[int]],
    beams: int,
    *,
    max_tokens: int = 4,
    penalty: float = 1.0,
    early_stopping: bool = False,
    n_returned: int | None = None,
    slots: int | None = None,
    end_ids: frozenset[int] = frozenset([END]),
    context_length: int | None = None,
    processing=None,
) -> dict[str, list[FinishedSequence]]:
    found = BeamSearch(
        MockBatch(rule),
        numpy_statistics(Sampler()),
        BeamSettings(beams, penalty, early_stopping, n_returned),
        Limits(max_tokens, end_ids, context_length),
        slots=slots or beams,
        processing=processing,
    ).run(PromptPlan(name, ids, [("beam", 0)]) for name, ids in prompts.items())
    return {group[0].prompt_id: group for group in found}


def every_text(
    rule: Rule, prompt: list[int], max_tokens: int, vocabulary: int
) -> dict[tuple[int, ...], float]:
    """The log-probability of each text that ends with the end token, or is as long as allowed."""
    texts: dict[tuple[int, ...], float] = {}

    def grow(text: tuple[int, ...], total: float) -> None:
        if (text and text[-1] == END) or len(text) == max_tokens:
            texts[text] = total
            return
        z = rule((*prompt, *text)).astype(np.float64)
        logp = z - np.log(np.exp(z).sum())
        for token in range(vocabulary):
            grow((*text, token), total + logp[token])

    grow((), 0.0)
    return texts


@pytest.mark.parametrize("step", STEPS, ids=range(len(STEPS)))
def test_published_steps(step) -> None:
    """The Outlines vectors; they add up logits as they are, normalised or not."""
    logits, weights = np.array(step["logits"], float), np.array(step["weights"], float)
    token_ids, ancestors = [], []
    for prompt in range(step["prompts"]):
        first = prompt * step["beams"]
        rows = slice(first, first + (1 if step["first_step"] else step["beams"]))
        found = best_candidates(logits[rows], weights[rows], step["beams"])
        token_ids += found.token_ids.tolist()
        ancestors += (found.ancestors + first).tolist()
    assert token_ids == step["token_ids"]
    assert ancestors == step["ancestors"]


@given(
    st.lists(
        st.lists(st.sampled_from([-3.0, -1.0, 0.0, -np.inf]), min_size=4, max_size=4), min_size=1, max_size=3
    ),
    st.integers(1, 8),
)
def test_candidates_equal_sorting_all_pairs(rows: list[list[float]], k: int) -> None:
    totals = np.arange(len(rows)) / 2
    pairs = [
        (-(value + totals[beam]), beam, token)
        for beam, row in enumerate(rows)
        for token, value in enumerate(row)
        if value > -np.inf
    ]
    found = best_candidates(rows, totals, k)
    assert list(zip(found.ancestors, found.token_ids, strict=True)) == [
        pair[1:] for pair in sorted(pairs)[:k]
    ]


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0, -0.5])
@pytest.mark.parametrize("prompt", [[1], [3, 2], [5, 5, 5]])
def test_with_enough_beams_it_finds_the_best_texts_there_are(penalty: float, prompt: list[int]) -> None:
    rule, vocabulary = hashed_logits(5), 5
    texts = every_text(rule, prompt, 4, vocabulary)
    ranked = sorted(texts, key=lambda text: -score(texts[text], len(text), penalty))
    group = search(rule, {"p": prompt}, 4**4, penalty=penalty)["p"]
    assert [tuple(s.token_ids) for s in group[:20]] == ranked[:20]
    for sequence in group[:20]:
        total = texts[tuple(sequence.token_ids)]
        assert sequence.beam_score == pytest.approx(score(total, len(sequence.token_ids), penalty), abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6))
def test_every_hypothesis_has_its_own_tokens_logprobs(prompt: int, beams: int) -> None:
    rule = hashed_logits(7)
    for sequence in search(rule, {"p": [prompt]}, beams, max_tokens=6, penalty=0.0)["p"]:
        ids: tuple[int, ...] = (prompt,)
        for t, token in enumerate(sequence.token_ids.tolist()):
            z = rule(ids).astype(np.float64)
            assert sequence.statistics.logprob[t] == pytest.approx(
                z[token] - np.log(np.exp(z).sum()), abs=1e-5
            )
            assert sequence.statistics.rank[t] == 1 + (z > z[token]).sum()
            ids = (*ids, token)
        assert END not in sequence.token_ids[:-1]
        assert sequence.statistics.logprob.sum() == pytest.approx(sequence.beam_score, abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
def test_one_beam_is_greedy(penalty: float) -> None:
    rule = hashed_logits(7)
    ended = 0
    for first in range(1, 40):
        ids, greedy = (first,), []
        while len(greedy) < 6 and (not greedy or greedy[-1] != END):
            greedy.append(int(rule(ids).argmax()))
            ids = (*ids, greedy[-1])
        ended += greedy[-1] == END
        (found,) = search(rule, {"p": [first]}, 1, max_tokens=6, penalty=penalty)["p"]
        assert found.token_ids.tolist() == greedy
    assert 0 < ended < 39


def test_prompts_side_by_side_are_as_alone() -> None:
    rule = hashed_logits()
    prompts = {f"p{i}": [i + 1] for i in range(9)}
    together = search(rule, prompts, 3, slots=8, max_tokens=7)
    assert set(together) == set(prompts)
    for name, ids in prompts.items():
        alone = search(rule, {name: ids}, 3, max_tokens=7)[name]
        assert [s.token_ids.tolist() for s in together[name]] == [s.token_ids.tolist() for s in alone]


def test_early_stopping_ends_with_the_first_full_pool() -> None:
    """Two texts that end soon fill the pool; a longer one has the better mean."""

    def rule(ids: tuple[int, ...]) -> np.ndarray:
        after = {(): [0.35, 0.4, 0.25], (2,): [0.99, 0.005, 0.005]}
        return np.log(np.array(after.get(ids[1:], [0.005, 0.99, 0.005]), np.float32))

    early = search(rule, {"p": [9]}, 2, early_stopping=True, max_tokens=6)["p"]
    full = search(rule, {"p": [9]}, 2, max_tokens=6)["p"]
    assert [s.token_ids.tolist() for s in early] == [[2, END], [END]]
    assert full[0].token_ids.tolist() == [1] * 6
    assert full[0].beam_score == pytest.approx((np.log(0.4) + 5 * np.log(0.99)) / 6, abs=1e-5)


def test_nothing_comes_after_the_end_token_and_places_are_in_order() -> None:
    group = search(hashed_logits(), {"p": [4]}, 5, max_tokens=12)["p"]
    assert [s.sample_index for s in group] == list(range(5))
    scores = [s.beam_score for s in group]
    assert scores == sorted(scores, reverse=True)
    for sequence in group:
        assert END not in sequence.token_ids[:-1]
        assert sequence.has_end == (sequence.token_ids[-1] == END)


def test_n_returned() -> None:
    assert len(search(hashed_logits(), {"p": [4]}, 5, n_returned=2)["p"]) == 2


def test_hypotheses_end_at_the_context() -> None:
    group = search(always(1), {"p": [1, 2]}, 2, context_length=4, max_tokens=9, end_ids=frozenset())["p"]
    assert {s.finish_reason for s in group} == {"context"}
    assert {len(s.token_ids) for s in group} == {2}


def test_more_beams_than_tokens() -> None:
    group = search(always(1, 2), {"p": [1]}, 6, max_tokens=2, end_ids=frozenset())["p"]
    assert sorted(tuple(s.token_ids) for s in group) == list(itertools.product([0, 1], repeat=2))


def test_logits_that_are_not_finite_give_an_error() -> None:
    group = search(lambda ids: np.full(5, np.nan, np.float32), {"p": [1]}, 2)["p"]
    assert [s.finish_reason for s in group] == ["error"]
    assert len(group[0].token_ids) == 0


def test_best_possible_is_never_below_what_is_reached() -> None:
    for penalty in (-1.0, 0.0, 0.5, 2.0):
        for n in range(1, 6):
            bound = best_possible(-3.0, n, 6, penalty)
            assert all(score(-3.0, length, penalty) <= bound + 1e-12 for length in range(n + 1, 7))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0,), "beams: 0"), ((2, float("nan")), "length_penalty: nan"), ((2, 1.0, False, 3), "n_returned: 3")],
)
def test_wrong_settings_are_named(arguments, named: str) -> None:
    with pytest.raises(ToolkitError, match=named):
        BeamSettings(*arguments)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ToolkitError, match="batch_size: 3"):
        search(hashed_logits(), {"p": [1]}, 4, slots=3)
