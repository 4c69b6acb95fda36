"""What a model was least sure of: answers and words, with where they stand in the report."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from toolkit.report.data import MASKED
from toolkit.report.paging import Placed, PromptData
from toolkit.store.keys import Key

LISTED = 8
"""How many answers and words a list has."""

_CONTEXT = 60  # characters of the text on each side of a word
_ANSWER = 300  # characters of an answer
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class LeastSure(NamedTuple):
    """An answer, or a word in one, that the model was unsure of."""

    value: float  # mean log-probability, nats
    page: int  # from 1
    run: int
    key: Key
    question: str
    before: str
    text: str
    after: str
    grade: float | None
    span: int | None  # which word of the answer; None is the whole answer


class Entry(NamedTuple):
    """A line of the least sure."""

    href: str
    run: str  # its name, where there are several
    question: str
    before: str
    text: str
    after: str
    prob: str
    verdict: str
    is_word: bool


class Least:
    """The least sure of all that were added, the least first; of equals, the first that came."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, LeastSure]] = []
        self._n = 0

    def __iter__(self) -> Iterator[LeastSure]:
        return iter([found for _, _, found in sorted(self._heap, key=lambda one: (-one[0], -one[1]))])

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, found: LeastSure | None) -> None:
        if found is None:
            return
        self._n += 1
        entry = (-found.value, -self._n, found)  # the heap's smallest is the surest, the last to come
        if len(self._heap) < LISTED:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)


def least_answer(prompt: PromptData, placed: Iterable[Placed]) -> LeastSure | None:
    """The least sure of some answers to a prompt; of equals, the first."""
    found = [one for one in placed if one.sequence.fields["mean_logprob"] is not None]
    if not found:
        return None
    one = min(found, key=lambda placed: placed.sequence.fields["mean_logprob"])
    text = one.sequence.fields["text"]
    cut = text[:_ANSWER] + ("…" if len(text) > _ANSWER else "")
    return _found(prompt, one, one.sequence.fields["mean_logprob"], ("", cut, ""), None)


def least_word(prompt: PromptData, one: Placed) -> LeastSure | None:
    """The least sure word of an answer."""
    words = one.sequence.fields["spans"].get("word")
    if words is None:
        return None
    values = [math.inf if value is None else value for value in words["mean_logprob"]]
    span = min(range(len(values)), key=values.__getitem__)
    if values[span] == math.inf:
        return None
    # Places are in code units, and two bytes are one.
    units = one.sequence.fields["text"].encode("utf-16-le")
    start, end = 2 * words["start"][span], 2 * words["end"][span]
    before, word, after = (
        part.decode("utf-16-le") for part in (units[:start], units[start:end], units[end:])
    )
    return _found(prompt, one, values[span], (_end_of(before), word[:_ANSWER], _start_of(after)), span)


def _end_of(text: str) -> str:
    """The last words of a text."""
    if len(text) <= _CONTEXT:
        return text
    cut = text[-_CONTEXT:]
    return "… " + (cut.partition(" ")[2] or cut)


def _start_of(text: str) -> str:
    """The first words of a text."""
    if len(text) <= _CONTEXT:
        return text
    cut = text[:_CONTEXT]
    return (cut.rpartition(" ")[0] or cut) + " …"


def _found(
    prompt: PromptData, one: Placed, value: float, text: tuple[str, str, str], span: int | None
) -> LeastSure:
    grade: Any = one.sequence.fields["grade"]
    masked = -math.inf if value == MASKED else value
    key = one.sequence.key
    return LeastSure(masked, one.page, prompt.run, key, prompt.question[:_ANSWER], *text, grade, span)


def entries(least: Least, files: Sequence[str], names: Sequence[str]) -> list[Entry]:
    """The list as a page shows it.

    Parameters
    ----------
    least : Least
    files : sequence of str
        Addresses of the pages; links to the first page are within it.
    names : sequence of str
        Of the runs.
    """
    return [_entry(found, files, names) for found in least]


def _entry(found: LeastSure, files: Sequence[str], names: Sequence[str]) -> Entry:
    place: dict[str, Any] = {"by": "word", "metric": "mean_logprob", "span": found.span}
    link = reader_link(found.run, *found.key, **({} if found.span is None else place))
    verdict = {None: "", 1.0: "right", 0.0: "wrong"}.get(found.grade, f"graded {found.grade}")
    return Entry(
        href=link if found.page == 1 else files[found.page - 1] + link,
        run=names[found.run] if len(names) > 1 else "",
        question=found.question,
        before=found.before,
        text=found.text,
        after=found.after,
        prob=probability(math.exp(min(found.value, 0.0))),  # above 0 only in a damaged run
        verdict=verdict,
        is_word=found.span is not None,
    )


def reader_link(run: int, prompt_id: str, kind: str, sample: int, **more: Any) -> str:
    """The part of an address that opens a sequence in the reader: `#prompt=...&kind=...`."""
    values = {"prompt": prompt_id, "run": run, "kind": kind, "sample": sample, **more}
    return "#" + "&".join(
        f"{name}={quote(str(value), safe='', errors='replace')}" for name, value in values.items()
    )


def probability(value: float) -> str:
    """A probability with the digits that matter: `0.12`, `0.0012`, `3 × 10⁻⁷`."""
    if math.isnan(value):
        return "–"
    if value >= 0.01 or value == 0:
        return f"{value:.2f}"
    if value >= 0.0001:
        return f"{value:.2g}"
    digits, _, power = f"{value:.0e}".partition("e-")
    return f"{digits} × 10⁻{power.lstrip('0').translate(_RAISED)}"
