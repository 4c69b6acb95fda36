"""Grading a run: values against graders called by hand, and what is kept beside the run."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.answers import Answer, add_answers, by_key, greedy, make_answers, prompt, sample
from tests.store.factory import make_manifest
from toolkit.errors import DataFault, ToolkitError
from toolkit.grading import Contains, Exact
from toolkit.judging.grades import grade, grade_run, keep_grades, summarize_grades
from toolkit.judging.settings import make_judging, with_settings
from toolkit.store import Run, RunWriter, files, open_run, open_runs
from toolkit.store.grades import grade_sets
from toolkit.store.validate import validate

PROMPTS = [prompt("france", "Paris", "paris city"), prompt("italy", "Rome"), prompt("nowhere")]
ANSWERS = [
    greedy("france", "Paris", -0.1),
    sample("france", 0, "Lyon", -1.0),
    sample("france", 1, "<think>Lyon?</think>It is Paris", -0.5),
    greedy("italy", "<think>Rome</think>Milan", -0.4),
    sample("italy", 0, "<think>Rome is", -0.4, end=None, finish_reason="length"),
    sample("italy", 1, "Rome", -0.4, end=None, finish_reason="error"),
    greedy("nowhere", "Paris", -0.2),
]
REFERENCES = {one.prompt_id: list(one.reference) for one in PROMPTS}
ANSWER_TEXTS = ["Paris", "Lyon", "It is Paris", "Milan", None, None, "Paris"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_answers(tmp_path / "run", PROMPTS, ANSWERS)


def contents(run: Run) -> dict[str, str]:
    """Hashes of the files of a run, those of the grades left out."""
    return {
        str(path.relative_to(run.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.path.rglob("*")
        if path.is_file() and path.parent.name != "grades"
    }


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def test_every_answer_gets_what_the_grader_says_of_it(run: Run) -> None:
    frame = grade(run, "contains")
    values = by_key(frame, "value")
    assert len(frame) == len(ANSWERS)
    for answer, text in zip(ANSWERS, ANSWER_TEXTS, strict=True):
        expected = Contains().grade(text, REFERENCES[answer.prompt_id]).value
        if answer.finish_reason == "error":
            expected = math.nan
        assert same(values[answer.key], expected), answer
    assert values["italy", "sample", 0] == 0  # all thinking: no answer is wrong
    assert math.isnan(values["nowhere", "greedy", 0])


def test_the_span_that_was_judged_is_kept(run: Run) -> None:
    frame = grade(run, "exact")
    row = frame[(frame["prompt_id"] == "france") & (frame["sample_index"] == 1)].iloc[0]
    assert ANSWERS[2].text[row["span_start"] : row["span_end"]] == "It is Paris"
    assert set(frame["span_kind"]) == {"answer"}
    assert by_key(frame, "extracted")["france", "greedy", 0] == "Paris"


def test_all_of_the_text_is_judged_where_asked_for(run: Run) -> None:
    values = by_key(grade(run, "contains", over="sequence"), "value")
    assert values["italy", "greedy", 0] == 1
    assert by_key(grade(run, "exact", over="regex:is (\\w+)"), "value")["france", "sample", 1] == 1


def test_a_prompt_that_ends_in_thinking_makes_its_text_thinking(tmp_path: Path) -> None:
    prompts = [prompt("p", "Rome", text="<|assistant|><think>\n")]
    answers = [sample("p", 0, "Rome", -1.0), sample("p", 1, "Milan</think>Rome", -1.0)]
    values = by_key(grade(make_answers(tmp_path / "run", prompts, answers), "contains"), "value")
    assert (values["p", "sample", 0], values["p", "sample", 1]) == (0, 1)


def test_what_nobody_can_say_is_null_in_the_file_and_counted(run: Run) -> None:
    frame = grade(run, "contains")
    (one,) = grade_sets(run.path)
    table = pq.read_table(one.path)
    assert table["value"].null_count == 2
    summary = summarize_grades(frame).set_index("kind")
    assert summary.loc["greedy"].to_dict() == {"n": 2, "n_undefined": 1, "value": 0.5}
    assert summary.loc["sample"].to_dict() == {"n": 3, "n_undefined": 1, "value": pytest.approx(1 / 3)}


def test_grading_needs_a_reference_somewhere(tmp_path: Path) -> None:
    run = make_answers(tmp_path / "run", [prompt("p")], [sample("p", 0, "Rome", -1.0)])
    with pytest.raises(ToolkitError, match=r"no prompt has a reference: .* labels:FILE"):
        grade(run, "exact")
    assert not grade_sets(run.path)
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"prompt_id": "p", "value": 1}))
    assert grade(run, f"labels:{labels}")["value"].tolist() == [1.0]


def test_a_reference_that_cannot_be_used_is_named_with_its_prompt(run: Run) -> None:
    with pytest.raises(ToolkitError, match="prompt 'france': reference 'Paris' is not JSON"):
        grade(run, "exact", by="field")


def test_the_tables_of_the_run_stay_as_they_are(run: Run) -> None:
    before = contents(run)
    grade(run, "exact")
    grade(run, "contains")
    grade(run, "exact", over="sequence")
    after = contents(run)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) <= {".guard"}
    assert sorted(one.grader for one in grade_sets(run.path)) == ["contains", "exact", "exact"]
    assert list(validate(run.path)) == []


def test_the_same_grader_again_judges_only_what_is_new(run: Run) -> None:
    first = keep_grades(run, make_judging("exact"))
    (one,) = grade_sets(run.path)
    inode = one.path.stat().st_ino
    again = keep_grades(run, make_judging("exact"))
    assert one.path.stat().st_ino == inode
    assert again.grades.equals(first.grades)
    with RunWriter.open(run.path, make_manifest()) as writer:
        add_answers(writer, [sample("italy", 2, "Rome", -0.3)])
    more = keep_grades(open_run(run.path), make_judging("exact"))
    assert len(more.grades) == len(first.grades) + 1
    assert by_key(more.grades, "value")["italy", "sample", 2] == 1
    assert list(validate(run.path)) == []


def test_overwriting_judges_all_again(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "judge.py"
    module.write_text("from other import VALUE\ndef right(text, references):\n    return VALUE\n")
    helper = tmp_path / "other.py"
    helper.write_text("VALUE = 0\n")
    import sys

    sys.path.insert(0, str(tmp_path))
    try:
        target = f"function:{module}:right"
        assert grade(run, target)["value"].max() == 0
        sys.modules["other"].VALUE = 1  # type: ignore[attr-defined]
        assert grade(run, target)["value"].max() == 0
        assert grade(run, target, overwrite=True)["value"].max() == 1
        assert len(grade_sets(run.path)) == 1
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("other", None)


def test_a_failed_write_leaves_the_grades_that_were_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = grade(run, "exact")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", fail)
        with pytest.raises(DataFault, match="No space left"):
            grade(run, "exact", overwrite=True)
    assert grade(run, "exact").equals(before)
    assert [path.suffix for path in (run.path / "grades").iterdir()] == [".parquet"]


def test_what_a_killed_process_left_is_removed(run: Run) -> None:
    grade(run, "exact")
    left = run.path / "grades" / ".exact-1.parquet.abc.tmp"
    left.write_bytes(b"half")
    grade(run, "contains")
    assert not left.exists()


def test_grades_survive_a_collection_that_goes_on(run: Run) -> None:
    before = grade(run, "exact")
    with RunWriter.open(run.path, make_manifest()):
        pass
    assert open_run(run.path).grades_df("exact").equals(before)


def test_fields_are_judged_one_by_one_where_their_values_stand(tmp_path: Path) -> None:
    reference = json.dumps({"city": "Paris", "people": [2, 3], "old": True})
    texts = [
        '<think>{"city": "Lyon"}</think>Here: {"city": "Paris", "people": [2, 4], "old": true}',
        '{"city": "Lyon", "peo',
        "Paris",
    ]
    answers = [sample("p", i, text, -1.0) for i, text in enumerate(texts)]
    run = make_answers(tmp_path / "run", [prompt("p", reference)], answers)
    frame = grade(run, "exact", by="field")
    rows = {
        i: [
            (texts[i][row.span_start : row.span_end], row.value)
            for row in frame[frame["sample_index"] == i].itertuples()
        ]
        for i in range(3)
    }
    assert rows[0] == [("Paris", 1), ("2", 1), ("4", 0), ("true", 1)]
    assert sorted(rows[1]) == [("", 0), ("", 0), ("", 0), ("Lyon", 0)]
    assert rows[2] == [("", 0)] * 4
    assert set(frame["span_kind"]) == {"field"}
    assert list(validate(run.path)) == []


def test_numbers_are_judged_by_the_number_grader_that_is_given(tmp_path: Path) -> None:
    run = make_answers(tmp_path / "run", [prompt("p", '{"n": 10}')], [sample("p", 0, '{"n": 10.4}', -1.0)])
    assert grade(run, "number", by="field")["value"].tolist() == [0]
    assert grade(run, "number:0.5", by="field")["value"].tolist() == [1]


@pytest.mark.parametrize(("n_long", "warned"), [(1, False), (2, True)])
def test_a_warning_where_over_five_percent_ended_by_length(tmp_path: Path, n_long: int, warned: bool) -> None:
    answers = [
        sample("p", i, "Rome", -1.0, finish_reason="length" if i < n_long else "stop") for i in range(20)
    ]
    run = make_answers(tmp_path / "run", [prompt("p", "Rome")], answers)
    graded = grade_run(run, make_judging("exact"))
    assert (graded.warning is not None) == warned
    if warned:
        assert "10.0% of the sequences (2 of 20) ended by length" in str(graded.warning)


def test_given_completions_end_where_they_were_given_to(tmp_path: Path) -> None:
    answers = [Answer("p", ["Rome"], [-1.0], kind="scored", end=None, finish_reason="length")]
    graded = grade_run(make_answers(tmp_path / "run", [prompt("p", "Rome")], answers), make_judging("exact"))
    assert graded.warning is None
    assert graded.grades["value"].tolist() == [1]


def test_any_setting_changes_the_hash() -> None:
    judgings = [
        make_judging("contains"),
        make_judging("contains", over="sequence"),
        make_judging("contains", over="regex:x"),
        make_judging("contains", over="field:a"),
        make_judging("contains", over="field:b"),
        make_judging("contains", by="field"),
        make_judging("contains", settings={"whole_words": False}),
        make_judging("contains", settings={"accents": False}),
        make_judging("exact"),
        make_judging("number"),
        make_judging("number", settings={"absolute": 1}),
    ]
    assert len({judging.config_hash for judging in judgings}) == len(judgings)
    assert make_judging("contains").config_hash == make_judging(Contains()).config_hash


def test_settings_reach_the_grader_and_its_normalizer() -> None:
    loose = with_settings(Exact(), {"accents": False})
    assert loose.grade("Bogota", ["Bogotá"]).value == 1
    assert Exact().grade("Bogota", ["Bogotá"]).value == 0


@pytest.mark.parametrize(
    ("grader", "settings", "message"),
    [
        (
            "contains",
            {"words": True},
            "no setting 'words': it has whole_words, punctuation, articles, accents",
        ),
        ("contains", {"whole_words": "no"}, "whole_words is 'no': give true or false"),
        ("number", {"absolute": "x"}, "absolute is 'x': give a number"),
        ("number", {"which": "middle"}, "give last, first or any"),
        ("magic", {}, "unknown grader 'magic': give one of exact"),
    ],
)
def test_settings_and_graders_that_are_not_are_refused(
    grader: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolkitError, match=message):
        make_judging(grader, settings=settings)


def test_grades_can_be_read_as_a_frame_by_the_name_they_were_given(run: Run) -> None:
    with pytest.raises(ToolkitError, match="nothing is graded: run toolkit grade"):
        run.grades_df()
    whole, loose = grade(run, "any-of"), grade(run, "number:0.5")
    assert len(run.grades_df()) == len(whole) + len(loose)
    for name in ("any-of", "any_of", f"any_of@{whole['config_hash'][0][:4]}"):
        assert run.grades_df(name).equals(whole)
    assert run.grades_df("number:0.5").equals(loose)
    assert set(run.grades_df(kinds=["greedy"])["kind"]) == {"greedy"}
    assert set(run.grades_df("any-of", prompts=["italy"])["prompt_id"]) == {"italy"}
    with pytest.raises(
        ToolkitError, match=r"there are no grades by 'exact': there are any_of@\w{6} \(over answer\)"
    ):
        run.grades_df("exact")


def test_two_gradings_of_one_name_must_be_told_apart(run: Run) -> None:
    grade(run, "exact")
    other = grade(run, "exact", over="sequence")
    with pytest.raises(ToolkitError, match=r"'exact' names several .*over answer.*over sequence.*NAME@HASH"):
        run.grades_df("exact")
    assert run.grades_df(f"exact@{other['config_hash'][0]}").equals(other)


def test_several_runs_come_one_below_the_other(run: Run, tmp_path: Path) -> None:
    other = make_answers(tmp_path / "other", PROMPTS, ANSWERS[:2])
    grade(run, "exact")
    grade(other, "exact")
    frame = open_runs([run.path, other.path]).grades_df("exact")
    assert frame["run"].tolist() == ["run"] * len(ANSWERS) + ["other"] * 2


def test_a_damaged_file_of_grades_is_named(run: Run) -> None:
    grade(run, "exact")
    (one,) = grade_sets(run.path)
    one.path.write_bytes(one.path.read_bytes()[:100])
    with pytest.raises(DataFault, match=one.path.name):
        run.grades_df()


def test_an_answer_without_tokens_is_judged(tmp_path: Path) -> None:
    empty = Answer("p", [], [], sample_index=0)
    run = make_answers(tmp_path / "run", [prompt("p", "Rome")], [empty])
    frame = grade(run, "contains")
    assert frame[["value", "span_start", "span_end"]].values.tolist() == [[0, 0, 0]]
