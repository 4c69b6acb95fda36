"""The report of an analysis: results.json, figures and report.md, which quotes nothing but results.json.

What a report says is a template in analyses/texts. Above its mark stands what was found, which the project's
docs quote too.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from support.options import ROOT, Options
from support.runs import shown
from support.wording import render
from toolkit.judging.evaluation import sampler_of
from toolkit.stats.bootstrap import Interval
from toolkit.store.reader import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXTS = ROOT / "analyses" / "texts"
_MARK = "{# The docs quote what is above. #}"
_DIGITS = 6  # significant; more than any report shows
_MADE = """
## How this was made

    python analyses/{{ name }}.py

which runs these where something is missing, and reads the runs:

{% for command in r.commands %}
    {{ command }}
{% endfor %}
"""


@dataclass(frozen=True)
class Analysis:
    """An analysis, by the name that its script, its text and its folder of reports have."""

    name: str

    @property
    def target(self) -> str:
        """Of the Makefile."""
        return self.name.partition("_")[2]

    @property
    def title(self) -> str:
        return self._text.partition("\n")[0].removeprefix("# ")

    def html(self, run: str, options: Options, grader: str | None = None) -> list[str]:
        """The `toolkit` command line that writes the HTML report of a run beside the text."""
        graded = ["--grader", grader] if grader else []
        output = shown(options.output / self.name / "report.html")
        return ["report", run, *graded, "-o", output, *(["--no-figures"] if options.quick else [])]

    def write(self, results: Mapping[str, Any], figures: Mapping[str, Figure], options: Options) -> None:
        """Write the folder of reports."""
        folder = options.output / self.name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(plain(results), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / "results.json").write_text(text + "\n", encoding="utf-8")
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.png", dpi=150)
        (folder / "report.md").write_text(self.report(json.loads(text)), encoding="utf-8")
        print(folder / "report.md", file=sys.stderr)

    def report(self, results: Mapping[str, Any]) -> str:
        """The text of report.md."""
        details = self._text.partition(_MARK)[2]
        return f"# {self.title}\n\n{self.found(results)}\n{self._render(details + _MADE, results)}"

    def found(self, results: Mapping[str, Any], figures: str = "") -> str:
        """What was found; `figures` is what stands before the names of figures."""
        _, _, finding = self._text.partition(_MARK)[0].partition("\n")
        return self._render(finding, results, figures)

    @property
    def _text(self) -> str:
        return (TEXTS / f"{self.name}.md.j2").read_text(encoding="utf-8")

    def _render(self, template: str, results: Mapping[str, Any], figures: str = "") -> str:
        def figure(name: str, text: str) -> str:
            return f"![{text}]({figures}{name}.png)"

        return render(template, r=results, figure=figure, name=self.name)


def of_run(run: Run) -> dict[str, Any]:
    """What every report says of a run."""
    return {
        "model": run.manifest.model["name"],
        "n_prompts": len(run.prompts_df(columns="prompt_id")),
        "sampler": sampler_of(run),
        "temperature": run.manifest.setting("temperature"),
    }


def plain(value: Any) -> Any:
    """As JSON has it: null for NaN and the infinite, intervals as objects, six digits."""
    if isinstance(value, Interval):
        return {name: plain(getattr(value, name)) for name in ("value", "low", "high")}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
