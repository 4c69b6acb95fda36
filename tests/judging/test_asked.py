"""What a model was asked, as estimators that an evaluation ranks: values and picks against plain loops."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.answers import Answer, make_answers, prompt
from tests.graded import evaluated, graded_run, plain_auroc
from toolkit import stats
from toolkit.errors import ToolkitError
from toolkit.judging.asked import asked_estimators, asked_values, pick_score, picks
from toolkit.judging.evaluation import evaluate_run, judged_units
from toolkit.judging.grades import grade
from toolkit.judging.question import Question
from toolkit.stats import registry
from toolkit.stats.choices import SCORES
from toolkit.store import Run
from toolkit.store.beside import write_beside
from toolkit.store.schemas import CHOICES, TRUTHS

N_QUESTIONS, N_CHOICES = 12, 3
ASKED = {one.name for one in stats.estimators("asked")}
OF_CHOICES = {name for name in ASKED if name.startswith("choice")}
Rows = dict[tuple[str, int], dict[str, float]]


def probabilities() -> Rows:
    rng = np.random.default_rng(3)
    return {
        (f"q{i:02d}", j): {f"p_{score}": float(p) for score, p in zip(SCORES, row, strict=True)}
        for i in range(N_QUESTIONS)
        for j, row in enumerate(rng.dirichlet(np.ones(N_CHOICES), len(SCORES)).T)
    }


ROWS = probabilities()
RIGHT = {
    f"q{i:02d}": int(place) for i, place in enumerate(np.random.default_rng(4).integers(0, 3, N_QUESTIONS))
}


def asked_run(path: Path, rows: Rows = ROWS) -> Run:
    """Questions whose choices have probabilities that a test knows; right is the choice that says Yes."""
    answers = [
        Answer(
            name,
            ["Yes" if RIGHT[name] == place else f"No {place}"],
            [-1.0 - place],
            "scored",
            place,
            end=None,
        )
        for name, place in rows
    ]
    run = make_answers(path, [prompt(name, "Yes") for name in RIGHT], answers)
    grade(run, "exact")
    table = [
        {"prompt_id": name, "kind": "scored", "sample_index": place, "letter": "ABC"[place], **values}
        for (name, place), values in rows.items()
    ]
    write_beside(path, "choices", pa.Table.from_pylist(table, CHOICES.schema), {})
    return run


def with_truths(run: Run, values: dict[tuple[str, str, int], float | None]) -> Run:
    rows = [
        {"prompt_id": key[0], "kind": key[1], "sample_index": key[2], "p_true": p, "mass": 0.5, "n_shown": 0}
        for key, p in values.items()
    ]
    write_beside(run.path, "truths", pa.Table.from_pylist(rows, TRUTHS.schema), {})
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return asked_run(tmp_path_factory.mktemp("asked") / "run")


def pick_of(name: str, score: str) -> int:
    return max(range(N_CHOICES), key=lambda place: ROWS[name, place][f"p_{score}"])


@pytest.mark.parametrize("score", SCORES)
def test_the_pick_is_judged_and_its_probability_ranked(run: Run, score: str) -> None:
    table = evaluated(run, target=f"pick:{score}", bootstrap=0)
    chosen = {name: pick_of(name, score) for name in RIGHT}
    right = [float(RIGHT[name] == chosen[name]) for name in RIGHT]
    assert table.loc["n_tokens", "n"] == N_QUESTIONS
    assert table["accuracy"].iloc[0] == pytest.approx(np.mean(right))
    for other in SCORES:
        own = [ROWS[name, chosen[name]][f"p_{other}"] for name in RIGHT]
        assert table.loc[f"choice_{other}", "auroc"] == pytest.approx(plain_auroc(own, right)), other
    assert set(table.index) >= OF_CHOICES | {"mean_logprob", "random"}
    assert not set(table.index) & {"p_true", "p_true_with_samples"}
    assert table["target"].unique().tolist() == [f"pick:{score}"]


def test_the_pick_by_letter_is_judged_where_nothing_else_is_asked(run: Run) -> None:
    table = evaluated(run, bootstrap=0)
    assert table["target"].unique().tolist() == ["pick"]
    assert table["auroc"].equals(evaluated(run, target="pick:letter", bootstrap=0)["auroc"])
    of_tokens = [-1.0 - pick_of(name, "letter") for name in RIGHT]
    right = [float(RIGHT[name] == pick_of(name, "letter")) for name in RIGHT]
    assert table.loc["mean_logprob", "auroc"] == pytest.approx(plain_auroc(of_tokens, right))


def test_margin_and_entropy_are_of_all_choices_of_the_question(run: Run) -> None:
    question = Question(target="pick:sum")
    chosen = [
        stats.get(name) for name in ("choice_margin(score=sum)", "choice_entropy(score=sum)", "n_tokens")
    ]
    units = judged_units(run, question, chosen).units
    for i, (name, _, place) in enumerate(units.keys):
        own = [ROWS[name, j]["p_sum"] for j in range(N_CHOICES)]
        rest = [p for j, p in enumerate(own) if j != place]
        assert units.values["choice_margin(score=sum)"][i] == pytest.approx(own[place] - max(rest))
        assert units.values["choice_entropy(score=sum)"][i] == pytest.approx(
            -sum(p * math.log(p) for p in own)
        )


def test_choices_are_no_samples(run: Run) -> None:
    for target in ("pick", "each"):
        table = evaluated(run, target=target, bootstrap=0)
        of_samples = table[table["level"] == "samples"]
        assert len(of_samples)
        assert of_samples["n_undefined"].eq(table.loc["n_tokens", "n"]).all()


def test_every_choice_can_be_judged_for_itself(run: Run) -> None:
    table = evaluated(run, target="each", bootstrap=0)
    keys = list(ROWS)
    right = [float(RIGHT[name] == place) for name, place in keys]
    own = [ROWS[key]["p_pmi"] for key in keys]
    assert table.loc["choice_pmi", "n"] == len(keys)
    assert table.loc["choice_pmi", "auroc"] == pytest.approx(plain_auroc(own, right))


def test_a_question_whose_score_is_not_computed_has_no_pick(tmp_path: Path) -> None:
    unknown: Any = {
        key: {**values, "p_sum": None} if key[0] == "q00" else values for key, values in ROWS.items()
    }
    run = asked_run(tmp_path / "run", unknown)
    assert {key[0] for key in picks(run, "sum")} == set(RIGHT) - {"q00"}
    table = evaluated(run, target="pick", bootstrap=0)
    assert table.loc["choice_sum", ["n", "n_undefined"]].tolist() == [N_QUESTIONS - 1, 1]
    nothing: Any = {key: {**values, "p_sum": None} for key, values in ROWS.items()}
    with pytest.raises(ToolkitError, match="no question has a pick by sum"):
        picks(asked_run(tmp_path / "nothing", nothing), "sum")


def test_of_equal_choices_the_first_is_picked(tmp_path: Path) -> None:
    equal = {key: {**values, "p_sum": 1 / 3} for key, values in ROWS.items()}
    assert picks(asked_run(tmp_path / "run", equal), "sum") == {(name, "scored", 0) for name in RIGHT}


def test_whether_an_answer_is_true_is_ranked_with_the_rest(tmp_path: Path) -> None:
    run = graded_run(tmp_path / "run")
    before = evaluated(run, bootstrap=0)
    assert not set(before.index) & ASKED
    values = {(f"p{i}", "greedy", 0): None if i == 3 else i / 10 for i in range(8)}
    with_truths(run, values)
    table = evaluated(run, bootstrap=0)
    assert set(table.index) - set(before.index) == {"p_true", "p_true_with_samples"}
    assert table.loc["p_true", ["n", "n_undefined"]].tolist() == [7, 1]
    assert table.loc["p_true_with_samples", ["n", "n_undefined"]].tolist() == [0, 8]
    right = dict(run.grades_df(kinds="greedy")[["prompt_id", "value"]].itertuples(index=False, name=None))
    known = {key[0]: p for key, p in values.items() if p is not None}
    expected = plain_auroc(list(known.values()), [right[name] for name in known])
    assert table.loc["p_true", "auroc"] == pytest.approx(expected)
    assert table.loc[before.index, "auroc"].equals(before["auroc"])


def test_of_a_mean_over_samples_the_value_is_the_mean_of_those_asked_about(tmp_path: Path) -> None:
    run = graded_run(tmp_path / "run")
    with_truths(run, {("p0", "sample", 0): 0.2, ("p0", "sample", 3): 0.6, ("p0", "greedy", 0): 0.9})
    keys = [("p0", "mean", 0), ("p0", "sample", 3), ("p0", "sample", 1), ("p1", "mean", 0)]
    (found,) = asked_values(run, [stats.get("p_true"), stats.get("n_tokens")], keys).values()
    assert found[:2].tolist() == pytest.approx([0.4, 0.6])
    assert np.isnan(found[2:]).all()


def test_what_was_not_asked_is_undefined_where_it_is_named(tmp_path: Path) -> None:
    run = graded_run(tmp_path / "run")
    assert asked_estimators(run) == []
    table = evaluated(run, estimators=["p_true", "choice_margin(sum)"], bootstrap=0)
    assert table.loc[["p_true", "choice_margin(score=sum)"], "n_undefined"].tolist() == [8, 8]


def test_an_estimator_of_any_table_beside_a_run_is_found(run: Run) -> None:
    assert {one.name for one in asked_estimators(run)} == OF_CHOICES


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pick", "has no choices to pick"),
        ("pick:words", "there is no score 'words': give pick:letter, pick:sum"),
    ],
)
def test_a_pick_that_there_is_not_is_refused(tmp_path: Path, target: str, message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        evaluate_run(graded_run(tmp_path / "run"), Question(target=target))


def test_fields_have_no_pick_and_no_asked_estimators() -> None:
    with pytest.raises(ToolkitError, match="target pick:sum is of whole answers"):
        Question(by="field", target="pick:sum")
    with pytest.raises(ToolkitError, match="p_true is of whole answers"):
        _ = Question(by="field", estimators=["p_true"]).chosen
    assert pick_score("greedy") is pick_score(None) is None


def test_an_estimator_of_a_users_own_is_taken_up_where_its_table_is(tmp_path: Path) -> None:
    def answered_as_asked(columns: Any, questions: Any) -> Any:
        """Probability of True and False together; higher is more confident. arXiv 2207.05221."""
        return columns["truths.mass"]

    add = partial(stats.register, level="asked", higher_is_confident=True, range=(0, 1), source="ours")
    try:
        add("answered_as_asked", inputs=("truths.mass",))(answered_as_asked)
        run = with_truths(graded_run(tmp_path / "run"), {("p0", "greedy", 0): 0.5})
        assert evaluated(run, bootstrap=0).loc["answered_as_asked", "n"] == 1
        with pytest.raises(ToolkitError, match=r"inputs must be TABLE\.COLUMN, of one table"):
            add("other", inputs=("truths.mass", "choices.pmi"))(answered_as_asked)
        add("lost", inputs=("nowhere.mass",))(answered_as_asked)
        with pytest.raises(ToolkitError, match="an estimator reads the table 'nowhere'"):
            evaluated(run, estimators=["lost"], bootstrap=0)
    finally:
        for name in ("answered_as_asked", "lost"):
            registry._ESTIMATORS.pop(name, None)
