"""Memory, functions and threads inside compiled code, by address: arrays, calls, and a barrier.

An address is a plain number there, so that one kernel serves arrays of any number and kind, and may be given another
kernel to call.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from toolkit.generation.compiled_math import compiled

LINE = 64  # bytes of a cache line: what threads write apart lies on lines of its own
TEAM_SIZE = (
    3 * LINE // 8
)  # int64 numbers that a barrier needs: its turn, who has arrived, whether it is given up
GIVEN_UP = 2 * LINE // 8  # place of the last: where it is not 0, nobody waits any more
_SPINS = 4000  # looks before the processor is offered to others; some 10 microseconds

YIELD = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0  # address of sched_yield(2)

# A function whose code is given; Numba's own annotation counts the typing context among the arguments.
instruction: Any = intrinsic


@instruction
def as_pointer(typing: Any, address: Any) -> Any:
    """The address as a pointer, for `numba.carray`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), codegen


@instruction
def call(typing: Any, address: Any, arguments: Any) -> Any:
    """Call a function of numbers that returns nothing: its address, and a tuple of intp."""

    def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [place] * arguments.count)
        function = builder.inttoptr(given[0], kind.as_pointer())
        builder.call(function, [builder.extract_value(given[1], i) for i in range(arguments.count)])
        return context.get_dummy_value()

    return types.void(types.intp, arguments), codegen


@instruction
def fetch(typing: Any, address: Any) -> Any:
    """Ask for the cache line at an address, which is read soon."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        name = "llvm.prefetch.p0"
        known = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        to_read, nearest, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(known, [builder.inttoptr(arguments[0], pointer), to_read, nearest, of_data])
        return context.get_dummy_value()

    return types.void(types.intp), codegen


def _number(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


@instruction
def _add_one(typing: Any, address: Any) -> Any:
    """What an int64 was before one was added, in one go for all threads."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _number(builder, arguments[0])
        return builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.intp(types.intp), codegen


@instruction
def _look(typing: Any, address: Any) -> Any:
    """An int64 that other threads change."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_number(builder, arguments[0]), "seq_cst", 8)

    return types.intp(types.intp), codegen


@compiled()
def wait_for_all(team: int, n: int, give_way: int) -> None:
    """Wait until all n threads of a team are here, and see what they wrote; not where the team was given up.

    Parameters
    ----------
    team : address of `TEAM_SIZE` int64 zeros, the same for all
    n : threads
    give_way : address of a function that offers the processor to others: `YIELD`
    """
    if n == 1:
        return
    arrived = team + LINE
    turn = _look(team)
    if _add_one(arrived) % n == n - 1:
        _add_one(team)
        return
    looks = 0
    while _look(team) == turn and _look(team + 8 * GIVEN_UP) == 0:
        looks += 1
        if looks > _SPINS:
            call(give_way, ())
