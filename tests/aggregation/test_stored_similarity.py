"""What `stored` means: the matrix of the run, in every estimator that takes one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.graded import ANSWERS, N_PROMPTS, evaluated, graded_run
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.answer_pairs import answers_of, plan_pairs, table_of
from toolkit.aggregation.parts import Part
from toolkit.aggregation.stored_similarity import StoredName, parse_stored, stored_matrices
from toolkit.aggregation.summary import summary_df
from toolkit.errors import ToolkitError
from toolkit.judging.voting import Election, vote_df
from toolkit.stats.equivalence import threshold_classes
from toolkit.store import Run
from toolkit.store.similarities import PAIRS, write_similarities

WHOLE = Part("sequence")
OF_MATRIX = [
    "similarity_eigenvalue",
    "similarity_degree",
    "similarity_eccentricity",
    "mean_similarity",
    "cocoa",
]
OF_CLASSES = ["semantic_entropy", "exact_match_rate", "number_of_classes", "vote_share"]


def alike(first: str, second: str) -> float:
    """A made-up similarity: of few values, and not that of any other comparison."""
    return 1.0 if first == second else len(set(first) & set(second)) / 7 + 0.3


def as_matrix(texts: Any) -> np.ndarray:
    return np.array([[alike(a, b) for b in texts] for a in texts])


def keep(
    run: Run, function: Callable[[str, str], float] = alike, *, name: str = "made", over: str | None = None
) -> None:
    answers = answers_of(run, WHOLE)
    values = {pair: function(pair.first, pair.second) for pair in plan_pairs(answers, {}).asked}
    write_similarities(run.path, table_of(answers, values), "made", {"over": over} if over else {})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return graded_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("stored", StoredName(None, None)),
        ("stored:0.7", StoredName(None, 0.7)),
        ("stored:nli", StoredName("nli", None)),
        ("stored:nli:1", StoredName("nli", 1.0)),
        ("exact", None),
    ],
)
def test_a_name_and_a_threshold_are_told_apart(text: str, meant: StoredName | None) -> None:
    assert parse_stored(text) == meant


@pytest.mark.parametrize(
    "text", ["stored:", "stored:1.5", "stored:nli:x", "stored:0.5:0.5", "stored:a:0.5:1", "stored:nan"]
)
def test_another_threshold_is_refused(text: str) -> None:
    with pytest.raises(ToolkitError, match=r"as stored:0\.7"):
        Comparison(text)


def test_a_similarity_has_no_threshold() -> None:
    with pytest.raises(ToolkitError, match="takes no threshold"):
        Comparison("exact", "stored:0.5")


def test_what_is_stored_is_of_a_run() -> None:
    for call in (Comparison("stored").classes, Comparison(similarity="stored").matrix):
        with pytest.raises(ToolkitError, match="of_run first"):
            call(["a"], [("p", "sample", 0)])


@pytest.mark.parametrize("target", ["greedy", "each", "vote"])
def test_estimators_have_the_values_that_the_function_gives(run: Run, target: str) -> None:
    keep(run)
    by_function = evaluated(
        run, target=target, estimators=OF_MATRIX, comparison=Comparison("exact", as_matrix)
    )
    stored = evaluated(run, target=target, estimators=OF_MATRIX, comparison=Comparison("exact", "stored"))
    for name in OF_MATRIX:
        assert stored.loc[name, "auroc"] == by_function.loc[name, "auroc"], name


def test_classes_are_those_over_the_threshold(run: Run) -> None:
    keep(run)
    keys = [answer.key for answer in ANSWERS if answer.prompt_id == "p1" and answer.kind == "sample"]
    texts = [answer.text for answer in ANSWERS if answer.prompt_id == "p1" and answer.kind == "sample"]
    for threshold in (0.0, 0.5, 0.9, 1.0):
        bound = Comparison(f"stored:{threshold}").of_run(run, WHOLE)
        assert bound.classes(texts, keys).tolist() == threshold_classes(as_matrix(texts), threshold).tolist()
    assert Comparison("stored").of_run(run, WHOLE).classes(texts, keys).tolist() == (
        threshold_classes(as_matrix(texts), 0.5).tolist()
    )


@pytest.mark.parametrize("name", OF_CLASSES)
def test_classes_that_are_equal_texts_give_what_exact_ones_give(run: Run, name: str) -> None:
    keep(run, lambda a, b: 0.0)
    exact = evaluated(run, estimators=[name])
    assert (
        evaluated(run, estimators=[name], comparison=Comparison("stored")).loc[name, "auroc"]
        == (exact.loc[name, "auroc"])
    )


def test_summaries_and_votes_take_it_too(run: Run) -> None:
    keep(run, lambda a, b: 1.0)
    table = summary_df(run, "prompt", ["number_of_classes"], comparison=Comparison("stored"))
    assert table["number_of_classes"].tolist() == [1.0] * N_PROMPTS
    rows = vote_df(run, Election(grader="exact", comparison=Comparison("stored"), bootstrap=0), [5])
    samples = [answer.text == "Yes" for answer in ANSWERS if answer.kind == "sample"]
    assert rows.set_index("rule").loc["majority", "accuracy"] == pytest.approx(np.mean(samples))


def test_a_worker_reads_it_itself(run: Run) -> None:
    keep(run)
    found = stored_matrices(run, None, "sequence")
    keys = [("p0", "sample", i) for i in range(5)]
    assert np.array_equal(pickle.loads(pickle.dumps(found)).matrix(keys), found.matrix(keys))


def test_keys_may_come_in_any_order(run: Run) -> None:
    keep(run)
    found = stored_matrices(run, None, "sequence")
    keys = [("p2", "sample", i) for i in range(5)] + [("p2", "greedy", 0)]
    order = [3, 5, 0, 2, 4, 1]
    assert np.array_equal(found.matrix([keys[i] for i in order]), found.matrix(keys)[np.ix_(order, order)])
    assert found.matrix(keys[:1]).tolist() == [[1.0]]


def test_what_was_stored_since_is_seen(run: Run) -> None:
    keys = [("p0", "sample", i) for i in range(5)]
    keep(run, lambda a, b: 0.1)
    before = stored_matrices(run, None, "sequence").matrix(keys)
    keep(run, lambda a, b: 0.9)
    after = stored_matrices(run, None, "sequence").matrix(keys)
    assert {before.min(), after.min()} <= {0.1, 0.9, 1.0}
    assert not np.array_equal(before, after)


def test_another_part_is_refused(run: Run) -> None:
    keep(run, over="answer")
    with pytest.raises(ToolkitError, match="'made' compares answer, and sequence is looked at"):
        evaluated(run, estimators=["semantic_entropy"], comparison=Comparison("stored"))


def without(run: Run, *kinds: str) -> None:
    """Keep no pair with a sequence of these kinds, and of the samples not that of 1 and 3 of p4."""
    answers = answers_of(run, WHOLE)
    rows = table_of(answers, {pair: 0.5 for pair in plan_pairs(answers, {}).asked}).to_pylist()
    kept = [
        row
        for row in rows
        if not {row["first_kind"], row["second_kind"]} & set(kinds)
        and (kinds or (row["prompt_id"], row["first_index"], row["second_index"]) != ("p4", 1, 3))
    ]
    write_similarities(run.path, pa.Table.from_pylist(kept, schema=PAIRS), "made", {})


def test_a_pair_that_is_missing_is_named(run: Run) -> None:
    without(run)
    with pytest.raises(ToolkitError, match=r"no value for sample 1 and sample 3 of prompt 'p4'.*again"):
        evaluated(run, estimators=["similarity_eigenvalue"], comparison=Comparison("exact", "stored"))


def test_without_pairs_of_the_greedy_answer_what_compares_with_it_is_undefined(run: Run) -> None:
    without(run, "greedy")
    names = ["cocoa", "exact_match_rate", "similarity_eigenvalue", "semantic_entropy"]
    table = evaluated(run, estimators=names, comparison=Comparison("stored", "stored"))
    undefined = {name: int(table.loc[name, "n_undefined"]) for name in names}
    assert undefined == {
        "cocoa": N_PROMPTS,
        "exact_match_rate": N_PROMPTS,
        "similarity_eigenvalue": 0,
        "semantic_entropy": 0,
    }


def test_every_pair_of_sequences_has_a_row(run: Run) -> None:
    answers = answers_of(run, WHOLE)
    rows = table_of(answers, {pair: 0.5 for pair in plan_pairs(answers, {}).asked})
    assert rows.num_rows == N_PROMPTS * len(list(combinations(range(6), 2)))
