"""What a model was asked and a run keeps beside it: picks among choices, and estimators' values by sequence.

Estimators of the level "asked" read tables with a row a sequence; whatever puts such a table beside a run has its
estimators evaluated with the rest. A sequence that was not asked about has no value: NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from toolkit import stats
from toolkit.aggregation.selection import KEY
from toolkit.aggregation.targets import Units, check_target, sample_kind
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.stats import Estimator, Ranges
from toolkit.stats.choices import SCORES
from toolkit.stats.ranges import Floats
from toolkit.store.beside import is_beside, read_beside
from toolkit.store.grades import grade_sets, read_grades
from toolkit.store.schemas import CHOICES, TABLES

if TYPE_CHECKING:
    from toolkit.store import Run
    from toolkit.store.keys import Key

CHOICE_GRADER = "choices"  # whose grades say which choices are right
PICK = "pick"


def has_choices(run: Run) -> bool:
    """Whether the run's sequences are choices of questions."""
    return is_beside(run.path, CHOICES.name)


def pick_score(target: str | None) -> str | None:
    """The score of a target `pick` or `pick:SCORE`; None for another target.

    Raises
    ------
    ToolkitError
        There is no such score.
    """
    head, colon, score = (target or "").partition(":")
    if head != PICK:
        return None
    if colon and score not in SCORES:
        raise ToolkitError(f"target: there is no score {quoted(score)}: give pick:{', pick:'.join(SCORES)}")
    return score or SCORES[0]


def target_of(run: Run, target: str | None, kinds: Sequence[str]) -> str:
    """The target asked for; else the picks where the run has choices, else greedy or each.

    Raises
    ------
    ToolkitError
        There is no such target or score, or the run has not what it judges.
    """
    if target is None and has_choices(run):
        return PICK
    if pick_score(target) is None:
        return check_target(target, kinds)
    if not has_choices(run):
        raise ToolkitError(
            f"target: {run.path} has no choices to pick: give greedy, first, each, vote or mean"
        )
    return str(target)


def picks(run: Run, score: str) -> set[Key]:
    """The choice of each question that has the largest probability by a score, the first of several.

    A question whose score is not computed has no pick.

    Raises
    ------
    ToolkitError
        No question has one.
    """
    rows = read_beside(run.path, CHOICES.name).select([*KEY, f"p_{score}"]).to_pandas()
    best = _best(rows, score)
    if best.empty:
        raise ToolkitError(f"{run.path}: no question has a pick by {score}: ask again, with toolkit ask")
    return set(best[KEY].itertuples(index=False, name=None))


def _best(frame: pd.DataFrame, score: str) -> pd.DataFrame:
    """The row of each prompt with the largest probability; prompts without one have none."""
    known = frame.dropna(subset=[f"p_{score}"]).reset_index(drop=True)
    return known.loc[known.groupby("prompt_id", sort=False)[f"p_{score}"].idxmax()] if len(known) else known


def asked_estimators(run: Run) -> list[Estimator]:
    """The registered estimators whose tables are beside the run."""
    return [
        one for one in stats.estimators("asked") if all(is_beside(run.path, t) for t in _tables_of([one]))
    ]


def computed_estimators(run: Run, estimators: Iterable[Estimator]) -> list[Estimator]:
    """The estimators whose values are computed from a run's own tables.

    Those of samples are not among them where the sequences are choices: nobody drew them.
    """
    choices = has_choices(run)
    return [
        one for one in estimators if one.level == "token-span" or (one.level == "samples" and not choices)
    ]


def with_asked(run: Run, units: Units, estimators: Sequence[Estimator]) -> Units:
    """The units with the values of all estimators: NaN for those that are not computed of this run."""
    asked = asked_values(run, estimators, units.keys)
    rest = {one.label for one in estimators if one.name != "random"}.difference(units.values, asked)
    nothing: dict[str, Floats] = {label: np.full(len(units.keys), np.nan) for label in rest}
    return units._replace(values={**units.values, **asked, **nothing})


