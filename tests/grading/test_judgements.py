"""A function's and a person's judgements."""

from __future__ import annotations

import math
import sys

import pytest

from toolkit.errors import ToolkitError
from toolkit.grading import Function, Labels, parse_grader

KEY = ("q1", "sample", 0)


def shares_a_letter(text, references):
    return len(set(text) & set(references[0])) / len(set(references[0]))


@pytest.mark.parametrize(
    ("returned", "expected"),
    [(True, 1), (False, 0), (0.25, 0.25), (1, 1), (None, math.nan), (math.nan, math.nan)],
)
def test_a_functions_value_is_the_grade(returned, expected):
    found = Function(lambda text, references: returned).grade(" x ", ["y"])
    assert found.value == pytest.approx(expected, nan_ok=True)
    assert found.extracted == (None if math.isnan(expected) else "x")


def test_a_function_sees_text_and_references_but_no_missing_answer():
    assert Function(shares_a_letter).grade("abc", ["bcde"]).value == 0.5
    assert Function(shares_a_letter).grade(None, ["bcde"]) == (0.0, None)


def test_a_function_is_found_by_name_here_or_in_a_file(tmp_path, monkeypatch):
    (tmp_path / "my_judge_here.py").write_text(
        "def judge(text, references):\n    return text in references\n"
    )
    monkeypatch.chdir(tmp_path)
    for target in ("my_judge_here:judge", str(tmp_path / "my_judge_here.py") + ":judge"):
        grader = parse_grader(f"function:{target}")
        assert grader.grade("b", ["a", "b"]).value == 1
        assert grader.grade("c", ["a", "b"]).value == 0


def test_a_file_may_hold_a_dataclass(tmp_path):
    (tmp_path / "judge.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Limits:\n    low: float = 0.5\n"
        "def judge(text, references):\n    return Limits().low\n"
    )
    assert Function(f"{tmp_path / 'judge.py'}:judge").grade("x", []).value == 0.5


def test_a_file_that_fails_leaves_no_module_behind(tmp_path):
    (tmp_path / "judge.py").write_text("raise OSError('no disk')\n")
    before = set(sys.modules)
    with pytest.raises(ToolkitError, match="OSError: no disk"):
        Function(f"{tmp_path / 'judge.py'}:judge")
    assert set(sys.modules) == before


@pytest.mark.parametrize("there", [True, False])
def test_importing_leaves_the_path_as_it_was(there, tmp_path, monkeypatch):
    (tmp_path / f"a_judge_{there}.py").write_text("judge = max\n")
    monkeypatch.chdir(tmp_path)
    path = [*([str(tmp_path)] if there else []), *sys.path]
    monkeypatch.setattr(sys, "path", list(path))
    Function(f"a_judge_{there}:judge")
    assert sys.path == path


def test_a_functions_hash_changes_with_its_source(tmp_path):
    hashes = []
    for number, body in enumerate(("True", "False")):
        path = tmp_path / f"judge_{number}.py"
        path.write_text(f"def judge(text, references):\n    return {body}\n")
        hashes.append(Function(f"{path}:judge").config()["source"])
    assert None not in hashes
    assert hashes[0] != hashes[1]
    assert Function(max).config()["source"] is None
    assert Function(shares_a_letter).config_hash == Function(shares_a_letter).config_hash


def broken(text, references):
    raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Function("judge"), "'judge' names no function: give module:function"),
        (lambda: Function("no_such_module:f"), "cannot import no_such_module: ModuleNotFoundError"),
        (lambda: Function("no/such.py:f"), "cannot import no/such.py: FileNotFoundError"),
        (lambda: Function("math:nothing"), "math:nothing: math has no nothing"),
        (lambda: Function("math:pi"), "math:pi is float: give a function"),
        (lambda: Function(broken).grade("x", []), "broken raised ValueError: no such thing"),
        (lambda: Function(lambda t, r: 2).grade("x", []), "returned 2: it may return 0 to 1"),
        (lambda: Function(lambda t, r: "yes").grade("x", []), "returned 'yes'"),
    ],
)
def test_a_function_that_cannot_judge_is_named(call, message):
    with pytest.raises(ToolkitError, match=message):
        call()


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return Labels(str(path))


CSV = (
    "prompt_id,kind,sample_index,value,who\n"
    "q1,sample,0,1,me\nq1,greedy,0,wrong,me\nq2,,,0.5,me\nq3,sample,0,,me\n"
)
JSONL = (
    '{"prompt_id": "q1", "kind": "sample", "sample_index": 0, "value": true}\n'
    '{"prompt_id": "q1", "kind": "greedy", "sample_index": 0, "value": false}\n\n'
    '{"prompt_id": "q2", "value": 0.5}\n'
    '{"prompt_id": "q3", "kind": "sample", "sample_index": 0, "value": null}\n'
)


