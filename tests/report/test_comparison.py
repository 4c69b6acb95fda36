"""The page of two runs as a file: what it says, and that nothing a run holds is obeyed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.answers import Answer, greedy, sample
from tests.graded import made
from tests.report.hostile import ATTACKS, OBEYED, Page, hostile_run, read_page
from toolkit.judging.comparing import Compared, compare_runs
from toolkit.judging.question import Question
from toolkit.report import comparison
from toolkit.report.comparison import write_comparison
from toolkit.report.comparison_text import sentences, tables
from toolkit.report.document import script, style
from toolkit.store import open_runs

FIRST = [greedy("p", "Yes", -0.1), greedy("q", "Yes", -0.2), greedy("r", "No", -0.9)]
SECOND = [greedy("p", "Yes", -0.3), greedy("q", "No", -0.9), greedy("r", "No", -1.2)]


def written(
    folder: Path, first: Sequence[Answer], second: Sequence[Answer], n_prompts: int = 20, **question: object
) -> tuple[Page, Compared]:
    runs = open_runs([made(folder / "a", first).path, made(folder / "b", second).path])
    asked = {"bootstrap": 20, "estimators": ["mean_logprob", "min_prob"], **question}
    found = compare_runs(runs, Question(**asked))  # type: ignore[arg-type]
    path = write_comparison(runs, found, folder / "c.html", n_prompts=n_prompts, figures=False)
    return read_page(path), found


def test_the_page_says_what_was_found(tmp_path: Path) -> None:
    page, found = written(tmp_path, FIRST, SECOND)
    text = " ".join(page.text.split())
    assert "b is right in 33.3 % and a in 66.7 %: a difference of -33.3 points" in text
    assert re.search(r"from right to wrong\s*1\b", text)
    frame = found.differences
    for row in frame[(frame.metric != "accuracy") & frame.difference.notna()].to_dict("records"):
        assert f"{row['difference']:z.3f}" in text
        assert f"{row['a']:z.3f}" in text
    assert page.island["title"] == "a and b: what differs?"
    assert page.island["view"] == "all"


def test_each_prompt_has_the_answers_of_both_runs_in_one_vocabulary(tmp_path: Path) -> None:
    page, found = written(tmp_path, FIRST, SECOND)
    island = page.island
    assert [prompt["id"] for prompt in island["prompts"]] == list(found.prompts["prompt_id"])
    texts = island["vocabulary"]["texts"]
    for prompt in island["prompts"]:
        own = [island["sequences"][i] for i in prompt["sequences"]]
        assert [one["run"] for one in own] == [0, 1]
        for one, answers in zip(own, (FIRST, SECOND), strict=True):
            (answer,) = (a for a in answers if a.prompt_id == prompt["id"])
            assert one["text"] == answer.text
            assert "".join(texts[v] for v in one["tokens"]["v"][:-1]) == answer.text
            assert one["tokens"]["logprob"][0] == pytest.approx(answer.logprobs[0], abs=1e-4)


def test_the_same_token_of_two_vocabularies_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second run every id stands for another token than in the first."""
    runs = open_runs([made(tmp_path / "a", FIRST).path, made(tmp_path / "b", FIRST).path])
    found = compare_runs(runs, Question(bootstrap=0, estimators=["mean_logprob"]))
    ids = sorted(runs.runs[1].vocabulary)
    other = dict(zip(ids, reversed([runs.runs[1].vocabulary[i] for i in ids]), strict=True))
    runs.runs[1].__dict__["vocabulary"] = other
    page = read_page(write_comparison(runs, found, tmp_path / "c.html", figures=False))
    texts = page.island["vocabulary"]["texts"]
    assert len(texts) == len(set(texts))
    first, second = page.island["sequences"][:2]
    literal = {entry.literal: number for number, entry in runs.runs[0].vocabulary.items()}
    expected = [other[literal[texts[v]]].literal for v in first["tokens"]["v"]]
    assert [texts[v] for v in second["tokens"]["v"]] == expected


