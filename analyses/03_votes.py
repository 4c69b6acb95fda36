"""Do samples that vote get arithmetic right? Majority, weighted, filtered and ranked votes; stopping early.

The questions are those of analyses/make_arithmetic.py: sums, products and differences that a small model gets
right in part.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from support.ballots import Ballot, ballots_of, over
from support.intervals import mean, metric_difference, metric_of
from support.judged import confidence, units_of
from support.options import Options, ended, parse
from support.reports import Analysis, of_run
from support.runs import Collection, as_shell, collected, run_toolkit

import toolkit
from toolkit.aggregation.agreement import Comparison
from toolkit.figures.drawing import Drawing, Panel
from toolkit.judging.voting import Election, early_stopping_df, vote_df
from toolkit.plots import plot_agreement, plot_early_stopping, plot_votes
from toolkit.stats.bootstrap import Interval
from toolkit.stats.subsets import majority_at_k
from toolkit.stats.votes import Rule, accuracy_by_samples, borda_vote, filtered_vote, weighted_vote
from toolkit.store.reader import Run

SAMPLES = 16
ARITHMETIC = Collection("arithmetic", "arithmetic.jsonl", 32, samples=SAMPLES, greedy=True)
GRADER = "number"
SAME_NUMBER = Comparison("number")
WEIGHTS = ("geometric_mean_prob", "mean_prob", "min_prob")
CERTAINTY = "self_certainty"  # what a Borda vote ranks by
WARMUP, WINDOW = 4, 4  # samples drawn whole; tokens of a window, where answers have about ten
PERCENTILES = (10.0, 50.0, 90.0)
SIZES = (1, 2, 4, 8, SAMPLES)  # samples that vote

ANALYSIS = Analysis("03_votes")


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    run = collected(ARITHMETIC, options)
    toolkit.grade(run, GRADER)
    election = Election(GRADER, comparison=SAME_NUMBER, confidence=WEIGHTS[0], bootstrap=options.resamples)
    votes = vote_df(run, election, SIZES)
    stopping = early_stopping_df(run, election, percentiles=PERCENTILES, warmup=WARMUP, window=WINDOW)
    ballots = ballots_of(run, GRADER, SAME_NUMBER, [*WEIGHTS, CERTAINTY])
    curves = curves_of(ballots)
    elected = units_of(
        run, grader=GRADER, target="vote", comparison=SAME_NUMBER, estimators=["vote_share", WEIGHTS[0]]
    )
    results: dict[str, Any] = {
        "run": of_run(run),
        "n_samples": SAMPLES,
        "n_filtered": int(election.keep * (SAMPLES - 1)) + 1,
        "votes": by_size(votes),
        "whole": whole_votes(run, ballots, curves, options),
        "gains": gains(ballots, curves, options),
        "filtered_is_greedy": filtered_is_greedy(run, ballots),
        "weights": weighing(ballots, curves, options),
        "doubt": doubt(run, options),
        "levels": by_level(run, ballots, curves),
        "share": share_of_votes(elected, options),
        "stopping": [stopped(percentile, ballots, options) for percentile in PERCENTILES],
        "warmup": WARMUP,
        "window": WINDOW,
        "commands": [as_shell(command) for command in commands(options)],
    }
    note = f"grader {GRADER}; {results['run']['sampler']}"
    panels = {
        "votes": ("Accuracy of votes by the number of samples", partial(plot_votes, votes, note=note)),
        "stopping": ("What stopping early saves", partial(plot_early_stopping, stopping, note=note)),
        "agreement": ("Votes for the elected answer, and its probability", agreement_plot(elected, note)),
    }
    figures = {name: Drawing(title, [Panel("", draw)]).figure() for name, (title, draw) in panels.items()}
    ANALYSIS.write(results, figures, options)
    run_toolkit(commands(options)[-1])
    return 0


def by_size(votes: pd.DataFrame) -> dict[str, dict[str, Interval]]:
    """Accuracy by rule and number of samples."""
    found: dict[str, dict[str, Interval]] = {}
    for row in votes.to_dict("records"):
        found.setdefault(row["rule"], {})[str(row["k"])] = Interval(
            row["accuracy"], row["low"], row["high"], 0, 0
        )
    return found


# What each vote is made by; with no confidence, the majority shares a tie.
RULES: dict[str, tuple[Rule, str]] = {
    "weighted": (weighted_vote, WEIGHTS[0]),
    "filtered": (filtered_vote, WEIGHTS[0]),
    "borda": (borda_vote, CERTAINTY),
}


Curves = dict[str, dict[str, dict[int, float]]]  # accuracy by rule, prompt and number of samples


def curves_of(ballots: list[Ballot]) -> Curves:
    """The accuracy of votes of k samples of a prompt, on average over subsets: what `vote_df` takes means of."""
    return {rule: {one.prompt: _curve(one, rule) for one in ballots} for rule in ("majority", *RULES)}


def _curve(ballot: Ballot, rule: str) -> dict[int, float]:
    if rule == "majority":
        return {k: majority_at_k(ballot.classes, ballot.grades, k) for k in SIZES}
    vote, estimator = RULES[rule]
    found = accuracy_by_samples(ballot.classes, ballot.grades, SIZES, vote, ballot.values[estimator])
    return dict(zip(SIZES, found.tolist(), strict=True))


def whole_votes(run: Run, ballots: list[Ballot], curves: Curves, options: Options) -> dict[str, Any]:
    """Votes of all samples; each less a single sample, the greedy answer and the majority, on the same prompts."""
    greedy = greedy_grades(run)
    others: dict[str, Callable[[Ballot], float]] = {
        "accuracy": lambda _: 0.0,
        "less_single": lambda one: one.single,
        "less_greedy": lambda one: greedy[one.prompt],
        "less_majority": lambda one: curves["majority"][one.prompt][SAMPLES],
    }

    def less(one: Ballot, rule: str, name: str) -> float:
        return curves[rule][one.prompt][SAMPLES] - others[name](one)

    found = {
        rule: {name: over(ballots, partial(less, rule=rule, name=name), options) for name in others}
        for rule in curves
    }
    return {
        **found,
        "single": over(ballots, lambda one: one.single, options),
        "greedy": over(ballots, lambda one: greedy[one.prompt], options),
        "reachable": over(ballots, lambda one: one.reachable, options),
    }


def gains(ballots: list[Ballot], curves: Curves, options: Options) -> dict[str, dict[str, Interval]]:
    """Each vote less the majority of as many samples, by their number."""

    def gain(one: Ballot, rule: str, k: int) -> float:
        return curves[rule][one.prompt][k] - curves["majority"][one.prompt][k]

    few = [k for k in SIZES if 1 < k < SAMPLES]
    return {
        rule: {str(k): over(ballots, partial(gain, rule=rule, k=k), options) for k in few} for rule in RULES
    }


def greedy_grades(run: Run) -> dict[str, float]:
    rows = run.grades_df(GRADER, kinds="greedy")
    return dict(zip(rows["prompt_id"], rows["value"], strict=True))


def filtered_is_greedy(run: Run, ballots: list[Ballot]) -> float:
    """How often the filtered vote elects a sample whose text is that of the greedy answer."""
    greedy = run.sequences_df(columns=["prompt_id", "text"], kinds="greedy").set_index("prompt_id")["text"]
    vote, estimator = RULES["filtered"]

    def elected(one: Ballot) -> str | None:
        sample = vote(one.classes, one.values[estimator]).sample
        return one.texts[sample] if sample >= 0 else None

    return float(np.mean([greedy[one.prompt] == elected(one) for one in ballots]))


def weighing(ballots: list[Ballot], curves: Curves, options: Options) -> dict[str, Interval]:
    """The weighted vote less the majority, by what weighs."""

    def gain(one: Ballot, name: str) -> float:
        vote = weighted_vote(one.classes, one.values[name])
        return one.grade(vote) - curves["majority"][one.prompt][SAMPLES]

    return {name: over(ballots, partial(gain, name=name), options) for name in WEIGHTS}


def doubt(run: Run, options: Options) -> dict[str, Interval]:
    """Entropy of the tokens that repeat the question, up to "=", and of those after it."""
    parts = run.spans_df(
        by=r"regex:^(?P<question>[^=]*=)(?P<result>.+)", metrics="mean_entropy", kinds="sample"
    )
    found = {}
    for name in ("question", "result"):
        rows = parts[parts["label"] == name]
        tokens = rows.loc[rows.index.repeat(rows["n_tokens"])]
        found[name] = mean(tokens["mean_entropy"], tokens["prompt_id"], options)
    return found


def by_level(run: Run, ballots: list[Ballot], curves: Curves) -> dict[str, dict[str, Any]]:
    """Shares by the level of the questions; too few of each for an interval to say much."""
    prompts = run.prompts_df(columns=["prompt_id", "metadata"])
    level = {name: json.loads(data)["level"] for name, data in prompts.itertuples(index=False, name=None)}
    greedy = greedy_grades(run)
    rows = [
        {
            "level": level[one.prompt],
            "single": one.single,
            "greedy": greedy[one.prompt],
            "majority": curves["majority"][one.prompt][SAMPLES],
            "reachable": one.reachable,
        }
        for one in ballots
    ]
    table = pd.DataFrame(rows).groupby("level", sort=False)
    found = table.mean().assign(n=table.size()).sort_values("single", ascending=False)
    return {str(name): {**row, "n": int(row["n"])} for name, row in found.iterrows()}


def share_of_votes(elected: Any, options: Options) -> dict[str, Interval]:
    """How well the elected answer's share of the votes, and its probability, rank right above wrong."""
    judged = (elected.outcome, elected.prompts, options)
    share, prob = (confidence(elected, name) for name in ("vote_share", WEIGHTS[0]))
    return {
        "vote_share": metric_of("auroc", share, *judged),
        WEIGHTS[0]: metric_of("auroc", prob, *judged),
        "difference": metric_difference("auroc", share, prob, *judged),
    }


