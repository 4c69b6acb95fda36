import sys
from pathlib import Path

import pytest

from toolkit import memory

MEMINFO = "MemTotal:       24622664 kB\nMemFree:        22000000 kB\nMemAvailable:   23000000 kB\n"
VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            400000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages wired down:                        150000.
Pages purgeable:                            700.
"File-backed pages":                     200000.
"""


@pytest.fixture
def linux(monkeypatch):
    """A Linux whose files say what the test puts into the returned dict."""
    files = {"/proc/meminfo": MEMINFO}
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(memory, "_read", lambda path: files.get(str(path), ""))
    return files


def test_linux_says_what_is_available(linux):
    assert memory.free_memory_bytes() == 23_000_000 * 1024


@pytest.mark.parametrize(
    ("limit", "use"),
    [("memory.max", "memory.current"), memory.CGROUP_FILES[1]],
    ids=["version 2", "version 1"],
)
def test_a_containers_limit_counts(linux, limit, use):
    linux[str(memory.CGROUP / limit)] = "2000000000\n"
    linux[str(memory.CGROUP / use)] = "500000000\n"
    assert memory.free_memory_bytes() == 1_500_000_000


def test_no_limit_is_no_limit(linux):
    linux[str(memory.CGROUP / "memory.max")] = "max\n"
    linux[str(memory.CGROUP / "memory.current")] = "500000000\n"
    assert memory.free_memory_bytes() == 23_000_000 * 1024


def test_an_unknown_kernel_is_unknown(linux):
    linux.clear()
    assert memory.free_memory_bytes() is None


def test_macos_counts_pages_that_can_be_taken(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(memory, "_vm_stat", lambda: VM_STAT)
    assert memory.free_memory_bytes() == 16384 * (10_000 + 20_000 + 3_000 + 700)
    monkeypatch.setattr(memory, "_vm_stat", lambda: "")
    assert memory.free_memory_bytes() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own files")
def test_this_machine_has_some_but_not_more_than_all():
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    free = memory.free_memory_bytes()
    assert free is not None
    assert 0 < free < total
