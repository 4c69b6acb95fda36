"""Does a small model know when two answers mean the same? Semantic entropy with classes that it judges.

On some capital-city questions, with the greedy answer and the first samples of each: the default model is asked of
each pair of answers, and semantic entropy by its classes stands beside exact and Jaccard classes. What was asked is
kept, so that a run with more prompts goes on from there.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from support.capitals import CAPITALS, GRADER, named_city
from support.intervals import mean, metric_difference, metric_of
from support.judged import confidence, units_of
from support.options import Options, ended, parse
from support.runs import collected, run_toolkit

import toolkit
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.answer_pairs import Answers, answers_of, plan_pairs, stored_values, table_of
from toolkit.aggregation.parts import Part
from toolkit.records import PromptRecord
from toolkit.stats.bootstrap import Interval
from toolkit.stats.similarity import jaccard_matrix
from toolkit.store import RunWriter, open_run
from toolkit.store.reader import Run
from toolkit.store.similarities import similarity_sets, write_similarities

EVERY = 2  # of the prompts, so that they are of the whole alphabet
PROMPTS = 50  # at most
SAMPLES = 4  # of each: what is asked of a pair is some two hundred tokens to read
NAME = "similarity"
ENTROPY = "semantic_entropy"
CLASSES = {  # how samples are of one class, by the name in the table
    "exact": Comparison("exact"),
    "jaccard": Comparison("stored:jaccard:0.5"),
    "model": Comparison("stored:model:0.5"),
    "city": Comparison(named_city),
}
OF_GRAPHS = ("similarity_eigenvalue", "similarity_degree")
SIMILARITIES = {"jaccard": "jaccard", "rougeL": "rougeL", "model": "stored:model"}


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    run = subset(collected(CAPITALS, options), options)
    answers = answers_of(run, Part("sequence"))
    write_similarities(run.path, by_words(answers), "jaccard", {"source": "words"})
    run_toolkit(["similarity", str(run.path), "--model", *([options.model] if options.model else [])])
    toolkit.grade(run, GRADER)
    units = units_of(run, **asked(Comparison(), ["n_tokens"]))
    results: dict[str, Any] = {
        "run": {
            "n_prompts": len(answers),
            "n_samples": SAMPLES,
            "model": run.manifest.model["name"],
            "accuracy": mean(units.outcome, units.prompts, options),
        },
        "pairs": pairs_of(run, answers, options),
        ENTROPY: entropies(run, options),
        "graphs": graphs(run, options),
    }
    target = options.output / f"{NAME}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(as_json(results), indent=1) + "\n", encoding="utf-8")
    print(target)
    return 0


def subset(run: Run, options: Options) -> Run:
    """Some prompts and samples of a run, as a run of its own; those that it has already stay."""
    path = options.runs / NAME
    make = RunWriter.open if (path / "manifest.json").is_file() else RunWriter.create
    prompts = run.load("prompts").to_pylist()[::EVERY][:PROMPTS]
    with make(path, run.manifest) as writer:
        writer.add_prompts(map(prompt_record, prompts))
        wanted = run.iter_sequences([prompt["prompt_id"] for prompt in prompts], ["sample", "greedy"])
        new = [one for one in wanted if one.sample_index < SAMPLES and one.key not in writer.keys]
        if new:
            writer.commit(new, run.vocabulary)
    return open_run(path)


def prompt_record(row: dict[str, Any]) -> PromptRecord:
    own = {name: value for name, value in row.items() if name != "n_tokens"}
    own["token_ids"] = np.array(own["token_ids"], np.int32)
    own["messages"] = json.loads(own["messages"] or "null")
    return PromptRecord(**{**own, "metadata": json.loads(own["metadata"])})


def by_words(answers: list[Answers]) -> Any:
    """Jaccard similarity of all pairs, as rows that can be stored."""
    values = {}
    for pair in plan_pairs(answers, {}).asked:
        values[pair] = float(jaccard_matrix(pair[1:])[0, 1])
    return table_of(answers, values)


def pairs_of(run: Run, answers: list[Answers], options: Options) -> dict[str, Any]:
    """What the model says of pairs of different texts, against whether both name the same city."""
    (settings,) = (one.settings for one in similarity_sets(run.path) if one.name == "model")
    known = stored_values(run, "model", settings, answers)
    prompt_of = {one.question: one.prompt_id for one in answers}
    named = {pair: (named_city(pair.first), named_city(pair.second)) for pair in known}
    told = {pair: a == b for pair, (a, b) in named.items() if a is not None and b is not None}
    same = np.array(list(told.values()), np.float64)
    prompts = [prompt_of[pair.question] for pair in told]
    values = np.array([known[pair] for pair in told])
    words = np.array([float(jaccard_matrix(pair[1:])[0, 1]) for pair in told])
    every = np.array(list(known.values()))
    return {
        "n_pairs": plan_pairs(answers, {}).n_pairs,
        "n_texts": len(known),
        "n_yes": int((every >= 0.5).sum()),
        "least": float(every.min()),
        "median": float(np.median(every)),
        "most": float(every.max()),
        "n_told": len(told),
        "share_same": float(same.mean()) if len(same) else 0.0,
        "auroc": {
            "model": metric_of("auroc", values, same, prompts, options),
            "jaccard": metric_of("auroc", words, same, prompts, options),
        },
    }


def entropies(run: Run, options: Options) -> dict[str, Any]:
    """AUROC of semantic entropy for each kind of classes, and its difference from that with exact ones."""
    units = {how: units_of(run, **asked(one, [ENTROPY])) for how, one in CLASSES.items()}
    exact = confidence(units["exact"], ENTROPY)
    found = {}
    for how, one in units.items():
        own = confidence(one, ENTROPY)
        found[how] = {
            "auroc": metric_of("auroc", own, one.outcome, one.prompts, options),
            "over_exact": metric_difference("auroc", own, exact, one.outcome, one.prompts, options),
        }
    return found


def graphs(run: Run, options: Options) -> dict[str, Any]:
    """AUROC of estimators over a graph of samples, for each kind of similarity, and the model's less Jaccard's."""
    units = {
        how: units_of(run, **asked(Comparison("exact", one), OF_GRAPHS)) for how, one in SIMILARITIES.items()
    }
    outcome, prompts = units["model"].outcome, units["model"].prompts
    found: dict[str, Any] = {}
    for name in OF_GRAPHS:
        own = {how: confidence(one, name) for how, one in units.items()}
        found[name] = {how: metric_of("auroc", one, outcome, prompts, options) for how, one in own.items()}
        difference = metric_difference("auroc", own["model"], own["jaccard"], outcome, prompts, options)
        found[name]["model_over_jaccard"] = difference
    return found


def asked(comparison: Comparison, estimators: Any) -> dict[str, Any]:
    return {"grader": GRADER, "target": "greedy", "comparison": comparison, "estimators": list(estimators)}


def as_json(value: Any) -> Any:
    """Intervals as objects, and what is undefined as null."""
    if isinstance(value, Interval):
        ends = {"value": value.value, "low": value.low, "high": value.high}
        return as_json(ends)
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


if __name__ == "__main__":
    raise SystemExit(ended(main))
