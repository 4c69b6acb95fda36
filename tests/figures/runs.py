"""Made runs for figures, and what a figure is about to draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from tests.answers import Answer, make_answers, prompt
from tests.graded import ANSWERS, PROMPTS
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run
from toolkit.figures import Drawing, prepare
from toolkit.figures.drawing import Panel
from toolkit.judging.grades import grade
from toolkit.store import Run, RunWriter, open_run


def plain_run(path: Path, **more: Any) -> Run:
    """Three prompts with a greedy answer and four samples each, five alternatives a token; not graded."""
    return open_run(make_run(path, **{"n_tokens": 6, **more}))


def graded(path: Path, *, temperature: float | None = None, answers: list[Answer] = ANSWERS) -> Run:
    """Eight prompts with a greedy answer and five samples each, of a word; graded by `exact`."""
    sampler = {"sampler": {"temperature": 0.8 if temperature is None else temperature, "top_p": 1.0}}
    run = make_answers(path, PROMPTS, answers, content_config=sampler)
    grade(run, "exact")
    return run


def ungraded(path: Path, answers: list[Answer]) -> Run:
    """A run of these answers."""
    ids = dict.fromkeys(answer.prompt_id for answer in answers)
    return make_answers(path, [prompt(name, "Yes") for name in ids], answers)


def stopped_run(path: Path) -> Run:
    """One sample of eight tokens, of which a stop string left five bytes."""
    with RunWriter.create(path, make_manifest()) as writer:
        writer.add_prompts([make_prompt("p")])
        writer.commit([make_record(n_tokens=8, n_bytes=5, has_end=False)], VOCABULARY)
    return open_run(path)


def only_panel(runs: Any, kind: str, **options: Any) -> Panel:
    """The panel of a figure that has one."""
    (panel,) = prepare(runs, kind, **options).panels
    return panel


def arguments(panel: Panel) -> tuple[Any, ...]:
    """What the function of `toolkit.plots` is given."""
    return panel.draw.args  # type: ignore[attr-defined,no-any-return]


def settings(panel: Panel) -> dict[str, Any]:
    """What it is given by name."""
    return panel.draw.keywords  # type: ignore[attr-defined,no-any-return]


def plot_of(panel: Panel) -> str:
    return panel.draw.func.__name__  # type: ignore[attr-defined,no-any-return]


def notes(drawing: Drawing) -> list[str]:
    return [settings(panel)["note"] for panel in drawing.panels]


def of_key(frame: pd.DataFrame, prompt_id: str, kind: str, index: int = 0) -> pd.DataFrame:
    """The rows of a sequence."""
    own = (frame["prompt_id"] == prompt_id) & (frame["kind"] == kind) & (frame["sample_index"] == index)
    return frame[own]
