"""A network's step in our kernels against MLX's own, and which networks it is for."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from toolkit.generation import backend, native, threads
from toolkit.generation.backend import choose_batch
from toolkit.generation.compiled_attention import gated_rows, normalise
from toolkit.generation.compiled_vector_products import SHAPE
from toolkit.generation.forward import Forward
from toolkit.generation.shared_prefix import SharedPrefixBatch
from toolkit.tile_unit import SWITCH

from .networks import make_network

pytestmark = pytest.mark.skipif(SHAPE is None, reason="a processor without fused multiply-add")


def native_forward(network: Any) -> Forward:
    forward = Forward(network)
    forward.make_native()
    return forward


def logits_of(forward: Forward) -> list[np.ndarray]:
    """Of several steps of rows that continue two prompts, with a row replaced and one dropped."""
    batch = SharedPrefixBatch(forward, 5)
    (one, first), (other, _) = batch.prefill([3, 1, 4, 1, 5]), batch.prefill([9, 2])
    batch.admit([one, other, one])
    found = [np.array(first), np.array(batch.step([9, 2, 6]))]
    for i in range(70):  # past one block of own positions
        logits = batch.step([i % 40, (7 * i) % 40, 5])
        found += [np.array(logits)] if i % 23 == 0 else []
    batch.replace([1], [one])
    found.append(np.array(batch.step([5, 3, 5])))
    batch.select([2, 0])
    found.append(np.array(batch.step([8, 9])))
    return found


@pytest.fixture(params=["1", "0"])
def tile_unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the processor's tile unit, where it has one, and without."""
    monkeypatch.setenv(SWITCH, request.param)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_its_logits_are_those_of_mlx(
    bias: bool, n_threads: int, tile_unit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "MIN_WORK", 1)
    monkeypatch.setattr(threads, "n_threads", lambda: n_threads)
    monkeypatch.setattr(threads, "_pool", functools.cache(lambda: ThreadPoolExecutor(2)))
    network = make_network("llama")
    if bias:
        mx.random.seed(1)
        for _, part in network.named_modules():
            if type(part) is nn.Linear and part.weight.shape[0] % 2 == 0:
                part.bias = mx.random.normal((part.weight.shape[0],))
    forward = native_forward(network)
    assert forward.native is not None
    for ours, theirs in zip(logits_of(forward), logits_of(Forward(network)), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=3e-4)


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 47, 48, 49, 128, 129, 300])
def test_a_prompt_of_any_length_is_read_as_by_mlx(length: int, tile_unit: None) -> None:
    network = make_network("llama")
    ids = [(7 * i + i // 5) % 40 for i in range(length)]
    batches = [SharedPrefixBatch(forward, 3) for forward in (native_forward(network), Forward(network))]
    (ours, our_logits), (theirs, their_logits) = [batch.prefill(ids) for batch in batches]
    np.testing.assert_allclose(np.array(our_logits), np.array(their_logits), atol=3e-4)
    for pair, expected in zip(ours.layers, theirs.layers, strict=True):
        for found, wanted in zip(pair, expected, strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, atol=3e-4)
    for batch, prompt in zip(batches, (ours, theirs), strict=True):
        batch.admit([prompt] * 3)
    found, wanted = (np.array(batch.step([1, 2, 3])) for batch in batches)
    np.testing.assert_allclose(found, wanted, atol=3e-4)
    found, wanted = (
        np.concatenate([*map(np.array, b.read(p, [5, 6, 7], 2))])
        for b, p in zip(batches, (ours, theirs), strict=True)
    )
    np.testing.assert_allclose(found, wanted, atol=3e-4)


def test_logits_are_computed_of_the_last_position_only(monkeypatch: pytest.MonkeyPatch) -> None:
    network = native_forward(make_network("llama")).native
    assert network is not None
    rows, room = [], network._room_for_logits
    monkeypatch.setattr(network, "_room_for_logits", lambda n: rows.append(n) or room(n))
    network.read(np.arange(2 * native.CHUNK + 5) % 40)
    assert rows == [0, 0, 1]


def test_a_text_is_the_same_however_many_threads_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = native_forward(make_network("llama"))
    assert forward.native is not None
    ids = np.arange(200) % 40
    monkeypatch.setattr(native, "MIN_WORK", 1)
    monkeypatch.setattr(threads, "_pool", functools.cache(lambda: ThreadPoolExecutor(2)))
    found = []
    for n in (1, 2, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n: n)
        text, logits = forward.native.read(ids)
        found.append([np.array(logits), *(one for layer in text.layers() for one in layer)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_row_s_bits_depend_on_neither_the_rows_beside_it_nor_threads(
    tile_unit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = native_forward(make_network("llama"))

    def rows_of(members: list[int]) -> np.ndarray:
        batch = SharedPrefixBatch(forward, 20)
        prompts = [batch.prefill([3, 1, 4])[0], batch.prefill([9] * 12)[0]]
        batch.admit([prompts[i % 2] for i in members])
        for t in range(4):
            logits = batch.step([(5 * i + t) % 40 for i in members])
        return np.array(logits)

    together = rows_of(list(range(19)))
    for members in ([4], [17, 2, 3], list(range(5, 18))):
        np.testing.assert_array_equal(rows_of(members), together[members])
    monkeypatch.setattr(native, "MIN_WORK", 1)
    monkeypatch.setattr(threads, "n_threads", lambda: 2)
    np.testing.assert_array_equal(rows_of(list(range(19))), together)


@pytest.mark.parametrize("kind", ["gemma3", "mamba", "falcon_h1", "qwen3_next"])
def test_a_network_with_other_parts_is_left_to_mlx(kind: str) -> None:
    assert native_forward(make_network(kind)).native is None


def test_a_network_that_computes_something_else_with_the_same_parts_is_left_to_mlx(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "on_cpu", lambda: True)
    network = make_network("llama")
    plain = Forward(network)
    choose_batch(plain)
    assert plain.native is not None
    for block in network.model.layers:
        block.self_attn.scale *= 3  # as the library computes
    made = native.NativeNetwork.of

    def of(*given: Any) -> native.NativeNetwork:
        found = made(*given)
        assert found is not None
        found.network = found.network._replace(scale=0.01)
        return found

    monkeypatch.setattr(native.NativeNetwork, "of", of)
    changed = Forward(network)
    choose_batch(changed)
    assert changed.native is None


@pytest.mark.parametrize("change", ["scale", "rope"])
def test_blocks_that_are_not_alike_are_left_to_mlx(change: str) -> None:
    network = make_network("llama")
    attention = network.model.layers[-1].self_attn
    if change == "scale":
        attention.scale *= 2
    else:
        attention.rope.base *= 2
    assert native_forward(network).native is None


def test_half_precision_and_quantised_weights_are_left_to_mlx() -> None:
    network = make_network("llama")
    network.set_dtype(mx.bfloat16)
    assert native_forward(network).native is None


def test_a_copy_that_does_not_fit_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network("llama")
    monkeypatch.setattr(native, "free_memory_bytes", lambda: 1000)
    assert native_forward(network).native is None
    monkeypatch.setattr(native, "free_memory_bytes", lambda: None)
    assert native_forward(network).native is not None
    monkeypatch.setattr(native, "can_compile", lambda: False)
    assert native_forward(network).native is None


def test_norm_and_activation_of_rows() -> None:
    random = np.random.default_rng(0)
    rows, weight = random.normal(0, 2, (7, 33)).astype(np.float32), random.normal(1, 1, 33).astype(np.float32)
    out = np.empty_like(rows)
    normalise(rows, weight, 1e-5, out)
    exact = rows.astype(np.float64)
    expected = exact / np.sqrt((exact**2).mean(axis=1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)
    both = random.normal(0, 5, (4, 20)).astype(np.float32)
    active = np.empty((4, 10), np.float32)
    gated_rows(both, active)
    gate, up = both[:, :10].astype(np.float64), both[:, 10:]
    np.testing.assert_allclose(active, gate / (1 + np.exp(-gate)) * up, rtol=3e-6, atol=1e-7)
