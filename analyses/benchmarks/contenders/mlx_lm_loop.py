"""A loop of MLX-LM's `stream_generate`, one sample after another."""

from __future__ import annotations

import time

from contenders.job import Job, Prepared, Turn
from contenders.mlx_lm_model import facts, load, logits_after

WARM_UP_TOKENS = 2


def prepare(job: Job) -> Prepared:
    model, tokenizer = load(job)

    def turn(max_tokens: int = job.max_tokens) -> Turn:
        from mlx_lm.generate import stream_generate
        from mlx_lm.sample_utils import make_sampler

        sampler, n_tokens = make_sampler(temp=1.0), 0
        start = time.perf_counter()
        for prompt in job.prompts:
            for _ in range(job.samples):
                responses = stream_generate(model, tokenizer, prompt, max_tokens=max_tokens, sampler=sampler)
                n_tokens += len([response.logprobs[response.token].item() for response in responses])
        return Turn(n_tokens, time.perf_counter() - start)

    logits = logits_after(model, job.prompts[0])
    turn(WARM_UP_TOKENS)
    return Prepared(turn, logits, facts())
