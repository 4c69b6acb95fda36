"""MLX-LM's `batch_generate` of all samples at once, with the log-probability of each drawn token."""

from __future__ import annotations

import time

from contenders.job import Job, Prepared, Turn
from contenders.mlx_lm_model import facts, load, logits_after

WARM_UP_TOKENS = 3


def prepare(job: Job) -> Prepared:
    model, tokenizer = load(job)

    def turn(max_tokens: int = job.max_tokens) -> Turn:
        from mlx_lm.generate import batch_generate
        from mlx_lm.sample_utils import make_sampler

        prompts = [prompt for prompt in job.prompts for _ in range(job.samples)]
        start = time.perf_counter()
        response = batch_generate(
            model,
            tokenizer,
            prompts,
            max_tokens=max_tokens,
            return_logprobs=True,
            return_token_ids=True,
            sampler=make_sampler(temp=1.0),
            completion_batch_size=job.rows,
            prefill_batch_size=job.rows,
        )
        return Turn(sum(len(ids) for ids in response.token_ids or []), time.perf_counter() - start)

    logits = logits_after(model, job.prompts[0])
    turn(WARM_UP_TOKENS)
    return Prepared(turn, logits, facts())
