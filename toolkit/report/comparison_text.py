"""What the page of two runs says in words and tables: plain texts, not escaped yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from toolkit.characters import count
from toolkit.judging.comparing import Compared
from toolkit.judging.question import BASELINES

SHOWN = 12
"""Estimators of a short table, those that differ most."""

_TABLES = {  # by metric: the title, and what it says
    "auroc": (
        "AUROC",
        "How often the right one of a right and a wrong answer has the higher confidence; 0.5 is chance.",
    ),
    "brier": ("Brier score", "The mean squared error of a probability; lower is better."),
    "ece": (
        "ECE",
        "The mean gap between a probability and the share that is right, in ten bins; lower is better.",
    ),
    "confidence": (
        "Confidence",
        "The mean of each estimator, as it is defined: higher need not be more confident.",
    ),
}
_NONE = "–"


class Row(NamedTuple):
    """An estimator."""

    name: str
    is_baseline: bool
    a: str
    b: str
    difference: str
    without_zero: str
    n_prompts: str


class Table(NamedTuple):
    """A metric of all estimators."""

    title: str
    meaning: str
    rows: list[Row]
    all_rows: list[Row]


def tiles(found: Compared) -> list[tuple[str, str]]:
    """The main numbers."""
    context, flips = found.context, found.prompts["flip"]
    tiles = [("prompts in both", f"{context['n_prompts']:,}")]
    accuracy = _row(found, "accuracy")
    if accuracy is not None:
        tiles += [
            ("right, A", f"{100 * accuracy['a']:.1f} %"),
            ("right, B", f"{100 * accuracy['b']:.1f} %"),
            ("from right to wrong", f"{(flips == 'right to wrong').sum():,}"),
            ("from wrong to right", f"{(flips == 'wrong to right').sum():,}"),
        ]
    same = found.prompts["same_text"].sum()
    return [*tiles, ("the same text", f"{same:,}")]


def sentences(found: Compared, names: Sequence[str]) -> list[str]:
    """What was found, a sentence each."""
    said = []
    accuracy = _row(found, "accuracy")
    if accuracy is None:
        said.append("What is right is not compared: the runs are not both graded.")
    else:
        said.append(
            f"{names[1]} is right in {100 * accuracy['b']:.1f} % and {names[0]} in {100 * accuracy['a']:.1f} %: "
            f"{_told(accuracy, 100, 1, ' points')}"
        )
    confidence = _row(found, "confidence", found.context["confidence"])
    if confidence is not None and not math.isnan(confidence["difference"]):
        name = found.context["confidence"]
        said.append(
            f"The mean {name} is {confidence['b']:z.3f} in {names[1]} and {confidence['a']:z.3f} in {names[0]}: "
            f"{_told(confidence, 1, 3)}"
        )
    for metric in ("auroc", "brier", "ece"):
        said += _counted(found, metric)
    return said


def notes_of(found: Compared) -> list[str]:
    """What has to be said beside it."""
    return [note[:1].upper() + note[1:] + "." for note in found.notes]


def how_compared(found: Compared) -> str:
    """Where the intervals come from, and how to read many of them."""
    context = found.context
    if not context["bootstrap"]:
        return "Without intervals."
    share = 100 * (1 - context["level"])
    return (
        f"In parentheses stand {100 * context['level']:g} % intervals by {context['bootstrap']:,} resamples of "
        f"prompts, the same for both. Between runs that do not differ, about {share:g} in 100 lack 0 all the same."
    )


def tables(found: Compared) -> list[Table]:
    """A table a metric."""
    made = []
    for metric, (title, meaning) in _TABLES.items():
        own = _of(found, metric)
        known = own[own[["a", "b"]].notna().any(axis=1)]
        if known.empty:
            continue
        if metric != "confidence":  # whose estimators have scales of their own
            size = known["difference"].abs().fillna(-1)
            known = known.loc[size.sort_values(ascending=False, kind="stable").index]
        digits = 3
        records = known.to_dict("records")
        short = [one for i, one in enumerate(records) if i < SHOWN or one["estimator"] in BASELINES]
        rows = [_cells(one, digits) for one in short]
        made.append(Table(title, meaning, rows, [_cells(one, digits) for one in records]))
    return made


def _of(found: Compared, metric: str) -> pd.DataFrame:
    frame = found.differences
    return frame[frame["metric"] == metric]


def _row(found: Compared, metric: str, estimator: str | None = None) -> dict[str, Any] | None:
    own = _of(found, metric)
    own = own if estimator is None else own[own["estimator"] == estimator]
    return None if own.empty else {str(name): value for name, value in own.iloc[0].to_dict().items()}


def _told(row: Mapping[str, Any], factor: float, digits: int, unit: str = "") -> str:
    """A difference with its interval, and whether it is one."""
    value, low, high = (factor * float(row[f"difference{end}"]) for end in ("", "_low", "_high"))
    said = f"a difference of {value:z.{digits}f}{unit}"
    if math.isnan(low):
        return f"{said}, without an interval."
    ends = f" ({low:z.{digits}f} to {high:z.{digits}f})"
    return (
        f"{said}{ends}."
        if row["excludes_zero"]
        else f"{said}{ends}, so none was found: the interval holds 0."
    )


def _counted(found: Compared, metric: str) -> list[str]:
    """How many estimators a metric rises or falls of."""
    known = _of(found, metric)
    known = known[known["difference_low"].notna()]
    if known.empty:
        return []
    title = _TABLES[metric][0]
    apart = known[known["excludes_zero"]]
    up = int((apart["difference"] > 0).sum())
    told = (
        f"higher in B for {up:,} and lower for {len(apart) - up:,}"
        if len(apart)
        else "not found to differ for any"
    )
    return [f"Of {count(len(known), 'estimator')}, the {title} is {told}, by intervals without 0."]


def _cells(one: Mapping[Any, Any], digits: int) -> Row:
    low = float(one["difference_low"])
    interval = "" if math.isnan(low) else f" ({low:z.{digits}f} to {one['difference_high']:z.{digits}f})"
    value = float(one["difference"])
    name = str(one["estimator"])
    return Row(
        name=name,
        is_baseline=name in BASELINES,
        a=_number(one["a"], digits),
        b=_number(one["b"], digits),
        difference=_NONE if math.isnan(value) else f"{value:z.{digits}f}{interval}",
        without_zero="yes" if one["excludes_zero"] else "",
        n_prompts=f"{one['n_prompts']:,}",
    )


def _number(value: float, digits: int) -> str:
    return _NONE if math.isnan(value) else f"{value:z.{digits}f}"
