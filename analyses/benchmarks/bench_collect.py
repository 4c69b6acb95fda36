"""Collecting with everything recorded, beside what else generates many samples of a prompt.

The same float32 weights, prompts, number of samples and lengths for all. Each contender is a process of its own
that is loaded and warm before its first turn. Turns alternate, so that a machine that slows down slows all; medians,
and the medians of each turn's ratios, are printed, and written with the environment. The slowest do a part of the
samples in the first turn, at full length, and say so. On a GPU this project and MLX-LM use it, and what computes on
the CPU is left out.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from contenders.environment import REPORTS, environment, write_report
from contenders.figures import as_json, goals_table, median, rates_table, verdicts
from contenders.job import Job, Unavailable
from contenders.racing import Racer
from contenders.table import CONTENDERS, GOALS, Contender
from contenders.weights import write_job

TITLES = {contender.key: contender.title for contender in CONTENDERS}


def main() -> None:
    args = _arguments()
    where = environment()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        job = write_job(Path(name), args.prompts, args.rows // args.prompts, args.max_tokens)
        print(
            f"{job.rows} samples of {job.max_tokens} tokens: {args.prompts} prompts, {args.turns} turns",
            flush=True,
        )
        racers, skipped = _start([one for one in CONTENDERS if one.key in {"ours", *args.only}], job)
        for racer in racers:
            stack.callback(racer.close)
        rates, failed = _race(racers, args.turns)
    _show(job, racers, rates)
    report = {
        "rows": job.rows,
        "prompts": args.prompts,
        "max_tokens": job.max_tokens,
        "contenders": [_figures(racer, rates[racer.contender.key]) for racer in racers],
        "goals": as_json(verdicts(GOALS, rates)),
        "left_out": {**skipped, **failed},
    }
    write_report(args.output, where, report)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=128, help="samples in all")
    parser.add_argument("--prompts", type=int, default=4, help="the samples are shared evenly among them")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--only", nargs="+", choices=list(TITLES), default=list(TITLES), help="beside this project"
    )
    parser.add_argument("--output", type=Path, default=REPORTS / "bench_collect.json")
    args = parser.parse_args()
    if not 1 <= args.prompts <= args.rows:
        parser.error("--prompts is from 1 to --rows")
    if min(args.max_tokens, args.turns) < 2:
        parser.error("--max-tokens and --turns are 2 or more")
    return args


def _start(contenders: Iterable[Contender], job: Job) -> tuple[list[Racer], dict[str, str]]:
    """Those that take part, this project first; and why others do not."""
    racers: list[Racer] = []
    skipped: dict[str, str] = {}
    for contender in contenders:
        try:
            if racers and contender.on_cpu and racers[0].facts["device"] != "cpu":
                raise Unavailable("it computes on the CPU, and a GPU is here")
            racers.append(Racer(contender, job))
        except Unavailable as error:
            skipped[contender.key] = str(error)
            print(f"  left out: {contender.title}: {error}", flush=True)
    return racers, skipped


def _race(racers: Sequence[Racer], turns: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Tokens a second of each turn, NaN where there was none; and why a contender failed."""
    rates: dict[str, list[float]] = {racer.contender.key: [] for racer in racers}
    failed: dict[str, str] = {}
    for turn in range(turns):
        for racer in racers:
            key, rate = racer.contender.key, math.nan
            if key not in failed and not (turn and racer.contender.once):
                try:
                    n_tokens, seconds = racer.turn()
                    rate = n_tokens / seconds
                    print(f"  turn {turn + 1}: {racer.contender.title}: {rate:.1f}", flush=True)
                except Unavailable as error:
                    failed[key] = str(error)
                    print(f"  turn {turn + 1}: {racer.contender.title}: {error}", flush=True)
            rates[key].append(rate)
    return rates, failed


def _show(job: Job, racers: Sequence[Racer], rates: dict[str, list[float]]) -> None:
    facts = racers[0].facts if racers else {}
    print(f"\ntokens a second, medians of turns; {facts.get('blas')} on {facts.get('blas_threads')} threads")
    notes = {
        racer.contender.key: f"{racer.job.rows} of the samples"
        + (", one turn" if racer.contender.once else "")
        for racer in racers
        if racer.job.rows < job.rows
    }
    print("\n".join(rates_table(TITLES, rates, notes)))
    print("\ngoals, by the median of the turns' ratios")
    print("\n".join(goals_table(TITLES, verdicts(GOALS, rates))))


def _figures(racer: Racer, rates: list[float]) -> dict[str, Any]:
    middle = median(rates)
    return {
        "key": racer.contender.key,
        "title": racer.contender.title,
        "samples": racer.job.rows,
        "max_tokens": racer.job.max_tokens,
        "tokens_per_second": None if math.isnan(middle) else middle,
        "turns": [None if math.isnan(rate) else rate for rate in rates],
        **racer.facts,
    }


if __name__ == "__main__":
    main()
