"""The page of estimators is what the register says, and the page of formulas defines what they read."""

from __future__ import annotations

import re
from pathlib import Path

from toolkit.records import TokenStatistics
from toolkit.stats import estimators, get, reference
from toolkit.stats.registry import Estimator

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_estimators_is_up_to_date() -> None:
    made = "run python -m toolkit.stats.reference > docs/estimators.md"
    assert (DOCS / "estimators.md").read_text(encoding="utf-8") == reference.page(), made


def test_every_estimator_is_an_entry_whose_name_can_be_used() -> None:
    entries = reference.entries()
    assert [entry.name.partition("(")[0] for entry in entries] == [one.name for one in estimators()]
    for entry, one in zip(entries, estimators(), strict=True):
        assert get(entry.name) == one
        assert entry.direction == ("higher" if one.higher_is_confident else "lower")
        assert entry.source == one.source


def test_an_entry_says_range_and_inputs_for_people() -> None:
    by_name = {entry.name.partition("(")[0]: entry for entry in reference.entries()}
    assert by_name["sum_logprob"].range == "(−∞, 0]"
    assert by_name["perplexity"].range == "[1, ∞)"
    assert by_name["min_k_plus"].inputs == "logprob, entropy, varentropy"
    assert by_name["n_tokens"].inputs == "none"
    assert by_name["min_k_percent"].name == "min_k_percent(k=0.2, which=logprob)"


def test_every_column_of_a_token_is_defined() -> None:
    text = (DOCS / "formulas.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    defined = {name for row in rows for name in re.split(r"[ ,|]+", row.split("|")[1])}
    columns = {name for name in TokenStatistics._fields if not name.startswith(("alternative", "watched"))}
    assert columns <= defined
    assert {"alternatives", "watched"} <= defined


def test_columns_that_estimators_read_are_defined() -> None:
    of_tokens: list[Estimator] = estimators("token-span")
    read = {name for one in of_tokens for name in one.inputs} - {"alternative_logprobs"}
    assert read <= set(TokenStatistics._fields)
