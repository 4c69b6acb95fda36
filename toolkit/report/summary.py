"""The summary of a report: counts, confidence and accuracy in plain sentences, and what is least sure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from toolkit.characters import count
from toolkit.judging.evaluation import sampler_of
from toolkit.judging.question import BASELINES
from toolkit.report.least import Entry, entries, probability
from toolkit.report.reading import Source
from toolkit.report.tally import Accuracy, KindTally, Tally

if TYPE_CHECKING:
    from toolkit.judging.evaluation import Evaluation

FEWEST = 5  # right and wrong answers; with fewer of either, what ranks them best is chance
_KINDS = {  # one, and several
    "greedy": ("greedy answer", "greedy answers"),
    "sample": ("sample", "samples"),
    "beam": ("beam", "beams"),
    "scored": ("given completion", "given completions"),
}
_FINISHES = {
    "stop": "by themselves",
    "length": "cut off at the limit of their length",
    "context": "at the end of the model's context",
    "error": "broken off with an error",
    "cancelled": "cancelled",
}


class KindRow(NamedTuple):
    """A line of the table of kinds."""

    run: str
    kind: str
    prompts: str
    sequences: str
    tokens: str
    ended: str  # by themselves
    mean_prob: str
    accuracy: str


class RunSummary(NamedTuple):
    """What is said of a run."""

    name: str
    sentences: list[str]


class Summary(NamedTuple):
    """The section of the summary, as texts that are not escaped yet."""

    tiles: list[tuple[str, str]]
    runs: list[RunSummary]
    rows: list[KindRow]
    answers: list[Entry]
    words: list[Entry]
    least_of: str  # which answers were looked at


def summarize(
    sources: Sequence[Source],
    tally: Tally,
    evaluations: Mapping[int, Evaluation],
    files: Sequence[str],
) -> Summary:
    """Put into words what was counted.

    Parameters
    ----------
    sources : sequence of Source
    tally : Tally
    evaluations : mapping of int to Evaluation
        By the run's number, where it is graded.
    files : sequence of str
        Addresses of the pages; links to the first page are within it.
    """
    own = {source.number: _kinds_of(tally, source.number) for source in sources}
    names = [source.name for source in sources]
    return Summary(
        tiles=_tiles(sources, tally),
        runs=[
            RunSummary(source.name, _sentences(source, own[source.number], evaluations.get(source.number)))
            for source in sources
        ],
        rows=[
            _row(source, kind, counted) for source in sources for kind, counted in own[source.number].items()
        ],
        answers=entries(tally.answers, files, names),
        words=entries(tally.words, files, names),
        least_of=_least_of(sources, tally),
    )


def percent(share: float) -> str:
    """A share as `45.4 %`."""
    return f"{100 * share:.1f} %"


def said_kind(kind: str, n: int) -> str:
    """What sequences of a kind are called."""
    one, several = _KINDS.get(kind, (kind, kind))
    return one if n == 1 else several


def _kinds_of(tally: Tally, run: int) -> dict[str, KindTally]:
    return {kind: counted for (number, kind), counted in sorted(tally.kinds.items()) if number == run}


def _tiles(sources: Sequence[Source], tally: Tally) -> list[tuple[str, str]]:
    counted = list(tally.kinds.values())
    sizes = [
        ("sequences", f"{sum(one.n_sequences for one in counted):,}"),
        ("tokens", f"{sum(one.n_tokens for one in counted):,}"),
    ]
    if len(sources) > 1:
        return [("runs", f"{len(sources):,}"), *sizes]
    kinds = _kinds_of(tally, sources[0].number)
    prompts = max((one.n_prompts for one in kinds.values()), default=0)
    return [("prompts", f"{prompts:,}"), *sizes, *_shares(kinds)]


def _shares(kinds: Mapping[str, KindTally]) -> list[tuple[str, str]]:
    """How many of each kind are right."""
    found = []
    for kind, one in kinds.items():
        accuracy = one.accuracy
        if accuracy is not None:
            found.append((f"{said_kind(kind, 2)} right", percent(accuracy.value)))
    return found


def _sentences(source: Source, kinds: Mapping[str, KindTally], evaluation: Evaluation | None) -> list[str]:
    if not kinds:
        return ["No sequence of this run is selected."]
    found = [_what(source, kinds), _how_ended(kinds), _how_sure(kinds), *_how_right(source, kinds)]
    return [*found, *([] if evaluation is None else _best(evaluation))]


def _what(source: Source, kinds: Mapping[str, KindTally]) -> str:
    prompts = max(one.n_prompts for one in kinds.values())
    named = [f"{one.n_sequences:,} {said_kind(kind, one.n_sequences)}" for kind, one in kinds.items()]
    tokens = count(sum(one.n_tokens for one in kinds.values()), "token")
    drawn = f" Samples were drawn with {sampler_of(source.run)}." if "sample" in kinds else ""
    return f"{source.model}, {count(prompts, 'prompt')}: {_listed(named)}, {tokens} in all.{drawn}"


def _how_ended(kinds: Mapping[str, KindTally]) -> str:
    total = sum((one.finishes for one in kinds.values()), Counter())
    ways = [f"{total[name]:,} {said}" for name, said in _FINISHES.items() if total[name]]
    return f"How they ended: {', '.join(ways)}."


def _how_sure(kinds: Mapping[str, KindTally]) -> str:
    known = {kind: one for kind, one in kinds.items() if one.n_tokens}
    if not known:
        return "No token was written."
    parts = [f"{probability(one.mean_prob)} in {said_kind(kind, 2)}" for kind, one in known.items()]
    return f"The probability that the model gave to a token it wrote: {_listed(parts)} (geometric mean)."


def _how_right(source: Source, kinds: Mapping[str, KindTally]) -> list[str]:
    if source.grades is None:
        return [
            "Nothing is graded: toolkit grade adds what is right and wrong, where prompts have references."
        ]
    found = []
    for kind, one in kinds.items():
        accuracy = one.accuracy
        if accuracy is not None:
            found.append(f"{percent(accuracy.value)} of the {said_kind(kind, 2)} are right ({_of(accuracy)})")
    ungraded = sum(one.n_ungraded for one in kinds.values())
    are = "is" if ungraded == 1 else "are"
    rest = f" {count(ungraded, 'sequence')} {are} not graded." if ungraded else ""
    if not found:
        return [f"No sequence is graded by {source.grades.label}."]
    return [f"{_listed(found)}, by the grader {source.grades.label}.{rest}"]


def _of(accuracy: Accuracy) -> str:
    right = f"{accuracy.right:,.0f}" if float(accuracy.right).is_integer() else f"{accuracy.right:,.1f}"
    return f"{right} of {accuracy.n:,}; {_interval(accuracy)}"


def _interval(accuracy: Accuracy) -> str:
    if math.isnan(accuracy.low):
        return "no interval, of one prompt"
    return f"95 % interval {100 * accuracy.low:.1f} to {percent(accuracy.high)}, {accuracy.method}"


def _best(evaluation: Evaluation) -> list[str]:
    """Which estimator tells right from wrong best, and what the length alone does."""
    frame = evaluation.frame
    main = "prr" if "prr_difference" in frame else "auroc"
    known = frame[frame[main].notna()]
    others = known[~known["estimator"].isin(BASELINES)]
    if others.empty:
        return []
    best = others.iloc[0].to_dict()
    n = evaluation.context["n"]
    n_right = round(float(evaluation.context["accuracy"]) * n)
    if main == "auroc" and min(n_right, n - n_right) < FEWEST:
        return [
            "Which estimator tells right from wrong cannot be said: "
            f"{n_right:,} right and {n - n_right:,} wrong are too few."
        ]
    length = known[known["estimator"] == "n_tokens"]
    ends = (
        ""
        if math.isnan(best[f"{main}_low"])
        else f" ({best[f'{main}_low']:.2f} to {best[f'{main}_high']:.2f})"
    )
    chance = "chance has 0.5" if main == "auroc" else "chance has 0"
    alone = "" if length.empty else f", the length alone {float(length[main].iloc[0]):.2f}"
    return [
        f"Of {len(others)} estimators of confidence, {best['estimator']} tells right from wrong best: "
        f"{main.upper()} {best[main]:.2f}{ends} over {count(n, 'judged answer')} of the whole run; {chance}{alone}."
    ]


def _row(source: Source, kind: str, counted: KindTally) -> KindRow:
    accuracy = counted.accuracy
    return KindRow(
        run=source.name,
        kind=kind,
        prompts=f"{counted.n_prompts:,}",
        sequences=f"{counted.n_sequences:,}",
        tokens=f"{counted.n_tokens:,}",
        ended=percent(counted.finishes["stop"] / counted.n_sequences),
        mean_prob=probability(counted.mean_prob),
        accuracy="not graded" if accuracy is None else f"{percent(accuracy.value)} ({_short(accuracy)})",
    )


def _short(accuracy: Accuracy) -> str:
    if math.isnan(accuracy.low):
        return f"n = {accuracy.n:,}"
    return f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"


def _least_of(sources: Sequence[Source], tally: Tally) -> str:
    greedy = len(tally.greedy_runs)
    if greedy == len(sources):
        return "Of the greedy answers."
    return "Of the greedy answers where a run has them, else of all." if greedy else ""


def _listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(([", ".join(parts[:-1])] if len(parts) > 1 else []) + list(parts[-1:]))
