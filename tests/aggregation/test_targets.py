"""What is judged of a run, over which tokens and samples, against plain loops."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.answers import Answer, greedy, make_answers, prompt, sample
from tests.graded import (
    N_PROMPTS,
    evaluated,
    graded_run,
    is_right,
    made,
    mean,
    of_kind,
    plain_auroc,
)
from toolkit import stats
from toolkit.aggregation.agreement import Comparison
from toolkit.errors import ToolkitError
from toolkit.judging.grades import grade
from toolkit.stats.metrics import METRICS
from toolkit.store import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("evaluation") / "run")


# --- targets


def test_without_greedy_answers_every_sample_is_judged(run: Run, tmp_path: Path) -> None:
    assert set(evaluated(run)["target"]) == {"greedy"}
    only = made(tmp_path / "run", of_kind("sample"))
    table = evaluated(only)
    assert set(table["target"]) == {"each"}
    assert set(table.loc[["mean_logprob"], "n"]) == {len(of_kind("sample"))}


def test_each_sample_is_a_unit_and_the_auroc_within_prompts_is_the_mean_of_theirs(run: Run) -> None:
    table = evaluated(run, target="each")
    answers = of_kind("sample")
    values, right = [mean(a.all_logprobs) for a in answers], [is_right(a) for a in answers]
    assert table.loc["mean_logprob", "auroc"] == pytest.approx(plain_auroc(values, right))
    within = []
    for i in range(N_PROMPTS):
        own = [j for j, answer in enumerate(answers) if answer.prompt_id == f"p{i}"]
        within.append(plain_auroc([values[j] for j in own], [right[j] for j in own]))
    known = [value for value in within if not math.isnan(value)]
    assert 0 < len(known) < N_PROMPTS
    assert table.loc["mean_logprob", "auroc_within"] == pytest.approx(mean(known))
    assert table.loc["mean_logprob", "n_prompts_within"] == len(known)
    assert math.isnan(table.loc["vote_share", "auroc_within"])  # the same for all samples of a prompt
    assert evaluated(run)["auroc_within"].isna().all()


def test_the_first_sample_is_that_of_the_lowest_number(run: Run) -> None:
    firsts = [answer for answer in of_kind("sample") if answer.sample_index == 0]
    table = evaluated(run, target="first")
    expected = plain_auroc([sum(a.all_logprobs) for a in firsts], [is_right(a) for a in firsts])
    assert table.loc["sum_logprob", "auroc"] == pytest.approx(expected)


def elected(answers: Sequence[Answer]) -> Answer:
    """The first sample of the most frequent text; ties by the sum of geometric means of probabilities."""

    def standing(text: str) -> tuple[int, float]:
        own = [answer for answer in answers if answer.text == text]
        return len(own), sum(math.exp(mean(answer.all_logprobs)) for answer in own)

    winner = max(dict.fromkeys(answer.text for answer in answers), key=standing)
    return next(answer for answer in answers if answer.text == winner)


def test_a_vote_judges_the_sample_that_most_agree_with(run: Run) -> None:
    winners = [
        elected([answer for answer in of_kind("sample") if answer.prompt_id == f"p{i}"])
        for i in range(N_PROMPTS)
    ]
    table = evaluated(run, target="vote")
    assert set(table["accuracy"]) == {mean([is_right(answer) for answer in winners])}
    expected = plain_auroc([sum(a.all_logprobs) for a in winners], [is_right(a) for a in winners])
    assert table.loc["sum_logprob", "auroc"] == pytest.approx(expected)


def test_the_mean_judges_the_quality_of_a_prompt_by_means_of_values(run: Run) -> None:
    groups = [[a for a in of_kind("sample") if a.prompt_id == f"p{i}"] for i in range(N_PROMPTS)]
    quality = [mean([is_right(a) for a in own]) for own in groups]
    values = [mean([sum(a.all_logprobs) for a in own]) for own in groups]
    table = evaluated(run, target="mean")
    assert table.loc["sum_logprob", "prr"] == pytest.approx(METRICS["prr"](values, quality))
    assert table["auroc"].isna().all()
    right = [float(q >= 0.5) for q in quality]
    cut = evaluated(run, target="mean", threshold=0.5)
    assert cut.loc["sum_logprob", "auroc"] == pytest.approx(plain_auroc(values, right))


# --- samples


def test_estimators_of_samples_see_all_samples_and_the_target_apart(run: Run) -> None:
    share, matches, sums, chances, right = [], [], [], [], []
    for i in range(N_PROMPTS):
        own = [a for a in of_kind("sample") if a.prompt_id == f"p{i}"]
        (target,) = [a for a in of_kind("greedy") if a.prompt_id == f"p{i}"]
        texts = [a.text for a in own]
        share.append(max(texts.count(text) for text in texts) / len(texts))
        matches.append(texts.count(target.text) / len(texts))
        sums.append(mean([sum(a.all_logprobs) for a in own]))
        chances.append(mean([math.exp(sum(a.all_logprobs) / len(a.logprobs)) for a in own]))
        right.append(is_right(target))
    table = evaluated(run)
    assert table.loc["vote_share", "auroc"] == pytest.approx(plain_auroc(share, right))
    assert table.loc["exact_match_rate", "auroc"] == pytest.approx(plain_auroc(matches, right))
    assert table.loc["exact_match_rate", "brier"] == pytest.approx(
        mean([(c - r) ** 2 for c, r in zip(matches, right, strict=True)])
    )
    assert table.loc["monte_carlo_probability", "brier"] == pytest.approx(
        mean([(c - r) ** 2 for c, r in zip(chances, right, strict=True)]), abs=1e-6
    )
    assert table.loc["mc_sequence_entropy", "auroc"] == pytest.approx(plain_auroc(sums, right))


def test_a_sample_is_not_compared_with_itself(run: Run) -> None:
    table = evaluated(run, target="each", estimators=["exact_match_rate"])
    matches, right = [], []
    for answer in of_kind("sample"):
        others = [a for a in of_kind("sample") if a.prompt_id == answer.prompt_id and a is not answer]
        matches.append(mean([float(a.text == answer.text) for a in others]))
        right.append(is_right(answer))
    assert table.loc["exact_match_rate", "auroc"] == pytest.approx(plain_auroc(matches, right))
    squares = [(c - r) ** 2 for c, r in zip(matches, right, strict=True)]
    assert table.loc["exact_match_rate", "brier"] == pytest.approx(mean(squares))


def test_what_says_the_same_is_the_askers_choice(tmp_path: Path) -> None:
    answers = [greedy("p0", "It is 7", -0.1), greedy("p1", "It is 8", -0.1)]
    answers += [sample("p0", i, text, -0.1) for i, text in enumerate(["7", "so 7", "It is 7"])]
    answers += [sample("p1", i, text, -0.1) for i, text in enumerate(["7", "so 8", "9"])]
    run = made(tmp_path / "run", answers, "7", "number")
    exact = evaluated(run, estimators=["number_of_classes"])
    number = evaluated(run, estimators=["number_of_classes"], comparison=Comparison("number"))
    assert (exact.loc["number_of_classes", "auroc"], number.loc["number_of_classes", "auroc"]) == (0.5, 1)


def test_without_samples_what_needs_them_is_undefined_and_counted(tmp_path: Path) -> None:
    table = evaluated(made(tmp_path / "run", of_kind("greedy")))
    for one in stats.estimators("samples"):
        assert (table.loc[one.label, "n"], table.loc[one.label, "n_undefined"]) == (0, N_PROMPTS), one.label
    assert table.loc["mean_logprob", "n"] == N_PROMPTS


def test_masked_tokens_rank_lowest_and_are_counted(tmp_path: Path) -> None:
    answers = [greedy(f"p{i}", "Yes" if i % 2 else "No", -1.0 if i else -math.inf) for i in range(4)]
    answers += [sample(f"p{i}", j, "Yes", -math.inf if i == j else -1.0) for i in range(4) for j in range(3)]
    run = made(tmp_path / "run", answers)
    table = evaluated(run)
    assert table.loc["sum_logprob", ["n", "n_undefined", "n_infinite", "auroc"]].tolist() == [4, 0, 1, 0.75]
    assert table.loc["mc_sequence_entropy", ["n", "n_infinite"]].tolist() == [4, 3]
    for target in ("each", "vote", "mean"):
        assert evaluated(run, target=target, threshold=0.5)["n"].max() >= 4


def test_weighted_samples_say_how_many_they_are_worth(tmp_path: Path) -> None:
    answers = [greedy("p0", "Yes", -0.1), greedy("p1", "No", -0.1)]
    for prompt_id in ("p0", "p1"):
        answers += [
            sample(prompt_id, i, "Yes", -1.0, end=-1.0, sampling=[-1.0, -1.0 - 3 * i]) for i in range(2)
        ]
    name = "mc_sequence_entropy(weights=importance)"
    table = evaluated(made(tmp_path / "run", answers), estimators=[name, "mc_sequence_entropy"])
    weights = [1 / (1 + math.exp(3)), math.exp(3) / (1 + math.exp(3))]
    assert table.loc[name, "effective_samples"] == pytest.approx(1 / sum(w * w for w in weights))
    assert math.isnan(table.loc["mc_sequence_entropy", "effective_samples"])


# --- which tokens


def test_the_answer_has_no_thinking_and_no_end_token(tmp_path: Path) -> None:
    answers = [
        Answer(f"p{i}", ["<think>", "hm", "</think>", text], [-5, -5, -5, value], kind="greedy", end=-9)
        for i, (text, value) in enumerate([("Yes", -0.1), ("No", -0.3), ("Yes", -0.2), ("No", -0.4)])
    ]
    run = made(tmp_path / "run", answers)
    answer = evaluated(run, estimators=["mean_prob"])
    assert set(answer["over"]) == {"answer"}
    right = [float(a.pieces[-1] == "Yes") for a in answers]
    expected = [(math.exp(a.logprobs[-1]) - r) ** 2 for a, r in zip(answers, right, strict=True)]
    assert answer.loc["mean_prob", "brier"] == pytest.approx(mean(expected), abs=1e-6)
    whole = evaluated(run, estimators=["mean_prob"], over="sequence")
    expected = [
        (mean([math.exp(x) for x in a.all_logprobs]) - r) ** 2 for a, r in zip(answers, right, strict=True)
    ]
    assert whole.loc["mean_prob", "brier"] == pytest.approx(mean(expected), abs=1e-6)
    trimmed = evaluated(run, estimators=["mean_prob"], over="sequence", include_end=False)
    expected = [
        (mean([math.exp(x) for x in a.logprobs]) - r) ** 2 for a, r in zip(answers, right, strict=True)
    ]
    assert trimmed.loc["mean_prob", "brier"] == pytest.approx(mean(expected), abs=1e-6)


def test_a_prompt_that_ends_in_thinking_is_known_to_estimators_too(tmp_path: Path) -> None:
    prompts = [prompt(f"p{i}", "Yes", text="<|assistant|><think>\n") for i in range(3)]
    answers = [
        Answer("p0", ["hm", "</think>", "Yes"], [-5, -5, -0.1], kind="greedy"),
        Answer("p1", ["hm", "</think>", "No"], [-5, -5, -0.3], kind="greedy"),
        Answer("p2", ["Yes"], [-0.2], kind="greedy"),
    ]
    run = make_answers(tmp_path / "run", prompts, answers)
    grade(run, "exact")
    table = evaluated(run, estimators=["mean_prob"])
    assert set(table["over"]) == {"answer"}
    assert (table.loc["mean_prob", "n"], table.loc["mean_prob", "n_undefined"]) == (2, 1)
    assert table.loc["mean_prob", "brier"] == pytest.approx(
        ((1 - math.exp(-0.1)) ** 2 + math.exp(-0.3) ** 2) / 2, abs=1e-6
    )


def test_without_end_tokens_samples_are_summed_and_counted_without_them(run: Run) -> None:
    table = evaluated(run, include_end=False, target="first", estimators=["monte_carlo_probability"])
    squares = []
    for i in range(N_PROMPTS):
        own = [a for a in of_kind("sample") if a.prompt_id == f"p{i}"]
        chance = mean([math.exp(mean(a.logprobs)) for a in own])
        squares.append((chance - is_right(own[0])) ** 2)
    assert table.loc["monte_carlo_probability", "brier"] == pytest.approx(mean(squares), abs=1e-6)


def test_a_run_without_thinking_is_judged_by_whole_sequences(run: Run) -> None:
    assert set(evaluated(run)["over"]) == {"sequence"}


def test_an_answer_that_is_not_there_leaves_estimators_undefined(tmp_path: Path) -> None:
    answers = [
        greedy("p0", "<think>Yes", -1.0),
        greedy("p1", "<think></think>Yes", -1.0),
        greedy("p2", "<think></think>No", -2.0),
    ]
    table = evaluated(made(tmp_path / "run", answers), estimators=["mean_logprob"])
    assert (table.loc["mean_logprob", "n"], table.loc["mean_logprob", "n_undefined"]) == (2, 1)
    assert table.loc["random", "n"] == 2
    assert table.loc["n_tokens", "n"] == 3  # no tokens are a count


def test_a_part_of_the_text_can_be_named(tmp_path: Path) -> None:
    answers = [
        Answer(f"p{i}", ["is ", text, " ok"], [-5, value, -5 + i], kind="greedy")
        for i, (text, value) in enumerate([("Yes", -0.1), ("No", -0.3), ("Yes", -0.2), ("No", -0.4)])
    ]
    run = made(tmp_path / "run", answers, grader="contains")
    table = evaluated(run, estimators=["sum_logprob"], over=r"regex:is (\w+)")
    assert table.loc["sum_logprob", "auroc"] == 1


def test_fields_are_judged_by_the_tokens_of_their_values(tmp_path: Path) -> None:
    reference = json.dumps({"a": "Yes", "b": "Yes"})
    rows = [("Yes", -0.1, "No", -3.0), ("No", -2.0, "Yes", -0.2), ("Yes", -0.3, "Yes", -0.4)]
    answers = [
        Answer(
            f"p{i}",
            ['{"a": "', a, '", "b": "', b, '"}'],
            [-9, x, -9, y, -9],
            kind="greedy",
        )
        for i, (a, x, b, y) in enumerate(rows)
    ]
    answers.append(Answer("p3", ['{"a": "', "No", '"'], [-9, -1.0, -9], kind="greedy"))
    run = made(tmp_path / "run", answers, reference, by="field")
    table = evaluated(run, by="field")
    assert table.loc["sum_logprob", "auroc"] == 1
    assert (table.loc["sum_logprob", "n"], table.loc["sum_logprob", "n_undefined"]) == (7, 1)
    assert set(table["level"]) == {"token-span"}
    assert set(table["over"]) == {"field"}
    assert table.loc["mean_logprob", "n_prompts_within"] == 2  # those with a right and a wrong field
    assert table.loc["mean_logprob", "auroc_within"] == 1
    with pytest.raises(ToolkitError, match="nothing is graded as whole answers"):
        evaluated(run)
