"""`write_comparison`: two runs that were compared, as one HTML page with both side by side.

The page is that of the report: the same style and script, so the same colours on the same scale, and the same
rules for what a model wrote. Its reader has the prompts where the runs differ most, with the answers of both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from toolkit.aggregation.selection import Selection
from toolkit.characters import count
from toolkit.judging.comparing import Compared
from toolkit.report.comparison_text import how_compared, notes_of, sentences, tables, tiles
from toolkit.report.data import SequenceData
from toolkit.report.document import document, render
from toolkit.report.paging import Page, PageWriter, PromptData
from toolkit.report.pictures import Picture, Pictures, picture
from toolkit.report.reading import Source
from toolkit.report.setup import setup_of
from toolkit.report.writing import island_head, island_of
from toolkit.store import VocabularyEntry
from toolkit.store.files import write_result
from toolkit.store.grades import find_grades, grade_sets
from toolkit.store.reader import Run, Runs

if TYPE_CHECKING:
    from toolkit.figures import Panel

SEQUENCES = 4
"""Of one run to a prompt, where every sample is judged."""

_TAKEN = 1_500_000  # bytes of the page that are left to style, script, tables and figures
_DRAWN = {"auroc": "AUROC", "brier": "Brier score, lower is better", "ece": "ECE, lower is better"}


def write_comparison(
    runs: Runs,
    found: Compared,
    output: Path,
    *,
    title: str | None = None,
    n_prompts: int = 20,
    figures: bool = True,
) -> Path:
    """Write the page of two runs.

    Parameters
    ----------
    runs : Runs
        The two that were compared.
    found : Compared
        What `toolkit.judging.comparing.compare_runs` found.
    output : Path
        The file to write.
    title : str, optional
        The runs' names by default.
    n_prompts : int
        The reader has so many of the prompts that differ most; fewer where a page of 5 MB has no room for them.
    figures : bool
        Whether figures are drawn.

    Returns
    -------
    Path
        `output`. The same runs give the same bytes.

    Raises
    ------
    DataFault
        A file cannot be read or written.
    """
    sources = [_source(i, run, found) for i, run in enumerate(runs)]
    names = [source.name for source in sources]
    heading = title or f"{names[0]} and {names[1]}: what differs?"
    with tempfile.TemporaryDirectory() as folder:
        page, left_out = _page(sources, found, n_prompts, Path(folder))
        head = island_head(heading, page, [quote(output.name, errors="replace")], sources)
        island = island_of({**head, "view": "all"}, page)
    values = {
        "title": heading,
        "lede": [f"{letter}: {_said(source, found)}" for letter, source in zip("AB", sources, strict=True)],
        **_sections(sources, found, left_out),
        "figures": render("figures.html.j2", _pictures(found, names)._asdict()) if figures else "",
        "evaluation": "",
        "links": [],
        "page": page,
        "n_pages": 1,
    }
    write_result(output, document(values, island).encode("utf-8", "replace"))
    return output


def _sections(sources: Sequence[Source], found: Compared, left_out: str) -> dict[str, Any]:
    """What stands around the reader."""
    names = [source.name for source in sources]
    summary = {
        "tiles": tiles(found),
        "sentences": sentences(found, names),
        "notes": [*notes_of(found), *([left_out] if left_out else [])],
    }
    differences = {"names": names, "how": how_compared(found), "tables": tables(found)}
    return {
        "summary": render("comparison.html.j2", summary),
        "differences": render("differences.html.j2", differences),
        "setup": render("setup.html.j2", {"setups": [setup_of(source) for source in sources]}),
    }


def _source(number: int, run: Run, found: Compared) -> Source:
    """A run, with the grades that were compared."""
    label = found.context["runs"][number]
    sets, grader = grade_sets(run.path), found.context["grade_set"]
    grades = None if grader is None else find_grades(sets, grader, str(run.path))
    return Source(number, run, str(label["run"]), grades=grades)


def _said(source: Source, found: Compared) -> str:
    return f"{source.name}: {source.model}, {found.context['runs'][source.number]['sampler']}"


def _page(sources: Sequence[Source], found: Compared, n_prompts: int, folder: Path) -> tuple[Page, str]:
    """The prompts that differ most, and what to say of those that are not among them."""
    ids = found.prompts["prompt_id"].head(n_prompts).tolist()
    selection = Selection(prompts=ids)
    of_runs = []
    for source in sources:
        own = Source(source.number, source.run, source.name, selection, source.grades)
        of_runs.append({prompt.prompt_id: prompt for prompt in own.prompts()})
    writer = PageWriter(folder, _TAKEN, _TAKEN)
    joint = _Joint([source.run.vocabulary for source in sources], found)
    shown = 0
    for name in ids:
        placed = writer.add(joint.prompt([prompts[name] for prompts in of_runs]))
        if placed[-1].page > 1:
            break
        shown += 1
    more = len(found.prompts) - shown
    said = f"The reader has {count(shown, 'prompt')}, those that differ most; {more:,} more were compared."
    return writer.finish()[0], said if more else ""


class _Joint:
    """Prompts with the sequences of both runs, in one vocabulary."""

    def __init__(self, vocabularies: Sequence[dict[int, VocabularyEntry]], found: Compared) -> None:
        # The second run's ids are moved behind the first one's: the same id may be another token.
        self.offset = 1 + max(vocabularies[0], default=-1)
        moved = {token_id + self.offset: entry for token_id, entry in vocabularies[1].items()}
        self.vocabulary = {**vocabularies[0], **moved}
        self.judged = found.judged

    def prompt(self, of_runs: Sequence[PromptData]) -> PromptData:
        first, second = of_runs
        chosen = [self._chosen(run, prompt) for run, prompt in enumerate(of_runs)]
        return first._replace(
            reference=first.reference or second.reference,
            vocabulary=self.vocabulary,
            sequences=[self._of_run(one, run) for run, sequences in enumerate(chosen) for one in sequences],
        )

    def _chosen(self, run: int, prompt: PromptData) -> list[SequenceData]:
        keys = self.judged[run]
        return [one for one in prompt.sequences if one.key in keys][:SEQUENCES]

    def _of_run(self, one: SequenceData, run: int) -> SequenceData:
        fields = {**one.fields, "run": run}
        if run == 0:
            return one._replace(fields=fields)
        alternatives = one.alternative_ids
        return one._replace(
            fields=fields,
            token_ids=one.token_ids + self.offset,
            alternative_ids=np.where(alternatives < 0, alternatives, alternatives + self.offset),
        )


def _pictures(found: Compared, names: Sequence[str]) -> Pictures:
    """What differs by estimator, and how sure each run was of each prompt."""
    from toolkit.figures import Drawing
    from toolkit.plots.layout import rows_height

    pair = (names[0], names[1])
    drawn: list[Picture] = []
    panels = _difference_panels(found, pair, rows_height)
    if panels:
        drawing = Drawing(f"What {names[1]} has more than {names[0]}", panels)
        drawn.append(picture("differences", "differences by estimator, with their intervals", drawing))
    drawing = Drawing("How sure each run was of each prompt", [_confidence_panel(found, pair)])
    drawn.append(picture("confidence", "the confidence of one run against that of the other", drawing))
    return Pictures(drawn, [])


def _difference_panels(found: Compared, names: tuple[str, str], height: Any) -> list[Panel]:
    from toolkit.figures import Panel
    from toolkit.plots import plot_paired_differences

    frame = found.differences
    known = frame[frame["difference"].notna()]
    panels = []
    for metric, title in _DRAWN.items():
        n = int((known["metric"] == metric).sum())
        if n:
            draw = partial(plot_paired_differences, frame, metric=metric, names=names, note=_note(found))
            panels.append(Panel(title, draw, height(min(n, 20))))
    return panels


def _confidence_panel(found: Compared, names: tuple[str, str]) -> Panel:
    from toolkit.figures import Panel
    from toolkit.plots import plot_paired_confidence

    prompts = found.prompts
    columns = [prompts[name] for name in ("confidence_a", "confidence_b", "outcome_a", "outcome_b")]
    draw = partial(
        plot_paired_confidence,
        *columns,
        estimator=found.context["confidence"],
        names=names,
        note=_note(found),
    )
    return Panel("", draw, 5.0)


def _note(found: Compared) -> str:
    context = found.context
    grader = "" if context["grader"] is None else f", grader {context['grader']}"
    return f"target {context['target']}, over {context['over']}{grader}"
