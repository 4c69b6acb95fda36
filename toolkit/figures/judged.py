"""Figures of answers that are right or wrong: reliability, risk and coverage, estimators, agreement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from toolkit import stats
from toolkit.characters import count, quoted
from toolkit.errors import ToolkitError
from toolkit.figures.drawing import Drawing, Panel
from toolkit.figures.options import Options, wrong
from toolkit.figures.sources import (
    Source,
    joined_notes,
    labelled,
    most_samples,
    of_each,
    samples_drawn,
    titled,
)
from toolkit.judging.evaluation import evaluate_run, judged_units
from toolkit.judging.evaluation_table import is_binary
from toolkit.judging.question import Question
from toolkit.stats import Estimator
from toolkit.stats.calibration import Binning
from toolkit.stats.metrics import METRICS
from toolkit.stats.ranges import Floats
from toolkit.stats.ranking import as_confidence
from toolkit.stats.recalibration import cross_validate

_PROBABILITY = ("geometric_mean_prob",)
_RANKED = ("sum_logprob", "mean_logprob", "n_tokens")
_OF_SAMPLES = "semantic_entropy"
_AGREEMENT = "exact_match_rate"
_FOLDS = 5
_MOST_ESTIMATORS = 20
_SQUARE = 5.2  # inches


class _Units(NamedTuple):
    """What is judged of a run, with the values of estimators by label."""

    values: dict[str, Floats]
    outcome: Floats
    prompts: np.ndarray
    note: str


def reliability(sources: Sequence[Source], options: Options) -> Drawing:
    """Accuracy in bins of an estimator's probability: a panel a run and estimator, and what recalibrating does."""
    from toolkit.plots import plot_reliability

    chosen = options.estimators_or(_PROBABILITY)
    for one in chosen:
        _check_probability(one, options.recalibrate)
    panels = []
    for source in sources:
        units = _units(source, options, chosen)
        _check_binary(units, source)
        shown = [found for one in chosen for found in _probabilities(units, one, options)]
        for name, confidence in shown:
            draw = partial(
                plot_reliability,
                confidence,
                units.outcome,
                bins=options.bins or 10,
                binning=_binning(options),
                estimator=name,
                note=units.note,
            )
            parts = [source.title] if len(sources) > 1 else []
            title = " · ".join([*parts, name] if len(shown) > 1 or not parts else parts)
            panels.append(Panel(title, draw, _SQUARE))
    names = " and ".join(one.label for one in chosen)
    return Drawing(titled(f"Reliability of {names}", sources), panels)


def risk_coverage(sources: Sequence[Source], options: Options) -> Drawing:
    """Risk against coverage for some estimators: a panel a run."""
    from toolkit.plots import plot_risk_coverage

    panels = []
    for source in sources:
        sampled = [_OF_SAMPLES] if source.sample_kind != "beam" and most_samples(source) > 1 else []
        chosen = options.estimators_or([*_RANKED, *sampled])
        units = _units(source, options, chosen)
        curves = {
            one.label: (as_confidence(units.values[one.label], one.higher_is_confident), units.outcome)
            for one in chosen
        }
        panels.append(Panel(source.title, partial(plot_risk_coverage, curves, note=units.note)))
    return Drawing(titled("Risk and coverage", sources), panels, shared="both")


def estimators(sources: Sequence[Source], options: Options) -> Drawing:
    """A metric of each estimator with its interval; runs beside each other."""
    from toolkit.plots import plot_estimators
    from toolkit.plots.layout import rows_height

    metric = options.metric or "auroc"
    if metric not in METRICS:
        raise wrong("metric", f"there is no {quoted(metric)}; use one of {', '.join(METRICS)}")
    names = None if options.estimators is None else [one.label for one in options.estimators_or(())]
    question = _question(options, names)
    found = [evaluate_run(source.run, question) for source in sources]
    frame = labelled(sources, [one.frame for one in found])
    if frame[metric].isna().all():
        why = "; ".join(note for one in found for note in one.notes)
        raise wrong("metric", f"{metric} is undefined for every estimator" + (f": {why}" if why else ""))
    limit = options.limit or _MOST_ESTIMATORS
    note = joined_notes(
        of_each(sources, [f"target {one.context['target']}, over {one.context['over']}" for one in found]),
        of_each(sources, [f"grader {one.context['grader']}" for one in found]),
        of_each(sources, [samples_drawn(one) for one in sources]),
    )
    draw = partial(plot_estimators, frame, metric=metric, limit=limit, note=note)
    n_rows = round(min(limit, frame["estimator"].nunique()) * (0.6 + 0.4 * len(sources)))
    return Drawing(titled(f"{metric} of estimators", sources), [Panel("", draw, rows_height(n_rows))])


