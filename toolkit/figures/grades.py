"""The grades of a run's whole answers, for figures that show them where they are there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from toolkit.judging.evaluation import outcomes_of
from toolkit.store import Run
from toolkit.store.grades import GradeSet, find_grades, grade_sets
from toolkit.store.keys import Key


def grades_of(run: Run, grader: str | None) -> Mapping[Key, float]:
    """The grade of each sequence.

    Parameters
    ----------
    run : Run
    grader : str, optional
        The only one there is by default.

    Raises
    ------
    ToolkitError
        Nothing is graded, or not by this grader, or several are there and none is named.
    """
    return outcomes_of(find_grades(_sets(run), grader, str(run.path)))


def is_graded(run: Run, grader: str | None) -> bool:
    """Whether there are grades, or a grader is named."""
    return grader is not None or bool(_sets(run))


def grade_word(grade: float) -> str:
    """A grade in a word or two; empty where nobody can say."""
    if np.isnan(grade):
        return ""
    return {1.0: "right", 0.0: "wrong"}.get(float(grade), "partly right")


def _sets(run: Run) -> list[GradeSet]:
    return [one for one in grade_sets(run.path) if one.settings.get("by") is None]
