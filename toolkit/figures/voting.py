"""Figures of votes: accuracy against the number of samples, and what stopping early would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from toolkit.errors import ToolkitError
from toolkit.figures.drawing import Drawing, Panel
from toolkit.figures.options import Options, wrong
from toolkit.figures.sources import (
    Source,
    joined_notes,
    labelled,
    most_samples,
    of_each,
    samples_drawn,
    titled,
)
from toolkit.judging.voting import Election, count_ungraded, early_stopping_df, vote_df

_PERCENTILES = (10.0, 25.0, 50.0, 75.0, 90.0)
_PUBLISHED_WARMUP, _PUBLISHED_WINDOW = 16, 2048
_WEIGHT = "geometric_mean_prob"


def votes(sources: Sequence[Source], options: Options) -> Drawing:
    """Accuracy of each vote against the number of samples: a panel a run."""
    from toolkit.plots import plot_votes

    election = _election(options)
    panels = []
    for source in sources:
        note = joined_notes(
            f"weighted by {election.confidence}",
            f"filtered keeps {100 * election.keep:g} %",
            *_said(source, election),
        )
        panels.append(Panel(source.title, partial(plot_votes, vote_df(source.run, election), note=note)))
    return Drawing(titled("Accuracy of votes", sources), panels, shared="both")


def early_stopping(sources: Sequence[Source], options: Options) -> Drawing:
    """Accuracy and tokens saved over percentiles of the threshold: a line a run."""
    from toolkit.plots import plot_early_stopping

    election = _election(options)
    frames, settings = [], []
    for source in sources:
        warmup = options.warmup or min(_PUBLISHED_WARMUP, max(1, most_samples(source) // 2))
        window = options.window or min(_PUBLISHED_WINDOW, max(1, _typical_length(source) // 2))
        frame = early_stopping_df(
            source.run,
            election,
            percentiles=options.percentiles or _PERCENTILES,
            warmup=warmup,
            window=window,
        )
        frames.append(frame)
        nothing = "" if frame["n_cut"].any() else ", nothing would be cut"
        settings.append(f"first {warmup} samples whole, window {window} tokens{nothing}")
    said = [
        of_each(sources, list(part)) for part in zip(*(_said(one, election) for one in sources), strict=True)
    ]
    note = joined_notes(of_each(sources, settings), *said)
    draw = partial(plot_early_stopping, labelled(sources, frames), note=note)
    return Drawing(titled("Stopping unsure samples early", sources), [Panel("", draw)])


def _election(options: Options) -> Election:
    (one, *others) = options.estimators_or([_WEIGHT])
    if others:
        raise wrong("estimators", f"one weighs a sample, and {1 + len(others)} are given; name one")
    election = Election(
        grader=options.grader,
        over=options.over,
        comparison=options.comparison,
        confidence=one.label,
        bootstrap=options.bootstrap if options.bootstrap is not None else 1000,
        seed=options.seed or 0,
    )
    try:
        _ = election.weight
    except ToolkitError as error:
        raise wrong("estimators", str(error).removeprefix("confidence: ")) from None
    return election


def _said(source: Source, election: Election) -> list[str]:
    """How samples are compared and were drawn, and how many are not graded."""
    n_ungraded, n = count_ungraded(source.run, election)
    ungraded = f"{n_ungraded:,} of {n:,} samples are not graded" if n_ungraded else ""
    return [f"same answer: {election.comparison.equivalence}", ungraded, samples_drawn(source)]


def _typical_length(source: Source) -> int:
    """The median number of tokens of a sample."""
    kind = [source.sample_kind] if source.sample_kind else None
    rows = source.run.iter_row_groups("sequences", ["n_tokens"], kinds=kind)
    return int(np.median(np.concatenate([one["n_tokens"].to_numpy() for one in rows])))
