"""Tables, evaluations and reports are the same to the last bit, whichever engine reads the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import toolkit
from tests.scale.conftest import ENGINES
from tests.scale.functions import FirstHalf, FirstLetter
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.selection import Selection
from toolkit.aggregation.summary import summary_df
from toolkit.errors import ToolkitError
from toolkit.judging.evaluation import evaluate_run
from toolkit.judging.question import Question
from toolkit.report.writing import Settings, write_report
from toolkit.scale import LOCAL, Engine
from toolkit.stats import estimators
from toolkit.store import open_run

ALL = [one.label for one in estimators("token-span")]

pytestmark = pytest.mark.usefixtures("small_tasks")


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Every value, every bit, in the same order."""
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert len(found)


@pytest.mark.parametrize("by", ["segment", "sequence", "word", "prompt", "window:3:2", "regex:a", "answer"])
def test_a_summary_of_all_statistics_is_the_same(by: str, engine: Engine, many_parts: Path) -> None:
    here, there = open_run(many_parts), open_run(many_parts, engine)
    assert len(here.parts()) > 3
    assert_same(summary_df(there, by, ALL), summary_df(here, by, ALL))


def test_a_summary_by_token_is_the_same(engine: Engine, many_parts: Path) -> None:
    assert_same(summary_df(open_run(many_parts, engine), "token"), summary_df(open_run(many_parts), "token"))


def test_random_numbers_go_on_from_part_to_part(engine: Engine, many_parts: Path) -> None:
    metrics = ["random", "random(seed=3)", "n_tokens"]
    found = summary_df(open_run(many_parts, engine), "word", metrics)
    assert_same(found, summary_df(open_run(many_parts), "word", metrics))
    known = found.loc[found["n_tokens"] > 0, "random"]
    assert known.nunique() == len(known)


@pytest.mark.parametrize("by", ["word", "prompt"])
def test_a_selection_is_the_same(by: str, engine: Engine, many_parts: Path) -> None:
    chosen = Selection(["question-00001", "question-00005"], ["sample"], [0, 2])
    here, there = open_run(many_parts), open_run(many_parts, engine)
    assert_same(summary_df(there, by, None, chosen), summary_df(here, by, None, chosen))


def test_semantic_entropy_of_prompts_is_the_same(engine: Engine, many_parts: Path) -> None:
    metrics = ["semantic_entropy", "exact_match_rate", "mean_logprob"]
    here, there = open_run(many_parts), open_run(many_parts, engine)
    assert_same(summary_df(there, "prompt", metrics), summary_df(here, "prompt", metrics))


def test_frames_of_a_run_go_over_its_engine(engine: Engine, many_parts: Path) -> None:
    here, there = toolkit.open_runs([many_parts]), toolkit.open_runs([many_parts], engine)
    assert_same(there.spans_df(by="word"), here.spans_df(by="word"))


@pytest.mark.parametrize("target", ["greedy", "each", "vote", "mean"])
def test_an_evaluation_is_the_same(target: str, engine: Engine, graded: Path) -> None:
    some = None if target == "greedy" else ["mean_logprob", "semantic_entropy", "geometric_mean_prob"]
    question = Question(target=target, bootstrap=20, estimators=some)
    found = evaluate_run(open_run(graded, engine), question)
    expected = evaluate_run(open_run(graded), question)
    assert_same(found.frame, expected.frame)
    assert found.notes == expected.notes


def test_an_evaluation_by_its_path_takes_an_engine(engine: Engine, graded: Path) -> None:
    asked: dict[str, Any] = {"bootstrap": 0, "estimators": ["mean_logprob"]}
    assert_same(toolkit.evaluate(graded, engine=engine, **asked), toolkit.evaluate(graded, **asked))


def test_a_report_is_the_same_byte_for_byte(
    engine: Engine, graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.report.paging.PAGE_SEQUENCES", 12)
    settings = Settings(bootstrap=0, figures=False)
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, used in ((here, LOCAL), (there, engine)):
        folder.mkdir()
        write_report([graded], folder / "report.html", settings, used)
    pages = sorted(path.name for path in here.iterdir())
    assert len(pages) > 2
    assert pages == sorted(path.name for path in there.iterdir())
    for name in pages:
        assert (there / name).read_bytes() == (here / name).read_bytes()


def test_a_summary_survives_the_death_of_a_worker(engine: Engine, many_parts: Path, tmp_path: Path) -> None:
    finder = FirstHalf(tmp_path / "died")
    found = summary_df(open_run(many_parts, engine), finder)
    assert finder.marker.exists()
    assert_same(found, summary_df(open_run(many_parts), finder))


def test_an_evaluation_survives_the_death_of_a_worker(engine: Engine, graded: Path, tmp_path: Path) -> None:
    letter = FirstLetter(tmp_path / "died")
    of_samples = ["semantic_entropy", "exact_match_rate"]
    question = Question(bootstrap=0, estimators=of_samples, comparison=Comparison(_Letters(letter)))
    found = evaluate_run(open_run(graded, engine), question)
    assert letter.marker.exists()
    assert_same(found.frame, evaluate_run(open_run(graded), question).frame)


class _Letters:
    """The first letter; the empty text, which a comparison is tried with here, kills nothing."""

    def __init__(self, letter: FirstLetter) -> None:
        self.letter = letter

    def __call__(self, text: str) -> str:
        return self.letter(text) if text else ""


@pytest.mark.parametrize("name", ENGINES)
def test_a_finder_that_only_this_process_knows(
    name: str, engines: dict[str, Engine], many_parts: Path
) -> None:
    run = open_run(many_parts, engines[name])
    if name == "dask":  # it sends the function itself
        expected = summary_df(open_run(many_parts), lambda text: [(0, len(text))])
        assert_same(summary_df(run, lambda text: [(0, len(text))]), expected)
        return
    with pytest.raises(ToolkitError, match="cannot be sent to other processes"):
        summary_df(run, lambda text: [(0, len(text))])


def test_a_run_that_workers_do_not_find_is_named(engine: Engine, many_parts: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    many_parts.rename(moved)
    try:
        run = open_run(moved, engine)
        moved.rename(many_parts)
        with pytest.raises(ToolkitError, match=r"no run at .*workers have to find the run at the same path"):
            summary_df(run, "word")
    finally:
        if moved.exists():
            moved.rename(many_parts)


def test_a_worker_reads_the_parts_that_were_there_when_the_run_was_opened(
    engine: Engine, tmp_path: Path
) -> None:
    from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record
    from toolkit.store import RunWriter

    path = tmp_path / "run"
    with RunWriter.create(path, make_manifest()) as writer:
        writer.add_prompts([make_prompt("a")])
        writer.commit([make_record("a")], VOCABULARY)
        run = open_run(path, engine)
        writer.commit([make_record("a", sample_index=1)], VOCABULARY)
    for by in ("sequence", "prompt"):
        assert_same(summary_df(run, by, ["n_tokens"]), summary_df(run, by, ["n_tokens"]))
        assert len(summary_df(run, "sequence")) == 1
    assert len(summary_df(open_run(path, engine), "sequence")) == 2