@pytest.mark.parametrize(("name", "text"), [("l.csv", CSV), ("l.jsonl", JSONL), ("l.CSV", "\ufeff" + CSV)])
def test_labels_are_found_by_sequence_then_by_prompt(name, text, tmp_path):
    labels = write(tmp_path, name, text)

    def value(*key):
        return labels.grade("x", [], key=key).value

    assert value("q1", "sample", 0) == 1
    assert value("q1", "greedy", 0) == 0
    assert value("q2", "sample", 5) == 0.5
    for ungraded in (("q3", "sample", 0), ("q1", "sample", 1), ("q9", "greedy", 0)):
        assert math.isnan(value(*ungraded))


@pytest.mark.parametrize("index", ["1", "1.0", '"1"', '"1.0"'])
def test_a_sample_index_is_a_whole_number_however_it_is_written(index, tmp_path):
    row = f'{{"prompt_id": "q1", "kind": "sample", "sample_index": {index}, "value": 1}}\n'
    labels = write(tmp_path, "l.jsonl", row)
    assert labels.grade("x", [], key=("q1", "sample", 1)).value == 1


@pytest.mark.parametrize("index", ["1.7", "true", "-1", '"x"', "[1]", "NaN", "1" + "0" * 400])
def test_what_is_no_sample_index_is_refused(index, tmp_path):
    row = f'{{"prompt_id": "q1", "kind": "sample", "sample_index": {index}, "value": 1}}\n'
    with pytest.raises(ToolkitError, match=r"l\.jsonl:1: sample_index is .*: give a whole number, from 0"):
        write(tmp_path, "l.jsonl", row)


def test_a_label_of_a_wording_holds_for_every_sample_that_has_it(tmp_path):
    labels = write(tmp_path, "l.csv", 'prompt_id,text,value\nq1,"Paris, France",1\nq1,Rome,0\n')
    assert labels.grade(" Paris, France\n", [], key=KEY).value == 1
    assert labels.grade("Rome", [], key=KEY).value == 0
    assert math.isnan(labels.grade("Lyon", [], key=KEY).value)
    assert math.isnan(labels.grade(None, [], key=KEY).value)


def test_the_hash_is_of_what_the_labels_say(tmp_path):
    first = write(tmp_path, "l.csv", CSV)
    same = write(tmp_path, "l.jsonl", JSONL)
    other = write(tmp_path, "o.csv", CSV.replace("0.5", "0.6"))
    assert first.config_hash == same.config_hash != other.config_hash


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.csv", "id,value\n1,1\n", r"l\.csv:2: no prompt_id"),
        ("l.csv", "", "no labels in it"),
        ("l.csv", "prompt_id,value\nq1,maybe\n", r"l\.csv:2: value is 'maybe': give 0 to 1"),
        ("l.csv", "prompt_id,value\nq1,1.5\n", "value is '1.5'"),
        ("l.csv", "prompt_id,value\nq1,nan\n", "value is 'nan'"),
        ("l.csv", "prompt_id,kind,value\nq1,greedy,1\n", "give kind and sample_index, or neither"),
        (
            "l.csv",
            "prompt_id,kind,sample_index,value\nq1,best,0,1\n",
            "kind is 'best': give one of beam, greedy",
        ),
        ("l.csv", "prompt_id,kind,sample_index,value\nq1,greedy,x,1\n", "sample_index is 'x'"),
        ("l.csv", "prompt_id,value\nq1,1\nq1,0\n", r"l\.csv:3: .*already has the value 1"),
        ("l.jsonl", '{"prompt_id": "q1", "value": 1}\n{"value"\n', r"l\.jsonl:2: not JSON"),
        ("l.jsonl", "[1]\n", r"l\.jsonl:1: \[1\] is no object"),
        ("l.jsonl", '{"prompt_id": "q1", "value": [1]}\n', r"value is \[1\]"),
    ],
)
def test_a_fault_in_a_label_file_is_named_with_its_line(name, text, message, tmp_path):
    with pytest.raises(ToolkitError, match=message):
        write(tmp_path, name, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ToolkitError, match="cannot be read"):
        Labels(str(tmp_path / "none.csv"))
    (tmp_path / "l.csv").write_bytes(b"prompt_id,value\n\xff,1\n")
    with pytest.raises(ToolkitError, match="not UTF-8"):
        Labels(str(tmp_path / "l.csv"))


def test_labels_need_a_key(tmp_path):
    with pytest.raises(ToolkitError, match="give key"):
        write(tmp_path, "l.csv", CSV).grade("x", [])
