"""Votes of a run's samples, and stopping early, against plain loops."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pandas as pd
import pytest

from tests.answers import Answer, greedy, make_answers, prompt, sample
from tests.graded import ANSWERS, N_PROMPTS, graded_run, is_right, mean, of_kind
from toolkit.errors import ToolkitError
from toolkit.judging.grades import grade
from toolkit.judging.voting import Election, early_stopping_df, vote_df
from toolkit.store import Run

K = 5
SAMPLES = [[a for a in of_kind("sample") if a.prompt_id == f"p{i}"] for i in range(N_PROMPTS)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("voting") / "run")


def weight(answer: Answer) -> float:
    return math.exp(mean(answer.all_logprobs))


def accuracies(frame: pd.DataFrame, rule: str) -> list[float]:
    return frame[frame["rule"] == rule]["accuracy"].tolist()


def majority_share(own: tuple[Answer, ...]) -> float:
    """Of the answers that are most frequent, the share that is right."""
    texts = [answer.text for answer in own]
    most = max(map(texts.count, texts))
    tied = {text for text in texts if texts.count(text) == most}
    return float("Yes" in tied) / len(tied)


def weighted_winner(own: tuple[Answer, ...]) -> float:
    totals: dict[str, float] = {}
    for answer in own:
        totals[answer.text] = totals.get(answer.text, 0) + weight(answer)
    return float(max(totals, key=lambda text: totals[text]) == "Yes")


def any_right(own: tuple[Answer, ...]) -> float:
    return float(any(is_right(answer) for answer in own))


@pytest.mark.parametrize(
    ("rule", "plain"), [("majority", majority_share), ("weighted", weighted_winner), ("pass", any_right)]
)
def test_accuracy_is_the_mean_over_all_subsets_and_prompts(run: Run, rule: str, plain: object) -> None:
    frame = vote_df(run, Election(bootstrap=0), [1, 2, 3, 4, 5])
    for k, found in zip(range(1, K + 1), accuracies(frame, rule), strict=True):
        of_prompts = [mean([plain(own) for own in itertools.combinations(answers, k)]) for answers in SAMPLES]  # type: ignore[operator]
        assert found == pytest.approx(mean(of_prompts)), (rule, k)


def test_a_filtered_vote_keeps_the_most_confident(tmp_path: Path) -> None:
    answers = [sample("p", 0, "No", -0.1, end=None)]
    answers += [sample("p", i, "Yes", -1.0, end=None) for i in (1, 2, 3)]
    run = make_answers(tmp_path / "run", [prompt("p", "Yes")], answers)
    grade(run, "exact")
    found = {keep: vote_df(run, Election(bootstrap=0, keep=keep), [4]) for keep in (0.1, 1.0)}
    assert accuracies(found[0.1], "weighted") == [1]
    assert accuracies(found[0.1], "filtered") == [0]
    assert accuracies(found[1.0], "filtered") == [1]


def test_a_borda_vote_ranks_by_self_certainty(run: Run) -> None:
    frame = vote_df(run, Election(bootstrap=0, p=50.0), [K])
    # With so large an exponent the first rank decides; self-certainty here falls with the mean logit.
    best = [max(own, key=lambda answer: -mean(answer.all_logprobs)) for own in SAMPLES]
    assert accuracies(frame, "borda") == [pytest.approx(mean([is_right(answer) for answer in best]))]


def test_sizes_double_up_to_all(run: Run) -> None:
    frame = vote_df(run, Election(bootstrap=50))
    assert frame[frame["rule"] == "majority"]["k"].tolist() == [1, 2, 4, 5]
    assert (frame["low"] <= frame["accuracy"]).all()
    assert (frame["accuracy"] <= frame["high"]).all()
    assert set(frame["n"]) == {N_PROMPTS}


def test_prompts_with_too_few_samples_are_left_out_and_counted(tmp_path: Path) -> None:
    answers = [sample("p0", i, "Yes", -1.0) for i in range(3)] + [sample("p1", 0, "No", -1.0)]
    run = make_answers(tmp_path / "run", [prompt("p0", "Yes"), prompt("p1", "Yes")], answers)
    grade(run, "exact")
    frame = vote_df(run, Election(bootstrap=0)).set_index(["rule", "k"])
    assert frame.loc[("majority", 1), ["accuracy", "n", "n_undefined"]].tolist() == [0.5, 2, 0]
    assert frame.loc[("weighted", 2), ["accuracy", "n", "n_undefined"]].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("election", "sizes", "message"),
    [
        (Election(confidence="mean_logprob"), None, "mean_logprob is no weight.*geometric_mean_prob"),
        (Election(confidence="perplexity"), None, "perplexity is no weight"),
        (Election(confidence="vote_share"), None, "vote_share is no weight"),
        (Election(), [9], "a prompt has at most 5 samples"),
        (Election(), [0], "give 1 to 5"),
        (Election(grader="number"), None, "there are no grades by 'number'"),
    ],
)
def test_votes_that_cannot_be_held_are_refused(
    run: Run, election: Election, sizes: list[int] | None, message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        vote_df(run, election, sizes)


def test_a_run_without_samples_or_grades_cannot_vote(tmp_path: Path) -> None:
    run = make_answers(tmp_path / "run", [prompt("p", "Yes")], [greedy("p", "Yes", -1.0)])
    with pytest.raises(ToolkitError, match="nothing is graded"):
        vote_df(run, Election())
    grade(run, "exact")
    with pytest.raises(ToolkitError, match="no samples to vote: collect some first"):
        vote_df(run, Election())


def plain_kept(
    values: list[list[float]], warmup: int, window: int, percentile: float
) -> tuple[float, list[int]]:
    """The threshold, and the tokens that each sample keeps."""

    def windows(own: list[float]) -> list[float]:
        return [mean(own[i : i + window]) for i in range(len(own) - window + 1)]

    lowest = sorted(min(windows(own), default=mean(own)) for own in values[:warmup])
    place = percentile / 100 * (len(lowest) - 1)
    low = math.floor(place)
    high = min(low + 1, len(lowest) - 1)
    threshold = lowest[low] + (place - low) * (lowest[high] - lowest[low])
    kept = []
    for i, own in enumerate(values):
        cuts = [at + window for at, value in enumerate(windows(own)) if value < threshold]
        kept.append(cuts[0] if i >= warmup and cuts else len(own))
    return threshold, kept


@pytest.mark.parametrize(("percentile", "window", "warmup"), [(10, 1, 2), (90, 2, 2), (50, 2, 3)])
def test_stopping_early_saves_what_a_plain_replay_saves(
    run: Run, percentile: float, window: int, warmup: int
) -> None:
    (row,) = early_stopping_df(
        run, Election(bootstrap=0), percentiles=[percentile], warmup=warmup, window=window
    ).to_dict("records")
    total = kept_total = n_cut = 0
    grades = []
    for own in SAMPLES:
        values = [[10 + float(x) for x in answer.all_logprobs] for answer in own]
        threshold, kept = plain_kept(values, warmup, window, percentile)
        total += sum(map(len, values))
        kept_total += sum(kept)
        n_cut += sum(k < len(v) for k, v in zip(kept, values, strict=True))
        totals: dict[str, float] = {}
        for answer, tokens in zip(own, values, strict=True):
            lowest = min(
                (mean(tokens[i : i + window]) for i in range(len(tokens) - window + 1)), default=mean(tokens)
            )
            if lowest >= threshold - 1e-6:
                totals[answer.text] = totals.get(answer.text, 0) + lowest
        grades.append(float(max(totals, key=lambda text: totals[text]) == "Yes"))
    assert (row["n_tokens"], row["n_kept"]) == (total, kept_total)
    assert row["n_cut"] >= n_cut  # a sample cut at its last token has kept all
    assert row["saved"] == pytest.approx(1 - kept_total / total)
    assert row["accuracy"] == pytest.approx(mean(grades))
    assert (row["n"], row["n_samples"]) == (N_PROMPTS, len(of_kind("sample")))


def test_windows_that_no_answer_fills_cut_nothing(run: Run) -> None:
    frame = early_stopping_df(run, Election(bootstrap=20))
    assert frame["percentile"].tolist() == [10, 90]
    assert frame["n_cut"].tolist() == [0, 0]
    assert frame["saved"].tolist() == [0, 0]
    assert (frame["accuracy"] == frame["accuracy_whole"]).all()


def test_answers_are_made_of_more_than_one_token() -> None:
    assert max(len(answer.all_logprobs) for answer in ANSWERS) > 3


def test_ungraded_samples_are_counted(tmp_path: Path) -> None:
    from tests.graded import graded_run
    from toolkit.judging.voting import Election, count_ungraded

    run = graded_run(tmp_path / "run")
    n_ungraded, n = count_ungraded(run, Election())
    assert (n_ungraded, n) == (0, len(run.sequences_df(kinds=["sample"])))
