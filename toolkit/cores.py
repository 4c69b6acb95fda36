"""How many processor cores this process may use, in a container as well."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores that the system and a container's limit leave to this process, at least 1.

    Source: cpu.max and cpu.cfs_quota_us in the kernel's documentation of control groups, versions 2 and 1.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _container_limit()
    return cores if limit is None else max(1, min(cores, int(limit)))


def _container_limit() -> float | None:
    """Processor seconds a second, where a container may use only so many."""
    quota, period = (*_numbers(CGROUP / "cpu.max"), None, None)[:2]
    if quota is None:
        quota = next(iter(_numbers(CGROUP / "cpu/cpu.cfs_quota_us")), None)
        period = next(iter(_numbers(CGROUP / "cpu/cpu.cfs_period_us")), None)
    if quota is None or period is None or quota <= 0 or period <= 0:
        return None
    return quota / period


def _numbers(path: Path) -> list[int | None]:
    """What a file of numbers holds; None for a word, as "max"."""
    try:
        words = path.read_text().split()
    except OSError:
        return []
    return [int(word) if word.lstrip("-").isdecimal() else None for word in words]
