"""What quantisation does to confidence before it does anything to accuracy: the same model at fewer bits a weight.

The capital-city questions are asked of the model in float32 and of variants with 8 and 4 bits, from the same
seeds. Each variant also scores the answers that float32 gave, so that the same tokens can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from support.capitals import GRADER
from support.intervals import Floats, interval, mean, ratio_of
from support.options import Options, ended, parse
from support.quantised import GROUP_SIZE, variant, variant_name
from support.reports import Analysis, of_run
from support.runs import Collection, as_shell, collected, run_toolkit, shown

import toolkit
from toolkit.figures.drawing import Drawing, Panel
from toolkit.plots import plot_distribution, plot_paired_differences
from toolkit.plots.layout import rows_height
from toolkit.stats.bootstrap import Interval
from toolkit.store.reader import Run

WHOLE = "float32"
BITS = {WHOLE: None, "8-bit": 8, "4-bit": 4}
SAMPLES = 4
COLLECTIONS = {
    name: Collection(f"quantised-{name}", "capitals.jsonl", 16, samples=SAMPLES, greedy=True) for name in BITS
}
ESTIMATORS = (
    "mean_logprob",
    "sum_logprob",
    "min_logprob",
    "mean_entropy",
    "geometric_mean_prob",
    "vote_share",
)
LARGE = 0.1  # nats: a probability that is a tenth higher or lower
KEY = ["prompt_id", "token_index"]
ANALYSIS = Analysis("06_quantisation")

Results = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    runs = {name: answered(name, options) for name in BITS}
    for run in runs.values():
        toolkit.grade(run, GRADER)
    given = {name: scored(name, runs[WHOLE], options) for name in BITS}
    shifts = {name: token_shifts(given[WHOLE], run) for name, run in given.items()}
    again = token_shifts(runs[WHOLE], given[WHOLE])  # what the order of float32 sums alone does
    compared = {name: differences(runs[WHOLE], runs[name], options) for name in BITS if name != WHOLE}
    results: Results = {
        "run": of_run(runs[WHOLE]),
        "n_samples": SAMPLES,
        "group_size": GROUP_SIZE,
        "large": LARGE,
        "noise": of_shifts(again, options),
        "shifts": {name: of_shifts(shifts[name], options) for name in compared},
        "compared": {name: one["numbers"] for name, one in compared.items()},
        "texts": {name: changed_texts(runs[WHOLE], runs[name], options) for name in compared},
        "commands": [as_shell(command) for command in commands(options)],
    }
    figures = {
        "shifts": shifts_figure({name: shifts[name] for name in compared}),
        "differences": differences_figure({name: one["frame"] for name, one in compared.items()}),
    }
    ANALYSIS.write(results, figures, options)
    run_toolkit(commands(options)[-1])
    return 0


def answered(name: str, options: Options) -> Run:
    """The run of a variant, which is made where it has to answer."""
    collection, bits = COLLECTIONS[name], BITS[name]
    if bits is None:
        return collected(collection, options)
    model = variant(bits, options) if collection.missing(options) else variant_name(bits, options)
    return collected(collection, replace(options, model=model))


def scored(name: str, whole: Run, options: Options) -> Run:
    """What a variant believed of the greedy answers that float32 gave."""
    path = options.runs / f"quantised-{name}-scored"
    wanted = {(prompt, "scored", 0) for prompt, kind, _ in whole.sequence_keys() if kind == "greedy"}
    stored = toolkit.open_run(path).sequence_keys() if (path / "manifest.json").is_file() else set()
    if wanted - stored:
        write_answers(whole, answers_path(options))
        bits = BITS[name]
        run_toolkit(
            score_command(name, options if bits is None else replace(options, model=variant(bits, options)))
        )
    return toolkit.open_run(path)


def answers_path(options: Options) -> Path:
    return options.runs / "quantised-answers.jsonl"


def write_answers(run: Run, path: Path) -> None:
    """The greedy answers of a run as completions: ids of prompt and text, so that nothing is tokenised anew."""
    prompts = run.prompts_df(columns=["prompt_id", "token_ids"]).set_index("prompt_id")["token_ids"]
    lines = [
        json.dumps(
            {
                "id": one.prompt_id,
                "prompt_token_ids": [int(i) for i in prompts[one.prompt_id]],
                "completion_token_ids": one.token_ids.tolist(),
            }
        )
        for one in run.iter_sequences(kinds="greedy")
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def score_command(name: str, options: Options) -> list[str]:
    output = shown(options.runs / f"quantised-{name}-scored")
    model = [] if options.model is None else ["--model", options.model]
    return ["score", "--input", shown(answers_path(options)), "--output", output, *model]


def token_shifts(whole: Run, other: Run) -> pd.DataFrame:
    """A row a token of the answers that float32 gave: what changed of it, nats. The end token is one."""
    columns = [*KEY, "kind", "token_id", "logprob", "entropy", "rank"]
    tables = [
        table[table["kind"].isin(["greedy", "scored"])].set_index(KEY)
        for table in (run.tokens_df(columns=columns) for run in (whole, other))
    ]
    before, after = tables[0], tables[1].reindex(tables[0].index)
    assert (before["token_id"] == after["token_id"]).all()
    return pd.DataFrame(
        {
            "logprob": after["logprob"] - before["logprob"],
            "entropy": after["entropy"] - before["entropy"],
            "overtaken": after["rank"] > 1,  # another token would have been chosen
        }
    ).reset_index()


def of_shifts(shifts: pd.DataFrame, options: Options) -> Results:
    """How far tokens moved: quantiles of the size, and means with their direction."""
    sizes = shifts["logprob"].abs().to_numpy(np.float64)
    prompts = shifts["prompt_id"]
    of_answers = shifts.groupby("prompt_id")["logprob"].sum()
    return {
        "n": len(shifts),
        "median": float(np.median(sizes)),
        "p99": float(np.quantile(sizes, 0.99)),
        "largest": float(sizes.max()),
        "large": share(sizes > LARGE, prompts, options),
        "logprob": mean(shifts["logprob"], prompts, options),
        "entropy": mean(shifts["entropy"], prompts, options),
        "entropy_size": mean(shifts["entropy"].abs(), prompts, options),
        "overtaken": share(shifts["overtaken"].to_numpy(), prompts, options),
        "answer": mean(of_answers.to_numpy(), of_answers.index, options),
        "answer_median": float(np.median(of_answers.abs())),
    }


def share(which: Any, prompts: Any, options: Options) -> Interval:
    """Of tokens."""
    counted = np.asarray(which, np.float64)
    return interval(ratio_of(counted, np.ones(len(counted))), prompts, options)


def differences(whole: Run, other: Run, options: Options) -> dict[str, Any]:
    """What `toolkit.compare` says: of greedy answers, and the accuracy of samples."""
    asked: dict[str, Any] = {"grader": GRADER, "bootstrap": options.resamples}
    found = toolkit.compare(whole, other, **asked, target="greedy", estimators=ESTIMATORS)
    samples = toolkit.compare(whole, other, **asked, target="each", estimators=["mean_logprob"])
    flips = found.prompts["flip"].value_counts()
    numbers = {
        "greedy": rows(found.differences),
        "samples": rows(samples.differences),
        "right_to_wrong": int(flips.get("right to wrong", 0)),
        "wrong_to_right": int(flips.get("wrong to right", 0)),
    }
    return {"numbers": numbers, "frame": found.differences}


def rows(frame: pd.DataFrame) -> Results:
    """The differences by metric and estimator, each with both values."""
    found: Results = {}
    for row in frame.to_dict("records"):
        own = found.setdefault(str(row["metric"]), {})
        cells = {name: of_row(row, name) for name in ("a", "b", "difference")}
        if row["metric"] == "accuracy":
            own |= cells
        else:
            own[str(row["estimator"])] = cells
    return found


def of_row(row: Mapping[Any, Any], name: str) -> Interval:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return Interval(value, low, high, 0, 0)


def changed_texts(whole: Run, other: Run, options: Options) -> Results:
    """How many answers have another text, of greedy ones and of samples from the same seeds."""
    key = ["prompt_id", "kind", "sample_index"]
    texts = [run.sequences_df(columns=[*key, "text"]).set_index(key)["text"] for run in (whole, other)]
    both = pd.concat(texts, axis=1, keys=["before", "after"], join="inner").reset_index()
    both["changed"] = both["before"] != both["after"]
    return {
        kind: mean(own["changed"].to_numpy(np.float64), own["prompt_id"], options)
        for kind, own in both.groupby("kind")
    }


def shifts_figure(shifts: dict[str, pd.DataFrame]) -> Figure:
    groups: dict[str, Floats] = {
        f"{name}, {what}": table[column].to_numpy(np.float64)
        for name, table in shifts.items()
        for column, what in (("logprob", "log-probability"), ("entropy", "entropy"))
    }
    note = "tokens of the greedy answers of float32, less what float32 has"
    draw = partial(plot_distribution, groups, metric="shift", unit="nats", note=note)
    return Drawing("How far quantisation moves the same tokens", [Panel("", draw, 4.0)]).figure()


def differences_figure(frames: dict[str, pd.DataFrame]) -> Figure:
    panels = [
        Panel(
            f"{name}",
            partial(
                plot_paired_differences, frame, names=(WHOLE, name), note=f"greedy answers, grader {GRADER}"
            ),
            rows_height(len(ESTIMATORS) + 1),
        )
        for name, frame in frames.items()
    ]
    return Drawing(
        "AUROC of each estimator after quantisation, less that before", panels, shared="x"
    ).figure()


def commands(options: Options) -> list[list[str]]:
    made: list[list[str]] = []
    runs = {}
    for name, bits in BITS.items():
        own = options if bits is None else replace(options, model=variant_name(bits, options))
        runs[name] = COLLECTIONS[name].path(options)
        made += [COLLECTIONS[name].command(own), ["grade", runs[name], "--grader", GRADER]]
        made.append(score_command(name, own))
    output = shown(options.output / ANALYSIS.name / "report.html")
    how = ["--grader", GRADER, "--estimators", ",".join(ESTIMATORS), "-o", output]
    figures = ["--no-figures", "--bootstrap", "50"] if options.quick else []
    return [*made, ["compare", runs[WHOLE], runs["4-bit"], *how, *figures]]


if __name__ == "__main__":
    raise SystemExit(ended(main))
