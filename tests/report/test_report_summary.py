"""What a report says of its sequences: counts, confidence, accuracy, and what is least sure."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest

from tests.answers import Answer, greedy, make_answers, prompt, sample
from tests.graded import graded_run
from toolkit.judging.evaluation import Evaluation, evaluate_run
from toolkit.judging.grades import grade
from toolkit.judging.question import Question
from toolkit.report import least
from toolkit.report.least import Least, LeastSure, probability, reader_link
from toolkit.report.paging import PageWriter
from toolkit.report.reading import Source
from toolkit.report.summary import Summary, summarize
from toolkit.report.tally import Tally
from toolkit.stats.bootstrap import intervals, mean_of
from toolkit.stats.calibration import wilson_interval
from toolkit.store import Run
from toolkit.store.grades import grade_sets


def counted(run: Run, folder: Path, greedy_runs: tuple[int, ...] = (0,)) -> tuple[Source, Tally]:
    sets = grade_sets(run.path)
    source = Source(0, run, "made", grades=sets[0] if sets else None)
    tally, pages = Tally(greedy_runs), PageWriter(folder, 0, 0)
    for one in source.prompts():
        tally.add(one, pages.add(one))
    return source, tally


def summary_of(run: Run, folder: Path, evaluation: Evaluation | None = None) -> Summary:
    source, tally = counted(run, folder)
    return summarize([source], tally, {} if evaluation is None else {0: evaluation}, ["report.html"])


def sentences(run: Run, folder: Path, evaluation: Evaluation | None = None) -> list[str]:
    (one,) = summary_of(run, folder, evaluation).runs
    return one.sentences


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return graded_run(tmp_path_factory.mktemp("summary") / "run")


def test_counts_are_those_of_the_tables(run: Run, tmp_path: Path) -> None:
    _, tally = counted(run, tmp_path)
    frame = run.sequences_df()
    for kind, rows in frame.groupby("kind"):
        found = tally.kinds[0, str(kind)]
        assert (found.n_sequences, found.n_prompts) == (len(rows), rows["prompt_id"].nunique())
        assert found.n_tokens == rows["n_tokens"].sum()
        assert found.finishes == Counter(rows["finish_reason"])
        mean = rows["sum_logprob"].sum() / rows["n_tokens"].sum()
        assert found.mean_prob == pytest.approx(math.exp(mean))


def test_accuracy_has_wilsons_interval_where_prompts_have_one_answer(run: Run, tmp_path: Path) -> None:
    _, tally = counted(run, tmp_path)
    values = run.grades_df(kinds=["greedy"])["value"].to_numpy()
    found = tally.kinds[0, "greedy"].accuracy
    low, high = wilson_interval(values.sum(), len(values))
    assert found is not None
    assert found == (values.mean(), low, high, values.sum(), len(values), "Wilson")


def test_accuracy_of_several_answers_a_prompt_is_drawn_over_prompts(run: Run, tmp_path: Path) -> None:
    _, tally = counted(run, tmp_path)
    rows = run.grades_df(kinds=["sample"])
    (expected,) = intervals(mean_of(rows["value"].to_numpy()), rows["prompt_id"].to_numpy())
    found = tally.kinds[0, "sample"].accuracy
    assert found is not None
    assert found.method == "bootstrap over prompts"
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)


def test_sentences_say_it_in_plain_words(run: Run, tmp_path: Path) -> None:
    evaluation = evaluate_run(run, Question(bootstrap=20, target="each"))
    what, ended, sure, right, best = sentences(run, tmp_path, evaluation)
    frame = run.sequences_df()
    assert what == (
        f"made, 8 prompts: 8 greedy answers and 40 samples, {frame['n_tokens'].sum()} tokens in all. "
        "Samples were drawn with temperature 0.8."
    )
    assert ended == "How they ended: 48 by themselves."
    sums = frame.groupby("kind")[["sum_logprob", "n_tokens"]].sum()
    drawn, best_of = (
        math.exp(sums["sum_logprob"][kind] / sums["n_tokens"][kind]) for kind in ("sample", "greedy")
    )
    assert sure.endswith(f": {best_of:.2f} in greedy answers and {drawn:.2f} in samples (geometric mean).")
    n = int(run.grades_df(kinds=["greedy"])["value"].sum())
    assert right.startswith(f"{100 * n / 8:.1f} % of the greedy answers are right ({n} of 8; 95 % interval ")
    assert ", Wilson) and " in right
    assert right.endswith("bootstrap over prompts), by the grader " + grade_sets(run.path)[0].label + ".")
    defined = evaluation.frame[evaluation.frame["auroc"].notna()]["estimator"]
    assert best.startswith(f"Of {len(set(defined) - {'random', 'n_tokens'})} estimators of confidence, ")
    assert " over 40 judged answers of the whole run; chance has 0.5, the length alone " in best


def test_no_estimator_is_the_best_where_hardly_any_are_wrong(run: Run, tmp_path: Path) -> None:
    said = sentences(run, tmp_path, evaluate_run(run, Question(bootstrap=20)))[-1]
    n = int(run.grades_df(kinds=["greedy"])["value"].sum())
    assert said == (
        f"Which estimator tells right from wrong cannot be said: {n} right and {8 - n} wrong are too few."
    )


def test_the_best_estimator_is_the_first_that_is_no_baseline(run: Run, tmp_path: Path) -> None:
    evaluation = evaluate_run(run, Question(bootstrap=20, target="each"))
    frame = evaluation.frame[~evaluation.frame["estimator"].isin(["random", "n_tokens"])]
    first = frame.sort_values("auroc", ascending=False, kind="stable").iloc[0]
    said = sentences(run, tmp_path, evaluation)[-1]
    assert f"{first['estimator']} tells right from wrong best: AUROC {first['auroc']:.2f} (" in said


def test_how_sequences_ended_is_counted(tmp_path: Path) -> None:
    answers = [
        greedy("p", "a", -1.0),
        sample("p", 0, "a", -1.0, end=None, finish_reason="length"),
        sample("p", 1, "a", -1.0, end=None, finish_reason="length"),
        sample("p", 2, "a", -1.0, end=None, finish_reason="error"),
    ]
    made = make_answers(tmp_path / "run", [prompt("p")], answers)
    assert sentences(made, tmp_path)[1] == (
        "How they ended: 1 by themselves, 2 cut off at the limit of their length, 1 broken off with an error."
    )


def test_a_run_without_grades_says_how_to_get_them(tmp_path: Path) -> None:
    made = make_answers(tmp_path / "run", [prompt("p")], [greedy("p", "a", -1.0)])
    assert sentences(made, tmp_path)[0] == "made, 1 prompt: 1 greedy answer, 2 tokens in all."
    assert sentences(made, tmp_path)[-1].startswith("Nothing is graded: toolkit grade ")
    assert [name for name, _ in summary_of(made, tmp_path).tiles] == ["prompts", "sequences", "tokens"]


def test_what_nobody_can_grade_is_counted(tmp_path: Path) -> None:
    answers = [greedy("p", "Yes", -1.0), greedy("q", "Yes", -1.0, end=None, finish_reason="error")]
    made = make_answers(tmp_path / "run", [prompt("p", "Yes"), prompt("q", "Yes")], answers)
    grade(made, "exact")
    assert sentences(made, tmp_path)[-1].endswith(". 1 sequence is not graded.")
    assert "100.0 % of the greedy answers are right (1 of 1; 95 % interval" in sentences(made, tmp_path)[-1]


def test_an_answer_without_tokens_is_neither_sure_nor_unsure(tmp_path: Path) -> None:
    made = make_answers(tmp_path / "run", [prompt("p")], [Answer("p", [], [], "greedy", end=None)])
    found = summary_of(made, tmp_path)
    assert found.runs[0].sentences[2] == "No token was written."
    assert (found.answers, found.words) == ([], [])
    assert found.rows[0].mean_prob == "–"


def least_run(path: Path) -> Run:
    answers = [
        greedy("a", "sure sure", *[-0.1] * 9, end=-0.1),
        Answer("b", ["🎉 ", "ape", " bee", "."], [-0.1, -5.0, -0.2, -0.1], "greedy"),
        Answer("c", ["cat", " dog"], [-2.0, -2.5], "greedy"),
        sample("c", 0, "x", -9.0),
    ]
    return make_answers(path, [prompt(name, index=i) for i, name in enumerate("abc")], answers)


def test_the_least_sure_answers_and_words_are_of_the_greedy_ones(tmp_path: Path) -> None:
    found = summary_of(least_run(tmp_path / "run"), tmp_path)
    assert [one.text for one in found.answers] == ["cat dog", "🎉 ape bee.", "sure sure"]
    assert [(one.before, one.text, one.after) for one in found.words] == [
        ("🎉 ", "ape", " bee."),
        ("cat ", "dog", ""),
        ("", "sure", " sure"),
    ]
    assert [one.prob for one in found.words] == [probability(math.exp(v)) for v in (-5.0, -2.5, -0.1)]
    link = parse_qs(found.words[1].href[1:])
    assert link == {
        **{"prompt": ["c"], "run": ["0"], "kind": ["greedy"], "sample": ["0"]},
        **{"by": ["word"], "metric": ["mean_logprob"], "span": ["1"]},
    }
    assert found.least_of == "Of the greedy answers."


def test_without_greedy_answers_the_samples_are_looked_at_one_a_prompt(tmp_path: Path) -> None:
    answers = [sample("p", i, "x", -float(i)) for i in range(3)]
    made = make_answers(tmp_path / "run", [prompt("p")], answers)
    source, tally = counted(made, tmp_path, ())
    found = summarize([source], tally, {}, ["report.html"])
    assert len(found.answers) == 1
    assert "&sample=2" in found.answers[0].href
    assert len(found.words) == 3
    assert found.least_of == ""


def test_links_to_another_page_name_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.report.paging.PAGE_SEQUENCES", 1)
    source, tally = counted(least_run(tmp_path / "run"), tmp_path)
    files = ["report.html", "report-2.html", "report-3.html", "report-4.html"]
    found = summarize([source], tally, {}, files)
    pages = {one.text: one.href.partition("#")[0] for one in found.answers}
    assert pages == {"sure sure": "", "🎉 ape bee.": "report-2.html", "cat dog": "report-3.html"}


def entry(value: float, text: str) -> LeastSure:
    return LeastSure(value, 1, 0, ("p", "greedy", 0), "", "", text, "", None, None)


def test_the_list_keeps_the_smallest_and_of_equals_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least, "LISTED", 5)
    values = np.random.default_rng(3).integers(-9, 0, 200)
    found = Least()
    for i, value in enumerate(values.tolist()):
        found.add(entry(value, str(i)))
    found.add(None)
    order = np.lexsort((np.arange(200), values))[:5]
    assert [one.text for one in found] == [str(i) for i in order]


def test_long_texts_around_a_word_are_cut_between_words(tmp_path: Path) -> None:
    words = [f"word{i} " for i in range(40)]
    values = [-5.0 if i == 20 else -0.1 for i in range(40)]
    made = make_answers(tmp_path / "run", [prompt("p")], [Answer("p", words, values, "greedy")])
    (found,) = summary_of(made, tmp_path).words
    assert found.text == "word20"
    assert found.before.startswith("… word1")
    assert found.after.endswith(" …")
    assert max(len(found.before), len(found.after)) < 65


def test_a_megabyte_without_a_space_is_cut_too(tmp_path: Path) -> None:
    values = [-5.0, -0.1]
    made = make_answers(
        tmp_path / "run", [prompt("p")], [Answer("p", ["🎉" * 9000, "x" * 9000], values, "greedy")]
    )
    found = summary_of(made, tmp_path)
    shown = [*found.words, *found.answers]
    assert len(shown) == 2
    assert max(len(one.before + one.text + one.after) for one in shown) < 500


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1.0, "1.00"), (0.123, "0.12"), (0.0, "0.00"), (0.00123, "0.0012"), (math.nan, "–")),
        *((3.4e-7, "3 × 10⁻⁷"), (9.9e-11, "1 × 10⁻¹⁰")),
    ],
)
def test_probabilities_have_the_digits_they_need(value: float, text: str) -> None:
    assert probability(value) == text


def test_links_are_percent_encoded() -> None:
    link = reader_link(1, "a&b=c #\ud800", "sample", 3, by="word")
    assert link == "#prompt=a%26b%3Dc%20%23%3F&run=1&kind=sample&sample=3&by=word"


def test_several_runs_are_told_apart(run: Run, tmp_path: Path) -> None:
    sources = [Source(i, run, f"run {i}", grades=grade_sets(run.path)[0]) for i in range(2)]
    tally, pages = Tally([0, 1]), PageWriter(tmp_path, 0, 0)
    for source in sources:
        for one in source.prompts():
            tally.add(one, pages.add(one))
    found = summarize(sources, tally, {}, ["report.html"])
    assert [(row.run, row.kind) for row in found.rows] == [
        (f"run {i}", kind) for i in range(2) for kind in ("greedy", "sample")
    ]
    tiles: dict[str, Any] = dict(found.tiles)
    assert (tiles["runs"], tiles["sequences"], "prompts" in tiles) == ("2", "96", False)
    assert {one.run for one in found.answers} <= {"run 0", "run 1"}
