"""What temperature does: to the model's and the sampler's log-probabilities, to diversity and to accuracy.

The same capital-city questions are sampled at four temperatures, from the same seeds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from support.capitals import GRADER, SAME_CITY, named_city
from support.drawing import plot_lines
from support.intervals import mean, metric_difference, metric_of, per_prompt
from support.judged import confidence, units_of
from support.options import Options, ended, parse
from support.reports import Analysis, of_run
from support.runs import Collection, as_shell, collected

import toolkit
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.summary import summary_df
from toolkit.figures.drawing import Drawing, Panel
from toolkit.plots import plot_distribution
from toolkit.stats.bootstrap import Interval
from toolkit.stats.samples import effective_sample_size, sample_weights
from toolkit.store.reader import Run

OWN = 1.0  # the temperature of the model's own distribution
SAMPLES = 4
COLLECTIONS = {
    t: Collection(f"temperature-{t}", "capitals.jsonl", 24, samples=SAMPLES, temperature=t, limit=100)
    for t in (0.3, 0.7, OWN, 1.5)
}
SAME_TEXT = Comparison("exact")
RAW, SAMPLING = "mean_logprob", "mean_logprob(which=sampling)"

Results = dict[str, Any]

ANALYSIS = Analysis("02_temperature")


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    runs = {t: collected(collection, options) for t, collection in COLLECTIONS.items()}
    for run in runs.values():
        toolkit.grade(run, GRADER)
    found = {t: at_temperature(run, options) for t, run in runs.items()}
    results: Results = {
        "run": of_run(runs[OWN]),
        "n_samples": SAMPLES,
        "temperatures": {f"{t:g}": one for t, one in found.items()},
        "accuracy_change": accuracy_changes(runs, options),
        "commands": commands(options),
    }
    n = (
        f"n = {results['run']['n_prompts']} prompts, {SAMPLES} samples each; grader {GRADER}; "
        "95 % intervals over prompts"
    )
    figures = {"logprobs": logprobs_figure(runs), "lines": lines_figure(found, n)}
    ANALYSIS.write(results, figures, options)
    return 0


def at_temperature(run: Run, options: Options) -> Results:
    return {
        "of_tokens": of_tokens(run, options),
        "of_sequences": of_sequences(run, options),
        "diversity": diversity(run, options),
        "entropy": entropies(run, options),
        "accuracy": accuracies(run, options),
        "auroc": aurocs(run, options),
    }


def of_tokens(run: Run, options: Options) -> Results:
    """Means over all tokens, in nats. `divergence` estimates KL(sampler ‖ model); `surprise` is −l − H."""
    tokens = run.tokens_df(columns=["prompt_id", "logprob", "sampling_logprob", "entropy"])
    values = {
        "logprob": tokens["logprob"],
        "sampling_logprob": tokens["sampling_logprob"],
        "divergence": tokens["sampling_logprob"] - tokens["logprob"],
        "entropy": tokens["entropy"],
        "surprise": -tokens["logprob"] - tokens["entropy"],
    }
    return {"n": len(tokens)} | {
        name: mean(one, tokens["prompt_id"], options) for name, one in values.items()
    }


def of_sequences(run: Run, options: Options) -> dict[str, Interval]:
    sequences = run.sequences_df(columns=["prompt_id", "n_tokens", "finish_reason", "text"])
    values = {
        "n_tokens": sequences["n_tokens"],
        "cut_off": sequences["finish_reason"] == "length",
        "names_a_city": sequences["text"].map(named_city).notna(),
    }
    return {name: mean(one, sequences["prompt_id"], options) for name, one in values.items()}


def diversity(run: Run, options: Options) -> dict[str, Interval]:
    """How much the samples of a prompt differ."""
    names = ["number_of_classes", "lexical_similarity", "discrete_semantic_entropy"]
    texts = summary_df(run, "prompt", names, comparison=SAME_TEXT)
    cities = summary_df(run, "prompt", names, comparison=SAME_CITY)
    values = {
        "texts": texts["number_of_classes"],
        "similarity": texts["lexical_similarity"],
        "entropy_of_texts": texts["discrete_semantic_entropy"],
        "entropy_of_cities": cities["discrete_semantic_entropy"],
    }
    return {name: mean(one, texts["prompt_id"], options) for name, one in values.items()}


def entropies(run: Run, options: Options) -> dict[str, Interval]:
    """The entropy over a prompt's answers in nats, as its samples estimate it, and what they are worth."""
    names = {weights: f"mc_sequence_entropy(weights={weights})" for weights in ("equal", "importance")}
    table = summary_df(run, "prompt", list(names.values()))
    found = {
        weights: mean(table[toolkit.stats.get(name).label], table["prompt_id"], options)
        for weights, name in names.items()
    }
    rows = run.sequences_df(columns=["prompt_id", "sum_logprob", "sum_sampling_logprob"])
    own, drawn = (rows[name].to_numpy(np.float64) for name in ("sum_logprob", "sum_sampling_logprob"))

    def size(of: Any) -> float:
        return effective_sample_size(sample_weights(len(of), "importance", own[of], drawn[of]))

    prompts, sizes = per_prompt(rows["prompt_id"], size)
    return {**found, "effective_samples": mean(sizes, prompts, options)}


