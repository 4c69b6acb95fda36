"""Figures of single sequences: confidence along an answer, samples side by side, entropy over positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.aggregation.selection import ALTERNATIVES, Block, Selection, read_blocks
from toolkit.appearance.questions import question
from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.characters import clip, quoted, visible
from toolkit.errors import ToolkitError, argument
from toolkit.figures.choosing import (
    Chosen,
    default_kinds,
    keys_of,
    prompt_of_an_answer,
    prompt_of_samples,
    selected_keys,
)
from toolkit.figures.drawing import Drawing, Panel
from toolkit.figures.grades import grade_word, grades_of, is_graded
from toolkit.figures.options import Options, wrong
from toolkit.figures.sources import Source, drawn, joined_notes, titled
from toolkit.stats.ranges import Floats
from toolkit.store import Run
from toolkit.store.keys import Key

_QUESTION_COLUMNS = 140
_MOST_SAMPLES = 16


class _Tokens(NamedTuple):
    """The tokens of a sequence that take part."""

    texts: list[str]
    columns: Mapping[str, NDArray[np.float64]]


def sequence(sources: Sequence[Source], options: Options) -> Drawing:
    """Confidence along an answer: a panel a sequence."""
    from toolkit.plots import plot_sequence

    chosen = prompt_of_an_answer(sources, options)
    panels = []
    for source in sources:
        kinds = options.kinds or default_kinds(source)
        indices = [chosen.sample] if options.samples is None and kinds != ["greedy"] else options.samples
        keys = selected_keys(source.run, Selection(chosen.prompts, kinds, indices))
        found = _read(source.run, keys, {"logprob", "rank", ALTERNATIVES})
        grades = _grades(source.run, options.grader)
        for key in keys:
            tokens = found[key]
            others = tokens.columns[ALTERNATIVES]
            draw = partial(
                plot_sequence,
                tokens.texts,
                tokens.columns["logprob"],
                None if np.isnan(others).all() else others,
                ranks=tokens.columns["rank"],
                note=joined_notes(drawn(source, [key[1]]), chosen.reason),
            )
            panels.append(Panel(_panel_title(source, key, grades, sources, chosen), draw))
    return _drawing("Confidence along an answer", sources, chosen, panels, shared="y")


def samples(sources: Sequence[Source], options: Options) -> Drawing:
    """The samples of a prompt, a strip each, below the greedy answer: a panel a run and prompt."""
    from toolkit.plots import plot_samples
    from toolkit.plots.layout import rows_height

    metric = options.metric or "logprob"
    if metric not in TOKEN_SCALES:
        raise wrong("metric", f"a token has no {quoted(metric)}; use one of {', '.join(TOKEN_SCALES)}")
    chosen = prompt_of_samples(sources, options)
    panels = []
    for source, prompt, keys, left_out in _sample_keys(sources, options, chosen, greedy=True):
        found = _read(source.run, keys, {metric})
        grades = _grades(source.run, options.grader)
        _require_some([found[key].columns[metric] for key in keys], metric, source.run)
        strips = [
            list(zip(found[key].texts, found[key].columns[metric].tolist(), strict=True)) for key in keys
        ]
        draw = partial(
            plot_samples,
            strips,
            metric=metric,
            labels=[_label(key, grades) for key in keys],
            note=joined_notes(drawn(source, {key[1] for key in keys}), chosen.reason, left_out),
        )
        panels.append(Panel(_prompt_title(source, prompt, sources, chosen), draw, rows_height(len(keys))))
    return _drawing("Samples of a prompt", sources, chosen, panels)


def entropy_map(sources: Sequence[Source], options: Options) -> Drawing:
    """Entropy of a prompt's samples over positions: a panel a run and prompt."""
    from toolkit.plots import plot_entropy_map
    from toolkit.plots.layout import rows_height

    chosen = prompt_of_samples(sources, options)
    shown = list(_sample_keys(sources, options, chosen, greedy=False))
    read = [_read(source.run, keys, {"entropy"}) for source, _, keys, _ in shown]
    columns = max(len(tokens.texts) for found in read for tokens in found.values())
    panels = []
    for (source, prompt, keys, left_out), found in zip(shown, read, strict=True):
        rows = [found[key].columns["entropy"] for key in keys]
        _require_some(rows, "entropy", source.run)
        grades = _grades(source.run, options.grader)
        draw = partial(
            plot_entropy_map,
            _padded(rows, columns),
            labels=[_label(key, grades) for key in keys],
            note=joined_notes(drawn(source, {key[1] for key in keys}), chosen.reason, left_out),
        )
        panels.append(Panel(_prompt_title(source, prompt, sources, chosen), draw, rows_height(len(keys))))
    return _drawing("Entropy of a prompt's samples", sources, chosen, panels)


