"""The machine and the versions that a measurement belongs to, and the file it is written into."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolkit.cores import usable_cores

ROOT = Path(__file__).parents[3]
REPORTS = ROOT / "data" / "reports"
PACKAGES = ("token-confidence-toolkit", "mlx", "mlx-lm", "numpy", "numba", "pyarrow", "cmeel-openblas", "mkl")
PREFIXES = ("OPENBLAS_", "MKL_", "OMP_", "TOOLKIT_BLAS")  # variables that decide speed


def environment() -> dict[str, Any]:
    """JSON types only, and nothing of the user's folders. Ask before you measure: the load is not to be its own."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_of_last_minute": round(os.getloadavg()[0], 2),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)},
    }


def cpu_name() -> str:
    """As the system calls it."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or platform.machine()


def write_report(path: Path, where: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Write figures with the environment they were measured in, as JSON; and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"environment": where, **figures}, indent=2, allow_nan=False) + "\n")
    print(f"written to {path}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    return _output("git", "-C", str(ROOT), *arguments)


def _output(*command: str) -> str | None:
    """What a command prints; None where there is no such command, or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
