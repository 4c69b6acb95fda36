"""The tests of the report themselves: skipped without a browser, failing where one is required, and watchful."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.browser.chromium import Missing, find_chromium
from tests.report.browser.conftest import new_tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def program(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_browser_on_the_path_is_found(tmp_path: Path) -> None:
    expected = program(tmp_path, "google-chrome")
    assert find_chromium({"PATH": str(tmp_path)}) == expected


def test_the_named_browser_comes_first(tmp_path: Path) -> None:
    program(tmp_path, "chromium")
    named = program(tmp_path, "mine")
    assert find_chromium({"PATH": str(tmp_path), "TOOLKIT_CHROMIUM": named}) == named


def test_without_a_browser_tests_are_skipped_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="TOOLKIT_CHROMIUM") as raised:
        find_chromium({"PATH": str(tmp_path)})
    assert not raised.value.is_fault


@pytest.mark.parametrize(
    "environ", [{"TOOLKIT_REQUIRE_CHROMIUM": "1"}, {"TOOLKIT_CHROMIUM": "/nowhere/chromium"}]
)
def test_a_browser_that_was_asked_for_must_be_there(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(Missing) as raised:
        find_chromium({"PATH": str(tmp_path), **environ})
    assert raised.value.is_fault


@pytest.mark.parametrize(
    ("script", "noted"),
    [
        ("console.error('oh')", "console error: oh"),
        ("throw new Error('oh')", "error: oh"),
        ("alert('oh')", "dialog: oh"),
        ("new Image().src = 'other.png'", "request: file:"),
        ("1 + 1", None),
    ],
)
def test_what_a_page_must_not_do_is_noted(
    browser: Browser, tmp_path: Path, script: str, noted: str | None
) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>page</title><script>{script}</script>")
    tab = new_tab(browser)
    tab.open(path, "", 800, 600, "light", "reduce")
    tab.page.context.close()
    assert any(fault.startswith(noted) for fault in tab.faults) if noted else tab.faults == []
