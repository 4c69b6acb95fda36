"""Hugging Face transformers: `generate` of all samples at once on the CPU, with the logits of every step."""

from __future__ import annotations

import time

from contenders.job import Job, Prepared, Turn


def prepare(job: Job) -> Prepared:
    import torch
    import transformers
    from transformers import AutoModelForCausalLM

    transformers.utils.logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(str(job.model), dtype=torch.float32).eval()
    longest = max(map(len, job.prompts))
    # Padding on the left, as decoder-only models are batched.
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in job.prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in job.prompts])

    def generate(n_tokens: int) -> int:
        found = model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            num_return_sequences=job.samples,
            max_new_tokens=n_tokens,
            eos_token_id=None,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        assert len(found.logits) == n_tokens
        return found.sequences.numel() - job.rows * longest

    def turn() -> Turn:
        start = time.perf_counter()
        n_tokens = generate(job.max_tokens)
        return Turn(n_tokens, time.perf_counter() - start)

    with torch.inference_mode():
        logits = model(torch.tensor([job.prompts[0]])).logits[0, -1].numpy()
    generate(2)
    facts = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    return Prepared(turn, logits, facts)
