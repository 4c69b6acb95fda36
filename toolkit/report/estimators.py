"""The evaluation of a report: each estimator against right and wrong, as a table with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.selection import EVERYTHING
from toolkit.characters import count
from toolkit.errors import DataFault, ToolkitError
from toolkit.judging.question import BASELINES, Question

if TYPE_CHECKING:
    from toolkit.judging.evaluation import Evaluation
    from toolkit.report.reading import Source

SHOWN = 12
"""Estimators of the short table, the best first; the baselines are always there."""

METRICS = {  # by column: the head, and what it says
    "auroc": (
        "AUROC",
        "how often the right one of a right and a wrong answer has the higher confidence; 0.5 is chance",
    ),
    "auprc": ("AUPRC", "average precision of right answers, the surest first; chance has the accuracy"),
    "prr": (
        "PRR",
        "how much of the best possible gain leaving out the least sure brings; 0 is chance, 1 the best",
    ),
    "aurc_tie_merged": ("AURC", "mean share of wrong answers among those that are kept; lower is better"),
    "ece": ("ECE", "mean gap between probability and accuracy in ten bins; lower is better"),
    "brier": ("Brier", "mean squared error of the probability; lower is better"),
}
_MISSING = "–"
_TARGETS = {
    "greedy": "the greedy answer",
    "first": "the first sample",
    "each": "each sample",
    "vote": "the answer that most samples give",
    "mean": "the mean of all samples",
    "pick": "the choice that is picked",
}


class Row(NamedTuple):
    """An estimator."""

    name: str
    level: str
    is_baseline: bool
    cells: list[str]


class EvaluationTable(NamedTuple):
    """The evaluation of a run, as texts that are not escaped yet.

    Where it could not be made, `problem` says why.
    """

    run: str
    caption: str
    notes: list[str]
    heads: list[str]
    rows: list[Row]  # the best, and the baselines, with the interval of the main metric
    all_rows: list[Row]  # every one, with all intervals
    meanings: list[tuple[str, str]]
    problem: str = ""


def evaluate_source(
    source: Source, *, bootstrap: int, seed: int, comparison: Comparison | None = None
) -> Evaluation | str | None:
    """The evaluation of a run: None where it is not graded, and a text where it cannot be made.

    It is of the whole run, also where the report shows a part of it.
    """
    if source.grades is None:
        return None
    from toolkit.judging.evaluation import evaluate_run

    by = source.grades.settings.get("by")
    question = Question(
        grader=source.grader, by=by, bootstrap=bootstrap, seed=seed, comparison=comparison or Comparison()
    )
    try:
        return evaluate_run(source.run, question)
    except DataFault:
        raise
    except ToolkitError as error:
        return str(error)


def evaluation_table(source: Source, found: Evaluation | str, *, bootstrap: int) -> EvaluationTable:
    """The table of an evaluation."""
    if isinstance(found, str):
        return EvaluationTable(source.name, "", [], [], [], [], [], found)
    frame = found.frame
    columns = [name for name in METRICS if name in frame and frame[name].notna().any()]
    main = "prr" if "prr_difference" in frame else "auroc"
    columns = [main, *(name for name in columns if name != main)]
    records = frame.to_dict("records")
    shown = [one for i, one in enumerate(records) if i < SHOWN or one["estimator"] in BASELINES]
    return EvaluationTable(
        run=source.name,
        caption=_caption(source, found.context, bootstrap),
        notes=[*found.notes, *_parts(source)],
        heads=["estimator", *(METRICS[name][0] for name in columns), "n"],
        rows=[_row(one, columns, [main]) for one in shown],
        all_rows=[_row(one, columns, columns) for one in records],
        meanings=[METRICS[name] for name in columns],
    )


def _row(one: Mapping[Any, Any], columns: Sequence[str], with_interval: Sequence[str]) -> Row:
    undefined = f" ({one['n_undefined']} undefined)" if one["n_undefined"] else ""
    cells = [_cell(one, name, name in with_interval) for name in columns]
    name = str(one["estimator"])
    return Row(name, str(one["level"]), name in BASELINES, [*cells, f"{one['n']:,}{undefined}"])


def _cell(one: Mapping[Any, Any], name: str, with_interval: bool) -> str:
    value, low, high = (float(one[column]) for column in (name, f"{name}_low", f"{name}_high"))
    if math.isnan(value):
        return _MISSING
    interval = f" ({low:z.3f} to {high:z.3f})" if with_interval and not math.isnan(low) else ""
    return f"{value:z.3f}{interval}"


def _caption(source: Source, context: Mapping[str, Any], bootstrap: int) -> str:
    label = source.grades.label if source.grades is not None else ""
    how = f"95 % intervals by {bootstrap:,} resamples of prompts" if bootstrap else "without intervals"
    what = "each field" if context["over"] == "field" else _judged(context["target"])
    accuracy = "unknown" if math.isnan(context["accuracy"]) else f"{context['accuracy']:.3f}"
    return (
        f"Judged is {what}: {context['n']:,} of {count(context['n_prompts'], 'prompt')}, accuracy {accuracy}, "
        f"grader {label}. Estimators see the tokens of the {context['over']}; "
        f"samples: {context['sampler']}; {how}."
    )


def _judged(target: str) -> str:
    head, _, score = target.partition(":")
    return _TARGETS[head] + (f" by {score}" if score else "")


def _parts(source: Source) -> list[str]:
    if source.selection == EVERYTHING:
        return []
    return ["The evaluation is of the whole run, and the reader shows a part of it."]