def test_of_samples_the_first_are_shown(tmp_path: Path) -> None:
    answers = [sample("p", i, "Yes" if i % 2 else "No", -0.1 * i - 0.1) for i in range(6)]
    page, _ = written(tmp_path, answers, answers)
    shown = [(one["run"], one["sample"]) for one in page.island["sequences"]]
    assert shown == [(run, i) for run in (0, 1) for i in range(comparison.SEQUENCES)]


def test_of_a_vote_the_sample_that_was_elected_is_shown(tmp_path: Path) -> None:
    answers = [sample("p", i, text, -0.1) for i, text in enumerate(("No", "Yes", "Yes"))]
    page, _ = written(tmp_path, answers, answers, target="vote")
    assert [one["sample"] for one in page.island["sequences"]] == [1, 1]
    page, _ = written(tmp_path / "mean", answers, answers, target="mean")
    assert [one["sample"] for one in page.island["sequences"]] == [0, 1, 2, 0, 1, 2]


def test_few_prompts_are_asked_for_and_few_fit_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = written(tmp_path / "asked", FIRST, SECOND, n_prompts=2)
    assert len(page.island["prompts"]) == 2
    assert "The reader has 2 prompts, those that differ most; 1 more were compared." in page.text
    monkeypatch.setattr(comparison, "_TAKEN", 4_997_000)
    page, _ = written(tmp_path / "fit", FIRST, SECOND)
    n = len(page.island["prompts"])
    assert 1 <= n < 3
    assert f"The reader has {n} prompt" in page.text


def test_ungraded_runs_have_no_verdicts(tmp_path: Path) -> None:
    runs = [made(tmp_path / name, answers).path for name, answers in (("a", FIRST), ("b", SECOND))]
    for run in runs:
        for file in (run / "grades").iterdir():
            file.unlink()
    opened = open_runs(runs)
    found = compare_runs(opened, Question(bootstrap=20, estimators=["mean_logprob"]))
    page = read_page(write_comparison(opened, found, tmp_path / "c.html"))
    assert "What is right is not compared" in page.text
    assert "only confidence is compared" in page.text
    assert all(one["grade"] is None for one in page.island["sequences"])


def test_no_difference_is_said_plainly(tmp_path: Path) -> None:
    _, found = written(tmp_path, FIRST, FIRST)
    said = sentences(found, ["a", "b"])
    assert "a difference of 0.0 points (-" in said[0]
    assert said[0].endswith("so none was found: the interval holds 0.")
    assert "a difference of 0.000 (0.000 to 0.000), so none was found" in said[1]
    assert any("the AUROC is not found to differ for any" in one for one in said)
    assert all(row.without_zero == "" for table in tables(found) for row in table.all_rows)


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = open_runs([made(tmp_path / "a", FIRST).path, made(tmp_path / "b", SECOND).path])
    found = compare_runs(runs, Question(bootstrap=20))
    pages = [write_comparison(runs, found, tmp_path / f"{i}.html").read_bytes() for i in range(2)]
    assert pages[0].replace(b"0.html", b"1.html") == pages[1]


def test_nothing_of_hostile_runs_is_obeyed(tmp_path: Path) -> None:
    runs = open_runs([hostile_run(tmp_path / 'a"b<script>').path, hostile_run(tmp_path / "two<!--").path])
    found = compare_runs(runs, Question(bootstrap=20, estimators=["mean_logprob", "min_prob"]))
    path = write_comparison(
        runs, found, tmp_path / "javascript:alert(1).html", title="".join(ATTACKS), figures=False
    )
    page = read_page(path)
    assert [attributes for tag, attributes in page.elements if tag == "script"] == [
        {"type": "application/json", "id": "report-data"},
        {},
    ]
    assert (page.scripts[1], page.styles) == (script(), [style()])
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")} | ({"style", "src", "action"} & names)
    assert all(href.startswith("#") for href in page.attributes("href"))
    shown = page.text + "".join(
        value or "" for _, attributes in page.elements for value in attributes.values()
    )
    assert OBEYED.findall(shown) == []
    assert re.search("<U\\+202E>", page.text)
    shown_ids = [prompt["id"] for prompt in page.island["prompts"]]
    assert shown_ids
    assert set(shown_ids) < set(ATTACKS)  # one of them has answers of a megabyte
