"""The picture of the README: the report's reader on the capitals, as a browser shows it.

Needs the run data/raw/capitals (`make capitals`), Playwright and a Chromium; see `make findings`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PLACE = "#prompt=capital-central-african-republic&kind=greedy&sample=0&by=token&metric=logprob"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=ROOT / "data" / "raw" / "capitals")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images" / "reader.png")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = ["report", str(args.run), "-o", str(page), "--no-figures", "--bootstrap", "0"]
        subprocess.run([sys.executable, "-m", "toolkit", *command], check=True, cwd=ROOT)
        take(page, args.output)
    print(args.output)
    return 0


def take(page: Path, output: Path) -> None:
    """The reader with the card of its least likely token open."""
    from playwright.sync_api import sync_playwright

    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        shown = chromium.new_page(viewport={"width": 1180, "height": 900}, color_scheme="light")
        shown.goto(page.as_uri() + PLACE)
        shown.locator("#least-list button, #least-list a").first.click()
        output.parent.mkdir(parents=True, exist_ok=True)
        shown.locator("#reader").screenshot(path=str(output))
        chromium.close()


if __name__ == "__main__":
    raise SystemExit(main())
