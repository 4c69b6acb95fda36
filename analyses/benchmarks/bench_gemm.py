"""What a step makes of the processor: its rate over the model's operations beside that of the bare products.

The bare products are those of one step, at its own shapes and with each layer's own weights, so that they come from
memory as they do in a step: by the BLAS, and by this project's own kernels. A step is measured against the faster of
them. Products and steps take turns, in one process on all cores, and then in one process a core at the same time,
each with one thread. The rates are of the same operations: two for each weight and row.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_step import context_ids, steps
from contenders.environment import REPORTS, environment, write_report

from toolkit.cores import usable_cores
from toolkit.generation.backend import choose_batch
from toolkit.generation.forward import Forward
from toolkit.models import blas, load

GOAL = 0.6  # of the products' rate, over the forward pass
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
N_STEPS = 12


def weight_matrices(network: Any) -> list[Any]:
    """Every matrix that a step multiplies with, (columns, inner); a tied embedding is the output layer."""
    from mlx.utils import tree_flatten

    flat: Any = tree_flatten(network.parameters())
    head = getattr(network, "lm_head", None)
    return [a for name, a in flat if a.ndim == 2 and (head is None or "embed_tokens" not in name)]


def products(matrices: list[Any], rows: int) -> Callable[[], float]:
    """All products of a step, one after another; each call gives its seconds."""
    import mlx.core as mx

    inputs = {inner: mx.random.normal((rows, inner)) for inner in {matrix.shape[1] for matrix in matrices}}
    mx.eval(list(inputs.values()))

    def once() -> float:
        start = time.perf_counter()
        mx.eval([inputs[matrix.shape[1]] @ matrix.T for matrix in matrices])
        return time.perf_counter() - start

    return once


def own_products(forward: Forward, rows: int) -> Callable[[], float] | None:
    """The same products by our own kernels, nothing between them; None where they do not serve."""
    native = forward.native
    if native is None:
        return None
    import numpy as np

    from toolkit.generation.compiled_addresses import call
    from toolkit.generation.compiled_math import compiled
    from toolkit.generation.compiled_panels import INPUTS, N_PANELS, OUTPUTS
    from toolkit.generation.threads import n_threads, run_together

    kind, records = native.kind, native.network.products

    @compiled(cache=False)
    def all_of_them(address, records, rows, inputs, prepared, out, worker, n):  # type: ignore[no-untyped-def]
        for i in range(len(records)):
            first, last = records[i, N_PANELS] * worker // n, records[i, N_PANELS] * (worker + 1) // n
            call(address, (inputs, prepared, rows, records[i].ctypes.data, first, last, out, 0))

    inputs = np.random.default_rng(0).normal(0, 1, (rows, int(records[:, INPUTS].max()))).astype(np.float32)
    prepared = np.zeros(kind.prepared_size(*inputs.shape), np.uint8)
    out = np.empty((rows, int(records[:, OUTPUTS].max())), np.float32)
    arrays, n = (inputs, prepared, out), n_threads()

    def job(worker: int) -> None:
        # Kernels know addresses only: arrays and weights have to live as long as this is called.
        assert native is not None
        all_of_them(kind.multiply.address, records, rows, *(array.ctypes.data for array in arrays), worker, n)

    def once() -> float:
        start = time.perf_counter()
        run_together([functools.partial(job, worker) for worker in range(n)])
        return time.perf_counter() - start

    job(0)  # compiles
    return once


def measured(rows: int, context: int) -> dict[str, Any]:
    """In this process: seconds of the products, the forward pass and the whole step in turns, and their operations.

    Says that it is ready, and waits for a line on stdin before it measures.
    """
    model = load(quiet=True)
    forward, matrices = Forward(model.network), weight_matrices(model.network)
    choose_batch(forward)  # puts the weights in order for our kernels
    by_blas, by_kernels = products(matrices, rows), own_products(forward, rows)
    by_blas()
    print("ready", flush=True)
    sys.stdin.readline()
    turns = [
        (by_blas(), by_kernels() if by_kernels else by_blas(), pass_seconds, pass_seconds + described)
        for pass_seconds, described in steps(forward, rows, context_ids(model, context), N_STEPS)
    ]
    return {
        "operations": 2 * rows * sum(matrix.size for matrix in matrices),
        "turns": turns,
        "blas": blas.preload().name,
        "blas_threads": blas.preload().threads,
    }


def together(processes: int, rows: int, context: int) -> list[dict[str, Any]]:
    """The same in several processes at once; with more than one, each has one thread."""
    environ = {**os.environ, **(ONE_THREAD if processes > 1 else {})}
    command = [sys.executable, __file__, "--child", "--rows", str(rows), "--context", str(context)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        for _ in range(processes)
    ]
    for child in running:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise SystemExit("a process ended before it measured")
    for child in running:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return [json.loads(child.communicate()[0]) for child in running]


def median_of(turns: list[list[float]], place: int) -> float:
    return statistics.median(turn[place] for turn in turns)


def figures_of(found: list[dict[str, Any]], rows: int) -> dict[str, Any]:
    """Rates of all processes together, in 10^9 operations a second."""
    rate = {
        part: sum(one["operations"] / median_of(one["turns"], place) for one in found) / 1e9
        for place, part in enumerate(("blas", "kernels", "forward", "step"))
    }
    best = max(rate["blas"], rate["kernels"])
    return {
        "processes": len(found),
        "rows": rows,
        "blas": found[0]["blas"],
        "blas_threads": found[0]["blas_threads"],
        "gflops": rate,
        "forward_share": rate["forward"] / best,
        "step_share": rate["step"] / best,
        "tokens_per_second": sum(rows / median_of(one["turns"], 3) for one in found),
        "reached": rate["forward"] / best >= GOAL,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=128, help="of each process")
    parser.add_argument("--context", type=int, default=40, help="tokens of the prompt")
    parser.add_argument("--output", type=Path, default=REPORTS / "bench_gemm.json")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.rows, args.context)))
        return
    where = environment()
    print(f"10^9 operations a second, {args.rows} rows a process; goal: forward over products {GOAL:.0%}")
    print("  processes  threads  products: blas   kernels   forward      step   forward/faster   step/faster")
    ways = []
    for processes in dict.fromkeys((1, usable_cores())):
        row = figures_of(together(processes, args.rows, args.context), args.rows)
        ways.append(row)
        word = "reached" if row["reached"] else "short"
        print(
            f"  {processes:9d} {row['blas_threads']!s:>8} {row['gflops']['blas']:15.0f} "
            f"{row['gflops']['kernels']:9.0f} {row['gflops']['forward']:9.0f} {row['gflops']['step']:9.0f} "
            f"{row['forward_share']:16.1%} {row['step_share']:13.1%}  {word}",
            flush=True,
        )
    write_report(args.output, where, {"goal": GOAL, "ways": ways})


if __name__ == "__main__":
    main()
