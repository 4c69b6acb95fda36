"""`write_report`: runs to one HTML page, or to as many as their sequences need."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.selection import EVERYTHING, Selection
from toolkit.appearance import palette
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES
from toolkit.judging.evaluation import sampler_of
from toolkit.report.document import document, render, script, style
from toolkit.report.estimators import evaluate_source, evaluation_table
from toolkit.report.paging import PAGE_BYTES, Page, PageWriter, island_json
from toolkit.report.pictures import Pictures, draw_pictures
from toolkit.report.reading import Source, sources_of
from toolkit.report.setup import setup_of
from toolkit.report.summary import summarize
from toolkit.report.tally import Tally
from toolkit.scale.engines import LOCAL, Engine
from toolkit.store import open_runs
from toolkit.store.files import write_result

if TYPE_CHECKING:
    from toolkit.judging.evaluation import Evaluation

FORMAT = 1
_RESERVE = 120_000  # bytes for the head, the summary and the links to other pages
_NEIGHBOURS = 4  # pages on each side that a page links to


@dataclass(frozen=True)
class Settings:
    """What a report is asked for.

    Attributes
    ----------
    title : str, optional
        The runs' names by default.
    selection : Selection
        Which sequences the reader and the summary have. The evaluation is of whole runs.
    grader : str, optional
        Whose grades, as of `toolkit.judging.question.Question`.
    figures : bool
        Whether figures are drawn.
    bootstrap : int
        Resamples of prompts for the intervals of the evaluation; 0 is none.
    seed : int
        Of the resamples.
    comparison : Comparison
        What samples say the same in the evaluation, and how alike they are.
    """

    title: str | None = None
    selection: Selection = EVERYTHING
    grader: str | None = None
    figures: bool = True
    bootstrap: int = 1000
    seed: int = 0
    comparison: Comparison = field(default_factory=Comparison)


class Report(NamedTuple):
    """What was written."""

    paths: list[Path]
    notes: list[str]  # a line each: what is larger than it should be


def write_report(
    paths: Sequence[str | Path], output: Path, settings: Settings | None = None, engine: Engine = LOCAL
) -> Report:
    """Write the report of runs.

    Parameters
    ----------
    paths : sequence of str or Path
        Folders of runs.
    output : Path
        The first page; further ones get a number before the ending: report-2.html.
    settings : Settings, optional
    engine : Engine
        What reads and evaluates the runs; drawing and writing is done here.

    Returns
    -------
    Report
        A page has at most 500 sequences and less than 5 MB, unless a single sequence is larger. The same runs
        give the same bytes.

    Raises
    ------
    ToolkitError
        There is no run, or nothing is selected, or the grader is not known.
    DataFault
        A file cannot be read or written.
    """
    asked = settings or Settings()
    runs = open_runs(paths, engine)
    sources = sources_of(runs, asked.selection, asked.grader)
    evaluations = {
        source.number: found
        for source in sources
        if (
            found := evaluate_source(
                source, bootstrap=asked.bootstrap, seed=asked.seed, comparison=asked.comparison
            )
        )
        is not None
    }
    pictures = draw_pictures(runs, sources, evaluations) if asked.figures else None
    sections = _Sections(asked, sources, evaluations, pictures)
    with tempfile.TemporaryDirectory() as folder:
        pages, tally = _fill_pages(sources, Path(folder), sections)
        return _write(sections, pages, tally, output)


def page_paths(output: Path, n: int) -> list[Path]:
    """The files of n pages: report.html, report-2.html, ..."""
    return [output, *(output.with_name(f"{output.stem}-{i}{output.suffix}") for i in range(2, n + 1))]


def island_head(title: str, page: Page, files: Sequence[str], sources: Sequence[Source]) -> dict[str, Any]:
    """What the data of a page has beside its prompts, as `toolkit.report.data` says."""
    scales = {**TOKEN_SCALES, **SPAN_SCALES}
    n = len(palette.ANCHORS)
    return {
        "format": FORMAT,
        "title": title,
        "page": {"number": page.number, "files": list(files)},
        "palette": [palette.hex_colour(i / (n - 1)) for i in range(n)],
        "metrics": {
            name: {"unit": s.unit, "unsure": s.unsure, "sure": s.sure, "log": s.logarithmic}
            for name, s in scales.items()
        },
        "granularities": page.granularities,
        "runs": [
            {"name": source.name, "model": source.model, "sampler": sampler_of(source.run)}
            for source in sources
        ],
    }


def island_of(head: Mapping[str, Any], page: Page) -> str:
    """The data of a page, as JSON."""
    return f"{island_json(head)[:-1]},{page.path.read_text(encoding='utf-8')}}}"


class _Sections:
    """What the pages show around the reader."""

    def __init__(
        self,
        asked: Settings,
        sources: Sequence[Source],
        evaluations: dict[int, Evaluation | str],
        pictures: Pictures | None,
    ) -> None:
        self.sources, self.evaluations = sources, evaluations
        names = [source.name for source in sources]
        self.title = asked.title or f"{', '.join(names)}: how sure was the model?"
        self.evaluation = self._evaluation(asked.bootstrap)
        self.figures = "" if pictures is None else render("figures.html.j2", pictures._asdict())
        setups = [setup_of(source) for source in sources]
        self.setup = render("setup.html.j2", {"setups": setups})

    @property
    def n_bytes(self) -> int:
        """Bytes of the sections that only the first page has, but for the summary."""
        return sum(len(one.encode()) for one in (self.evaluation, self.figures, self.setup))

    def values(self, page: Page, pages: Sequence[Page], tally: Tally, files: Sequence[str]) -> dict[str, Any]:
        """The values of the template of a page."""
        first = page.number == 1
        counted = {n: found for n, found in self.evaluations.items() if not isinstance(found, str)}
        summary = summarize(self.sources, tally, counted, files) if first else None
        return {
            "title": self.title,
            "lede": [_said(source) for source in self.sources],
            "summary": "" if summary is None else render("summary.html.j2", summary._asdict()),
            "evaluation": self.evaluation if first else "",
            "figures": self.figures if first else "",
            "setup": self.setup if first else "",
            "links": _links(page.number, pages, files),
            "page": page,
            "n_pages": len(pages),
        }

    def island(self, page: Page, files: Sequence[str]) -> str:
        """The data of a page, as JSON."""
        return island_of(island_head(self.title, page, files, self.sources), page)

    def _evaluation(self, bootstrap: int) -> Markup | str:
        tables = [
            evaluation_table(source, self.evaluations[source.number], bootstrap=bootstrap)
            for source in self.sources
            if source.number in self.evaluations
        ]
        return render("evaluation.html.j2", {"tables": tables}) if tables else ""


class _Link(NamedTuple):
    """A link to a page, or a gap between pages."""

    number: int
    href: str
    is_own: bool
    about: str


def _fill_pages(sources: Sequence[Source], folder: Path, sections: _Sections) -> tuple[list[Page], Tally]:
    """Go through all sequences once."""
    greedy = [source.number for source in sources if _has_greedy(source)]
    tally = Tally(greedy)
    assets = len(style().encode()) + len(script().encode()) + len(render("reader.html.j2", {}).encode())
    pages = PageWriter(folder, assets + sections.n_bytes + _RESERVE, assets + _RESERVE)
    for source in sources:
        for prompt in source.prompts():
            tally.add(prompt, pages.add(prompt))
    return pages.finish(), tally


def _has_greedy(source: Source) -> bool:
    kinds = source.selection.kinds
    if kinds is not None and "greedy" not in kinds:
        return False
    groups = source.run.iter_row_groups("sequences", ["kind"], source.selection.prompts, ["greedy"])
    return any(rows.num_rows for rows in groups)


def _write(sections: _Sections, pages: Sequence[Page], tally: Tally, output: Path) -> Report:
    """The first page last, so that what it links to is there."""
    paths = page_paths(output, len(pages))
    files = [quote(path.name, errors="replace") for path in paths]
    notes = []
    for page, path in reversed(list(zip(pages, paths, strict=True))):
        values = sections.values(page, pages, tally, files)
        content = document(values, sections.island(page, files)).encode("utf-8", "replace")
        write_result(path, content)
        if len(content) >= PAGE_BYTES:
            notes.append(f"{path}: {len(content):,} bytes, over {PAGE_BYTES:,}: {_why(page)}")
    later = page_paths(output, len(pages) + 1)[-1]
    if later.exists():
        notes.append(f"{later} is a page of an earlier report, as any with a higher number: remove them")
    return Report(paths, notes[::-1])


def _why(page: Page) -> str:
    if page.n_sequences <= 1:
        return "a single sequence is larger than a page should be"
    return "its figures and tables are large"


def _links(own: int, pages: Sequence[Page], files: Sequence[str]) -> list[_Link]:
    """Links to the first, the last and the neighbouring pages; number 0 is a gap."""
    if len(pages) == 1:
        return []
    wanted = [
        page.number
        for page in pages
        if page.number in (1, len(pages)) or abs(page.number - own) <= _NEIGHBOURS
    ]
    found: list[_Link] = []
    for before, number in zip([0, *wanted], wanted, strict=False):
        if number - before > 1:
            found.append(_Link(0, "", False, ""))
        page = pages[number - 1]
        about = page.first if page.first == page.last else f"{page.first} to {page.last}"
        found.append(_Link(number, files[number - 1], number == own, about))
    return found


def _said(source: Source) -> str:
    return f"{source.name}: {source.model}, {sampler_of(source.run)}"
