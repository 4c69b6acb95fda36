"""The docs quote what the analyses found, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.analyses.made import ROOT, SCRIPTS, script
from tests.analyses.test_reports import SPREAD, is_shown, shifted, triples

DOCS = ROOT / "docs"
PAGE = (DOCS / "findings.md").read_text(encoding="utf-8")
FINDINGS: dict[str, Any] = json.loads((DOCS / "findings.json").read_text(encoding="utf-8"))
publish = script("publish")


def test_the_page_is_made_of_the_findings() -> None:
    assert publish.page(FINDINGS) == PAGE


def test_the_page_changes_with_every_finding() -> None:
    for name, results in FINDINGS.items():
        assert publish.page({**FINDINGS, name: shifted(results, -0.77, -0.66)}) != PAGE


def test_every_analysis_is_on_the_page_with_its_target() -> None:
    assert list(FINDINGS) == SCRIPTS
    for name in SCRIPTS:
        assert f"`make {name.partition('_')[2]}` · `analyses/{name}.py`" in PAGE


@pytest.mark.parametrize("text", ["findings.md", "../README.md"])
def test_every_interval_quoted_is_one_that_was_found(text: str) -> None:
    known = list(triples(FINDINGS))
    quoted = SPREAD.findall((DOCS / text).read_text(encoding="utf-8"))
    assert [q for q in quoted if not any(all(map(is_shown, t, q)) for t in known)] == []


def test_figures_on_the_page_are_there_and_there_are_no_others() -> None:
    shown = publish.figures(PAGE)
    assert len(shown) == len(SCRIPTS)
    for name in shown:
        assert (DOCS / "images" / name).read_bytes().startswith(b"\x89PNG")
    ours = {path.name for path in (DOCS / "images").glob("0*.png")}
    assert ours == set(shown)


def test_the_findings_are_of_the_default_model_on_all_questions() -> None:
    capitals = FINDINGS["01_capitals"]["run"]
    assert capitals["model"] == "SmolLM2-135M-Instruct"
    assert f"{capitals['n_prompts']} questions" in (ROOT / "data" / "prompts" / "README.md").read_text()
    assert not re.search("--limit [0-9]+ .*--model|/tmp", json.dumps(FINDINGS))
