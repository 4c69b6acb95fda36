"""Whether the processor has a tile unit (AMX) that this process may use."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

SWITCH = "TOOLKIT_TILE_UNIT"  # "0" leaves the unit alone
_FLAGS = {"amx_tile", "amx_bf16"}
_PERMISSION = (158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)


def use_tile_unit() -> bool:
    """Whether products are to be the tile unit's: there is one, and $TOOLKIT_TILE_UNIT is not 0."""
    return os.environ.get(SWITCH) != "0" and has_tile_unit()


@functools.cache
def has_tile_unit() -> bool:
    """Whether the processor has the unit, for bfloat16, and the operating system lets this process use it.

    Only Linux on x86 is asked: it hands the unit out to processes that ask for it.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    if not _flags() >= _FLAGS:
        return False
    return ctypes.CDLL(None).syscall(*map(ctypes.c_long, _PERMISSION)) == 0


def _flags() -> set[str]:
    """What the first processor says of itself; the system leaves out what it does not support."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as facts:
            return next((set(line.split()) for line in facts if line.startswith("flags")), set())
    except OSError:
        return set()
