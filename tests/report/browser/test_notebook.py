"""What a notebook shows, in real Chromium: nothing in it runs or is fetched, in either theme."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.browser.reader import Reader
from tests.report.hostile import hostile_run
from tests.report.test_notebook import hostile_values

THEMES = {"light": ("#ffffff", "#1f1f1f"), "dark": ("#111111", "#e0e0e0")}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [1280, 420])
def test_hostile_outputs_run_nothing_fetch_nothing_and_fit(
    open_file: Callable[..., Reader], tmp_path: Path, theme: str, width: int
) -> None:
    back, ink = THEMES[theme]
    outputs = "".join(
        f"<section>{value._repr_html_()}</section>" for value in hostile_values(hostile_run(tmp_path / "run"))
    )
    page = f'<!doctype html><meta charset="utf-8"><body style="background:{back};color:{ink}">{outputs}'
    (tmp_path / "notebook.html").write_text(page, encoding="utf-8")
    tab = open_file(tmp_path / "notebook.html", width=width).page
    assert tab.evaluate("document.scripts.length + document.images.length") == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("span[title]").count() > 50
