"""A graded run whose log-probabilities only partly go with being right, and plain loops to judge it by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.answers import Answer, greedy, make_answers, prompt, sample
from toolkit.judging.evaluation import evaluate_run
from toolkit.judging.grades import grade
from toolkit.judging.question import Question
from toolkit.store import Run

N_PROMPTS = 8
PROMPTS = [prompt(f"p{i}", "Yes") for i in range(N_PROMPTS)]


def is_right(answer: Answer) -> float:
    return float(answer.text == "Yes")


def mixed_answers() -> list[Answer]:
    """A greedy answer and five samples a prompt: log-probabilities that only partly go with being right."""
    rng = np.random.default_rng(5)
    answers = []
    for i in range(N_PROMPTS):
        easy = rng.random()
        for index in range(-1, 5):
            text = "Yes" if rng.random() < easy else ("No", "Maybe")[int(rng.integers(2))]
            values = -rng.exponential(1.5 - easy, len(text))
            make = greedy if index < 0 else sample
            head = (f"p{i}",) if index < 0 else (f"p{i}", index)
            answers.append(make(*head, text, *values.tolist(), end=-float(rng.exponential())))  # type: ignore[operator]
    return answers


ANSWERS = mixed_answers()


def evaluated(run: Run, **question: Any) -> pd.DataFrame:
    """The table by estimator, with few resamples."""
    return evaluate_run(run, Question(**{"bootstrap": 20, **question})).frame.set_index("estimator")


def made(
    path: Path, answers: Sequence[Answer], reference: str = "Yes", grader: str = "exact", **more: Any
) -> Run:
    ids = dict.fromkeys(answer.prompt_id for answer in answers)
    run = make_answers(path, [prompt(name, reference) for name in ids], answers)
    grade(run, grader, **more)
    return run


def plain_auroc(confidence: Sequence[float], right: Sequence[float]) -> float:
    wins = [
        float(a > b) + 0.5 * float(a == b)
        for a, x in zip(confidence, right, strict=True)
        for b, y in zip(confidence, right, strict=True)
        if x == 1 and y == 0
    ]
    return sum(wins) / len(wins) if wins else math.nan


def plain_ece(confidence: Sequence[float], right: Sequence[float], bins: int = 10) -> float:
    total = 0.0
    for i in range(bins):
        inside = [
            (c, r)
            for c, r in zip(confidence, right, strict=True)
            if i / bins <= c < (i + 1) / bins or (i == bins - 1 and c == 1)
        ]
        total += abs(sum(c for c, _ in inside) - sum(r for _, r in inside))
    return total / len(confidence)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def of_kind(kind: str) -> list[Answer]:
    return [answer for answer in ANSWERS if answer.kind == kind]


def graded_run(path: Path) -> Run:
    run = make_answers(path, PROMPTS, ANSWERS)
    grade(run, "exact")
    return run
