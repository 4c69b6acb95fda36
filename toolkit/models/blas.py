"""Put a fast BLAS under MLX on Linux, before MLX is imported.

The Linux wheel of MLX brings the reference BLAS, some 50 times slower in a product of 32 × 576 × 1536 than
the processor allows. A library with the same `cblas` functions that is loaded with RTLD_GLOBAL before
`mlx.core` takes its place. On macOS MLX uses Accelerate and nothing is done.

Imports neither MLX nor NumPy, whose own BLAS reads the same environment when it is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import ToolkitError

VARIABLE = "TOOLKIT_BLAS"
NAMES = ("mkl", "openblas", "system", "none")
PROBE = "cblas_sgemm"  # a function of every cblas library, and the one that MLX calls most
FORTRAN_RUNTIME = "libgfortran.so.5"
CARRIERS = ("mlx*.libs", "numpy.libs")  # folders of wheels with a Fortran runtime
DECODE_SHAPE = (32, 576, 1536)  # rows, inner, columns of a layer's product in a batch of 32
LATE = (
    "MLX was imported before toolkit could load a fast BLAS, so products run on MLX's slow reference BLAS; "
    "import toolkit and load the model before anything imports mlx"
)
MISSING = (
    "no fast BLAS could be loaded ({}), so products run on MLX's slow reference BLAS; "
    "install cmeel-openblas with pip, or the system's OpenBLAS"
)


class BlasWarning(UserWarning):
    """MLX computes with a slow BLAS; the message says why and what to do."""


class BlasChoice(NamedTuple):
    """The BLAS that MLX computes with on the CPU."""

    name: str  # mkl, openblas, system, custom (a path, or one that was there), accelerate, or reference
    path: Path | None  # the library's file; None where it is MLX's own
    threads: int | None  # threads of a product; None where the library does not say
    preloaded: bool  # a library stands in front of MLX's own
    warning: str | None = None  # why products are slow


def preload() -> BlasChoice:
    """Load the best BLAS there is in front of MLX's own. The first call decides, later ones repeat it.

    Intel's MKL if it is installed in this environment, else OpenBLAS of `cmeel-openblas`, else the system's
    OpenBLAS. $TOOLKIT_BLAS overrides: one of `NAMES`, or the path of a library with `cblas_sgemm`.

    Returns
    -------
    BlasChoice

    Raises
    ------
    ToolkitError
        If $TOOLKIT_BLAS names something that is not there or cannot be used.

    Warns
    -----
    BlasWarning
        If MLX was imported before, so that nothing can be changed, or no fast library was found.
    """
    choice = _preload_once()
    if choice.warning is not None:
        _warn_once(choice.warning)
    return choice


def quiet_threads() -> None:
    """Have OpenBLAS threads sleep between products, not spin on the cores that other work needs.

    OpenBLAS reads this when it is loaded, so NumPy's own is reached only by a call before `import numpy`.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")  # waits for 2^14 cycles; the default is 2^26


def measure_gflops(shape: tuple[int, int, int] = DECODE_SHAPE, seconds: float = 0.2) -> float:
    """Speed of a float32 matrix product through MLX on its default device.

    Parameters
    ----------
    shape : tuple of int
        Rows, inner and columns: (rows, inner) times the transpose of (columns, inner), as in a layer.
    seconds : float
        How long to measure.

    Returns
    -------
    float
        10^9 floating-point operations a second, of the fastest product.
    """
    preload()
    import mlx.core as mx

    rows, inner, columns = shape
    left = mx.random.normal((rows, inner))
    right = mx.random.normal((columns, inner))
    mx.eval(left @ right.T)  # the first call starts threads
    fastest = float("inf")
    end = time.perf_counter() + seconds
    while fastest == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        mx.eval(left @ right.T)
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * rows * inner * columns / fastest / 1e9


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, BlasWarning, stacklevel=3)


@functools.cache
def _preload_once() -> BlasChoice:
    if sys.platform != "linux":
        return BlasChoice("accelerate", None, None, False)
    late = "mlx.core" in sys.modules
    there = _library_of(PROBE)
    if there is not None and (not late or os.environ.get("LD_PRELOAD")):  # it comes before what is loaded now
        return BlasChoice("custom", there, _threads(ctypes.CDLL(None)), True)
    wanted = os.environ.get(VARIABLE, "")
    _refuse_unknown(wanted)
    if wanted == "none":
        return BlasChoice("reference", None, 1, False)
    if late:
        return BlasChoice("reference", None, 1, False, LATE)
    quiet_threads()
    return _first_that_loads(wanted)


