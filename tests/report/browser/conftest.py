"""The report in real Chromium. A test fails on any error, dialog, new window or request of the page that it opens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.browser.chromium import FLAGS, Missing, find_chromium
from tests.report.browser.reader import Reader
from toolkit.report.document import document
from toolkit.report.paging import island_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Open = Callable[..., Reader]
WIDE, NARROW = 1280, 420


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests here, with a new profile folder; each page gets a profile of its own in it."""
    try:
        program = find_chromium(os.environ)
    except Missing as error:
        if error.is_fault:
            pytest.fail(str(error))
        pytest.skip(str(error))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield started
        started.close()


class Tab:
    """A tab that notes what a page must not do: errors, dialogs, windows, downloads, requests of anything else."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.address = ""
        self.faults: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("popup", lambda other: self.faults.append(f"window: {other.url}"))
        page.on("download", lambda download: self.faults.append(f"download: {download.url}"))
        page.on("websocket", lambda socket: self.faults.append(f"socket: {socket.url}"))
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)

    def open(self, path: Path, hash: str, width: int, height: int, scheme: Any, motion: Any) -> Reader:
        """Go to a file, in a window of that size, for a person with those wishes."""
        self.address = path.as_uri()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(media="screen", color_scheme=scheme, reduced_motion=motion)
        self.page.goto(self.address + hash)
        return Reader(self.page)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text}")

    def _on_dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Any) -> None:
        is_own = request.url.partition("#")[0] == self.address
        if not is_own and not request.url.startswith("data:image/"):
            self.faults.append(f"request: {request.url[:200]}")


@pytest.fixture(scope="package")
def first_tab(browser: Browser) -> Tab:
    """The tab that the first page of each test is opened in: a new one takes longer than most tests."""
    return new_tab(browser)


def new_tab(browser: Browser) -> Tab:
    """A tab with a profile of its own."""
    page = browser.new_context().new_page()
    page.set_default_timeout(10_000)
    return Tab(page)


@pytest.fixture
def open_file(browser: Browser, first_tab: Tab) -> Iterator[Open]:
    """Opens a file, watched: `open_file(path, width=, height=, scheme=, motion=, hash=, script=)`.

    `script` runs before the page's own.
    """
    tabs: list[Tab] = []

    def opened(
        path: Path,
        *,
        width: int = WIDE,
        height: int = 900,
        scheme: str = "light",
        motion: str = "reduce",
        hash: str = "",
        script: str = "",
    ) -> Reader:
        tabs.append(new_tab(browser) if tabs or script else first_tab)
        if script:
            tabs[-1].page.add_init_script(script)
        return tabs[-1].open(path, hash, width, height, scheme, motion)

    yield opened
    for tab in tabs:
        if tab is first_tab:
            tab.page.evaluate("localStorage.clear()")
        else:
            tab.page.context.close()
    faults = [fault for tab in tabs for fault in tab.faults]
    first_tab.faults = []
    assert not faults, "\n".join(faults)


@pytest.fixture
def open_island(open_file: Open, tmp_path: Path) -> Open:
    """Opens a page that has only the reader, with a data island: `open_island(island, width=, ...)`."""

    def opened(island: dict[str, Any], **how: Any) -> Reader:
        path = tmp_path / "report.html"
        path.write_bytes(reader_page(island).encode("utf-8", "replace"))
        return open_file(path, **how)

    return opened


def reader_page(island: dict[str, Any]) -> str:
    """The HTML of a page without other sections."""
    n = len(island["sequences"])
    sections = {
        **dict.fromkeys(("summary", "evaluation", "figures", "setup"), ""),
        "title": island["title"],
        "lede": [run["name"] for run in island["runs"]],
        "links": [{"href": "report.html", "number": 1, "is_own": True, "about": "all"}],
        "page": {"number": 1, "n_sequences": n, "first": "", "last": ""},
        "n_pages": 1,
    }
    return document(sections, island_json(island))
