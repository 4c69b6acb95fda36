"""Machine code on disk goes with the sources that it was made of, other files' as well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl

import toolkit
from toolkit.generation.compiled_cache import look_at_all_sources

SCRIPT = """
import numpy as np
from toolkit.generation.compiled_attention import gated_rows
out = np.empty((1, 1), np.float32)
gated_rows(np.ones((1, 2), np.float32), out)
print(out[0, 0], sum(gated_rows.stats.cache_hits.values()))
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package, with the modules that kernels are in."""
    source = Path(toolkit.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, tmp_path / "toolkit", ignore=ignored)
    return tmp_path


def run(folder: Path) -> tuple[float, int]:
    """What the kernel gives in a new process, and how often its machine code was found on disk."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    value, hits = found.stdout.split()
    return float(value), int(hits)


def test_a_change_in_another_file_is_seen(copied: Path) -> None:
    expected = 1 / (1 + np.exp(-1))
    value, hits = run(copied)
    assert (round(value, 5), hits) == (round(expected, 5), 0)
    assert run(copied) == (value, 1)
    changed = copied / "toolkit" / "generation" / "compiled_math.py"
    text = changed.read_text()
    assert text.count("* power") == 1
    changed.write_text(text.replace("* power", "* power * np.float32(2)"))
    value, hits = run(copied)
    assert (round(value, 5), hits) == (round(1 / (1 + 2 * np.exp(-1)), 5), 0)


def test_functions_of_others_are_kept_as_numba_keeps_them(tmp_path: Path) -> None:
    before = list(CacheImpl._locator_classes)
    look_at_all_sources()  # once more changes nothing
    assert before == CacheImpl._locator_classes
    (tmp_path / "theirs.py").write_text("def one():\n    return 1\n")
    code: dict[str, object] = {}
    exec(compile((tmp_path / "theirs.py").read_text(), str(tmp_path / "theirs.py"), "exec"), code)
    kept = numba.njit(cache=True)(code["one"])
    assert "AllSources" not in type(kept._cache._impl.locator).__name__
