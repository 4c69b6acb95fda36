"""What the statistics cost: in each step the forward pass, then the draw, all scalars and their record.

Both parts are timed in the same step of a running batch, whose rows continue one prompt with what was drawn, so
that a machine that slows down slows both. The medians, and the median of each step's own share, are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from contenders.environment import REPORTS, environment, write_report

from toolkit.generation.backend import choose_batch, choose_statistics
from toolkit.generation.buffer import TokenBuffer
from toolkit.generation.forward import Forward
from toolkit.generation.sampler import Sampler
from toolkit.models import Model, blas, load

blas.preload()  # before MLX is imported

import mlx.core as mx  # noqa: E402

LIMIT = 0.10  # of a step
WARM_UP = 3  # steps that touch memory and compile


TEXT = (
    "A lighthouse is a tower that shows a light to ships, so that they find their way at night and keep clear of "
    "rocks. The first ones were fires on hills. Later they were built of stone, and lenses threw the light far out "
    "to sea. Today most of them work without a keeper. "
)


def context_ids(model: Model, n: int) -> list[int]:
    """n tokens of plain text, since a model that reads gibberish is less sure than one at work."""
    ids: list[int] = model.tokenizer.encode(TEXT, add_special_tokens=False)
    return (ids * (n // len(ids) + 1))[:n]


def steps(forward: Forward, rows: int, context: list[int], n_steps: int) -> Iterator[tuple[float, float]]:
    """Seconds of the forward pass, and of statistics, draw and record, in each of `n_steps` steps."""
    batch, describe = choose_batch(forward)(rows), choose_statistics(Sampler(), 5)
    prompt, logits = batch.prefill(context)
    batch.admit([prompt] * rows)
    buffer, slots, random = TokenBuffer(rows), np.arange(rows), np.random.default_rng(0)
    token_ids, _ = describe(batch.repeat(logits, rows), random.random(rows), np.zeros(rows, bool))
    for place in range(WARM_UP + n_steps):
        start = time.perf_counter()
        logits = batch.step(token_ids.tolist())
        mx.eval(logits)
        middle = time.perf_counter()
        token_ids, described = describe(logits, random.random(rows), np.zeros(rows, bool))
        buffer.write(slots, np.full(rows, place, np.intp), token_ids, described)
        end = time.perf_counter()
        if place >= WARM_UP:
            yield middle - start, end - middle


def figures_of(times: list[tuple[float, float]], rows: int) -> dict[str, Any]:
    return {
        "rows": rows,
        "forward_ms": 1e3 * statistics.median(forward for forward, _ in times),
        "statistics_ms": 1e3 * statistics.median(described for _, described in times),
        "share": statistics.median(described / (forward + described) for forward, described in times),
        "tokens_per_second": rows * len(times) / sum(map(sum, times)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--context", type=int, default=40, help="tokens of the prompt")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", type=Path, default=REPORTS / "bench_step.json")
    args = parser.parse_args()
    where = environment()
    model = load(quiet=True)
    forward = Forward(model.network)
    context = context_ids(model, args.context)
    found = [figures_of(list(steps(forward, n, context, args.steps)), n) for n in args.rows]
    print(f"{model.name}, {args.context} tokens of context, {args.steps} steps, {blas.preload().name}")
    print(f"wanted: a share of at most {LIMIT:.0%}")
    print("  rows   forward ms   statistics ms   share   tokens/s")
    for row in found:
        print(
            f"{row['rows']:6d} {row['forward_ms']:12.1f} {row['statistics_ms']:15.1f}"
            f" {row['share']:7.1%} {row['tokens_per_second']:10.0f}"
        )
    report = {"model": model.name, "blas": blas.preload().name, "context": args.context, "steps": args.steps}
    write_report(args.output, where, {**report, "rows": found})


if __name__ == "__main__":
    main()