def stopped(percentile: float, ballots: list[Ballot], options: Options) -> dict[str, Any]:
    """DeepConf's rule at a percentile, beside all samples whole and beside simply drawing fewer."""
    replays = {one.prompt: one.replay(percentile, WARMUP, WINDOW) for one in ballots}
    n_tokens, n_kept, n_cut = (
        sum(int(getattr(one, name).sum()) for one in replays.values())
        for name in ("n_tokens", "n_kept", "cut")
    )
    saved = 1 - n_kept / n_tokens
    fewer = max(1, round(SAMPLES * (1 - saved)))

    def left(one: Ballot) -> float:
        return one.grade(replays[one.prompt].vote(one.classes))

    def whole(one: Ballot) -> float:
        return one.grade(one.replay(0.0, SAMPLES, WINDOW).vote(one.classes))

    return {
        "percentile": percentile,
        "n_samples": sum(len(one.grades) for one in ballots),
        "n_cut": n_cut,
        "tokens_a_cut": (n_tokens - n_kept) / n_cut if n_cut else np.nan,
        "tokens_a_sample": n_tokens / sum(len(one.grades) for one in ballots),
        "saved": saved,
        "accuracy": over(ballots, left, options),
        "whole": over(ballots, whole, options),
        "change": over(ballots, lambda one: left(one) - whole(one), options),
        "fewer": fewer,
        "accuracy_of_fewer": over(
            ballots, lambda one: majority_at_k(one.classes, one.grades, fewer), options
        ),
    }


def agreement_plot(elected: Any, note: str) -> Any:
    share, prob = (elected.values[name] for name in ("vote_share", WEIGHTS[0]))
    return partial(plot_agreement, share, prob, elected.outcome, estimator=WEIGHTS[0], note=note)


def commands(options: Options) -> list[list[str]]:
    run = ARITHMETIC.path(options)
    asked = ["vote", run, "--grader", GRADER, "--equivalence", "number"]
    early = ["--early-stopping", "--warmup", str(WARMUP), "--window", str(WINDOW)]
    return [
        ARITHMETIC.command(options),
        ["grade", run, "--grader", GRADER],
        asked,
        [*asked, *early, *(word for one in PERCENTILES for word in ("--percentile", f"{one:g}"))],
        ANALYSIS.html(run, options, GRADER),
    ]


if __name__ == "__main__":
    raise SystemExit(ended(main))
