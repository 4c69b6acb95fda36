"""Does a small model know which capital is right when it is shown four, and whether its own answer is true?

Every question of data/prompts/choices.jsonl by letter, in one order and in all rotations, and by the texts of the
choices; and p_true on the greedy answers of the capital-city questions. Writes docs/choices.json and the last
section of docs/choices.md.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from support.capitals import CAPITALS, GRADER
from support.intervals import mean, metric_of
from support.judged import units_of
from support.options import PROMPTS, ROOT, Options, ended, parse
from support.runs import collected, run_toolkit, shown

import toolkit
from toolkit.collect.questions import LETTERS, read_questions
from toolkit.judging.asked import choices_df
from toolkit.stats.bootstrap import Interval
from toolkit.stats.choices import SCORES
from toolkit.store.reader import Run

PAGE, RESULTS = ROOT / "docs" / "choices.md", ROOT / "docs" / "choices.json"
HEADING = "## What the default model does\n"
FILE = "choices.jsonl"
COPY = "capitals-truths"
ORDERS = {"one order": ("choices", False), "all rotations": ("choices-rotated", True)}
TRUTHS = ("p_true", "p_true_with_samples")
BESIDE = ("sum_logprob", "exact_match_rate", "random")  # what the estimators of truth stand beside

Results = Mapping[str, Any]


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    runs = {name: asked(name, options) for name in ORDERS}
    capitals = beside(collected(CAPITALS, options), options)
    toolkit.grade(capitals, GRADER)
    model = [] if options.model is None else ["--model", options.model]
    run_toolkit(["p-true", shown(capitals.path), *model])
    found = plain(results(runs, toolkit.open_run(capitals.path), options))
    RESULTS.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    head = PAGE.read_text(encoding="utf-8").partition(HEADING)[0]
    section = page(found)
    PAGE.write_text(f"{head}{section}", encoding="utf-8")
    print(section, end="")
    return 0


def beside(run: Run, options: Options) -> Run:
    """A copy of a run for what is asked of it, so that other analyses of the run find no more than they wrote."""
    path = options.runs / COPY
    if not path.exists():
        shutil.copytree(run.path, path)
    return toolkit.open_run(path)


def asked(name: str, options: Options) -> Run:
    """The run of the questions in one order or in all, with what was missing asked first."""
    folder, rotate = ORDERS[name]
    path = options.runs / folder
    wanted = {str(one.prompt.id) for one in read_questions(PROMPTS / FILE, limit=options.limit)}
    there = (path / "manifest.json").is_file()
    if not there or not wanted <= set(choices_df(toolkit.open_run(path))["prompt_id"]):
        words = ["ask", "--prompts", shown(PROMPTS / FILE), "--output", shown(path)]
        for option, value in (("--limit", options.limit), ("--model", options.model)):
            words += [option, str(value)] if value is not None else []
        run_toolkit([*words, *(["--rotate"] if rotate else [])])
    return toolkit.open_run(path)


def results(runs: Mapping[str, Run], capitals: Run, options: Options) -> Results:
    """All that the page says."""
    frames = {name: choices_df(run) for name, run in runs.items()}
    one = frames["one order"]
    n_choices = one.groupby("prompt_id").size()
    return {
        "model": runs["one order"].manifest.model["name"],
        "n_questions": len(n_choices),
        "n_choices": int(n_choices.iloc[0]),
        "picks": [
            pick_of(run, score, name if score == "letter" else None, options)
            for name, run in runs.items()
            for score in (SCORES if name == "one order" else ["letter"])
        ],
        "mass": float(np.exp(one["letter_logprob"]).groupby(one["prompt_id"]).sum().mean()),
        "picked": {name: shares_of_letters(frame) for name, frame in frames.items()},
        "truth": truth_of(capitals, options),
    }


def pick_of(run: Run, score: str, order: str | None, options: Options) -> dict[str, Any]:
    """How the pick by a score fares: its accuracy, and whether its probability tells right from wrong."""
    target, name = f"pick:{score}", f"choice_{score}"
    units = units_of(run, target=target, estimators=[name])
    return {
        "score": score if order is None else f"{score}, {order}",
        "accuracy": mean(units.outcome, units.prompts, options),
        "probability": mean(units.values[name], units.prompts, options),
        "auroc": metric_of("auroc", units.values[name], units.outcome, units.prompts, options),
        "ece": metric_of("ece", units.values[name], units.outcome, units.prompts, options),
    }


def shares_of_letters(frame: pd.DataFrame) -> dict[str, float]:
    """How often the choice is picked that stood at each letter of the question."""
    best = frame.loc[frame.groupby("prompt_id")["p_letter"].idxmax()]
    counts = best["letter"].value_counts(normalize=True)
    return {letter: float(counts.get(letter, 0.0)) for letter in LETTERS[: frame["sample_index"].max() + 1]}


def truth_of(run: Run, options: Options) -> dict[str, Any]:
    """Whether the model's word on its greedy answers tells right from wrong."""
    units = units_of(run, grader=GRADER, target="greedy", estimators=[*TRUTHS, *BESIDE])
    rows = run.load("truths").to_pandas()
    greedy = rows[rows["kind"] == "greedy"]
    means = []
    for name, mass in zip(TRUTHS, ("mass", "mass_with_samples"), strict=True):
        values = units.values[name]
        means.append(
            {
                "estimator": name,
                "right": mean(values[units.outcome == 1], units.prompts[units.outcome == 1], options),
                "wrong": mean(values[units.outcome == 0], units.prompts[units.outcome == 0], options),
                "mass": float(greedy[mass].mean()),
            }
        )
    aurocs = [
        {
            "estimator": name,
            "auroc": metric_of("auroc", units.values[name], units.outcome, units.prompts, options),
        }
        for name in (*TRUTHS, *BESIDE)
    ]
    return {
        "n": len(units.outcome),
        "accuracy": mean(units.outcome, units.prompts, options),
        "means": means,
        "aurocs": aurocs,
    }


