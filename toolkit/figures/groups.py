"""What the spans of a distribution are grouped by: grade, kind, run and others, alone or together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolkit.aggregation.selection import KEY
from toolkit.figures.grades import grade_word, grades_of, is_graded
from toolkit.figures.kinds import GROUPS
from toolkit.figures.options import Options, wrong
from toolkit.figures.sources import Source
from toolkit.records import KINDS as SEQUENCE_KINDS
from toolkit.spans import SpanKind, UserFinder, span_kind
from toolkit.stats.ranges import Floats
from toolkit.store.keys import Key, key_tuples

By = str | UserFinder | SpanKind

_UNGRADED = "not graded"
_ORDER = ("right", "partly right", "wrong", _UNGRADED, "greedy", *SEQUENCE_KINDS)


def span_name(by: By) -> str:
    """What a kind of span is called."""
    return by if isinstance(by, str) else span_kind(by).name


def default_groups(sources: Sequence[Source], options: Options) -> list[str]:
    """Runs, spans and kinds, where there are several, and grades, where all runs have them."""
    kinds = {kind for source in sources for kind in options.kinds or source.kinds}
    by_prompt = any(span_kind(by).name == "prompt" for by in options.by or ())
    several = {
        "run": len(sources) > 1,
        "span": len(options.by or ()) > 1,
        "kind": len(kinds) > 1,
        "grade": not by_prompt and all(is_graded(source.run, options.grader) for source in sources),
    }
    return [name for name, wanted in several.items() if wanted]


def check_groups(groups: Sequence[str], by: Sequence[By]) -> None:
    """Raise an OptionError for a group that the spans do not have."""
    kinds = [span_kind(one) for one in by]
    whole = not any(kind.name == "prompt" for kind in kinds)  # a prompt's spans are of many sequences
    fitting = {"label": all(kind.labelled for kind in kinds), "grade": whole, "finish": whole}
    for group in groups:
        if not fitting.get(group, True):
            names = " and ".join(kind.name for kind in kinds)
            others = [name for name in GROUPS if fitting.get(name, True)]
            raise wrong("group", f"a {names} has no {group}; use some of {', '.join(others)}")


class Labels:
    """What the sequences of a run are called in each group."""

    def __init__(self, source: Source, grader: str | None) -> None:
        self.source, self.grader = source, grader

    def of(self, groups: Sequence[str], by: By, keys: Sequence[Key]) -> dict[str, list[str]]:
        """The name of each sequence's group, by group; `label` is of spans and left out."""
        return {group: self._names(group, by, keys) for group in groups if group != "label"}

    def _names(self, group: str, by: By, keys: Sequence[Key]) -> list[str]:
        of_one: dict[str, Callable[[Key], str]] = {
            "grade": lambda key: grade_word(self._grades.get(key, np.nan)) or _UNGRADED,
            "finish": lambda key: self._finishes[key],
            "kind": lambda key: key[1],
        }
        if group in of_one:
            return [of_one[group](key) for key in keys]
        return [self._of_all(group, by)] * len(keys)

    def _of_all(self, group: str, by: By) -> str:
        manifest = self.source.run.manifest
        if group == "temperature":
            value = manifest.setting("temperature")
            return f"temperature {value:g}" if isinstance(value, int | float) else "no temperature"
        names = {"span": span_name(by), "run": self.source.name, "model": str(manifest.model.get("name"))}
        return names[group]

    @cached_property
    def _grades(self) -> Mapping[Key, float]:
        return grades_of(self.source.run, self.grader)

    @cached_property
    def _finishes(self) -> dict[Key, str]:
        found: dict[Key, str] = {}
        for rows in self.source.run.iter_row_groups("sequences", [*KEY, "finish_reason"]):
            found.update(zip(key_tuples(rows), rows["finish_reason"].to_pylist(), strict=True))
        return found


class Split:
    """Values of spans by group, gathered a block of sequences at a time."""

    def __init__(self, groups: Sequence[str]) -> None:
        self.groups = list(groups)
        self._found: dict[tuple[str, ...], list[Floats]] = {}

    def add(
        self,
        values: Floats,
        owners: NDArray[np.int64],
        names: Mapping[str, Sequence[str]],
        labels: Sequence[str],
    ) -> None:
        """Add n values.

        Parameters
        ----------
        values : (n,)
        owners : (n,)
            Which sequence each is of.
        names : mapping of str to sequence of str
            The name of each sequence's group, by group.
        labels : sequence of str
            The name of each value's own group `label`; empty where that is none of the groups.
        """
        columns = []
        for group in self.groups:
            known, codes = np.unique(labels if group == "label" else names[group], return_inverse=True)
            columns.append((known, codes if group == "label" else codes[owners]))
        combined = np.zeros(len(values), np.int64)
        for known, codes in columns:
            combined = combined * len(known) + codes
        for code in np.unique(combined):
            inside = np.flatnonzero(combined == code)
            group_names = tuple(str(known[codes[inside[0]]]) for known, codes in columns)
            self._found.setdefault(group_names, []).append(values[inside])

    def rows(self, most: int) -> tuple[dict[str, Floats], str]:
        """The groups with the most values, and a line on those left out; empty where none is.

        In the order of grades and kinds; others as they came.
        """
        joined = {group: np.concatenate(parts) for group, parts in self._found.items()}
        came = {name: i for i, name in enumerate(name for group in joined for name in group)}
        largest = sorted(joined, key=lambda group: -len(joined[group]))[:most]
        ordered = sorted(largest, key=lambda group: [_place(name, came) for name in group])
        left_out = f"the {most} largest of {len(joined)} groups" if len(joined) > most else ""
        return {", ".join(group) or "all": joined[group] for group in ordered}, left_out


def _place(name: str, came: Mapping[str, int]) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER) + came[name]
