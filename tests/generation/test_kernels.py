"""The compiled kernels and NumPy's, each against plain float64 formulas."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from toolkit.generation import kernels, threads
from toolkit.generation.compiled_math import compiled, exp
from toolkit.generation.distribution import Distribution
from toolkit.generation.row_passes import BLOCK, Workspace, n_blocks, n_maxima
from toolkit.generation.sampler import Sampler
from toolkit.generation.sampling import draw

pytestmark = pytest.mark.usefixtures("implementation")

RANDOM = np.random.default_rng(11)
SIZES = [1, 63, 64, 257, 1000, 5000]


@compiled(cache=False)  # else it would be kept with kernels that change
def exp_of_all(values, out):
    for i in range(values.size):
        out[i] = exp(values[i])


def logits_of(n_tokens: int, rows: int = 9) -> np.ndarray:
    return RANDOM.normal(0, 4, (rows, n_tokens)).astype(np.float32)


def moments_of(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    maxima = np.empty((len(logits), n_maxima(logits.shape[1])), np.float32)
    block_sums = np.empty((len(logits), n_blocks(logits.shape[1])), np.float32)
    sums = np.empty((len(logits), 5))
    with np.errstate(all="ignore"):
        kernels.mass_and_moments(logits, maxima, block_sums, sums, Workspace())
    return maxima, block_sums, sums


def gated(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    out = np.empty(gate.shape, np.float32)
    kernels.gated(gate, up, out)
    return out


def test_the_compiled_exponential_is_within_two_units_of_the_last_place() -> None:
    values = np.concatenate([np.linspace(-87, 88, 1_000_003), [0.0, -1e-30, 1e-8]]).astype(np.float32)
    found = np.empty_like(values)
    exp_of_all(values, found)
    expected = np.exp(values.astype(np.float64))
    assert np.max(np.abs(found / expected - 1)) < 2.0**-22
    exp_of_all(np.array([np.nan, -np.inf, np.inf], np.float32), ends := np.empty(3, np.float32))
    assert np.isnan(ends[0])
    np.testing.assert_allclose(ends[1:], np.exp([-87.0, 88.0]), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (7, 33), (40, 1536)])
def test_gated(shape: tuple[int, ...]) -> None:
    gate, up = (RANDOM.normal(0, 6, shape).astype(np.float32) for _ in range(2))
    gate.flat[:4] = [-200, -88, 0, 200][: gate.size]
    with np.errstate(over="ignore"):
        expected = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64))) * up
    np.testing.assert_allclose(gated(gate, up), expected, rtol=3e-6, atol=1e-7)


def test_gated_of_a_view_and_of_what_is_not_finite() -> None:
    wide = RANDOM.normal(0, 2, (6, 20)).astype(np.float32)
    wide[0, 0] = np.nan
    gate, up = wide[:, :10], wide[:, 10:]
    found = gated(gate, up)
    assert np.isnan(found[0, 0])
    with np.errstate(over="ignore"):
        expected = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64))) * up
    np.testing.assert_allclose(found.flat[1:], expected.flat[1:], rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("n_tokens", SIZES)
def test_mass_and_moments(n_tokens: int) -> None:
    logits = logits_of(n_tokens)
    maxima, block_sums, sums = moments_of(logits)
    np.testing.assert_array_equal(maxima.max(axis=1), logits.max(axis=1))
    assert set(maxima.ravel()) <= set(logits.ravel())
    y = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    weights = np.exp(y)
    for block in range(n_blocks(n_tokens)):
        of_block = weights[:, block * BLOCK : (block + 1) * BLOCK].sum(axis=1)
        np.testing.assert_allclose(block_sums[:, block], of_block, rtol=2e-6)
    expected = [y, weights * y, weights * y * y, np.exp(y / 2), np.exp(y / 4)]
    np.testing.assert_allclose(sums, np.stack([one.sum(axis=1) for one in expected], 1), rtol=1e-5, atol=1e-6)


def test_masked_tokens_have_no_mass_and_leave_the_products_finite() -> None:
    logits = logits_of(600)
    logits[:, ::3] = -np.inf
    logits[1, 1:] = -np.inf
    logits[1, 0] = 2.5
    _, block_sums, sums = moments_of(logits)
    with np.errstate(invalid="ignore"):
        weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(block_sums.sum(axis=1), weights.sum(axis=1), rtol=2e-6)
    assert (sums[:, 0] == -np.inf).all()
    assert np.isfinite(sums[:, 1:]).all()
    np.testing.assert_allclose(sums[1, 1:3], 0, atol=1e-30)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_shows_and_its_neighbours_do_not_change(value: float) -> None:
    logits = logits_of(300)
    before = moments_of(logits)
    logits[4, 17] = value
    after = moments_of(logits)
    assert not np.isfinite(after[0][4]).all() or not np.isfinite(after[2][4]).all()
    others = np.arange(len(logits)) != 4
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[others], new[others])


@pytest.mark.parametrize("n_tokens", [1, 5, 63, 64, 257, 1000, 5000])
@pytest.mark.parametrize("kind", ["plain", "ties", "masked", "one value", "nearly all masked"])
def test_the_largest_logits_equal_ones_by_rising_id(n_tokens: int, kind: str) -> None:
    logits = logits_of(n_tokens)
    if kind == "ties":
        logits = np.round(logits)
    elif kind == "masked":
        logits[:, ::3] = -np.inf
    elif kind == "one value":
        logits[:] = 2
    elif kind == "nearly all masked":
        logits[:, n_tokens // 3 + 1 :] = -np.inf
        logits[:, : n_tokens // 3] = -np.inf
    order = np.lexsort((np.broadcast_to(np.arange(n_tokens), logits.shape), -logits), axis=1)
    distribution = Distribution.of(logits)
    for k in (1, 5, 32, 201):
        ids, values = distribution.top(k)
        np.testing.assert_array_equal(ids, order[:, :k])
        np.testing.assert_array_equal(values, np.take_along_axis(logits, order[:, :k], 1))


@pytest.mark.parametrize("temperature", [1.0, 0.4, 3.0])
@pytest.mark.parametrize("n_tokens", [1, 255, 256, 257, 1000])
def test_a_draw_inverts_the_cumulative_distribution(n_tokens: int, temperature: float) -> None:
    logits = logits_of(n_tokens, rows=300)
    logits[::2, ::3] = -np.inf
    logits[:, -1] = np.maximum(logits[:, -1], -3)  # some mass in every row
    uniforms = RANDOM.random(300)
    uniforms[:3] = 0, 1 - 2**-53, 0.5
    if n_tokens > 512:  # no mass in the first block
        logits[3, :300], uniforms[3] = -np.inf, 0
    drawn = draw(Distribution.of(logits), Sampler(temperature), uniforms).token_ids
    y = (logits.astype(np.float64) - logits.max(axis=1, keepdims=True)) / temperature
    running = np.exp(y).cumsum(axis=1)
    running /= running[:, -1:]
    rows = np.arange(300)
    before = np.where(drawn > 0, running[rows, drawn - 1], 0)
    assert (before - 1e-5 <= uniforms).all()
    assert (uniforms <= running[rows, drawn] + 1e-5).all()
    assert np.isfinite(logits[rows, drawn]).all()
    expected = (running <= uniforms[:, None]).sum(axis=1)
    assert (drawn == expected).mean() > 0.99


@pytest.mark.parametrize("temperature", [0.3, 1.7])
def test_mass_at_a_temperature(temperature: float) -> None:
    logits = logits_of(700)
    block_sums = np.empty((len(logits), n_blocks(700)), np.float32)
    kernels.mass(logits, logits.max(axis=1), temperature, block_sums, Workspace())
    y = (logits.astype(np.float64) - logits.max(axis=1, keepdims=True)) / temperature
    np.testing.assert_allclose(block_sums.sum(axis=1), np.exp(y).sum(axis=1), rtol=1e-5)


def test_count_above() -> None:
    logits = np.round(logits_of(500), 1)  # with ties
    values = logits[:, 3].copy()
    found = kernels.count_above(logits, values, Workspace())
    np.testing.assert_array_equal(found, (logits > values[:, None]).sum(axis=1))
    assert (kernels.count_above(logits, np.full(9, np.nan, np.float32), Workspace()) == 0).all()


@pytest.mark.parametrize("n_tokens", [1, 500, 2048, 5000])
@pytest.mark.parametrize("width", [0, 1, 26])
def test_count_above_each(n_tokens: int, width: int) -> None:
    logits = np.round(logits_of(n_tokens), 1)
    logits[:, ::5] = -np.inf
    values = logits[:, RANDOM.integers(0, n_tokens, width)]
    found = kernels.count_above_each(logits, values, Workspace())
    np.testing.assert_array_equal(found, (logits[:, None] > values[:, :, None]).sum(axis=2))
    nothing = np.full((9, width), np.nan, np.float32)
    assert not kernels.count_above_each(logits, nothing, Workspace()).any()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = logits_of(900, rows=40)
    gate = logits_of(4096, rows=32)
    values = logits[:, :3].copy()
    counted = kernels.count_above_each(logits, values, Workspace())
    alone = moments_of(logits), gated(gate, gate)
    monkeypatch.setattr(kernels, "n_threads", lambda: n)
    together = moments_of(logits), gated(gate, gate)
    np.testing.assert_array_equal(counted, kernels.count_above_each(logits, values, Workspace()))
    for one, other in zip((*alone[0], alone[1]), (*together[0], together[1]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_error_in_any_thread_is_raised() -> None:
    def fail() -> None:
        raise ValueError("here")

    for jobs in ([fail, lambda: None], [lambda: None, fail]):
        with pytest.raises(ValueError, match="here"):
            threads.run_together(jobs)


def test_threads_are_as_many_as_a_person_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 6)
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert threads.n_threads() == 6
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "wrong")
    assert threads.n_threads() == 2


def test_without_compilation_numpy_serves() -> None:
    code = "from toolkit.generation import kernels; print(kernels.can_compile())"
    found = {
        value: subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_DISABLE_JIT": value},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for value in ("0", "1")
    }
    assert found == {"0": "True", "1": "False"}