def page(found: Results) -> str:
    """The section of docs/choices.md."""
    return "\n".join([HEADING, *_about_choices(found), "", *_about_truth(found["truth"]), ""])


def _about_choices(found: Results) -> list[str]:
    chance = 1 / found["n_choices"]
    texts = [row for row in found["picks"] if not row["score"].startswith("letter")]
    best = max(texts, key=lambda row: row["accuracy"]["value"])
    letters = [
        f"{_against(_of(found['picks'], f'letter, {name}')['accuracy'], chance)} in {name} of the choices "
        f"(the pick stood at {_shares(found['picked'][name])})"
        for name in ORDERS
    ]
    columns = ("accuracy", "probability", "auroc", "ece")
    return [
        f"{found['n_questions']} questions for a capital, with {found['n_choices']} choices of the same continent "
        f"(`data/prompts/{FILE}`, made by `analyses/make_choices.py`); chance is {chance:.3f}. In parentheses stand "
        "95 % intervals, by bootstrap over questions. AUROC and ECE are of the pick's own probability.",
        "",
        *_table(
            ["score", "accuracy of the pick", "its mean probability", "AUROC", "ECE"],
            [[row["score"], *(_shown(row[name]) for name in columns)] for row in found["picks"]],
        ),
        "",
        f"The picks by letter are {' and '.join(letters)}. The letters together have {found['mass']:.3f} of the "
        f"probability. By text the best score is `{best['score']}`: {_against(best['accuracy'], chance)}.",
    ]


def _about_truth(found: Results) -> list[str]:
    aurocs = [
        [f"`{row['estimator']}`", _shown(row["auroc"]), _against(row["auroc"], 0.5)]
        for row in found["aurocs"]
    ]
    means = [
        [f"`{row['estimator']}`", _shown(row["right"]), _shown(row["wrong"]), f"{row['mass']:.3f}"]
        for row in found["means"]
    ]
    return [
        f"Asked whether its own greedy answers to {found['n']} capital-city questions are true, of which "
        f"{_shown(found['accuracy'])} are right by `{GRADER}`:",
        "",
        *_table(["estimator", "AUROC", "so it is"], aurocs),
        "",
        *_table(
            ["estimator", "mean of right answers", "mean of wrong answers", "mass of True and False"], means
        ),
    ]


def _of(rows: Sequence[Results], score: str) -> Results:
    return next(row for row in rows if row["score"] == score)


def _against(interval: Results, chance: float) -> str:
    if interval["low"] > chance:
        return "better than chance"
    return "worse than chance" if interval["high"] < chance else "no better than chance"


def _shares(picked: Mapping[str, float]) -> str:
    return ", ".join(f"{letter} in {100 * share:.0f} %" for letter, share in picked.items())


def _shown(interval: Results) -> str:
    value, low, high = (interval[name] for name in ("value", "low", "high"))
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def plain(value: Any) -> Any:
    """As JSON has it: an interval is its value and ends."""
    if isinstance(value, Interval):
        return {name: float(getattr(value, name)) for name in ("value", "low", "high")}
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(ended(main))
