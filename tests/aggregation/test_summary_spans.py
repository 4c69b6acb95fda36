"""The confidence table of words, fields and windows; and of a prompt's samples, against the formulas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.spans.text_runs import END, cut, make_text_run, text_record
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.selection import Selection
from toolkit.aggregation.summary import default_metrics, least_confident_first, summary_df
from toolkit.errors import ToolkitError
from toolkit.stats import Samples, Target, get
from toolkit.stats.equivalence import classify
from toolkit.stats.similarity import jaccard_matrix, rouge_matrix
from toolkit.store import Run, open_run

ANSWERS = {"a": ["Paris.", "paris", "It is Lyon", "Paris"], "b": ["1 or 2", "2", "3", "Two: 2"]}
RECORDS = [
    text_record([*cut(text, 3), END], prompt, "sample", i)
    for prompt, texts in ANSWERS.items()
    for i, text in enumerate(texts)
]
GREEDY = [
    text_record([*cut(text, 2), END], prompt, "greedy") for prompt, text in (("a", "Paris"), ("b", "7"))
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_text_run(tmp_path_factory.mktemp("summary") / "run", [*RECORDS, *GREEDY]))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_text_run(tmp_path_factory.mktemp("drawn") / "run", RECORDS))


@pytest.mark.parametrize(
    "by", ["word", "sentence", "line", "field", r"regex:(?P<n>\d)", "thinking", "window:2"]
)
def test_a_summary_of_spans_is_their_frame_with_fewer_columns(run: Run, by: str) -> None:
    frame, whole = summary_df(run, by), run.spans_df(by)
    labels = ["label"] if by[:5] in ("field", "regex", "think") else []
    complete = ["complete"] if by in ("field", "thinking") else []
    head = ["prompt_id", "kind", "sample_index", "span_index", *labels, *complete]
    assert frame.columns.tolist() == [*head, *default_metrics(by), "text"]
    pd.testing.assert_frame_equal(frame, whole[frame.columns])


def test_bytes_can_weigh_tokens_at_the_edges(run: Run) -> None:
    weighed, whole = (summary_df(run, "word", ["sum_logprob"], weights=w) for w in ("bytes", "whole"))
    assert (weighed["sum_logprob"] >= whole["sum_logprob"]).all()
    assert (weighed["sum_logprob"] > whole["sum_logprob"]).any()


def test_no_span_is_no_error_where_sequences_are_selected(run: Run) -> None:
    assert summary_df(run, "field").empty
    with pytest.raises(ToolkitError, match="no sequence is selected"):
        summary_df(run, "field", selection=Selection(samples=[99]))


def test_spans_can_be_sorted_by_a_statistic(run: Run) -> None:
    frame = least_confident_first(summary_df(run, "word"), "word", "mean_entropy")
    assert frame["mean_entropy"].is_monotonic_decreasing


def samples(prompt: str, target: Target | None = None, number: bool = False) -> Samples:
    own = [record for record in RECORDS if record.prompt_id == prompt]
    texts = [record.alignment.text for record in own]
    return Samples(
        texts=texts,
        sum_logprob=pd.Series([r.statistics.logprob.astype(float).sum() for r in own]).to_numpy(),
        n_tokens=pd.Series([float(len(r.token_ids) - 1) for r in own]).to_numpy(),
        classes=classify(texts, "number" if number else "exact"),
        similarity=jaccard_matrix(texts),
        target=target,
    )


@pytest.mark.parametrize(
    "name",
    ["semantic_entropy(farquhar)", "mc_sequence_entropy", "vote_share", "jaccard_degree", "mean_similarity"],
)
@pytest.mark.parametrize("number", [False, True])
def test_statistics_of_samples_are_those_of_the_formulas(run: Run, name: str, number: bool) -> None:
    comparison = Comparison("number" if number else "exact", "jaccard")
    frame = summary_df(run, "prompt", [name], comparison=comparison)
    label = get(name).label
    assert frame.columns.tolist() == ["prompt_id", "kind", "n_sequences", label]
    assert frame[["prompt_id", "kind", "n_sequences"]].values.tolist() == [
        ["a", "sample", 4],
        ["b", "sample", 4],
    ]
    expected = [get(name)(samples(prompt, number=number)) for prompt in ANSWERS]
    assert frame[label].tolist() == pytest.approx(expected, nan_ok=True)


def test_the_answer_to_compare_with_is_the_greedy_one_else_the_first_sample(run: Run, drawn: Run) -> None:
    metrics = ["exact_match_rate"]
    assert summary_df(run, "prompt", metrics)["exact_match_rate"].tolist() == pytest.approx([3 / 4, 0])
    assert summary_df(drawn, "prompt", metrics)["exact_match_rate"].tolist() == pytest.approx([2 / 3, 0])
    only = Selection(kinds=["sample"])
    assert summary_df(run, "prompt", metrics, only)["exact_match_rate"].tolist() == pytest.approx([2 / 3, 0])


def test_similarity_can_be_chosen(run: Run) -> None:
    frame = summary_df(run, "prompt", ["mean_similarity"], comparison=Comparison(similarity="rougeL"))
    matrices = [rouge_matrix(texts, "rougeL", tokens="words") for texts in ANSWERS.values()]
    expected = [(matrix.sum() - 4) / 12 for matrix in matrices]
    assert frame["mean_similarity"].tolist() == pytest.approx(expected)


def test_statistics_of_tokens_stand_beside_those_of_samples(run: Run) -> None:
    names = ["vote_share", "mean_logprob", "vote_share", "n_tokens"]
    frame = summary_df(run, "prompt", names)
    assert frame.columns.tolist() == [
        "prompt_id",
        "kind",
        "n_sequences",
        "vote_share",
        "mean_logprob",
        "n_tokens",
    ]
    of_tokens = summary_df(run, "prompt", ["mean_logprob", "n_tokens"], Selection(kinds=["sample"]))
    pd.testing.assert_frame_equal(
        frame[["mean_logprob", "n_tokens"]], of_tokens[["mean_logprob", "n_tokens"]]
    )


def test_a_selection_narrows_prompts_and_samples(run: Run) -> None:
    frame = summary_df(run, "prompt", ["number_of_classes"], Selection(prompts=["a"], samples=[0, 1, 2]))
    assert frame.values.tolist() == [["a", "sample", 3, 2.0]]
    late = summary_df(run, "prompt", ["exact_match_rate"], Selection(prompts=["a"], samples=[2, 3]))
    assert late["exact_match_rate"].tolist() == [1 / 2]  # against the greedy one, which has another number


def test_a_run_without_samples_is_refused(run: Run) -> None:
    with pytest.raises(
        ToolkitError, match="no samples are selected, and vote_share is a statistic of samples"
    ):
        summary_df(run, "prompt", ["vote_share"], Selection(kinds=["greedy"]))


def test_the_answer_after_thinking_is_what_is_compared(tmp_path: Path) -> None:
    texts = ["<think>hm</think>Paris", "<think>or, well</think>Paris", "<think>no</think>Lyon"]
    made = [text_record([*cut(text, 4), END], "t", "sample", i) for i, text in enumerate(texts)]
    run = open_run(make_text_run(tmp_path / "run", made))
    assert summary_df(run, "prompt", ["number_of_classes"])["number_of_classes"].tolist() == [2.0]
