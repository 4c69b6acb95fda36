"""Beam search against sampling: which knows better when it is right, and do they say the same?

The best of four beams, the greedy answer and the city that most of eight samples name, on the same capital-city
questions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from support.capitals import CAPITALS, GRADER, SAME_CITY, named_city
from support.drawing import plot_points
from support.intervals import Floats, mean, metric_difference, metric_of
from support.judged import column, units_of
from support.options import Options, ended, parse
from support.reports import Analysis, of_run
from support.runs import Collection, as_shell, collected, run_toolkit

import toolkit
from toolkit.figures.drawing import Drawing, Panel
from toolkit.plots import plot_agreement
from toolkit.plots.layout import rows_height
from toolkit.stats.bootstrap import Interval
from toolkit.store.reader import Run

BEAMS = Collection("beams", "capitals.jsonl", 24, beams=4)
KEY = ["prompt_id", "kind", "sample_index"]
WAYS = ("beam", "greedy", "vote")  # the best beam, the greedy answer, the sample that a majority elects
SCORE, SAMPLED = "beam_score", "samples that name its city"
PAIRS = (("beam", "greedy"), ("beam", "vote"), ("greedy", "vote"))

ANALYSIS = Analysis("05_beams")


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    beams, samples = collected(BEAMS, options), collected(CAPITALS, options)
    for run in (beams, samples):
        toolkit.grade(run, GRADER)
    answers = answers_of(beams, samples)
    confidences = confidences_of(answers.index, beams, samples)
    results: dict[str, Any] = {
        "runs": {"beams": of_run(beams), "samples": of_run(samples)},
        "n": len(answers),
        "n_beams": BEAMS.beams,
        "n_samples": CAPITALS.samples,
        "accuracy": {way: mean(answers[f"{way}_right"], answers.index, options) for way in WAYS},
        "pairs": {f"{a} and {b}": pair(answers, a, b, options) for a, b in PAIRS},
        "apart": apart(answers),
        "unanimous": unanimous(answers, options),
        "ranking": ranking(answers, confidences, options),
        "within": within_prompts(beams, options),
        "commands": [as_shell(command) for command in commands(options)],
    }
    note = f"best beams, grader {GRADER}; samples: {results['runs']['samples']['sampler']}"
    figures = {
        "ranking": ranking_figure(
            results["ranking"], f"n = {len(answers)} {note}; 95 % intervals over prompts"
        ),
        "agreement": agreement_figure(answers, confidences, note),
    }
    ANALYSIS.write(results, figures, options)
    run_toolkit(commands(options)[-1])
    return 0


def answers_of(beams: Run, samples: Run) -> pd.DataFrame:
    """A row a prompt of both runs: what each way answers (`beam_city`), and its grade (`beam_right`)."""
    columns: dict[str, pd.Series] = {}
    for way, run, target in (
        ("beam", beams, "first"),
        ("greedy", samples, "greedy"),
        ("vote", samples, "vote"),
    ):
        units = units_of(run, grader=GRADER, target=target, comparison=SAME_CITY, estimators=[])
        rows = pd.DataFrame(units.keys, columns=KEY).assign(right=units.outcome)
        rows = rows.merge(run.sequences_df(columns=[*KEY, "text"]), on=KEY).set_index("prompt_id")
        columns |= {f"{way}_right": rows["right"], f"{way}_city": rows["text"].map(named_city)}
    return pd.concat(columns, axis=1, join="inner")


def confidences_of(prompts: pd.Index, beams: Run, samples: Run) -> dict[str, Floats]:
    """What may say how sure the best beam is: (n_prompts,) each, higher is more confident."""
    rows = beams.sequences_df(
        columns=["prompt_id", "sample_index", "text", "n_tokens", "beam_score", "sum_logprob"], kinds="beam"
    )
    rows = rows.assign(city=rows["text"].map(named_city)).sort_values(["prompt_id", "sample_index"])
    best = rows.groupby("prompt_id").head(1).set_index("prompt_id").loc[prompts]
    others = rows[rows["sample_index"] == 1].set_index("prompt_id")["beam_score"].reindex(prompts)
    found = {
        SCORE: best["beam_score"],
        "sum_logprob": best["sum_logprob"],
        "beam_score less the second beam's": best["beam_score"] - others,
        "beams' probability with its city": _mass(rows, best),
        SAMPLED: _share(samples, best),
        "n_tokens": -best["n_tokens"],
    }
    return {name: values.to_numpy(np.float64) for name, values in found.items()}


def _mass(rows: pd.DataFrame, best: pd.DataFrame) -> pd.Series:
    """The share of all beams' probability that those with the best one's city have."""
    probability = np.exp(rows["sum_logprob"])
    same = rows["city"] == rows["prompt_id"].map(best["city"])
    sums = (probability * same).groupby(rows["prompt_id"]).sum() / probability.groupby(
        rows["prompt_id"]
    ).sum()
    return sums.loc[best.index].where(best["city"].notna())


def _share(samples: Run, best: pd.DataFrame) -> pd.Series:
    """The share of the samples that name the best beam's city; NaN where it names none."""
    rows = samples.sequences_df(columns=["prompt_id", "text"], kinds="sample")
    same = rows["text"].map(named_city) == rows["prompt_id"].map(best["city"])
    return same.groupby(rows["prompt_id"]).mean().loc[best.index].where(best["city"].notna())


