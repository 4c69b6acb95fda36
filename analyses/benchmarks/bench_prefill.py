"""What the samples of one prompt share: its prefill, and its keys and values in attention.

First the time from the start to the first token of all samples, for many samples against one. Then the step at a
long context beside the same step with MLX-LM's own caches and attention. Turns alternate in one process; medians,
and the medians of each turn's ratios, are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contenders.environment import REPORTS, environment, write_report

from toolkit.models import blas, load

blas.preload()  # before MLX is imported

import mlx.core as mx  # noqa: E402

from toolkit.generation.backend import choose_batch, choose_statistics, on_cpu  # noqa: E402
from toolkit.generation.engine import Batch, Engine, Limits  # noqa: E402
from toolkit.generation.forward import Forward  # noqa: E402
from toolkit.generation.library_batch import LibraryBatch  # noqa: E402
from toolkit.generation.plans import PromptPlan  # noqa: E402
from toolkit.generation.sampler import Sampler  # noqa: E402

MOST_PREFILL = 1.1  # times as long for many samples as for one
LEAST_SPEEDUP = 2.0  # of a step against the library's attention
WARM_UP = 2  # turns that touch memory and compile


def first_tokens(make_batch: Callable[[int], Batch], context: int, rows: int) -> float:
    """Seconds from the start to the first token of every sample of a prompt."""
    start = time.perf_counter()
    engine = Engine(
        make_batch(rows),
        choose_statistics(Sampler(), 5),
        Sampler(),
        Limits(max_tokens=2, end_ids=frozenset()),
        seed=0,
        slots=rows,
    )
    plan = PromptPlan("prompt", list(range(1, context + 1)), [("sample", i) for i in range(rows)])
    step = next(engine.run([plan]))
    assert len(step.token_ids) == rows
    return time.perf_counter() - start


def stepper(batch: Batch, context: int, rows: int) -> Callable[[], float]:
    """Rows that continue one prompt; each call is one more step, and gives its seconds."""
    prompt, _ = batch.prefill(list(range(1, context + 1)))
    batch.admit([prompt] * rows)

    def step() -> float:
        start = time.perf_counter()
        mx.eval(batch.step([7] * rows))
        return time.perf_counter() - start

    return step


def alternate(one: Callable[[], float], other: Callable[[], float], turns: int) -> list[tuple[float, float]]:
    """Seconds of both in each turn, after a warm-up."""
    found = [(one(), other()) for _ in range(WARM_UP + turns)]
    return found[WARM_UP:]


def figures_of(turns: list[tuple[float, float]], names: tuple[str, str]) -> dict[str, Any]:
    """Medians in milliseconds, and the median of each turn's ratio of the first to the second."""
    return {
        f"{names[0]}_ms": 1e3 * statistics.median(turn[0] for turn in turns),
        f"{names[1]}_ms": 1e3 * statistics.median(turn[1] for turn in turns),
        "ratio": statistics.median(turn[0] / turn[1] for turn in turns),
        "turns": turns,
    }


def prefill(forward: Forward, context: int, rows: int, turns: int) -> dict[str, Any]:
    """Many samples against one."""
    make = choose_batch(forward)
    found = alternate(
        lambda: first_tokens(make, context, rows), lambda: first_tokens(make, context, 1), turns
    )
    figures = figures_of(found, ("many", "one"))
    reached = figures["ratio"] <= MOST_PREFILL
    print(
        f"prefill of {context} tokens: {figures['many_ms']:.0f} ms for {rows} samples, "
        f"{figures['one_ms']:.0f} for one: {figures['ratio']:.2f}x  goal at most {MOST_PREFILL}x  "
        f"{'reached' if reached else 'short'}",
        flush=True,
    )
    return {"context": context, "rows": rows, "goal_at_most": MOST_PREFILL, "reached": reached, **figures}


def long_context(forward: Forward, context: int, rows: int, turns: int) -> dict[str, Any] | None:
    """The library's step against ours; None on a GPU, where ours is the library's."""
    if not on_cpu():
        print("step: on a GPU the library's attention is used, so there is nothing to compare")
        return None
    library = stepper(LibraryBatch(forward, rows), context, rows)
    ours = stepper(choose_batch(forward)(rows), context, rows)
    figures = figures_of(alternate(library, ours, turns), ("library", "ours"))
    reached = figures["ratio"] >= LEAST_SPEEDUP
    print(
        f"step of {rows} rows at {context} tokens: {figures['ours_ms']:.0f} ms, with the library's attention "
        f"{figures['library_ms']:.0f}: {figures['ratio']:.2f}x  goal {LEAST_SPEEDUP}x  "
        f"{'reached' if reached else 'short'}"
    )
    return {"context": context, "rows": rows, "goal_at_least": LEAST_SPEEDUP, "reached": reached, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=500, help="tokens of the prompt that is read")
    parser.add_argument("--context", type=int, default=1000, help="tokens before the step")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--output", type=Path, default=REPORTS / "bench_prefill.json")
    args = parser.parse_args()
    where = environment()
    model = load(quiet=True)
    forward = Forward(model.network)
    figures = {
        "model": model.name,
        "blas": blas.preload().name,
        "prefill": prefill(forward, args.prompt, args.rows, args.turns),
        "step": long_context(forward, args.context, args.rows, args.turns),
    }
    write_report(args.output, where, figures)


if __name__ == "__main__":
    main()
