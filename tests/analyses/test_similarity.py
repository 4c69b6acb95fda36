"""The page about similarity quotes what its analysis found, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analyses.made import ROOT, make_runs, script
from tests.analyses.test_reports import SPREAD, is_shown, triples
from toolkit.collect.pair_judge import QUESTION
from toolkit.store.similarities import similarity_sets

PAGE = (ROOT / "docs" / "similarity.md").read_text(encoding="utf-8")
FOUND: dict[str, Any] = json.loads((ROOT / "docs" / "similarity.json").read_text(encoding="utf-8"))


def test_every_interval_quoted_is_one_that_was_found() -> None:
    known, quoted = list(triples(FOUND)), SPREAD.findall(PAGE)
    assert len(quoted) >= 10
    assert [q for q in quoted if not any(all(map(is_shown, t, q)) for t in known)] == []


def test_the_counts_quoted_are_those_found() -> None:
    run, pairs = FOUND["run"], FOUND["pairs"]
    assert f"{run['n_prompts']} of the capital-city questions" in PAGE
    assert f"{run['n_samples']} samples each" in PAGE
    assert f"{pairs['n_pairs']:,} pairs of answers, {pairs['n_texts']:,} pairs of texts" in PAGE
    assert f"yes to {pairs['n_yes']} of them" in PAGE
    assert (
        f"between {pairs['least']:.2f} and {pairs['most']:.2f}, {pairs['median']:.2f} in the middle" in PAGE
    )
    assert f"{pairs['n_told']} pairs" in PAGE
    assert f"{100 * pairs['share_same']:.0f} % name the same one" in PAGE
    assert run["model"] == "SmolLM2-135M-Instruct"


def test_the_question_is_the_one_that_is_asked() -> None:
    (asked,) = re.findall(r'"(Do the two [^"]*)"', PAGE)
    assert QUESTION.endswith(asked)


def test_the_analysis_can_be_run_again_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs(tmp_path / "runs")
    analysis = script("08_similarity")
    commands: list[list[str]] = []
    monkeypatch.setattr(
        analysis, "run_toolkit", lambda words: judge(analysis, tmp_path / "runs", commands, words)
    )
    for n in (2, 4):
        monkeypatch.setattr(analysis, "PROMPTS", n)
        assert analysis.main(["--quick", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]) == 0
        results = json.loads((tmp_path / "similarity.json").read_text())
        assert results["run"]["n_prompts"] == n
        assert set(results["semantic_entropy"]) == set(FOUND["semantic_entropy"])
    assert [words[0] for words in commands] == ["similarity", "similarity"]
    assert {one.name for one in similarity_sets(tmp_path / "runs" / "similarity")} == {"jaccard", "model"}


def judge(analysis: Any, runs: Path, commands: list[list[str]], words: list[str]) -> None:
    """In the place of the model: values that follow from the texts."""
    commands.append(words)
    run = analysis.open_run(runs / "similarity")
    answers = analysis.answers_of(run, analysis.Part("sequence"))
    rng = np.random.default_rng(3)
    values = {pair: float(rng.random()) for pair in analysis.plan_pairs(answers, {}).asked}
    analysis.write_similarities(run.path, analysis.table_of(answers, values), "model", {"source": "model"})
