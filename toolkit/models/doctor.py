"""What this machine computes with, what is slow on it, and why."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

from toolkit.cores import usable_cores
from toolkit.memory import free_memory_bytes
from toolkit.models import blas
from toolkit.models.fetch import default_model_path
from toolkit.models.folders import is_model_folder
from toolkit.tile_unit import use_tile_unit

PACKAGES = ("mlx", "mlx-lm", "numpy", "pyarrow", "pandas", "transformers", "tokenizers")
PREFILL_SHAPE = (512, 576, 1536)  # rows, inner, columns of a layer's product in a prompt of 512 tokens
SLOW_GFLOPS = 20.0  # below this a CPU product is far from what any processor of ten years gives
BUSY = 1.5  # programs a core from which on others are in the way


class Finding(NamedTuple):
    """One thing that was found. `advice` says what is slow or missing, why, and what to do."""

    topic: str
    value: Any  # str, int, float, bool or None: what --json shows
    text: str  # for people
    advice: str | None = None


NO_MLX = Finding(
    "device",
    None,
    "none: MLX is not installed",
    "without MLX, runs can be analysed but not collected; install the extra cpu, cuda12 or cuda13 on Linux, "
    "or mlx on a Mac with Apple silicon",
)


def examine() -> list[Finding]:
    """Look at device, BLAS and its speed, dtype of the default model, memory and versions.

    Returns
    -------
    list of Finding
        Works where MLX is not installed, and says so.
    """
    here, python = platform.platform(), platform.python_version()
    found = [package("token-confidence-toolkit")._replace(topic="toolkit")]
    found.append(Finding("system", here, f"{here}, {os.cpu_count()} cores"))
    found += computation() if find_spec("mlx") is not None else [NO_MLX]
    found += [load(), memory(), default_model()]
    if find_spec("mlx_lm") is not None and is_model_folder(default_model_path()):
        found.append(model_dtype())
    found.append(Finding("python", python, f"{python} ({sys.executable})"))
    found.append(kernels())
    return found + [package(name) for name in PACKAGES]


def computation() -> list[Finding]:
    """Device, BLAS, and the speed of two products."""
    choice = blas.preload()
    import mlx.core as mx

    device = "cpu" if mx.default_device().type == mx.DeviceType.cpu else "gpu"
    decode, prefill = blas.measure_gflops(), blas.measure_gflops(PREFILL_SHAPE)
    where = "MLX's own" if choice.path is None else str(choice.path)
    threads = "" if choice.threads is None else f", {choice.threads} threads"
    return [
        Finding("device", device, _device_text(device)),
        Finding("blas", choice.name, f"{choice.name} ({where}{threads})", blas_advice(choice, device)),
        Finding(
            "gflops_decode", round(decode, 1), _speed(decode, blas.DECODE_SHAPE), speed_advice(decode, choice)
        ),
        Finding("gflops_prefill", round(prefill, 1), _speed(prefill, PREFILL_SHAPE)),
    ]


def _device_text(device: str) -> str:
    import mlx.core as mx

    name = mx.device_info().get("device_name") if hasattr(mx, "device_info") else None
    return f"{device} ({name})" if name else device


def _speed(gflops: float, shape: tuple[int, int, int]) -> str:
    return f"{gflops:.0f} GFLOP/s in a float32 product of {' × '.join(map(str, shape))}"


def blas_advice(choice: blas.BlasChoice, device: str) -> str | None:
    """Why the BLAS is slow, if it is."""
    if device != "cpu":
        return None
    if choice.warning is not None:
        return choice.warning
    if choice.name == "reference":
        return (
            f"{blas.VARIABLE}=none: products run on MLX's reference BLAS, some 50 times slower than they "
            f"could; unset {blas.VARIABLE}"
        )
    if choice.threads is not None and choice.threads < usable_cores() // 2:
        return (
            f"products use {choice.threads} threads of {usable_cores()} cores: look at OPENBLAS_NUM_THREADS"
        )
    return None


def speed_advice(gflops: float, choice: blas.BlasChoice) -> str | None:
    """Why products are slow though a fast library is there, if they are."""
    if gflops >= SLOW_GFLOPS or choice.name == "reference":
        return None
    return (
        f"{gflops:.0f} GFLOP/s is little for {choice.name}: other programs may be using the cores, or the "
        f"library does not fit this processor; {blas.VARIABLE} names another"
    )


def kernels() -> Finding:
    """Whether steps and statistics on the CPU are compiled, and what multiplies."""
    try:
        import numba
    except ImportError as error:
        return Finding(
            "kernels",
            "numpy",
            f"NumPy's: Numba cannot be imported ({error})",
            "steps on the CPU take two to three times as long without Numba; pip install numba",
        )
    if getattr(numba.config, "DISABLE_JIT", False):
        return Finding(
            "kernels",
            "numpy",
            "NumPy's: $NUMBA_DISABLE_JIT is set",
            "steps on the CPU take two to three times as long; unset NUMBA_DISABLE_JIT",
        )
    where = "on the tile unit (AMX)" if use_tile_unit() else "in vector registers"
    return Finding("kernels", "compiled", f"compiled, by Numba {numba.__version__}; products {where}")


def load() -> Finding:
    """How many programs wanted a core in the last minute."""
    wanted, cores = os.getloadavg()[0], usable_cores()
    advice = None
    if wanted > BUSY * cores:
        advice = (
            f"{wanted:.1f} programs want {cores} cores: the threads of a product wait for each other, which "
            "makes it far slower, and a collection falls back to one thread; stop the others"
        )
    return Finding("load", round(wanted, 1), f"{wanted:.1f} programs on {cores} cores", advice)


def memory() -> Finding:
    """Free memory."""
    free = free_memory_bytes()
    return Finding("memory_free", free, "unknown" if free is None else f"{free / 1e9:.1f} GB free")


def default_model() -> Finding:
    """Whether the default model has been fetched."""
    path = default_model_path()
    if is_model_folder(path):
        return Finding("default_model", True, str(path))
    return Finding("default_model", False, f"not in {path.parent}", "run `toolkit model fetch`: 93 MB, once")


def model_dtype() -> Finding:
    """What the default model computes in on this device, and why that is slow, if it is."""
    from mlx_lm.utils import load_model

    from toolkit.models.precision import compute_dtype, default_dtype

    network, _ = load_model(default_model_path(), lazy=True)
    dtype, message = default_dtype(network)
    shown = compute_dtype(network) if dtype == "stored" else dtype
    text = f"{shown}, the weights as they are stored" if dtype == "stored" else f"{shown}, dequantised"
    return Finding("dtype", shown, text, message and f"the default model: {message}")


def package(name: str) -> Finding:
    """The installed version of a package."""
    found = _version(name)
    return Finding(name, found, found or "not installed")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def facts(findings: list[Finding]) -> list[str]:
    """The findings that a bug report needs, short."""
    values = {finding.topic: finding.value for finding in findings}
    versions = " ".join(f"{name} {values.get(name)}" for name in ("toolkit", "python", *PACKAGES[:3]))
    speed = f"{values.get('blas')} {values.get('gflops_decode')} GFLOP/s"
    return [f"{values.get('device')} {values.get('dtype')}", speed, versions]
