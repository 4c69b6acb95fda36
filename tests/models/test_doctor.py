import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.models.gguf_writer import Shape, llama_metadata, llama_tensors, write_gguf
from toolkit.cli.main import main
from toolkit.models import blas, doctor, selftest
from toolkit.models.gguf_import import import_gguf
from toolkit.models.selftest import Check

CASES = Path(__file__).parents[1] / "cases"
SHAPE = Shape()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A models folder whose default model is a tiny random llama."""
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path / "models"))
    file = write_gguf(
        tmp_path / "tiny.gguf", llama_metadata(SHAPE), llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1"))
    )
    return import_gguf(file, tmp_path / "models" / "SmolLM2-135M-Instruct")


@pytest.fixture
def quick(monkeypatch):
    """No measuring; the speed that the test sets."""
    speeds = SimpleNamespace(gflops=150.0)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
    monkeypatch.setattr(blas, "measure_gflops", lambda *args: speeds.gflops)
    return speeds


def by_topic(findings) -> dict:
    return {finding.topic: finding for finding in findings}


def test_everything_that_a_bug_report_needs_is_found(folder, quick):
    found = by_topic(doctor.examine())
    topics = {"toolkit", "system", "device", "blas", "gflops_decode", "gflops_prefill", "memory_free"}
    assert topics | {"default_model", "dtype", "python", *doctor.PACKAGES} <= found.keys()
    assert found["blas"].value == blas.preload().name
    assert found["gflops_decode"].value == 150.0
    assert found["default_model"].value is True
    assert found["dtype"].value == "float32"
    assert found["mlx"].value == __import__("importlib.metadata").metadata.version("mlx")


def test_a_missing_model_is_told_with_what_to_do(tmp_path, monkeypatch, quick):
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path))
    found = by_topic(doctor.examine())
    assert found["default_model"].value is False
    assert "toolkit model fetch" in found["default_model"].advice
    assert "dtype" not in found


def test_without_mlx_the_rest_is_still_told(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path))
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = by_topic(doctor.examine())
    assert found["device"].value is None
    assert "extra cpu" in found["device"].advice
    assert found["numpy"].value


@pytest.mark.parametrize(
    ("choice", "device", "named"),
    [
        (blas.BlasChoice("reference", None, 1, False, blas.LATE), "cpu", "imported before"),
        (blas.BlasChoice("reference", None, 1, False), "cpu", "unset TOOLKIT_BLAS"),
        (blas.BlasChoice("openblas", Path("a"), 1, True), "cpu", "OPENBLAS_NUM_THREADS"),
        (blas.BlasChoice("openblas", Path("a"), 8, True), "cpu", None),
        (blas.BlasChoice("accelerate", None, None, False), "cpu", None),
        (blas.BlasChoice("reference", None, 1, False), "gpu", None),
    ],
)
def test_a_slow_blas_is_explained(monkeypatch, choice, device, named):
    monkeypatch.setattr(doctor, "usable_cores", lambda: 8)
    advice = doctor.blas_advice(choice, device)
    assert advice is None if named is None else named in advice


def test_a_fast_library_that_is_slow_is_explained(folder, quick):
    quick.gflops = 3.0
    assert "3 GFLOP/s is little" in by_topic(doctor.examine())["gflops_decode"].advice


def test_compiled_kernels_or_why_not(monkeypatch):
    assert doctor.kernels().value == "compiled"
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert "unset NUMBA_DISABLE_JIT" in doctor.kernels().advice
    monkeypatch.setitem(sys.modules, "numba", None)
    found = doctor.kernels()
    assert found.value == "numpy"
    assert "pip install numba" in found.advice


def test_cores_that_others_use_are_told(folder, quick, monkeypatch):
    monkeypatch.setattr(doctor, "usable_cores", lambda: 4)
    for load, named in ((3.0, None), (9.5, "9.5 programs want 4 cores")):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        found = by_topic(doctor.examine())["load"]
        assert found.value == load
        assert found.advice is None if named is None else named in found.advice


def test_weights_that_stay_slow_are_explained(folder, quick, monkeypatch):
    monkeypatch.setattr("toolkit.models.precision.free_memory_bytes", lambda: 1000)
    dtype = by_topic(doctor.examine())["dtype"]
    assert dtype.value == "float32"
    assert "as they are stored" in dtype.text
    assert "slow on a CPU" in dtype.advice


def test_the_command_prints_findings_and_advice(folder, quick, capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "150 GFLOP/s in a float32 product of 32 × 576 × 1536" in out
    assert "Nothing is slow or missing here." in out
    quick.gflops = 3.0
    assert main(["doctor"]) == 0
    assert "Slow or missing here:\n- 3 GFLOP/s" in capsys.readouterr().out


def test_the_command_has_a_machine_form(folder, quick, capsys):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["topic"] for finding in findings} >= {"blas", "device", "mlx-lm"}


def test_a_model_that_computes_something_else_fails_the_selftest(folder, quick, capsys):
    assert main(["doctor", "--selftest"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("selftest FAILED: ")
    assert "150.0 GFLOP/s" in last
    assert main(["doctor", "--selftest", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["checks"][0]["passed"] is False


def test_a_check_that_raises_has_failed_and_the_next_one_runs():
    def check_broken(model):
        raise ValueError("some reason")

    def check_sound(model):
        return Check("sound", True, "fine")

    checks = selftest.run_checks(None, [check_broken, check_sound])
    assert checks == [Check("broken", False, "ValueError: some reason"), Check("sound", True, "fine")]


def test_the_packaged_values_are_those_of_the_cases():
    packaged = selftest.known_values()
    tokenization = json.loads((CASES / "tokenization.json").read_text(encoding="utf-8"))
    logprobs = json.loads((CASES / "logprobs.json").read_text(encoding="utf-8"))
    assert packaged["tokenization"] == tokenization
    assert packaged["logprobs"] == [
        {key: case[key] for key in ("text", "ids", "logprobs", "entropy")} for case in logprobs
    ]


@pytest.mark.model
def test_the_default_models_log_probabilities_are_the_known_ones(model):
    for case in json.loads((CASES / "logprobs.json").read_text(encoding="utf-8")):
        logprobs = selftest.all_logprobs(model, case["ids"])
        chosen = logprobs[np.arange(len(logprobs)), case["ids"][1:]]
        np.testing.assert_allclose(chosen, case["logprobs"], atol=2e-4)
        np.testing.assert_allclose(-(np.exp(logprobs) * logprobs).sum(axis=1), case["entropy"], atol=2e-4)


KNOWN = (selftest.check_tokens, selftest.check_logprobs)


@pytest.mark.model
def test_a_small_change_of_a_weight_fails_the_selftest(model, monkeypatch):
    known = selftest.known_values()
    monkeypatch.setattr(selftest, "known_values", lambda: known | {"logprobs": known["logprobs"][:1]})
    norm = model.network.model.norm
    before = norm.weight
    try:
        for factor, passes in ((1.0, True), (1.001, False), (float("nan"), False)):
            norm.weight = before * factor
            assert [check.passed for check in selftest.run_checks(model, KNOWN)] == [True, passes]
    finally:
        norm.weight = before
