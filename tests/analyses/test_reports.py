"""What every analysis writes: a report that says what its results say, figures, commands that can be run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analyses.made import SCRIPTS, support
from toolkit.cli.main import build_parser

NUMBER = r"−?[\d,]*\.?\d+"
SPREAD = re.compile(rf"({NUMBER})(?: points| %)? \(({NUMBER}) to ({NUMBER})\)")
# Said of the method, not of what was found.
SAID = {"95", "0.3", "0.5", "0.7", "1.5", "24"}


def results_of(reports: Path, name: str) -> dict[str, Any]:
    return json.loads((reports / name / "results.json").read_text(encoding="utf-8"))


def text_of(reports: Path, name: str) -> str:
    return (reports / name / "report.md").read_text(encoding="utf-8")


def leaves(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def triples(value: Any) -> Iterator[tuple[float, float, float]]:
    if isinstance(value, dict):
        if set(value) == {"value", "low", "high"} and None not in value.values():
            yield value["value"], value["low"], value["high"]
        for item in value.values():
            yield from triples(item)
    elif isinstance(value, list):
        for item in value:
            yield from triples(item)


def is_shown(value: float, text: str) -> bool:
    """Whether a text is a value, or a hundredfold of it, rounded."""
    plain = text.replace("−", "-").replace(",", "")
    half = 0.5 * 10 ** -len(plain.partition(".")[2]) + 1e-9
    return any(abs(scale * value - float(plain)) <= half for scale in (1, 100))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_interval_of_a_report_is_one_of_its_results(reports: Path, name: str) -> None:
    known = list(triples(results_of(reports, name)))
    quoted = SPREAD.findall(text_of(reports, name))
    assert len(quoted) > 10
    unknown = [q for q in quoted if not any(all(map(is_shown, t, q)) for t in known)]
    assert unknown == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_other_number_of_a_report_is_one_of_its_results(reports: Path, name: str) -> None:
    known = list(leaves(results_of(reports, name)))
    said, _, _ = text_of(reports, name).partition("## How this was made")
    rest = SPREAD.sub("", re.sub(r"`[^`]*`|!\[.*\)", "", said))
    quoted = re.findall(rf"{NUMBER}(?= %)|−?\d+\.\d+", rest)
    assert [q for q in quoted if q not in SAID and not any(is_shown(v, q) for v in known)] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_report_is_its_results_in_words(reports: Path, name: str) -> None:
    analysis = support("reports").Analysis(name)
    assert analysis.report(results_of(reports, name)) == text_of(reports, name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_report_has_its_figures_and_an_html_page(reports: Path, name: str) -> None:
    shown = re.findall(r"\]\(([^)]+)\)", text_of(reports, name))
    assert shown
    for file in shown:
        assert (reports / name / file).read_bytes().startswith(b"\x89PNG")
    if name != "02_temperature":  # several runs: its report is the text
        assert (reports / name / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_command_of_a_report_can_be_parsed(reports: Path, name: str) -> None:
    commands = results_of(reports, name)["commands"]
    assert len(commands) >= 4
    for command in commands:
        program, verb, *arguments = shlex.split(command)
        assert program == "toolkit"
        build_parser(verb).parse_args(arguments)


def shifted(value: Any, low: float | None, high: float | None) -> Any:
    """Results whose every interval has these ends."""
    if isinstance(value, dict):
        if set(value) == {"value", "low", "high"}:
            return {"value": value["value"], "low": low, "high": high}
        return {name: shifted(item, low, high) for name, item in value.items()}
    return [shifted(item, low, high) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("ends", [(0.6, 0.9), (-0.9, -0.6), (-0.1, 0.1), (None, None)])
def test_a_report_can_be_written_whatever_was_found(
    reports: Path, name: str, ends: tuple[float | None, float | None]
) -> None:
    results = shifted(results_of(reports, name), *ends)
    text = support("reports").Analysis(name).report(results)
    assert "None" not in text
    assert "nan" not in text.split()


CLAIMS = {
    "01_capitals": "**Confidence knows right from wrong.**",
    "03_votes": "**A majority beats a single sample**",
    "04_segments": "**The doubt that tells right from wrong is in the names.**",
    "05_beams": "**Beam search is right more often**",
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_made_only_where_the_interval_bears_it(reports: Path, name: str) -> None:
    analysis = support("reports").Analysis(name)
    results = results_of(reports, name)
    assert CLAIMS[name] in analysis.found(shifted(results, 0.6, 0.9))
    for ends in ((-0.9, -0.6), (-0.1, 0.1), (None, None)):
        assert CLAIMS[name] not in analysis.found(shifted(results, *ends))


@pytest.mark.parametrize(
    ("ends", "claim"),
    [
        ((0.6, 0.9), "both move.**"),
        ((-0.9, -0.6), "both move.**"),
        ((-0.1, 0.1), "no difference was found on average**"),
        ((None, None), "no difference was found on average**"),
    ],
)
def test_quantisation_moves_only_what_an_interval_says_so(
    reports: Path, ends: tuple[float | None, float | None], claim: str
) -> None:
    analysis = support("reports").Analysis("06_quantisation")
    text = analysis.found(shifted(results_of(reports, "06_quantisation"), *ends))
    for bits in (8, 4):
        assert f"**At {bits} bits {claim}" in text
