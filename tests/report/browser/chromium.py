"""Chromium for the tests of the report: which one, and how it is started."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NONE_FOUND = (
    f"no Chromium: install Debian's chromium, or name one in TOOLKIT_CHROMIUM (looked for {', '.join(NAMES)})"
)


class Missing(Exception):
    """There is no browser; `is_fault` where one was asked for."""

    def __init__(self, message: str, is_fault: bool) -> None:
        super().__init__(message)
        self.is_fault = is_fault


def find_chromium(environ: Mapping[str, str]) -> str:
    """The program: TOOLKIT_CHROMIUM, else one on PATH.

    Raises
    ------
    Missing
        A fault where TOOLKIT_CHROMIUM names none, or TOOLKIT_REQUIRE_CHROMIUM is 1.
    """
    path = environ.get("PATH", "")
    asked = environ.get("TOOLKIT_CHROMIUM")
    if asked:
        found = shutil.which(asked, path=path)
        if found is None:
            raise Missing(f"TOOLKIT_CHROMIUM: there is no program {asked!r}", is_fault=True)
        return found
    for name in NAMES:
        found = shutil.which(name, path=path)
        if found is not None:
            return found
    raise Missing(NONE_FOUND, is_fault=environ.get("TOOLKIT_REQUIRE_CHROMIUM") == "1")
