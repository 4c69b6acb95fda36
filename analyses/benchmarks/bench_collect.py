"""Collecting with everything recorded, beside MLX-LM's own batch generation, in one process.

The same prompts, samples and lengths, the same float32 weights and the same BLAS. Turns alternate, so that a
machine that slows down slows both; the median and the ratio of each pair of turns are printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.collect.collector import Work, collect
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings, Settings
from toolkit.models import blas, load

QUESTIONS = [
    "What is the capital of France?",
    "How many legs does a spider have?",
    "Who wrote the play Hamlet?",
    "Why is the sky blue during the day?",
    "Name three fruits that grow on trees.",
    "What does a thermometer measure?",
    "Which planet is the largest?",
    "What is seven times eight?",
]


def ours(model: Any, prompts: list[Any], samples: int, max_tokens: int, rows: int) -> int:
    """Collect into a run on disk; tokens collected."""
    folder = Path(tempfile.mkdtemp())
    try:
        work = Work(model, Settings(num_samples=samples, max_tokens=max_tokens), prompts, rows)
        return collect(work, folder / "run").n_tokens
    finally:
        shutil.rmtree(folder)


def mlx_lm_batch(model: Any, prompts: list[Any], samples: int, max_tokens: int, rows: int) -> int:
    """MLX-LM's batch generation with the log-probabilities of the drawn tokens; tokens generated."""
    from mlx_lm.generate import batch_generate
    from mlx_lm.sample_utils import make_sampler

    ids = [prompt.token_ids.tolist() for prompt in prompts for _ in range(samples)]
    sampler = make_sampler(temp=1.0)
    response = batch_generate(
        model.network,
        model.tokenizer,
        ids,
        max_tokens=max_tokens,
        return_logprobs=True,
        return_token_ids=True,
        sampler=sampler,
        completion_batch_size=rows,
        prefill_batch_size=rows,
    )
    return sum(len(sequence) for sequence in response.token_ids)


def measure(run: Callable[..., int], *arguments: Any) -> float:
    """Tokens a second of one turn."""
    start = time.perf_counter()
    n_tokens = run(*arguments)
    return n_tokens / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--prompts", type=int, default=4, help="prompts; the rows are shared evenly")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the figures here as JSON")
    args = parser.parse_args()
    model = load(quiet=True)
    model.tokenizer.eos_token_ids = []  # every sequence is equally long
    questions = [Prompt(i, i + 1, prompt=QUESTIONS[i % len(QUESTIONS)]) for i in range(args.prompts)]
    prompts = render_prompts(model.tokenizer, questions, RenderSettings())
    arguments = (model, prompts, args.rows // args.prompts, args.max_tokens, args.rows)
    short = (model, prompts, args.rows // args.prompts, 3, args.rows)
    for run in (ours, mlx_lm_batch):
        run(*short)  # compile and touch memory
    turns = [(measure(ours, *arguments), measure(mlx_lm_batch, *arguments)) for _ in range(args.turns)]
    figures = {
        "rows": args.rows,
        "prompts": args.prompts,
        "max_tokens": args.max_tokens,
        "blas": blas.preload().name,
        "ours_tokens_per_second": statistics.median(turn[0] for turn in turns),
        "mlx_lm_batch_tokens_per_second": statistics.median(turn[1] for turn in turns),
        "ratio": statistics.median(turn[0] / turn[1] for turn in turns),
        "turns": turns,
    }
    print(
        f"{args.rows} rows, {args.prompts} prompts, {args.max_tokens} tokens, {args.turns} turns; tokens a second"
    )
    print(f"  this project, all recorded     {figures['ours_tokens_per_second']:8.1f}")
    print(f"  mlx_lm.batch_generate          {figures['mlx_lm_batch_tokens_per_second']:8.1f}")
    print(f"  ratio (median of turns)        {figures['ratio']:8.2f}")
    if args.output is not None:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
