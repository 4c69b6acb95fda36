"""This project: collected with everything recorded, into a run on disk, by default settings."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from contenders.job import Job, Prepared, Turn

WARM_UP_TOKENS = 3


def prepare(job: Job) -> Prepared:
    import toolkit
    from toolkit.collect.prompts import read_prompts
    from toolkit.collect.render import render_prompts
    from toolkit.collect.settings import RenderSettings
    from toolkit.generation.forward import Forward
    from toolkit.models import blas

    model = toolkit.load(job.model)
    asked = read_prompts(job.prompt_file)[: len(job.prompts)]
    prompts = render_prompts(model.tokenizer, asked, RenderSettings())
    assert [prompt.token_ids.tolist() for prompt in prompts] == job.prompts

    def turn(max_tokens: int = job.max_tokens) -> Turn:
        from toolkit.collect.collector import Work, collect
        from toolkit.collect.settings import Settings

        folder = Path(tempfile.mkdtemp())
        try:
            start = time.perf_counter()
            work = Work(model, Settings(num_samples=job.samples, max_tokens=max_tokens), prompts)
            outcome = collect(work, folder / "run")
            return Turn(outcome.n_tokens, time.perf_counter() - start)
        finally:
            shutil.rmtree(folder)

    import mlx.core as mx
    import numpy as np

    logits = Forward(model.network).logits(mx.array([job.prompts[0]]), None)
    turn(WARM_UP_TOKENS)
    choice = blas.preload()
    facts = {
        "device": str(mx.default_device().type).rpartition(".")[2],
        "blas": choice.name,
        "blas_file": None if choice.path is None else choice.path.name,
        "blas_threads": choice.threads,
    }
    return Prepared(turn, np.array(logits)[0], facts)