def pair(answers: pd.DataFrame, first: str, second: str, options: Options) -> dict[str, Interval]:
    """How often two ways name the same city, and how much more often the first is right."""
    same = (answers[f"{first}_city"] == answers[f"{second}_city"]) & answers[f"{first}_city"].notna()
    gain = answers[f"{first}_right"] - answers[f"{second}_right"]
    return {"same": mean(same, answers.index, options), "gain": mean(gain, answers.index, options)}


def apart(answers: pd.DataFrame) -> dict[str, int]:
    """On how many questions only the best beam, or only the greedy answer, is right."""
    beam = (answers["beam_right"] == 1) & (answers["greedy_right"] == 0)
    greedy = (answers["beam_right"] == 0) & (answers["greedy_right"] == 1)
    silent = beam & answers["greedy_city"].isna()
    return {"beam": int(beam.sum()), "greedy_silent": int(silent.sum()), "greedy": int(greedy.sum())}


def unanimous(answers: pd.DataFrame, options: Options) -> dict[str, Interval]:
    """How often all three name one city, and how often they are right then and else."""
    cities = answers[[f"{way}_city" for way in WAYS]]
    same = (cities.nunique(axis=1) == 1) & cities.notna().all(axis=1)
    right = answers["beam_right"]
    values = {"share": same, "right": right.where(same), "right_else": right.where(~same)}
    return {name: mean(one, answers.index, options) for name, one in values.items()}


def ranking(
    answers: pd.DataFrame, confidences: dict[str, Floats], options: Options
) -> dict[str, dict[str, Any]]:
    """AUROC of each confidence for the best beam's grade, and that of sampled agreement less it."""
    judged = (answers["beam_right"].to_numpy(), answers.index.to_numpy(str), options)
    sampled = confidences[SAMPLED]
    return {
        name: {
            "auroc": metric_of("auroc", values, *judged),
            "sampled_less": metric_difference("auroc", sampled, values, *judged),
            "n": int((~np.isnan(values)).sum()),
        }
        for name, values in confidences.items()
    }


def within_prompts(beams: Run, options: Options) -> dict[str, Any]:
    """AUROC among the beams of a prompt, where right and wrong ones are among them."""
    names = ["mean_logprob", "sum_logprob", "n_tokens"]
    table = toolkit.evaluate(
        beams, grader=GRADER, target="each", estimators=names, bootstrap=options.resamples
    )
    within = column(table, "auroc_within")
    return {
        "n_prompts": int(table["n_prompts_within"].max()),
        "auroc": {name: within[name] for name in names},
    }


def ranking_figure(found: dict[str, dict[str, Any]], note: str) -> Figure:
    rows = {name: one["auroc"] for name, one in found.items()}
    draw = partial(plot_points, {"": rows}, quantity="AUROC", note=note, reference=0.5)
    title = "How well each confidence ranks right best beams above wrong ones"
    return Drawing(title, [Panel("", draw, rows_height(len(rows)))]).figure()


def agreement_figure(answers: pd.DataFrame, confidences: dict[str, Floats], note: str) -> Figure:
    share, score = confidences[SAMPLED], np.exp(confidences[SCORE])
    draw = partial(
        plot_agreement,
        share,
        score,
        answers["beam_right"].to_numpy(),
        estimator="exp(beam_score) of the best beam",
        note=note,
    )
    return Drawing("Samples that name the best beam's city, and its score", [Panel("", draw)]).figure()


def commands(options: Options) -> list[list[str]]:
    run = BEAMS.path(options)
    return [
        CAPITALS.command(options),
        BEAMS.command(options),
        ["grade", run, "--grader", GRADER],
        ["evaluate", run, "--grader", GRADER, "--target", "each"],
        ANALYSIS.html(run, options, GRADER),
    ]


if __name__ == "__main__":
    raise SystemExit(ended(main))
