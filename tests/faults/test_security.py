"""What the code does not do: unpickle, evaluate, run a model's code, or open its files to others."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import ROOT, MockCollect

SOURCES = sorted((ROOT / "toolkit").rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "__import__"}
# pip, to fetch the default model; sysctl and vm_stat on macOS; the process that collects a shard on a cluster
STARTS_PROCESSES = {
    ROOT / "toolkit" / "models" / "fetch.py",
    ROOT / "toolkit" / "memory.py",
    ROOT / "toolkit" / "collect" / "on_worker.py",
}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_unpickled_evaluated_or_run_by_a_shell(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set(imports(tree))
    assert not found & FORBIDDEN_MODULES
    assert "subprocess" not in found or path in STARTS_PROCESSES
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            assert name not in FORBIDDEN_CALLS, f"line {node.lineno}"
            for keyword in node.keywords:
                constant = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                named = keyword.arg in ("shell", "allow_pickle", "trust_remote_code")
                assert not (named and constant is not False), f"line {node.lineno}"


def test_files_have_the_users_permissions_only(mock_collect: MockCollect, tmp_path: Path) -> None:
    run = tmp_path / "run"
    mock_collect(run)
    umask = os.umask(0)
    os.umask(umask)
    for path in run.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert not mode & umask, path
        assert path.is_dir() or not mode & 0o111, path
