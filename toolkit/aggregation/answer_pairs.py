"""The pairs of answers that a run's similarities are of: which there are, and which texts have to be compared.

Texts in, rows of the table similarities out; what compares two texts is a function.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from toolkit.aggregation.parts import Part
from toolkit.aggregation.selection import KEY
from toolkit.aggregation.span_tables import opened_prompts
from toolkit.aggregation.targets import sample_kind
from toolkit.characters import quoted
from toolkit.errors import ToolkitError, argument
from toolkit.store.similarities import (
    PAIRS,
    SimilaritySet,
    check_name,
    read_similarities,
    similarity_sets,
    write_similarities,
)

if TYPE_CHECKING:
    from toolkit.store import Run

PAIRS_A_COMMIT = 64
"""Pairs of texts that are compared before the file is written again: a kill loses no more of them. Where many are
known it is a hundredth of these, so that writing stays cheap beside comparing."""


class TextPair(NamedTuple):
    """Two different texts, in alphabetical order, and the question that both answer."""

    question: str
    first: str
    second: str


Measure = Callable[[Sequence[TextPair]], Iterable[tuple[TextPair, float]]]
"""Compares pairs: each with its similarity, 0 to 1, in any order."""


class Answers(NamedTuple):
    """The samples of a prompt, and its greedy answer where it has one."""

    prompt_id: str
    question: str
    members: list[tuple[str, int]]  # kind and sample_index, in the order of the key
    texts: list[str]  # of each the part that is compared; empty where it is not there


@dataclass(frozen=True)
class PairPlan:
    """What there is to compare in a run.

    Attributes
    ----------
    answers : list of Answers
    known : dict of TextPair to float
        What is stored already.
    asked : list of TextPair
        What is not: each pair of different texts once, prompt by prompt.
    """

    answers: list[Answers]
    known: Mapping[TextPair, float]
    asked: list[TextPair]

    @property
    def n_pairs(self) -> int:
        """Pairs of sequences."""
        return sum(len(one.texts) * (len(one.texts) - 1) // 2 for one in self.answers)


def answers_of(run: Run, part: Part, *, questions: bool = True) -> list[Answers]:
    """The answers of each prompt: its samples and its greedy sequence.

    Parameters
    ----------
    run : Run
    part : Part
        What of each text is compared.
    questions : bool
        Whether the question belongs to a pair: two texts may say the same in answer to one and not to another.

    Raises
    ------
    ToolkitError
        The run has no samples.
    """
    rows = run.load("sequences", [*KEY, "text"])
    kind = sample_kind(rows["kind"].unique().to_pylist())
    if kind is None:
        raise ToolkitError(f"{run.path}: it has no samples to compare: collect some first")
    opened, asked = opened_prompts(run), _questions(run) if questions else {}
    found: dict[str, Answers] = {}
    for prompt, own, index, text in zip(*(rows[name].to_pylist() for name in (*KEY, "text")), strict=True):
        if own in (kind, "greedy"):
            one = found.setdefault(prompt, Answers(prompt, asked.get(prompt, ""), [], []))
            one.members.append((own, index))
            one.texts.append(_canonical(part.find(text, opened=prompt in opened).text or ""))
    return list(found.values())


def plan_pairs(answers: list[Answers], known: Mapping[TextPair, float]) -> PairPlan:
    """Which pairs of texts are not known yet. Equal texts are never asked about, nor a text and nothing."""
    asked: dict[TextPair, None] = {}
    for one in answers:
        for first, second in combinations(one.texts, 2):
            pair = text_pair(one.question, first, second)
            if given_value(first, second) is None and pair not in known:
                asked[pair] = None
    return PairPlan(answers, known, list(asked))


def text_pair(question: str, first: str, second: str) -> TextPair:
    """The pair of two texts, whatever their order."""
    return TextPair(question, *sorted((first, second)))


def given_value(first: str, second: str) -> float | None:
    """What needs no comparison: 1 of equal texts, 0 of a text and nothing."""
    if first == second:
        return 1.0
    return None if first and second else 0.0


def stored_values(
    run: Run, name: str, settings: Mapping[str, Any], answers: Sequence[Answers]
) -> dict[TextPair, float]:
    """The similarity of each pair of texts that is stored under a name.

    Raises
    ------
    ToolkitError
        What is stored under the name was made with other settings.
    """
    same = [one for one in similarity_sets(run.path) if one.name == check_name(name)]
    if not same:
        return {}
    _check_settings(run, same[0], settings)
    texts = {
        (one.prompt_id, *member): (one.question, text)
        for one in answers
        for member, text in zip(one.members, one.texts, strict=True)
    }
    found = {}
    rows = (column.to_pylist() for column in read_similarities(same[0]).columns)
    for prompt, first_kind, i, second_kind, j, value in zip(*rows, strict=True):
        question, first = texts.get((prompt, first_kind, i), ("", ""))
        _, second = texts.get((prompt, second_kind, j), ("", ""))
        if given_value(first, second) is None:
            found[text_pair(question, first, second)] = value
    return found


def keep_similarities(
    run: Run,
    plan: PairPlan,
    measure: Measure,
    name: str,
    settings: Mapping[str, Any],
    done: Callable[[int], None] = lambda n: None,
) -> SimilaritySet:
    """Compare what a plan asks for, and keep it beside the run: every `PAIRS_A_COMMIT`, and when interrupted.

    Parameters
    ----------
    run : Run
    plan : PairPlan
    measure : callable
    name : str
        Of the set that is stored.
    settings : mapping
        Where the values come from.
    done : callable
        Told after each pair: 1.
    """
    values, pending, n_kept = dict(plan.known), iter(plan.asked), len(plan.known)
    try:
        while chunk := list(islice(pending, max(PAIRS_A_COMMIT, len(values) // 100))):
            for pair, value in measure(chunk):
                values[pair] = value
                done(1)
            write_similarities(run.path, table_of(plan.answers, values), name, settings)
            n_kept = len(values)
    except BaseException:
        if len(values) > n_kept:
            write_similarities(run.path, table_of(plan.answers, values), name, settings)
        raise
    return write_similarities(run.path, table_of(plan.answers, values), name, settings)


def table_of(answers: Iterable[Answers], values: Mapping[TextPair, float]) -> pa.Table:
    """A row a pair of sequences whose value is known, with the columns of `PAIRS`."""
    rows = list(_rows(answers, values))
    columns = zip(*rows, strict=True) if rows else ([] for _ in PAIRS.names)
    return pa.table(dict(zip(PAIRS.names, map(list, columns), strict=True)), schema=PAIRS)


def _rows(answers: Iterable[Answers], values: Mapping[TextPair, float]) -> Iterator[tuple[Any, ...]]:
    for one in answers:
        for (i, first), (j, second) in combinations(enumerate(one.texts), 2):
            value = given_value(first, second)
            if value is None:
                value = values.get(text_pair(one.question, first, second))
            if value is not None:
                yield (one.prompt_id, *one.members[i], *one.members[j], value)


def _check_settings(run: Run, stored: SimilaritySet, settings: Mapping[str, Any]) -> None:
    for name in sorted({*stored.settings, *settings}):
        before, now = stored.settings.get(name), settings.get(name)
        if before != now:
            raise ToolkitError(
                f"{run.path}: {quoted(stored.name)} was made with {name} {_shown(before)}, and now it is "
                f"{_shown(now)}: give another {argument('name')}, or {argument('overwrite')}"
            )


def _shown(value: object) -> str:
    return "none" if value is None else quoted(str(value))


def _questions(run: Run) -> dict[str, str]:
    """What each prompt asks: the last message of its user, or its text."""
    rows = run.load("prompts", ["prompt_id", "text", "messages"])
    columns = (rows[name].to_pylist() for name in rows.column_names)
    return {prompt: _question(text, messages) for prompt, text, messages in zip(*columns, strict=True)}


def _question(text: str, messages: str | None) -> str:
    said = [one["content"] for one in json.loads(messages or "[]") if one.get("role") == "user"]
    return str(said[-1]) if said else text


def _canonical(text: str) -> str:
    """Texts that differ in their Unicode form, or in white space around them, are one text."""
    return unicodedata.normalize("NFC", text).strip()
