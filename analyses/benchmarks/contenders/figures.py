"""From the tokens a second of each turn to medians, ratios, goals and a table. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from contenders.table import Goal

Rates = Sequence[float]  # tokens a second of each turn; NaN where it did not run


def median(rates: Rates) -> float:
    """Of the turns that ran; NaN if none did."""
    known = [rate for rate in rates if not math.isnan(rate)]
    return statistics.median(known) if known else math.nan


def ratios(ours: Rates, theirs: Rates) -> list[float]:
    """Ours over theirs in each turn that has both."""
    found = [a / b for a, b in zip(ours, theirs, strict=True)]
    return [ratio for ratio in found if not math.isnan(ratio)]


@dataclass(frozen=True)
class Verdict:
    """Whether a goal is reached, by the median of the turns' ratios."""

    ours: str
    against: str
    wanted: float
    ratio: float
    turns: list[float]
    reached: bool

    @property
    def word(self) -> str:
        return "reached" if self.reached else "short"


def verdict(goal: Goal, rates: Mapping[str, Rates]) -> Verdict | None:
    """None where either did not run."""
    if goal.ours not in rates or goal.against not in rates:
        return None
    turns = ratios(rates[goal.ours], rates[goal.against])
    if not turns:
        return None
    ratio = statistics.median(turns)
    return Verdict(goal.ours, goal.against, goal.wanted, ratio, turns, ratio >= goal.wanted)


def verdicts(goals: Sequence[Goal], rates: Mapping[str, Rates]) -> list[Verdict]:
    return [found for goal in goals if (found := verdict(goal, rates)) is not None]


def rates_table(titles: Mapping[str, str], rates: Mapping[str, Rates], notes: Mapping[str, str]) -> list[str]:
    """A line a contender: tokens a second, and how many times faster `ours` is."""
    wide = max(map(len, titles.values()), default=0)
    lines = [f"  {'':<{wide}}  tokens/s   ours is"]
    for key, turns in rates.items():
        ratio = median(ratios(rates["ours"], turns)) if "ours" in rates else math.nan
        times = "" if key == "ours" or math.isnan(ratio) else f"{ratio:.2f}x"
        note = f"   {notes[key]}" if key in notes else ""
        lines.append(f"  {titles[key]:<{wide}}  {median(turns):8.1f}  {times:>8}{note}".rstrip())
    return lines


def goals_table(titles: Mapping[str, str], found: Sequence[Verdict]) -> list[str]:
    """A line a goal: who against whom, the ratio, what was wanted, reached or short."""
    names = [f"{titles[one.ours]} / {titles[one.against]}" for one in found]
    wide = max(map(len, names), default=0)
    return [
        f"  {name:<{wide}}  {one.ratio:7.2f}x  goal {one.wanted:5.1f}x  {one.word}"
        for name, one in zip(names, found, strict=True)
    ]


def as_json(found: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [asdict(one) for one in found]
