"""Cores that a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit import cores


@pytest.fixture(autouse=True)
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives 8 cores, without a container."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "CGROUP", tmp_path)


def test_without_a_container_all_that_the_system_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores.usable_cores() == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.usable_cores() == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000\n", 8),
        ("400000 100000\n", 4),
        ("250000 100000\n", 2),
        ("50000 100000\n", 1),
        ("9900000 100000\n", 8),
        ("", 8),
        ("odd\n", 8),
    ],
)
def test_a_container_s_limit(text: str, expected: int, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cores.usable_cores() == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("300000", 3)])
def test_a_limit_of_the_first_version(quota: str, expected: int, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert cores.usable_cores() == expected
