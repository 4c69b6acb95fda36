"""What two runs have in common, so that they can be compared: prompts, samples, and whose grades count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from toolkit.aggregation.targets import SAMPLE_KINDS, check_target, sample_kind
from toolkit.characters import count, quoted
from toolkit.errors import ToolkitError, argument
from toolkit.judging.evaluation import kinds_of
from toolkit.store.grades import GradeSet, find_grades, grade_sets
from toolkit.store.keys import Key
from toolkit.store.reader import Run

_NAMED = 5  # prompts that a message names


class Pair(NamedTuple):
    """What is compared of two runs.

    Attributes
    ----------
    target : str
        What is judged of each prompt.
    prompts : list of str
        Ids that both have, sorted.
    only : (list of str, list of str)
        Ids that one has alone.
    keys : (frozenset, frozenset)
        The sequences that take part: of each prompt as many samples as both runs have.
    notes : list of str
        What has to be said of it, a line each.
    """

    target: str
    prompts: list[str]
    only: tuple[list[str], list[str]]
    keys: tuple[frozenset[Key], frozenset[Key]]
    notes: list[str]


def pair_runs(runs: Sequence[Run], names: Sequence[str], target: str | None) -> Pair:
    """The prompts that two runs share, and the sequences of them that are compared.

    Parameters
    ----------
    runs : (Run, Run)
    names : (str, str)
        What messages call them.
    target : str, optional
        As of `Question`; greedy where both runs have it, else each.

    Raises
    ------
    ToolkitError
        A run has no sequence that the target needs, or they share no prompt.
    """
    have = [kinds_of(run) for run in runs]
    if target is None:
        target = "greedy" if all("greedy" in kinds for kinds in have) else "each"
    for name, kinds in zip(names, have, strict=True):
        _check_target(target, kinds, name)
    drawn = [sample_kind(kinds) for kinds in have]
    by_prompt = [_by_prompt(run, kind) for run, kind in zip(runs, drawn, strict=True)]
    asked = [_asked(found, target) for found in by_prompt]
    shared = sorted(asked[0] & asked[1])
    if not shared:
        raise ToolkitError(_nothing_shared(names, asked))
    notes = _only_notes(names, asked) + _kind_notes(names, drawn)
    keys, more = _same_samples(names, by_prompt, shared)
    only = (sorted(asked[0] - asked[1]), sorted(asked[1] - asked[0]))
    return Pair(target, shared, only, keys, notes + more)


def pair_grades(
    runs: Sequence[Run], names: Sequence[str], grader: str | None
) -> tuple[tuple[GradeSet, GradeSet] | None, list[str]]:
    """Grades of whole answers that both runs have from one grader with the same settings.

    Returns
    -------
    grades : (GradeSet, GradeSet) or None
        None where a run is not graded and no grader was asked for.
    notes : list of str

    Raises
    ------
    ToolkitError
        The graders or their settings differ, a run has no grades of the one asked for, or there are several.
    """
    sets = [[one for one in grade_sets(run.path) if one.settings.get("by") is None] for run in runs]
    ungraded = [name for name, own in zip(names, sets, strict=True) if not own]
    if ungraded and grader is None:
        said = "Neither run is" if len(ungraded) == 2 else f"{ungraded[0]} is not"
        return None, [
            f"{said} graded: only confidence is compared, not accuracy, calibration or AUROC; "
            "toolkit grade says what is right"
        ]
    if grader is None:
        first, second = _common(sets, names, runs)
    else:
        first, second = (find_grades(own, grader, str(run.path)) for own, run in zip(sets, runs, strict=True))
    if first.config_hash != second.config_hash:
        raise ToolkitError(_other_settings(names, first, second))
    return (first, second), []


def compare_prompts(runs: Sequence[Run], prompts: Sequence[str]) -> list[str]:
    """What has to be said where the same id stands for other texts or other right answers."""
    rows = [
        {row["prompt_id"]: row for row in run.load("prompts", _PROMPT, list(prompts)).to_pylist()}
        for run in runs
    ]
    pairs = [(name, rows[0].get(name, {}), rows[1].get(name, {})) for name in prompts]
    text = [name for name, a, b in pairs if a.get("text") != b.get("text")]
    rendered = [
        name
        for name, a, b in pairs
        if a.get("text") != b.get("text") and a.get("messages") and a.get("messages") == b.get("messages")
    ]
    notes = []
    if text:
        same = f", {len(rendered)} of them with the same messages, rendered otherwise" if rendered else ""
        notes.append(
            f"{len(text)} of {count(len(prompts), 'prompt')} have another text in the second run{same}: "
            f"{listed(text)}"
        )
    other = [name for name, a, b in pairs if (a.get("reference") or []) != (b.get("reference") or [])]
    if other:
        notes.append(
            f"{len(other)} of {count(len(prompts), 'prompt')} have other references in the second run: "
            f"{listed(other)}"
        )
    return notes


_PROMPT = ["prompt_id", "text", "messages", "reference"]


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(quoted(name) for name in names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


class _Sequences(NamedTuple):
    """The sequences of a run, by prompt."""

    greedy: dict[str, list[Key]]
    samples: dict[str, list[Key]]  # in the order drawn


def _by_prompt(run: Run, drawn: str | None) -> _Sequences:
    found = _Sequences({}, {})
    for key in sorted(run.sequence_keys()):
        if key[1] == "greedy":
            found.greedy.setdefault(key[0], []).append(key)
        elif key[1] == drawn:
            found.samples.setdefault(key[0], []).append(key)
    return found


def _asked(found: _Sequences, target: str) -> set[str]:
    """The prompts that have what a target judges."""
    return set(found.greedy if target == "greedy" else found.samples)


def _check_target(target: str, kinds: Sequence[str], name: str) -> None:
    try:
        check_target(target, kinds)
    except ToolkitError as error:
        raise ToolkitError(f"{name}: {error}") from None
    if target != "greedy" and not set(kinds) & set(SAMPLE_KINDS):
        raise ToolkitError(f"{name}: it has no samples: give {argument('target')} greedy")


def _nothing_shared(names: Sequence[str], asked: Sequence[set[str]]) -> str:
    said = "; ".join(f"{name} has {listed(sorted(own))}" for name, own in zip(names, asked, strict=True))
    return (
        f"{names[0]} and {names[1]} have no prompt in common: {said}: "
        "compare runs of the same prompts, with the same ids"
    )


def _only_notes(names: Sequence[str], asked: Sequence[set[str]]) -> list[str]:
    notes = []
    for i, name in enumerate(names):
        own = sorted(asked[i] - asked[1 - i])
        if own:
            notes.append(f"{count(len(own), 'prompt')} only in {name}, left out: {listed(own)}")
    return notes


def _kind_notes(names: Sequence[str], drawn: Sequence[str | None]) -> list[str]:
    if None in drawn or drawn[0] == drawn[1]:
        return []
    said = " and ".join(f"of {name} {kind}" for name, kind in zip(names, drawn, strict=True))
    return [f"what counts as samples differs in kind: {said}"]


def _same_samples(
    names: Sequence[str], found: Sequence[_Sequences], shared: Iterable[str]
) -> tuple[tuple[frozenset[Key], frozenset[Key]], list[str]]:
    """Of each prompt as many samples as both runs have: an estimator of samples depends on how many there are."""
    kept: tuple[list[Key], list[Key]] = ([], [])
    sizes = []
    for prompt in shared:
        own = [one.samples.get(prompt, []) for one in found]
        fewest = min(map(len, own))
        sizes.append((len(own[0]), len(own[1])))
        for keys, one, samples in zip(kept, found, own, strict=True):
            keys += [*one.greedy.get(prompt, []), *samples[:fewest]]
    differing = Counter((a, b) for a, b in sizes if a != b)
    notes = []
    if differing:
        (a, b), _ = differing.most_common(1)[0]
        notes.append(
            f"{differing.total()} of {count(len(sizes), 'prompt')} have another number of samples in the two runs "
            f"({names[0]} mostly {a}, {names[1]} {b}): as many as both have are compared, the first"
        )
    return (frozenset(kept[0]), frozenset(kept[1])), notes


def _common(
    sets: Sequence[Sequence[GradeSet]], names: Sequence[str], runs: Sequence[Run]
) -> tuple[GradeSet, GradeSet]:
    """The one grade set that both have, where no grader was asked for."""
    by_hash = [{one.config_hash: one for one in own} for own in sets]
    both = sorted(set(by_hash[0]) & set(by_hash[1]))
    if len(both) == 1:
        return by_hash[0][both[0]], by_hash[1][both[0]]
    if both:
        labels = ", ".join(by_hash[0][one].label for one in both)
        raise ToolkitError(
            f"both runs have the grades {labels}: give one of them as {argument('grader')}, as NAME@HASH"
        )
    if all(len(own) == 1 for own in sets):
        raise ToolkitError(_other_settings(names, sets[0][0], sets[1][0]))
    said = "; ".join(
        f"{name} has {', '.join(one.label for one in own)}" for name, own in zip(names, sets, strict=True)
    )
    raise ToolkitError(f"the runs have no grades in common: {said}: grade both alike")


def _other_settings(names: Sequence[str], first: GradeSet, second: GradeSet) -> str:
    told = [
        f"{name} {_shown(a)} against {_shown(b)}"
        for name, a, b in _differences(_decisive(first), _decisive(second))
    ]
    return (
        f"{names[0]} was graded by {first.label} and {names[1]} by {second.label}, which differ in "
        f"{', '.join(told)}: grade both alike, or name a {argument('grader')} that both have"
    )


def _decisive(one: GradeSet) -> dict[str, Any]:
    """What a grade follows from, flat."""
    given = {name: value for name, value in one.settings.items() if name not in ("named", "extraction")}
    return dict(_flat(given, ""))


def _flat(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = sorted({*a, *b})
    return [(name, a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)]


def _shown(value: Any) -> str:
    return "nothing" if value is None else quoted(str(value))