def agreement(sources: Sequence[Source], options: Options) -> Drawing:
    """Agreement of the samples against the confidence of an answer: a panel a run."""
    from toolkit.plots import plot_agreement

    of_samples = _agreement(options.agreement or _AGREEMENT)
    (one, *others) = options.estimators_or(_PROBABILITY)
    if others:
        raise wrong("estimators", f"one is shown, and {1 + len(others)} are given; name one")
    panels = []
    for source in sources:
        if source.sample_kind == "beam":
            raise ToolkitError(
                f"{source.run.path}: its samples are beams, which say nothing of how draws agree: collect samples"
            )
        units = _units(source, options, [of_samples, one], must_be_graded=False)
        draw = partial(
            plot_agreement,
            units.values[of_samples.label],
            units.values[one.label],
            None if np.isnan(units.outcome).all() else units.outcome,
            estimator=one.label,
            note=joined_notes(f"agreement: {of_samples.label}", units.note),
        )
        panels.append(Panel(source.title, draw))
    title = titled(f"Agreement of samples and {one.label}", sources)
    return Drawing(title, panels, shared="both")


def probabilities() -> list[str]:
    """Names of the estimators whose values are probabilities."""
    return [one.name for one in stats.estimators() if is_probability(one)]


def is_probability(one: Estimator) -> bool:
    """Whether its values lie in [0, 1] and rise with confidence."""
    return one.higher_is_confident and one.range[0] >= 0 and one.range[1] <= 1


def _units(
    source: Source, options: Options, chosen: Sequence[Estimator], *, must_be_graded: bool = True
) -> _Units:
    question = _question(options, [one.label for one in chosen])
    judged = judged_units(source.run, question, _with_lengths(chosen), must_be_graded=must_be_graded)
    units = judged.units
    if must_be_graded and np.isnan(units.outcome).all():
        raise ToolkitError(
            f"{source.run.path}: none of its {count(len(units.outcome), 'answer')} is graded: grade it again"
        )
    for one in chosen:
        if np.isnan(units.values[one.label]).all():
            raise wrong(
                "estimators", f"{one.label} is undefined for every answer of {source.run.path}; name another"
            )
    note = joined_notes(
        f"target {judged.target}, over {judged.over}",
        f"grader {judged.grades.grader}" if judged.grades is not None else "not graded",
        samples_drawn(source),
    )
    return _Units(units.values, units.outcome, units.prompts, note)


def _with_lengths(chosen: Sequence[Estimator]) -> list[Estimator]:
    """The estimators, with the lengths that a random one needs."""
    return list({one.label: one for one in (stats.get("n_tokens"), *chosen)}.values())


def _question(options: Options, names: Sequence[str] | None) -> Question:
    return Question(
        grader=options.grader,
        target=options.target,
        over=options.over,
        threshold=options.threshold,
        estimators=names,
        bootstrap=options.bootstrap if options.bootstrap is not None else 1000,
        seed=options.seed or 0,
        comparison=options.comparison,
    )


def _check_probability(one: Estimator, recalibrate: str | None) -> None:
    if is_probability(one) or recalibrate not in (None, "temperature"):
        return
    ways = "isotonic, platt or histogram"
    if recalibrate == "temperature":
        raise wrong("recalibrate", f"temperature takes probabilities, and {one.label} is none; use {ways}")
    raise wrong(
        "estimators",
        f"{one.label} is no probability, which lies in 0 to 1 and rises with confidence; recalibrate it ({ways}), "
        f"or use one of {', '.join(probabilities())}",
    )


def _check_binary(units: _Units, source: Source) -> None:
    if not is_binary(units.outcome):
        raise wrong(
            "threshold",
            f"grades of {source.run.path} lie between 0 and 1; say from which one on an answer is right, as 0.5",
        )


def _probabilities(units: _Units, one: Estimator, options: Options) -> list[tuple[str, Floats]]:
    """The estimator's own probabilities, where they are some, and the recalibrated ones."""
    values = units.values[one.label]
    found = [(one.label, values)] if is_probability(one) else []
    if options.recalibrate is None:
        return found
    fitted = cross_validate(
        options.recalibrate,
        as_confidence(values, one.higher_is_confident),
        units.outcome,
        units.prompts,
        folds=_FOLDS,
        bins=options.bins or 10,
        seed=options.seed or 0,
    )
    return [*found, (f"{one.label}, {options.recalibrate} ({_FOLDS}-fold)", fitted.calibrated)]


def _binning(options: Options) -> Binning:
    return "equal_mass" if options.binning == "equal_mass" else "equal_width"


def _agreement(name: str) -> Estimator:
    fitting = [one.name for one in stats.estimators("samples") if is_probability(one)]
    try:
        one = stats.get(name)
    except ToolkitError as error:
        raise wrong("agreement", str(error)) from None
    if one.level != "samples" or not is_probability(one):
        raise wrong(
            "agreement", f"{one.label} is no share of samples that agree; use one of {', '.join(fitting)}"
        )
    return one
