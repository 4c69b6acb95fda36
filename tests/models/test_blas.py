"""Each choice needs a process of its own: what is loaded stays, and MLX may be imported once."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from toolkit.models import blas

ROOT = Path(__file__).parents[2]
CMEEL = Path(sysconfig.get_path("platlib"), "cmeel.prefix/lib/libopenblas.so.0")

linux = pytest.mark.skipif(sys.platform != "linux", reason="MLX has its own fast BLAS elsewhere")

# Does MLX give the very bits of the library that was chosen?
SAME_BITS = """
import ctypes
import numpy as np
left = np.random.default_rng(0).normal(size=(32, 576)).astype(np.float32)
right = np.random.default_rng(1).normal(size=(576, 1536)).astype(np.float32)
import mlx.core as mx
ours = np.array(mx.array(left) @ mx.array(right))
theirs = np.zeros((32, 1536), np.float32)
pointer, size, real = (ctypes.c_void_p, ctypes.c_int, ctypes.c_float)
library.cblas_sgemm.argtypes = [size] * 6 + [real, pointer, size, pointer, size, real, pointer, size]
arrays = [array.ctypes.data for array in (left, right, theirs)]
library.cblas_sgemm(101, 111, 111, 32, 1536, 576, 1.0, arrays[0], 576, arrays[1], 1536, 0.0, arrays[2], 1536)
print(bool((ours == theirs).all()), bool(np.allclose(ours, theirs, atol=1e-3)))
"""


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process that has none of the settings of this one."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in (blas.VARIABLE, "LD_PRELOAD")
    }
    inherited.pop("OPENBLAS_THREAD_TIMEOUT", None)
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", script]
    return subprocess.run(
        command, cwd=ROOT, env=inherited | environment, capture_output=True, text=True, check=False
    )


def output_of(script: str, **environment: str) -> list[str]:
    done = python(script, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


PRELOAD = "from toolkit.models import blas; choice = blas.preload(); "


@linux
def test_mlx_computes_with_the_library_that_was_chosen():
    load = PRELOAD + "import ctypes; library = ctypes.CDLL(str(choice.path))\n"
    assert output_of(load + SAME_BITS, OPENBLAS_NUM_THREADS="1") == ["True", "True"]


@linux
def test_none_leaves_mlx_with_its_own():
    load = PRELOAD + f"library = blas._load('openblas', {str(CMEEL)!r})\n"
    script = "import mlx.core\n" + load + SAME_BITS
    same, near = output_of(script, OPENBLAS_NUM_THREADS="1", TOOLKIT_BLAS="none")
    assert (same, near) == ("False", "True")


@linux
def test_the_packaged_openblas_is_found_and_told():
    script = PRELOAD + "print(choice.name, choice.path, choice.preloaded, choice.warning, choice.threads)"
    assert output_of(script, TOOLKIT_BLAS="openblas", OPENBLAS_NUM_THREADS="1") == [
        "openblas",
        str(CMEEL),
        "True",
        "None",
        "1",
    ]


@linux
def test_a_path_is_taken_as_it_is():
    script = PRELOAD + "print(choice.name, choice.path)"
    assert output_of(script, TOOLKIT_BLAS=str(CMEEL)) == ["custom", str(CMEEL)]


@linux
def test_none_says_so():
    script = PRELOAD + "print(choice.name, choice.path, choice.preloaded, choice.warning)"
    assert output_of(script, TOOLKIT_BLAS="none") == ["reference", "None", "False", "None"]


@linux
@pytest.mark.parametrize("wanted", ["fast", "/no/such/libblas.so", __file__])
def test_a_wrong_choice_is_one_line(wanted):
    script = (
        "from toolkit.errors import ToolkitError\nfrom toolkit.models import blas\n"
        "try:\n    blas.preload()\nexcept ToolkitError as error:\n    print(error)"
    )
    done = python(script, TOOLKIT_BLAS=wanted)
    assert done.stdout.startswith(f"TOOLKIT_BLAS={wanted}: ")
    assert done.stdout.count("\n") == 1
    assert not done.stderr


@linux
def test_mlx_imported_before_is_warned_of_once():
    script = (
        "import warnings, mlx.core\nfrom toolkit.models import blas\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n    choice = blas.preload()\n    blas.preload()\n"
        "warning, = caught\n"
        "print(warning.category.__name__, choice.preloaded, choice.warning == str(warning.message))"
    )
    assert output_of(script) == ["BlasWarning", "False", "True"]


@linux
def test_its_threads_are_told_to_sleep_unless_the_user_says_otherwise():
    script = PRELOAD + "import os; print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    assert output_of(script) == ["14"]
    assert output_of(script, OPENBLAS_THREAD_TIMEOUT="20") == ["20"]


@linux
def test_it_loads_where_the_system_has_no_fortran_runtime():
    script = (
        "from toolkit.models import blas\nblas._load_fortran_runtime()\n"
        f"import ctypes; print(ctypes.CDLL({str(CMEEL)!r}).openblas_get_num_threads())"
    )
    assert output_of(script, OPENBLAS_NUM_THREADS="1") == ["1"]


def test_preload_repeats_its_choice():
    assert blas.preload() is blas.preload()


def test_importing_the_package_brings_neither_mlx_nor_numpy():
    script = "import sys, toolkit.models.blas; print('mlx' in sys.modules, 'numpy' in sys.modules)"
    assert output_of(script) == ["False", "False"]


def test_speed_is_a_positive_number():
    assert blas.measure_gflops((4, 8, 16), seconds=0.0) > 0
