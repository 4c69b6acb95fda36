"""Hostile texts in every place: nothing ends an element, opens one, or is obeyed."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.report.hostile import ATTACKS, MEGABYTE, OBEYED, Page, hostile_run, read_page
from toolkit.report.document import script, style
from toolkit.report.reading import shortened
from toolkit.report.writing import Settings, write_report
from toolkit.store import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return hostile_run(tmp_path_factory.mktemp("hostile") / 'a"b<script>')


@pytest.fixture(scope="module")
def path(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("escaping")
    settings = Settings(title="".join(ATTACKS) + "\ud800", figures=False, bootstrap=20)
    (path,) = write_report([run.path], folder / "javascript:alert(1).html", settings).paths
    return path


@pytest.fixture(scope="module")
def page(path: Path) -> Page:
    return read_page(path)


def test_the_page_has_two_scripts_and_one_style_and_they_are_ours(page: Page) -> None:
    assert [attributes for tag, attributes in page.elements if tag == "script"] == [
        {"type": "application/json", "id": "report-data"},
        {},
    ]
    assert (page.scripts[1], page.styles) == (script(), [style()])
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"img", "svg", "iframe", "object", "embed", "link", "form", "base"}


def test_no_element_has_a_handler_a_style_or_an_address_that_leaves_the_page(page: Page) -> None:
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")} | ({"style", "src", "action"} & names)
    assert page.attributes("href")
    assert all(href.startswith("#") for href in page.attributes("href"))


def test_the_policy_names_the_script_and_the_style_by_their_hashes(page: Page) -> None:
    (policy,) = [a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a]
    rules = dict(rule.split(" ", 1) for rule in str(policy).split("; "))
    hashes = {
        name: "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for name, text in (("script-src", page.scripts[1]), ("style-src", page.styles[0]))
    }
    assert rules == {
        "default-src": "'none'",
        **hashes,
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_our_own_script_and_style_end_no_element_and_ask_for_nothing() -> None:
    for text in (script(), style()):
        assert not re.search(r"</|<!--|@import|url\(|https?://", text)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("):
        assert word not in script()


def test_the_data_gives_back_every_text_as_it_was(page: Page, run: Run) -> None:
    island = page.island
    assert [prompt["id"] for prompt in island["prompts"]] == ATTACKS
    texts = {
        (island["prompts"][one["prompt"]]["id"], one["kind"], one["sample"]): one["text"]
        for one in island["sequences"]
    }
    frame = run.sequences_df()
    assert texts == {
        (row.prompt_id, row.kind, row.sample_index): row.text for row in frame.itertuples(index=False)
    }
    assert sum(MEGABYTE in text for text in texts.values()) == 1
    assert island["prompts"][0]["question"] == shortened(ATTACKS[0] + MEGABYTE)
    assert island["prompts"][3]["reference"] == [ATTACKS[3], "Paris"]


def test_no_character_outside_of_the_data_is_obeyed_or_hidden(page: Page) -> None:
    shown = page.text + "".join(
        value or "" for _, attributes in page.elements for value in attributes.values()
    )
    assert OBEYED.findall(shown) == []
    assert "<U+202E>evil<U+202C>" in page.text


def test_a_megabyte_is_not_repeated_around_the_reader(page: Page) -> None:
    assert len(page.text) < 60_000


def test_links_lead_to_the_prompts_whatever_they_are_called(page: Page) -> None:
    found = {
        parse_qs(urlsplit(href).fragment, keep_blank_values=True)["prompt"][0]
        for href in page.attributes("href")
        if href.startswith("#prompt=")
    }
    assert found
    assert found <= set(ATTACKS)


def test_the_name_of_the_file_is_no_address_of_another_kind(page: Page, path: Path) -> None:
    (file,) = page.island["page"]["files"]
    assert ":" not in file
    assert unquote(file) == path.name


def test_half_a_character_of_the_title_is_replaced(page: Page, path: Path) -> None:
    assert page.island["title"].endswith("?")
    assert path.read_bytes().decode("utf-8")
