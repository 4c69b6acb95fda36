"""Who takes part, on how large a share of the job, and how many times faster this project should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contenders.job import Job

OWN, ENGINES = "own", "engines"  # the environment whose Python runs a contender


@dataclass(frozen=True)
class Contender:
    """One way to generate the samples."""

    key: str
    title: str
    module: str  # in this folder
    brings: str = "make setup"  # the command that installs what it needs
    python: str = OWN
    environment: Mapping[str, str] = field(default_factory=dict)
    on_cpu: bool = False  # also where there is a GPU, so it is left out there
    once: bool = False  # too slow for more than the first turn
    prompts: int | None = None  # at most so many of the job's; None is all of them
    samples: int | None = None

    def share(self, job: Job) -> Job:
        """Its part of the job. The length of a sample is the same for all."""
        prompts = len(job.prompts) if self.prompts is None else self.prompts
        return job.smaller(prompts, job.samples if self.samples is None else self.samples)


AS_INSTALLED = {"TOOLKIT_BLAS": "none"}  # MLX's own reference BLAS
CONTENDERS = (
    Contender("ours", "this project, everything recorded", "ours"),
    Contender("ours_processes", "the same, two processes", "ours_processes"),
    Contender(
        "llama_cpp",
        "llama.cpp, bare decoding",
        "llama_cpp",
        brings="make engines, or pip install llama-cpp-python",
        python=ENGINES,
        on_cpu=True,
    ),
    Contender(
        "hugging_face",
        "Hugging Face generate, logits kept",
        "hugging_face",
        brings="make engines, or pip install torch transformers",
        python=ENGINES,
        on_cpu=True,
    ),
    Contender("mlx_lm_batch", "MLX-LM batch_generate, our BLAS", "mlx_lm_batch"),
    Contender(
        "mlx_lm_loop", "MLX-LM stream_generate in a loop, our BLAS", "mlx_lm_loop", prompts=2, samples=1
    ),
    Contender(
        "mlx_lm_batch_installed",
        "MLX-LM batch_generate, as installed",
        "mlx_lm_batch",
        environment=AS_INSTALLED,
        on_cpu=True,
        once=True,
        prompts=2,
        samples=1,
    ),
    Contender(
        "mlx_lm_loop_installed",
        "MLX-LM stream_generate in a loop, as installed",
        "mlx_lm_loop",
        environment=AS_INSTALLED,
        on_cpu=True,
        once=True,
        prompts=1,
        samples=1,
    ),
)


@dataclass(frozen=True)
class Goal:
    """`ours` should be at least `wanted` times as fast as `against`."""

    against: str
    wanted: float
    ours: str = "ours"


GOALS = (
    Goal("llama_cpp", 1.6),
    Goal("llama_cpp", 2.0, ours="ours_processes"),
    Goal("hugging_face", 2.5),
    Goal("mlx_lm_batch", 3.0),
    Goal("mlx_lm_loop", 20.0),
    Goal("mlx_lm_loop_installed", 100.0),
)
