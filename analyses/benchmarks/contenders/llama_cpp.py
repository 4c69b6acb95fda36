"""llama.cpp, bare: all samples decoded at once and their logits read, nothing else.

A prompt is read once and its cache copied to its samples. A token is drawn while the clock stands still, since that
is not part of decoding. Timed as it comes, with keys and values in half precision; that it is the same model is
shown with a cache in float32.
"""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contenders.job import Job, Prepared, Turn

WARM_UP_STEPS = 2


class Decoder:
    """The model with a context of as many sequences as the job has samples."""

    def __init__(self, job: Job, threads: int, exact: bool = False) -> None:
        import llama_cpp

        self._library = library = llama_cpp
        self._job = job
        self._random = np.random.default_rng(0)
        library.llama_backend_init()
        self._model = library.llama_model_load_from_file(
            str(job.gguf).encode(), library.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {job.gguf}")
        self._vocabulary = library.llama_vocab_n_tokens(library.llama_model_get_vocab(self._model))
        self._context = library.llama_init_from_model(self._model, self._parameters(threads, exact))
        if not self._context:
            raise RuntimeError("llama.cpp makes no context for so many sequences")

    def _parameters(self, threads: int, exact: bool) -> Any:
        job = self._job
        parameters = self._library.llama_context_default_params()
        room = max(map(len, job.prompts)) + job.max_tokens
        parameters.n_ctx = room * job.rows
        parameters.n_batch = parameters.n_ubatch = max(512, job.rows)
        parameters.n_seq_max = job.rows
        parameters.kv_unified = False  # each sequence attends to its own positions only
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.no_perf = True
        if exact:  # by default the cache is in half precision, which is faster
            parameters.type_k = parameters.type_v = self._library.GGML_TYPE_F32
            parameters.flash_attn_type = self._library.LLAMA_FLASH_ATTN_TYPE_DISABLED
        return parameters

    @property
    def system(self) -> str:
        """What llama.cpp was built with."""
        return self._library.llama_print_system_info().decode().strip()

    def run(self, n_tokens: int) -> Turn:
        """Generate `n_tokens` for every sample."""
        start = time.perf_counter()
        logits = self.prefill()
        seconds = time.perf_counter() - start
        positions = np.repeat([len(prompt) for prompt in self._job.prompts], self._job.samples)
        for step in range(1, n_tokens):
            drawn = self._draw(logits)
            start = time.perf_counter()
            logits = self._decode(drawn.tolist(), (positions + step - 1).tolist(), range(self._job.rows))
            seconds += time.perf_counter() - start
        return Turn(n_tokens * self._job.rows, seconds)

    def prefill(self) -> NDArray[np.float32]:
        """Read each prompt once; logits (rows, vocabulary) after it, for every sample."""
        library, samples = self._library, self._job.samples
        memory = library.llama_get_memory(self._context)
        library.llama_memory_clear(memory, True)
        rows = []
        for number, prompt in enumerate(self._job.prompts):
            first = number * samples
            rows.append(self._decode(prompt, range(len(prompt)), [first] * len(prompt), last_only=True))
            for other in range(first + 1, first + samples):
                library.llama_memory_seq_cp(memory, first, other, -1, -1)
        return np.repeat(np.concatenate(rows), samples, axis=0)

    def _decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[int],
        last_only: bool = False,
    ) -> NDArray[np.float32]:
        """Feed tokens; a copy of the logits (n, vocabulary) after each of them, or after the last."""
        library, n = self._library, len(tokens)
        batch = library.llama_batch_init(n, 0, 1)
        for i in range(n):
            batch.token[i] = tokens[i]
            batch.pos[i] = positions[i]
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequences[i]
            batch.logits[i] = not last_only or i == n - 1
        batch.n_tokens = n
        status = library.llama_decode(self._context, batch)
        library.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode gave {status}")
        found = library.llama_get_logits(self._context)
        return np.ctypeslib.as_array(found, (1 if last_only else n, self._vocabulary)).copy()

    def _draw(self, logits: NDArray[np.float32]) -> NDArray[np.intp]:
        sums = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
        wanted = self._random.random((len(sums), 1)) * sums[:, -1:]
        return np.minimum((sums <= wanted).sum(axis=1), self._vocabulary - 1)


def prepare(job: Job) -> Prepared:
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    logits = Decoder(job.smaller(1, 1), threads, exact=True).prefill()[0]
    decoder = Decoder(job, threads)
    decoder.run(WARM_UP_STEPS)
    facts = {
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "system": decoder.system,
        "threads": threads,
    }
    return Prepared(lambda: decoder.run(job.max_tokens), logits, facts)
