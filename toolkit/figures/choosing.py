"""Which sequence or prompt to show where none is named: the most telling one, and why it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.selection import KEY, Selection, read_blocks
from toolkit.aggregation.span_tables import Measure, iter_span_tables, opened_prompts
from toolkit.aggregation.units import default_part
from toolkit.errors import ToolkitError, argument
from toolkit.figures.options import Options, wrong
from toolkit.figures.sources import Source, shared_prompts
from toolkit.spans import span_kind
from toolkit.stats.agreement import mean_similarity
from toolkit.stats.semantic import number_of_classes
from toolkit.store import Run
from toolkit.store.keys import Key, key_tuples

_LEAST = "min_logprob"


class Chosen(NamedTuple):
    """Prompts to show, and why they were chosen; no reason where a user named them."""

    prompts: list[str]
    reason: str = ""
    sample: int = 0  # which sample, where one is shown


def prompt_of_an_answer(sources: Sequence[Source], options: Options) -> Chosen:
    """The prompt whose answer has the least likely token of all in the first run."""
    prompts = shared_prompts(sources, options.prompts)
    if options.prompts is not None:
        return Chosen(prompts)
    first = sources[0]
    kinds = options.kinds or default_kinds(first)
    found = _least_likely(first.run, Selection(prompts, kinds, options.samples))
    if found is None:
        raise nothing_selected(first.run)
    reason = f"chosen: of all {' and '.join(kinds)} answers, the one with the least likely token"
    return Chosen([found[0]], reason, found[2])


def prompt_of_samples(sources: Sequence[Source], options: Options) -> Chosen:
    """The prompt of the first run whose samples give the most different answers in the most alike words."""
    prompts = shared_prompts(sources, options.prompts)
    if options.prompts is not None:
        return Chosen(prompts)
    first = sources[0]
    kinds = options.kinds or ([first.sample_kind] if first.sample_kind else None)
    if first.sample_kind not in (kinds or ()):
        raise wrong("kinds", f"samples are compared; name {first.sample_kind} or leave it out")
    found = _most_different(first.run, Selection(prompts, kinds, options.samples))
    if found is None:
        raise nothing_selected(first.run)
    return Chosen([found], "chosen: the most different answers in the most alike words")


def default_kinds(source: Source) -> list[str]:
    """The kind of sequence that is a run's answer to a prompt: greedy where it has them."""
    return ["greedy"] if "greedy" in source.kinds else [source.sample_kind or source.kinds[0]]


def selected_keys(run: Run, selection: Selection) -> list[Key]:
    """The sequences of a selection, in the order of their keys.

    Raises
    ------
    ToolkitError
        There is none.
    """
    found = keys_of(run, selection)
    if not found:
        raise nothing_selected(run)
    return found


def keys_of(run: Run, selection: Selection) -> list[Key]:
    """As `selected_keys`; an empty list where there is none."""
    found: list[Key] = []
    for rows in run.iter_row_groups("sequences", KEY, selection.prompts, selection.kinds):
        keys = key_tuples(rows)
        found += [key for key in keys if selection.samples is None or key[2] in selection.samples]
    return sorted(found)


def nothing_selected(run: Run) -> ToolkitError:
    """The error for a selection without a sequence."""
    names = f"{argument('prompts')}, {argument('kinds')} or {argument('samples')}"
    return ToolkitError(f"{run.path}: no sequence is selected; name other {names}")


def _most_different(run: Run, selection: Selection) -> str | None:
    """The prompt with the most classes of answers; of several, that of the most alike texts, then the first."""
    comparison, part, opened = Comparison(), default_part(run), opened_prompts(run)
    best: tuple[float, float] | None = None
    name = None
    for block in read_blocks(run, set(), selection, whole=True, segments=False):
        prompts = block.sequences["prompt_id"].to_pylist()
        answers = [
            part.find(text, opened=prompt in opened).text
            for prompt, text in zip(prompts, block.sequences["text"].to_pylist(), strict=True)
        ]
        for prompt, own in groupby(zip(prompts, answers, strict=True), key=itemgetter(0)):
            texts = [text for _, text in own]
            n_classes = number_of_classes(comparison.classes(texts))
            if best is None or n_classes >= best[0]:
                alike = float(np.nan_to_num(mean_similarity(comparison.matrix(texts))))
                if best is None or (n_classes, alike) > best:
                    best, name = (n_classes, alike), prompt
    return name


def _least_likely(run: Run, selection: Selection) -> Key | None:
    """The sequence with the least likely token; without log-probabilities, the first. None without sequences."""
    best: tuple[float, Key] | None = None
    for rows in iter_span_tables(run, span_kind("sequence"), Measure([_LEAST]), selection):
        values = np.nan_to_num(rows[_LEAST].to_numpy(), nan=np.inf)
        for value, key in zip(values.tolist(), key_tuples(rows), strict=True):
            best = (value, key) if best is None else min(best, (value, key))
    return best[1] if best is not None else None
