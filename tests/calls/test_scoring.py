"""`toolkit.score`: what may be given, and that it is what a forward pass says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import toolkit
from tests.collect.test_score import forward
from toolkit.errors import ToolkitError

END = 2


def test_one_prompt_with_several_completions(tiny_model: Any) -> None:
    result = toolkit.score(tiny_model, "How many?", [" eight", [5, 6, END]], chat_template=False)
    assert result.text == [" eight", tiny_model.tokenizer.decode([5, 6])]
    assert result.token_ids.shape == (2, 1, result.shape[2])
    (generation,) = result.generations
    for sequence in generation.sequences:
        ids = list(sequence.generated_token_ids)
        logp = forward(tiny_model, list(sequence.prompt_token_ids), ids)
        assert sequence.logprob == pytest.approx(logp[np.arange(len(ids)), ids].sum(), abs=1e-3)
        assert sequence.record.kind == "scored"
    assert [sequence.finish_reason for sequence in generation.sequences] == ["length", "stop"]


@pytest.mark.parametrize(
    ("prompts", "completions", "n"),
    [
        ("Hi", " a", [1]),
        ("Hi", [5, 6], [1]),
        ("Hi", np.array([5, 6]), [1]),
        ("Hi", [[5, 6], [7]], [2]),
        ([3, 4], " a", [1]),
        ([{"role": "user", "content": "Hi"}], [" a", " b"], [2]),
        (["Hi"], [" a"], [1]),
        (["Hi", "Hi"], [" a", [" b", " c"]], [1, 2]),
        (["Hi", [3, 4]], [[5, 6], [[5], " b", [7]]], [1, 3]),
    ],
)
def test_completions_are_told_apart_by_their_prompts(
    tiny_model: Any, prompts: Any, completions: Any, n: list[int]
) -> None:
    result = toolkit.score(tiny_model, prompts, completions)
    assert [len(generation.sequences) for generation in result.generations] == n


def test_scoring_what_was_generated_gives_its_log_probabilities(tiny_model: Any) -> None:
    prompts = ["What is the capital?", "да!"]
    made = toolkit.generate(tiny_model, prompts, samples=2, max_tokens=5)
    ids = [[sequence.generated_token_ids for sequence in g.sequences] for g in made.generations]
    again = toolkit.score(tiny_model, prompts, ids)
    np.testing.assert_array_equal(again.token_ids, made.token_ids)
    np.testing.assert_allclose(again.logprobs, made.logprobs, rtol=1e-4, atol=1e-3)


def test_watched_tokens_of_given_completions(tiny_model: Any) -> None:
    result = toolkit.score(tiny_model, "How many?", [5, 6, 7], watch_tokens=["A", "B"], watch_at="every")
    sequence = result.generations[0].sequences[0]
    logp = forward(tiny_model, list(sequence.prompt_token_ids), [5, 6, 7])
    for position in range(3):
        found = sequence.watched(position)
        for text in ("A", "B"):
            expected = logp[position, tiny_model.tokenizer.encode(text)[0]]
            assert found[text] == pytest.approx(expected, abs=1e-3)


def test_settings_reach_the_scoring(tiny_model: Any) -> None:
    plain = toolkit.score(tiny_model, "Hi", " a")
    ended = toolkit.score(tiny_model, "Hi", " a", add_end=True, top_logprobs=2, system_prompt="Be brief.")
    (one,), (other,) = plain.generations[0].sequences, ended.generations[0].sequences
    assert other.generated_token_ids == (*one.generated_token_ids, END)
    assert other.statistics.alternative_ids.shape[1] == 2
    assert len(other.prompt_token_ids) > len(one.prompt_token_ids)


@pytest.mark.parametrize(
    ("prompts", "completions", "more", "named"),
    [
        ("Hi", "", {}, r"completions: the completion has no tokens"),
        ("Hi", [" a", ""], {}, r"completions\[1\]: the completion has no tokens"),
        ("Hi", [], {}, r"completions: '\[\]' holds no completion"),
        ("Hi", 3, {}, r"completions: '3' holds no completion"),
        ("Hi", [" a", 3.5], {}, r"completions\[1\]: '3.5' is neither text nor token ids"),
        ("Hi", [320], {}, r"completions: completion_token_ids has token id 320; the model's are 0 to 319"),
        ("Hi", [-1], {}, r"completions: completion_token_ids has token id -1"),
        (["Hi", "Ho"], [" a"], {}, r"completions: there are 1 for 2 prompts"),
        (["Hi", "Ho"], " a", {}, r"completions: there are 0 for 2 prompts"),
        (["Hi", "Ho"], [" a", [" b", [5, 400]]], {}, r"completions\[1\]\[1\]: .* id 400"),
        ([], [], {}, "prompts: there is none"),
        ("Hi", " a", {"top_logprobs": 99}, "top_logprobs: 99"),
    ],
)
def test_what_is_wrong_is_named(
    tiny_model: Any, prompts: Any, completions: Any, more: dict[str, Any], named: str
) -> None:
    with pytest.raises(ToolkitError, match=named):
        toolkit.score(tiny_model, prompts, completions, **more)
