"""Quote what the analyses found in the docs: docs/findings.md and its figures, from the reports' results.json.

docs/findings.json keeps the results that the page was made from, so that a test can make it again.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.options import ROOT, ended
from support.reports import TEXTS, Analysis

from toolkit.errors import ToolkitError

DOCS = ROOT / "docs"
REPORTS = ROOT / "data" / "reports"
ANALYSES = [Analysis(path.name.partition(".")[0]) for path in sorted(TEXTS.glob("*.md.j2"))]
HEAD = """# Findings

What the analyses found with the default model on a CPU in float32. In parentheses stand 95 % intervals, by bootstrap
over prompts; "by more than chance" means that the interval does not hold 0. It is one small model and a few hundred
short questions: what is found here need not hold elsewhere, and each analysis takes another `--model`.

    make analyses    # collects what is missing, and writes data/reports/
    make findings    # writes this page, from docs/findings.json
"""


def main() -> int:
    """Write the page, its results and its figures."""
    results = {one.name: _results(REPORTS / one.name / "results.json") for one in ANALYSES}
    text = page(results)
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    for name in figures(text):
        analysis, _, figure = name.partition("-")
        shutil.copyfile(REPORTS / analysis / figure, images / name)
    kept = json.dumps(results, indent=1, ensure_ascii=False)
    (DOCS / "findings.json").write_text(kept + "\n", encoding="utf-8")
    (DOCS / "findings.md").write_text(text, encoding="utf-8")
    print(DOCS / "findings.md", file=sys.stderr)
    return 0


def page(results: Mapping[str, Any]) -> str:
    """The text of docs/findings.md."""
    return "\n".join([HEAD, *(_section(one, results[one.name]) for one in ANALYSES)])


def figures(text: str) -> list[str]:
    """The figures that the page shows: the analysis' name, a hyphen, the file in its folder of reports."""
    return re.findall(r"\(images/([^)]+)\)", text)


def _results(path: Path) -> Any:
    if not path.is_file():
        raise ToolkitError(f"{path} is not there: run make analyses first")
    return json.loads(path.read_text(encoding="utf-8"))


def _section(analysis: Analysis, results: Mapping[str, Any]) -> str:
    found = analysis.found(results, f"images/{analysis.name}-")
    made = (
        f"`make {analysis.target}` · `analyses/{analysis.name}.py` · `data/reports/{analysis.name}/report.md`"
    )
    return f"## {analysis.title}\n\n{found}\n{made}\n"


if __name__ == "__main__":
    raise SystemExit(ended(main))