def asked_values(run: Run, estimators: Iterable[Estimator], keys: Sequence[Key]) -> dict[str, Floats]:
    """Values of estimators of the level "asked" for sequences.

    Parameters
    ----------
    run : Run
    estimators : iterable of Estimator
        Others among them are left out.
    keys : sequence of (prompt_id, kind, sample_index)
        n of them; of the kind "mean", the mean over the prompt's samples that were asked about.

    Returns
    -------
    dict of str to (n,) float64
        By label; NaN where the sequence was not asked about, or the run has no such table.
    """
    asked = [one for one in estimators if one.level == "asked"]
    if not asked:
        return {}
    wanted = pd.MultiIndex.from_tuples(list(keys), names=KEY)
    found: dict[str, Floats] = {}
    tables = {name: _Table(run, name) for name in _tables_of(asked)}
    for one in asked:
        (name,) = _tables_of([one])
        values = tables[name].values(one)
        of_keys = pd.concat([values, _means(values)]).reindex(wanted)
        found[one.label] = np.asarray(of_keys, np.float64)
    return found


def choices_df(run: Run) -> pd.DataFrame:
    """The table choices with each choice's text, and right: 1, 0, or NaN where nobody said."""
    rows = read_beside(run.path, CHOICES.name).to_pandas()
    texts = run.sequences_df(columns=[*KEY, "text"], kinds="scored")
    sets = [one for one in grade_sets(run.path) if one.grader == CHOICE_GRADER]
    grades = read_grades(sets, [*KEY, "value"]).to_pandas().rename(columns={"value": "right"})
    frame = rows.merge(texts, on=KEY, how="left").merge(grades, on=KEY, how="left").drop(columns="kind")
    first = ["prompt_id", "sample_index", "text", "right"]
    return frame[[*first, *(name for name in frame if name not in first)]]


def picks_df(frame: pd.DataFrame) -> pd.DataFrame:
    """How the picks by each score fare: a row a score.

    Parameters
    ----------
    frame : DataFrame
        As `choices_df` or `toolkit.ask` gives it.

    Returns
    -------
    DataFrame
        score; n, questions with a pick; n_undefined, those without; probability, the mean of the pick's; n_graded;
        accuracy, the share of these whose pick is right (NaN where there are none).
    """
    n_questions = frame["prompt_id"].nunique()
    rows = []
    for score in SCORES:
        best = _best(frame, score)
        graded = best["right"].dropna()
        rows.append(
            {
                "score": score,
                "n": len(best),
                "n_undefined": n_questions - len(best),
                "probability": float(best[f"p_{score}"].mean()) if len(best) else np.nan,
                "n_graded": len(graded),
                "accuracy": float(graded.mean()) if len(graded) else np.nan,
            }
        )
    return pd.DataFrame(rows)


class _Table:
    """A table beside a run as columns, its rows prompt by prompt."""

    def __init__(self, run: Run, name: str) -> None:
        if name not in TABLES:
            raise ToolkitError(f"an estimator reads the table {quoted(name)}: there are {', '.join(TABLES)}")
        rows = read_beside(run.path, name)
        frame = rows.to_pandas()
        self._index = pd.MultiIndex.from_frame(frame[KEY])
        self._columns = {
            f"{name}.{field.name}": frame[field.name].to_numpy(np.float64)
            for field in rows.schema
            if field.name not in KEY and not pa.types.is_string(field.type)
        }
        starts = np.flatnonzero(~frame.duplicated(KEY[:2]).to_numpy())
        self._prompts = Ranges(starts, np.append(starts[1:], len(frame)) if len(starts) else starts)

    def values(self, one: Estimator) -> pd.Series[float]:
        """A value a row, by key."""
        return pd.Series(one(self._columns, self._prompts), self._index, dtype=np.float64)


def _means(values: pd.Series[float]) -> pd.Series[float]:
    """Of each prompt, the mean over its samples where it is defined."""
    kind = sample_kind(list(values.index.unique("kind"))) if len(values) else None
    own = values[values.index.get_level_values("kind") == kind].dropna()
    means = own.groupby(level="prompt_id").mean()
    return means.set_axis(pd.MultiIndex.from_product([means.index, ["mean"], [0]], names=KEY))


def _tables_of(estimators: Iterable[Estimator]) -> list[str]:
    """Names of the tables that they read; each reads one."""
    return list(dict.fromkeys(one.inputs[0].partition(".")[0] for one in estimators))
