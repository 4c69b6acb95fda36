"""The runs of a figure: what each is called, how its sequences were drawn, and whether it has what is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from toolkit.aggregation.targets import sample_kind
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.figures.kinds import KINDS
from toolkit.figures.options import wrong
from toolkit.judging.evaluation import kinds_of, sampler_of
from toolkit.store import Run, Runs, open_run, open_runs
from toolkit.store.grades import grade_sets

_NAMED = 5  # ids that a message lists


class Source(NamedTuple):
    """A run of a figure."""

    name: str  # told apart from the other runs'
    run: Run
    kinds: list[str]  # of its sequences

    @property
    def title(self) -> str:
        """The run's name and its model."""
        model = self.run.manifest.model.get("name")
        return f"{self.name} ({Path(str(model)).name})" if model else self.name

    @property
    def sample_kind(self) -> str | None:
        """The kind of sequences that are its samples."""
        return sample_kind(self.kinds)


def sources_of(runs: Run | Runs | str | Path | Sequence[str | Path]) -> list[Source]:
    """The runs with their names.

    Raises
    ------
    ToolkitError
        There is no run, or one without sequences.
    """
    if isinstance(runs, Run):
        return [Source(runs.path.resolve().name, runs, kinds_of(runs))]
    if isinstance(runs, str | Path):
        return sources_of(open_run(runs))
    several = runs if isinstance(runs, Runs) else open_runs(runs)
    return [
        Source(str(label["run"]), run, kinds_of(run))
        for label, run in zip(several.labels, several, strict=True)
    ]


def check_needs(sources: Sequence[Source], kind: str) -> None:
    """Raise a ToolkitError where a run is not graded, or has no two samples of any prompt, and has to."""
    needs = KINDS[kind]
    for source in sources:
        path = source.run.path
        if needs.needs_grades and not grade_sets(path):
            raise ToolkitError(
                f"{path}: the figure {kind} needs grades, and nothing is graded: run toolkit grade {path}, or "
                "toolkit.grade, first"
            )
        if needs.needs_samples and most_samples(source) < 2:
            raise ToolkitError(
                f"{path}: the figure {kind} compares samples of a prompt, and no prompt has two: collect "
                "several of each"
            )


def most_samples(source: Source) -> int:
    """How many samples the prompt with the most of them has."""
    if source.sample_kind is None:
        return 0
    found: Counter[str] = Counter()
    for rows in source.run.iter_row_groups("sequences", ["prompt_id"], kinds=[source.sample_kind]):
        found.update(rows["prompt_id"].to_pylist())
    return max(found.values(), default=0)


def drawn(source: Source, kinds: Collection[str]) -> str:
    """How the sequences of these kinds came about."""
    ways = {
        "greedy": "greedy",
        "beam": "beam search",
        "scored": "given completions",
        "sample": f"sampler: {sampler_of(source.run)}",
    }
    return ", ".join(way for kind, way in ways.items() if kind in kinds)


def samples_drawn(source: Source) -> str:
    """How the samples of a run came about; its other sequences, where it has none."""
    return drawn(source, source.kinds if source.sample_kind is None else [source.sample_kind])


def shared_prompts(sources: Sequence[Source], asked: Sequence[str] | None) -> list[str]:
    """The prompts asked for, else those that all the runs have, in the order of their ids.

    Raises
    ------
    ToolkitError
        A run lacks a prompt that is asked for.
    ToolkitError
        The runs have no prompt in common.
    """
    known = [set(one.run.load("prompts", "prompt_id")["prompt_id"].to_pylist()) for one in sources]
    for source, ids in zip(sources, known, strict=True):
        for prompt in asked or ():
            if prompt not in ids:
                some = ", ".join(sorted(ids)[:_NAMED]) + (", ..." if len(ids) > _NAMED else "")
                raise wrong(
                    "prompts", f"{quoted(prompt)} is not in {source.run.path}; it has {len(ids)}: {some}"
                )
    if asked is not None:
        return list(dict.fromkeys(asked))
    common = set.intersection(*known)
    if not common:
        names = ", ".join(str(one.run.path) for one in sources)
        raise ToolkitError(f"{names}: no prompt is in all of them: compare runs of the same prompts")
    return sorted(common)


def of_each(sources: Sequence[Source], said: Sequence[str]) -> str:
    """What is said of each run, with its name; once without one where it is the same of all."""
    if len(set(said)) == 1:
        return said[0]
    named = [f"{one.name}: {part}" for one, part in zip(sources, said, strict=True) if part]
    return "; ".join(named)


def titled(what: str, sources: Sequence[Source]) -> str:
    """A figure's title: what it shows, and of which run where it is one."""
    return f"{what} · {sources[0].title}" if len(sources) == 1 else what


def labelled(sources: Sequence[Source], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of runs one below the other; of several, with the column run."""
    if len(sources) == 1:
        return frames[0]
    named = [frame.assign(run=source.name) for source, frame in zip(sources, frames, strict=True)]
    return pd.concat(named, ignore_index=True)


def joined_notes(*parts: str) -> str:
    """Parts of a caption; empty ones are left out."""
    return " · ".join(part for part in parts if part)
