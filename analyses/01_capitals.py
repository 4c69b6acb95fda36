"""Does confidence know right from wrong? Capital-city questions to the default model.

Accuracy, every estimator of confidence against it, and how far a confidence is from the share that is right,
before and after recalibration.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import rankdata
from support.capitals import CAPITALS, GRADER, SAME_CITY
from support.intervals import Floats, mean, metric_difference, metric_of
from support.judged import column, confidence, units_of
from support.options import Options, ended, parse
from support.reports import Analysis, of_run
from support.runs import as_shell, collected, run_toolkit

import toolkit
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.targets import Units
from toolkit.figures.drawing import Drawing, Panel
from toolkit.plots import plot_estimators, plot_reliability, plot_risk_coverage
from toolkit.plots.layout import rows_height
from toolkit.stats.bootstrap import Interval
from toolkit.stats.calibration import ece
from toolkit.stats.recalibration import cross_validate
from toolkit.store.reader import Run

GREEDY: dict[str, Any] = {"grader": GRADER, "target": "greedy", "comparison": SAME_CITY}
BASELINES = ("n_tokens", "random")
PROBABILITIES = ("geometric_mean_prob", "min_prob", "exp(sum_logprob)")
METHODS = ("none", "isotonic", "platt")
# The city in "The capital of X is Y": the name of the country, which the question gives, is left out.
CITY = r"regex:\bcapital of .*? is ([^.!?,;:\n]+)"
OVER_CITY = ("sum_logprob", "mean_logprob", "min_logprob", "max_entropy", "n_tokens")
OF_SAMPLES = ("exact_match_rate", "semantic_negentropy", "vote_share", "semantic_entropy")
OF_EACH = ("sum_logprob", "mean_logprob", "mean_entropy", "mean_topk_nll", "n_tokens")

ANALYSIS = Analysis("01_capitals")


Results = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    run = collected(CAPITALS, options)
    toolkit.grade(run, GRADER)
    table = toolkit.evaluate(run, **GREEDY, bootstrap=options.resamples)
    units = units_of(run, **GREEDY)
    calibrated = [calibration(name, units, options) for name in PROBABILITIES]
    results: Results = {
        "run": of_run(run),
        "accuracy": accuracies(run, options),
        **against_right_and_wrong(table, units, options),
        "over_city": over_city(run, options),
        "of_samples": of_samples(run, options),
        "of_each": of_each(run, options),
        "calibration": [row for one in calibrated for row in one.rows],
        "constant_brier": float(np.nanvar(units.outcome)),
        "commands": [as_shell(command) for command in commands(options)],
    }
    note = f"greedy answers, grader {GRADER}"
    figures = {
        "estimators": estimators_figure(table, f"{note}; samples: {results['run']['sampler']}"),
        "risk_coverage": risk_coverage_figure(units, results["best"], note),
        "reliability": reliability_figure(calibrated[0], units, note),
    }
    ANALYSIS.write(results, figures, options)
    run_toolkit(commands(options)[-1])
    return 0


def accuracies(run: Run, options: Options) -> dict[str, Interval]:
    found = {}
    for target in ("greedy", "each", "vote"):
        units = units_of(run, **{**GREEDY, "target": target}, estimators=[])
        found[target] = mean(units.outcome, units.prompts, options)
    return found


def against_right_and_wrong(table: pd.DataFrame, units: Units, options: Options) -> dict[str, Any]:
    """AUROC of every estimator, the best of them, and what has to be said of the others."""
    auroc, difference = column(table, "auroc"), column(table, "auroc_difference")
    counts = table.set_index("estimator")[["level", "n", "n_undefined"]].to_dict("index")
    others = [name for name in auroc if name not in BASELINES]  # the best first
    different = rankings(others, units)
    over_length = {name: auroc_difference(name, "n_tokens", units, options) for name in different}
    return {
        "estimators": {name: {"auroc": auroc[name], **counts[name]} for name in auroc},
        "best": others[0],
        "n_estimators": len(others),
        "n_rankings": len(different),
        "n_below_best": sum(difference[name].high < 0 for name in different),
        "over_length": over_length[others[0]],
        "better_than_length": [name for name, one in over_length.items() if one.low > 0],
        "constant": [name for name in others if np.ptp(units.values[name]) == 0],
        "reversed": [name for name in others if auroc[name].high < 0.5],
    }


def rankings(names: list[str], units: Units) -> list[str]:
    """Those of the estimators that rank the answers in another way than all before them."""
    ranks = {name: rankdata(np.round(confidence(units, name), 9)).tobytes() for name in names}
    return list({rank: name for name, rank in reversed(ranks.items())}.values())[::-1]


def auroc_difference(first: str, second: str, units: Units, options: Options) -> Interval:
    a, b = confidence(units, first), confidence(units, second)
    return metric_difference("auroc", a, b, units.outcome, units.prompts, options)


def over_city(run: Run, options: Options) -> dict[str, Any]:
    """AUROC over the tokens of the city alone, among the answers that name one in the usual form."""
    units = units_of(run, **GREEDY, over=CITY, estimators=OVER_CITY)
    named = units.values["n_tokens"] > 0
    outcome = np.where(named, units.outcome, np.nan)
    aurocs = {
        name: metric_of("auroc", confidence(units, name), outcome, units.prompts, options)
        for name in OVER_CITY
    }
    return {"n": int(named.sum()), "auroc": aurocs}


def of_samples(run: Run, options: Options) -> dict[str, dict[str, Interval]]:
    """AUROC of agreement among samples, by what counts as the same answer."""
    found = {}
    for name, comparison in (("text", Comparison("exact")), ("city", SAME_CITY)):
        asked = {**GREEDY, "comparison": comparison, "bootstrap": options.resamples}
        table = toolkit.evaluate(run, **asked, estimators=OF_SAMPLES)
        found[name] = {one: column(table, "auroc")[one] for one in OF_SAMPLES}
    return found


def of_each(run: Run, options: Options) -> dict[str, Any]:
    """AUROC among all samples, and inside each prompt that has right and wrong ones."""
    asked = {**GREEDY, "target": "each", "bootstrap": options.resamples}
    table = toolkit.evaluate(run, **asked, estimators=OF_EACH)
    among, within = column(table, "auroc"), column(table, "auroc_within")
    return {
        "n": int(table["n"].max()),
        "n_prompts_within": int(table["n_prompts_within"].max()),
        "estimators": {name: {"among": among[name], "within": within[name]} for name in OF_EACH},
    }


class Calibrated(NamedTuple):
    """A probability as the model says it and recalibrated: rows of the table, and the values by method."""

    rows: list[dict[str, Any]]
    values: dict[str, Floats]


def calibration(name: str, units: Units, options: Options) -> Calibrated:
    """Each answer is recalibrated by a map that saw no answer to its prompt."""
    log = name.startswith("exp(")
    given = np.exp(units.values["sum_logprob"]) if log else units.values[name]
    judged = (units.outcome, units.prompts)
    values = {"none": given} | {
        method: cross_validate(method, given, *judged).calibrated for method in METHODS if method != "none"
    }
    rows = []
    for method, after in values.items():
        row = {
            "mean": float(np.nanmean(after)),
            "ece": metric_of("ece", after, *judged, options).value,
            "ece_if_calibrated": ece_if_calibrated(after[~np.isnan(after)], options),
            "brier": metric_of("brier", after, *judged, options),
            "brier_change": metric_difference("brier", after, given, *judged, options),
        }
        rows.append({"estimator": name, "method": method, **row})
    return Calibrated(rows, values)


def ece_if_calibrated(values: Floats, options: Options) -> Interval:
    """The ECE that these confidences have where each is right as often as it says: mean and 95 % range."""
    rng = np.random.default_rng(0)
    found = [ece(values, rng.random(len(values)) < values) for _ in range(options.resamples)]
    return Interval(float(np.mean(found)), *np.quantile(found, [0.025, 0.975]), len(found), 0)


def estimators_figure(table: pd.DataFrame, note: str) -> Figure:
    draw = partial(plot_estimators, table, metric="auroc", limit=len(table), note=note)
    title = "How well each estimator ranks right above wrong"
    return Drawing(title, [Panel("", draw, rows_height(len(table)))]).figure()


def risk_coverage_figure(units: Units, best: str, note: str) -> Figure:
    curves = {
        name: (confidence(units, name), units.outcome)
        for name in dict.fromkeys((best, "vote_share", "n_tokens", "random"))
    }
    title = "What share is wrong where only the most confident answers are given"
    return Drawing(title, [Panel("", partial(plot_risk_coverage, curves, note=note))]).figure()


def reliability_figure(calibrated: Calibrated, units: Units, note: str) -> Figure:
    name = calibrated.rows[0]["estimator"]
    titles = {"none": "As the model says", "platt": "After Platt scaling, cross-validated by prompt"}
    panels = [
        Panel(
            title,
            partial(plot_reliability, calibrated.values[method], units.outcome, estimator=name, note=note),
        )
        for method, title in titles.items()
    ]
    return Drawing("Is a confidence the share of answers that are right?", panels, shared="both").figure()


def commands(options: Options) -> list[list[str]]:
    run = CAPITALS.path(options)
    return [
        CAPITALS.command(options),
        ["grade", run, "--grader", GRADER],
        ["evaluate", run, "--grader", GRADER],
        ANALYSIS.html(run, options, GRADER),
    ]


if __name__ == "__main__":
    raise SystemExit(ended(main))