def _refuse_unknown(wanted: str) -> None:
    if wanted and wanted not in NAMES and not Path(wanted).is_file():
        raise ToolkitError(
            f"{VARIABLE}={wanted}: no such library; "
            f"give one of {', '.join(NAMES)}, or the path of a BLAS library"
        )


def _first_that_loads(wanted: str) -> BlasChoice:
    """The first library of `_candidates` that can be used; a wanted one must."""
    reasons = []
    for name, path in _candidates(wanted):
        try:
            library = _load(name, path)
        except OSError as error:
            reasons.append(f"{path}: {error}")
        else:
            return BlasChoice(name, _library_of(PROBE), _threads(library), True)
    reason = "; ".join(reasons) or "none was found"
    if wanted:
        raise ToolkitError(
            f"{VARIABLE}={wanted}: cannot load this BLAS ({reason}); install it, or unset {VARIABLE}"
        )
    return BlasChoice("reference", None, 1, False, MISSING.format(reason))


def _candidates(wanted: str) -> Iterator[tuple[str, Path]]:
    """Names and files to try, the best first."""
    if wanted and wanted not in NAMES:
        yield "custom", Path(wanted).resolve()
        return
    files = {
        "mkl": sorted(Path(sysconfig.get_path("data"), "lib").glob("libmkl_rt.so*"), reverse=True),
        "openblas": _packaged("cmeel.prefix/lib/libopenblas.so.0"),
        "system": [Path("libopenblas.so.0")],  # a bare name: the loader knows the folders
    }
    for name, found in files.items():
        if wanted in ("", name):
            yield from ((name, file) for file in found)


def _packaged(pattern: str) -> list[Path]:
    """Files in the folders that packages are imported from."""
    return [file for folder in dict.fromkeys(sys.path) if folder for file in Path(folder).glob(pattern)]


def _load(name: str, path: Path) -> ctypes.CDLL:
    """Load a library for everybody. OSError if it cannot be, or is no cblas."""
    if name == "mkl":
        os.environ.setdefault("MKL_THREADING_LAYER", "GNU")
        if os.environ["MKL_THREADING_LAYER"] == "GNU":
            ctypes.CDLL("libgomp.so.1")  # MKL ends the process where it finds none
    try:
        library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    except OSError as error:
        if FORTRAN_RUNTIME not in str(error):
            raise
        _load_fortran_runtime()
        library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    if not hasattr(library, PROBE):
        raise OSError(f"it has no {PROBE}")
    return library


def _load_fortran_runtime() -> None:
    """Offer the Fortran runtime that another wheel carries, where the system has none.

    The wheels of MLX and NumPy bring it under a name of their own, and the loader goes by the name that is
    written in the file: so a copy in memory gets the usual one. OSError if no wheel has it.
    """
    carried = [file for folder in CARRIERS for file in _packaged(f"{folder}/libgfortran-*.so.5*")]
    if not carried:
        raise OSError(f"{FORTRAN_RUNTIME} is not installed; the system's package libgfortran5 has it")
    for needed in carried[0].parent.glob("libquadmath-*"):
        ctypes.CDLL(str(needed))
    given, usual = carried[0].name.encode(), FORTRAN_RUNTIME.encode()
    content = carried[0].read_bytes().replace(given + b"\0", usual.ljust(len(given) + 1, b"\0"))
    descriptor = os.memfd_create(FORTRAN_RUNTIME)
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(content)
        ctypes.CDLL(f"/proc/self/fd/{descriptor}", ctypes.RTLD_GLOBAL)
    finally:
        os.close(descriptor)


class _SymbolInfo(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _library_of(function: str) -> Path | None:
    """The file of the library that the whole process sees a function of; None if it sees none."""
    process = ctypes.CDLL(None)
    if not hasattr(process, function):
        return None
    address = ctypes.cast(getattr(process, function), ctypes.c_void_p)
    info = _SymbolInfo()
    found = process.dladdr(address, ctypes.byref(info))
    return Path(os.fsdecode(info.file)) if found and info.file else None


def _threads(library: ctypes.CDLL) -> int | None:
    for function in ("openblas_get_num_threads", "MKL_Get_Max_Threads"):
        if hasattr(library, function):
            return int(getattr(library, function)())
    return None