def accuracies(run: Run, options: Options) -> Results:
    """Of a sample, of the city that most samples name, and how much better that is."""
    asked = {"grader": GRADER, "comparison": SAME_CITY, "estimators": []}
    samples, vote = (units_of(run, **asked, target=target) for target in ("mean", "vote"))
    values = {"samples": samples.outcome, "vote": vote.outcome, "gain": vote.outcome - samples.outcome}
    return {name: mean(one, vote.prompts, options) for name, one in values.items()}


def aurocs(run: Run, options: Options) -> Results:
    """How well the model's own log-probability, and the sampler's, rank right above wrong samples."""
    units = units_of(run, grader=GRADER, target="each", estimators=[RAW, SAMPLING])
    judged = (units.outcome, units.prompts, options)
    raw, sampling = (confidence(units, name) for name in (RAW, SAMPLING))
    return {
        "n_right": int(np.nansum(units.outcome)),
        "raw": metric_of("auroc", raw, *judged),
        "sampling": metric_of("auroc", sampling, *judged),
        "raw_less_sampling": metric_difference("auroc", raw, sampling, *judged),
    }


def accuracy_changes(runs: dict[float, Run], options: Options) -> dict[str, Interval]:
    """Of samples, from the model's own temperature to another one, on the same prompts."""
    units = {t: units_of(run, grader=GRADER, target="mean", estimators=[]) for t, run in runs.items()}
    own = units[OWN]
    place = {t: {prompt: i for i, prompt in enumerate(one.prompts)} for t, one in units.items()}
    found = {}
    for t, one in units.items():
        same = [place[t].get(prompt, -1) for prompt in own.prompts]
        there = np.where(np.array(same) >= 0, one.outcome[same], np.nan)
        found[f"{t:g}"] = mean(there - own.outcome, own.prompts, options)
    return found


def logprobs_figure(runs: dict[float, Run]) -> Figure:
    groups = {}
    for t, run in runs.items():
        tokens = run.tokens_df(columns=["logprob", "sampling_logprob"])
        groups[f"{t:g}, model"] = tokens["logprob"].to_numpy()
        groups[f"{t:g}, sampler"] = tokens["sampling_logprob"].to_numpy()
    note = "tokens of samples; rows are the temperature and whose log-probability"
    draw = partial(plot_distribution, groups, metric="log-probability", unit="nats", note=note)
    title = "What the model and what the sampler thought of the tokens drawn"
    return Drawing(title, [Panel("", draw, 4.4)]).figure()


def lines_figure(found: dict[float, Results], note: str) -> Figure:
    def series(group: str, **names: str) -> dict[str, list[Interval]]:
        return {label: [one[group][name] for one in found.values()] for name, label in names.items()}

    shown = {
        "Log-probability": (
            "mean of tokens, nats",
            series("of_tokens", logprob="model", sampling_logprob="sampler"),
        ),
        "Surprise": ("mean of −logprob − entropy, nats", series("of_tokens", surprise="")),
        "Diversity": (f"different texts of {SAMPLES}", series("diversity", texts="")),
        "Accuracy": ("share right", series("accuracy", samples="a sample", vote=f"the vote of {SAMPLES}")),
    }
    panels = [
        Panel(
            title,
            partial(plot_lines, list(found), lines, across="temperature", quantity=what, note=note),
            3.6,
        )
        for title, (what, lines) in shown.items()
    ]
    return Drawing("What temperature does", panels).figure()


def commands(options: Options) -> list[str]:
    made = []
    for collection in COLLECTIONS.values():
        made += [collection.command(options), ["grade", collection.path(options), "--grader", GRADER]]
    runs = [collection.path(options) for collection in COLLECTIONS.values()]
    made.append(["evaluate", *runs, "--target", "each", "--estimators", f"{RAW},{SAMPLING}"])
    return [as_shell(one) for one in made]


if __name__ == "__main__":
    raise SystemExit(ended(main))