def _sample_keys(
    sources: Sequence[Source], options: Options, chosen: Chosen, *, greedy: bool
) -> Iterator[tuple[Source, str, list[Key], str]]:
    """The samples of each prompt in each run, with the greedy answer first, and how many were left out."""
    for prompt in chosen.prompts:
        for source in sources:
            kinds = options.kinds or [source.sample_kind or source.kinds[0]]
            keys = selected_keys(source.run, Selection([prompt], kinds, options.samples))
            if len(keys) < 2:
                raise ToolkitError(
                    f"{source.run.path}: samples are compared, and of prompt {quoted(prompt)} {len(keys)} is "
                    f"selected: name more of them, or another of {argument('prompts')}"
                )
            most = options.limit or _MOST_SAMPLES
            left_out = f"the first {most} of {len(keys)} samples" if len(keys) > most else ""
            first = (
                keys_of(source.run, Selection([prompt], ["greedy"])) if greedy and not options.kinds else []
            )
            yield source, prompt, [*first, *keys[:most]], left_out


def _read(run: Run, keys: Sequence[Key], inputs: set[str]) -> dict[Key, _Tokens]:
    """Tokens of some sequences, with columns of the tokens table."""
    wanted = set(keys)
    prompts, kinds, samples = (sorted(set(part)) for part in zip(*keys, strict=True))
    selection = Selection(prompts, kinds, samples)
    found = {}
    for block in read_blocks(run, inputs, selection, segments=False):
        for i, key in enumerate(block.keys):
            if key in wanted:
                found[key] = _tokens(block, i)
    return found


def _tokens(block: Block, i: int) -> _Tokens:
    rows = np.arange(block.offsets[i], block.offsets[i] + block.counts[i])
    rows = rows[block.kept[rows]]
    return _Tokens(block.token_texts(rows), {name: column[rows] for name, column in block.columns.items()})


def _padded(rows: Sequence[Floats], columns: int) -> Floats:
    """(n_samples, columns), NaN past a sample's end."""
    matrix = np.full((len(rows), columns), np.nan)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix


def _require_some(columns: Sequence[Floats], metric: str, run: Run) -> None:
    if all(np.isnan(column).all() for column in columns):
        raise wrong("metric", f"{metric} was not computed in {run.path}; name another")


def _grades(run: Run, grader: str | None) -> Mapping[Key, float]:
    return grades_of(run, grader) if is_graded(run, grader) else {}


def _label(key: Key, grades: Mapping[Key, float]) -> str:
    """A sequence among those of its prompt, and its grade."""
    _, kind, index = key
    name = kind if kind == "greedy" else f"{kind} {index}"
    said = grade_word(grades.get(key, np.nan))
    return f"{name}, {said}" if said else name


def _panel_title(
    source: Source, key: Key, grades: Mapping[Key, float], sources: Sequence[Source], chosen: Chosen
) -> str:
    return f"{_prompt_title(source, key[0], sources, chosen)} · {_label(key, grades)}"


def _prompt_title(source: Source, prompt: str, sources: Sequence[Source], chosen: Chosen) -> str:
    """What tells a panel from the others: its run, its prompt, or both."""
    parts = [source.title] if len(sources) > 1 else []
    parts += [prompt] if len(chosen.prompts) > 1 or not parts else []
    return " · ".join(parts)


def _drawing(
    what: str, sources: Sequence[Source], chosen: Chosen, panels: list[Panel], *, shared: str = "none"
) -> Drawing:
    title = titled(what, sources)
    if len(chosen.prompts) == 1:
        title = f"{title}\n{clip(visible(_question(sources[0].run, chosen.prompts[0])), _QUESTION_COLUMNS)}"
    if len(panels) == 1:
        title = f"{title}\n{panels[0].title}"
    return Drawing(title, panels, wide=True, shared=shared)


def _question(run: Run, prompt: str) -> str:
    (row,) = run.load("prompts", ["text", "messages"], prompt).to_pylist()
    return question(row)
