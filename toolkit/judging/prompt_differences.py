"""The prompts that two runs differ on, those that differ most first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from toolkit.aggregation.selection import KEY
from toolkit.aggregation.targets import Units
from toolkit.stats import Estimator
from toolkit.stats.ranges import Floats
from toolkit.store.keys import Key, key_tuples
from toolkit.store.reader import Run

COLUMNS = (
    "prompt_id",
    "flip",
    "outcome_a",
    "outcome_b",
    "outcome_difference",
    "confidence_a",
    "confidence_b",
    "confidence_difference",
    "same_text",
    "text_a",
    "text_b",
    "n_a",
    "n_b",
)


def prompt_differences(runs: Sequence[Run], units: Sequence[Units], confidence: Estimator) -> pd.DataFrame:
    """A row a prompt that both runs have.

    Parameters
    ----------
    runs : (Run, Run)
    units : (Units, Units)
        Of the prompts that both have, with the values of `confidence`.
    confidence : Estimator
        What says how sure a run was.

    Returns
    -------
    DataFrame
        `prompt_id`; `outcome_a` and `outcome_b`, the mean grades of the prompt's units, `outcome_difference`
        and `flip` ("right to wrong", "wrong to right", none otherwise); `confidence_a` and `confidence_b`,
        the mean values, and `confidence_difference`, all of it b less a; the text of the first unit of each,
        and whether these are equal; `n_a` and `n_b` units. Sorted by the size of the difference of outcome,
        then by that of confidence in the direction that is confident, then by id; NaN differs least.
    """
    sides = [_of_prompts(own, confidence) for own in units]
    texts = [_texts(run, own) for run, own in zip(runs, units, strict=True)]
    rows: list[dict[str, Any]] = []
    for name in sorted(set(sides[0]) & set(sides[1])):
        a, b = (side[name] for side in sides)
        text_a, text_b = (of.get(name) for of in texts)
        rows.append(
            {
                "prompt_id": name,
                "flip": _flip(a["outcome"], b["outcome"]),
                **{f"outcome_{run}": side["outcome"] for run, side in (("a", a), ("b", b))},
                "outcome_difference": b["outcome"] - a["outcome"],
                **{f"confidence_{run}": side["confidence"] for run, side in (("a", a), ("b", b))},
                "confidence_difference": _less(b["confidence"], a["confidence"]),
                "same_text": text_a == text_b,
                "text_a": text_a,
                "text_b": text_b,
                "n_a": a["n"],
                "n_b": b["n"],
            }
        )
    rows.sort(key=_order)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_prompts(units: Units, confidence: Estimator) -> dict[str, dict[str, Any]]:
    """Means over the units of each prompt."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(units.prompts.tolist()):
        places.setdefault(name, []).append(i)
    values = units.values[confidence.label]
    return {
        name: {"outcome": _mean(units.outcome[own]), "confidence": _mean(values[own]), "n": len(own)}
        for name, own in places.items()
    }


def _texts(run: Run, units: Units) -> dict[str, str]:
    """The text of the first unit of each prompt; of a mean over samples, that of the first sample."""
    first: dict[str, Key] = {}
    for key in units.keys:
        first.setdefault(key[0], key)
    found: dict[str, str] = {}
    known = set(first.values())
    for rows in run.iter_row_groups("sequences", [*KEY, "text"], sorted(first)):
        for key, text in zip(key_tuples(rows), rows["text"].to_pylist(), strict=True):
            if key in known or (first[key[0]][1] == "mean" and key[1] != "greedy"):
                found.setdefault(key[0], text)
    return found


def _flip(a: float, b: float) -> str | None:
    """Whether right became wrong, or wrong right, where a prompt has a verdict on both sides."""
    return {(1.0, 0.0): "right to wrong", (0.0, 1.0): "wrong to right"}.get((a, b))


def _order(row: Mapping[str, Any]) -> tuple[float, float, str]:
    return (-_size(row["outcome_difference"]), -_size(row["confidence_difference"]), row["prompt_id"])


def _size(value: float) -> float:
    return -1.0 if np.isnan(value) else abs(value)


def _less(one: float, other: float) -> float:
    return 0.0 if one == other else one - other  # of two equal infinities too


def _mean(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
