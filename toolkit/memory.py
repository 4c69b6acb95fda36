"""How much memory is free, in a container as well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
# (limit, use) of version 2 and version 1 of control groups, which a container's limit is in
CGROUP_FILES = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
RECLAIMABLE = ("Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")


def free_memory_bytes() -> int | None:
    """Memory that a process could still take without pushing others out; None where it cannot be told.

    On Linux the kernel's MemAvailable, or what is left of a container's limit if that is less. On macOS
    the pages that are free, inactive, speculative or purgeable.
    """
    if sys.platform == "darwin":
        return _from_vm_stat(_vm_stat())
    available = _from_meminfo(_read(Path("/proc/meminfo")))
    limits = [_cgroup_left(_read(CGROUP / limit), _read(CGROUP / use)) for limit, use in CGROUP_FILES]
    known = [value for value in (available, *limits) if value is not None]
    return min(known, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _from_meminfo(text: str) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _cgroup_left(limit: str, use: str) -> int | None:
    """Bytes left of a control group's limit; None where there is none ("max")."""
    if not limit.strip().isdigit() or not use.strip().isdigit():
        return None
    return max(int(limit) - int(use), 0)


def _vm_stat() -> str:
    try:
        return subprocess.run(["/usr/bin/vm_stat"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _from_vm_stat(text: str) -> int | None:
    page = re.search(r"page size of (\d+) bytes", text)
    counts = re.findall(rf"^({'|'.join(RECLAIMABLE)}):\s+(\d+)\.", text, re.MULTILINE)
    if not page or not counts:
        return None
    return int(page[1]) * sum(int(count) for _, count in counts)
