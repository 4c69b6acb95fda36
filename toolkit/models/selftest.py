"""Does this machine compute what others compute? Known token ids and log-probabilities of the default model.

The known values are packaged: ids from llama.cpp, log-probabilities from PyTorch in float64 over the same
weights. `toolkit.collect.selftest` adds the checks of generation.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.models.model import Model

CPU_TOLERANCE = 2e-4  # nats, in float32
GPU_TOLERANCE = 2e-2  # a GPU may round the factors of float32 products to 10 bits
HALF_TOLERANCE = 0.2  # in float16 and bfloat16


class Check(NamedTuple):
    """What one check found."""

    name: str
    passed: bool
    detail: str


def known_values() -> dict[str, Any]:
    """The packaged values: `tokenization` and `logprobs`, lists of cases."""
    return _known_values()


@cache
def _known_values() -> dict[str, Any]:
    text = files("toolkit.models").joinpath("data/selftest.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def check_tokens(model: Model) -> Check:
    """Texts encode to the known ids."""
    cases = known_values()["tokenization"]
    wrong = [
        case["text"]
        for case in cases
        if model.tokenizer.encode(case["text"], add_special_tokens=False) != case["ids"]
    ]
    detail = f"{len(cases) - len(wrong)} of {len(cases)} texts" + (f"; wrong: {wrong[0]!r}" if wrong else "")
    return Check("token ids", not wrong, detail)


def check_logprobs(model: Model) -> Check:
    """Log-probabilities and entropies are the known ones, within what the device's arithmetic allows."""
    allowed = tolerance(model)
    differences = [0.0]
    for case in known_values()["logprobs"]:
        logprobs = all_logprobs(model, case["ids"])
        chosen = np.take_along_axis(logprobs, np.array(case["ids"][1:])[:, None], axis=1)[:, 0]
        entropy = -(np.exp(logprobs) * logprobs).sum(axis=1)
        differences += [np.abs(chosen - case["logprobs"]).max(), np.abs(entropy - case["entropy"]).max()]
    largest = float(np.max(differences))  # NaN stays, and fails
    return Check(
        "log-probabilities", largest <= allowed, f"off by {largest:.1e} nats at most, {allowed:.0e} allowed"
    )


def tolerance(model: Model) -> float:
    """Nats that a log-probability may be off by, for the device and dtype that a model runs with."""
    import mlx.core as mx

    if model.dtype != "float32":
        return HALF_TOLERANCE
    return CPU_TOLERANCE if mx.default_device().type == mx.DeviceType.cpu else GPU_TOLERANCE


def all_logprobs(model: Model, ids: Sequence[int]) -> NDArray[np.float64]:
    """Log-probabilities of every token after each prefix of `ids`, the last left out: shape (n - 1, V).

    Raises
    ------
    ValueError
        If an id is outside the vocabulary; MLX would read outside the embedding.
    """
    import mlx.core as mx

    size = model.config.get("vocab_size")
    if size is not None and max(ids) >= size:
        raise ValueError(f"token {max(ids)} in a vocabulary of {size}: this is another model")
    logits = model.network(mx.array([list(ids)]))[0].astype(mx.float32)  # (n, V)
    wide = np.array(logits, dtype=np.float64)[:-1]
    wide -= wide.max(axis=1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)))


def run_checks(model: Model, checks: Sequence[Callable[[Model], Check]]) -> list[Check]:
    """Run every check. One that raises has failed, and the others still run."""
    return [_run(check, model) for check in checks]


def _run(check: Callable[[Model], Check], model: Model) -> Check:
    try:
        return check(model)
    except Exception as error:  # a report is wanted of whatever goes wrong on somebody's machine
        return Check(check.__name__.removeprefix("check_"), False, f"{type(error).__name__}: {error}")


def report_line(checks: Sequence[Check], facts: Sequence[str]) -> str:
    """One line to paste into a bug report: the outcome, the machine, `facts`, and each check's detail."""
    passed = sum(check.passed for check in checks)
    outcome = f"selftest {'passed' if passed == len(checks) else 'FAILED'}: {passed} of {len(checks)}"
    details = [f"{check.name}: {check.detail}" for check in checks]
    return " | ".join([outcome, f"{platform.system()} {platform.machine()}", *facts, *details])
