"""Machine code that Numba kept on disk is used again only while all sources of kernels are as they were.

Numba itself looks at the file of a function alone; but kernels call those of other files, whose code becomes a part
of theirs.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from numba.core.caching import CacheImpl

FOLDER = Path(__file__).parent


@functools.cache
def sources_stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time of change and size of every module here."""
    files = [(path.name, path.stat()) for path in sorted(FOLDER.glob("*.py"))]
    return tuple((name, facts.st_mtime_ns, facts.st_size) for name, facts in files)


class _AllSources:
    """Put before one of Numba's classes that say where machine code is kept: for functions of this folder."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        if Path(py_file).parent != FOLDER:
            return None
        return super().from_function(py_func, py_file)  # type: ignore[misc]

    def get_source_stamp(self) -> Any:
        return super().get_source_stamp(), sources_stamp()  # type: ignore[misc]


def look_at_all_sources() -> None:
    """Let Numba do so from now on, for functions of this folder."""
    known: list[Any] = CacheImpl._locator_classes
    if not any(issubclass(one, _AllSources) for one in known):
        known[:0] = [type(f"{one.__name__}OfAllSources", (_AllSources, one), {}) for one in known]
