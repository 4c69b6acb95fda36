"""Both batches against reading each row's text at once, while rows come, go, are replaced and copied."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.generation.networks import CONFIGS, TOLERANCE, VOCABULARY, make_network, read_at_once
from toolkit.generation.backend import choose_batch
from toolkit.generation.forward import Forward
from toolkit.generation.library_batch import LibraryBatch
from toolkit.generation.shared_prefix import SharedPrefixBatch

PLAIN = ["llama", "llama_untied", "qwen2"]  # networks whose layers all keep plain keys and values
CASES = [(SharedPrefixBatch, name) for name in PLAIN] + [(LibraryBatch, name) for name in CONFIGS]


class Rows:
    """A batch and, beside it, the whole text of each row."""

    def __init__(self, batch, network, seed: int = 0, tolerance: float = 2e-4) -> None:
        self.batch = batch
        self.tolerance = tolerance
        self.network = network
        self.texts: list[list[int]] = []
        self.random = np.random.default_rng(seed)

    def prompt(self, length: int):
        ids = self.random.integers(1, VOCABULARY, length).tolist()
        handle, logits = self.batch.prefill(ids)
        expected = read_at_once(self.network, ids)[-1]
        np.testing.assert_allclose(np.array(logits)[0], expected, atol=self.tolerance)
        return ids, handle

    def admit(self, lengths: list[int], samples: int = 1) -> None:
        new = [self.prompt(length) for length in lengths for _ in [0]]
        members = [member for member in new for _ in range(samples)]
        self.batch.admit([handle for _, handle in members])
        self.texts += [list(ids) for ids, _ in members]

    def replace(self, rows: list[int], lengths: list[int]) -> None:
        new = [self.prompt(length) for length in lengths]
        self.batch.replace(rows, [handle for _, handle in new])
        for row, (ids, _) in zip(rows, new, strict=True):
            self.texts[row] = list(ids)

    def select(self, rows: list[int]) -> None:
        self.batch.select(rows)
        self.texts = [list(self.texts[row]) for row in rows]

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            ids = self.random.integers(1, VOCABULARY, len(self.texts)).tolist()
            logits = self.batch.step(ids)
            mx.eval(logits)
            for text, token in zip(self.texts, ids, strict=True):
                text.append(token)
            expected = np.stack([read_at_once(self.network, text)[-1] for text in self.texts])
            np.testing.assert_allclose(np.array(logits), expected, atol=self.tolerance)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_rows_that_come_and_go_equal_reading_at_once(kind, name: str) -> None:
    network = make_network(name)
    rows = Rows(kind(Forward(network), 12), network, tolerance=TOLERANCE[name])
    rows.admit([5, 1, 12], samples=2)
    rows.step(3)
    rows.replace([1, 4], [7, 3])
    rows.step(2)
    rows.admit([9])
    rows.step(2)
    rows.select([6, 1, 2, 3, 5])
    rows.step(2)
    rows.replace([0], [30])  # longer than what the others hold
    rows.step(3)
    rows.select([0, 0, 2, 2, 4])  # as a beam search does
    rows.step(2)
    rows.select([3])
    rows.step(1)
    rows.select([])
    rows.admit([3, 4])
    rows.step(2)


@pytest.mark.parametrize(("kind", "name"), [(SharedPrefixBatch, "llama"), (LibraryBatch, "llama")])
def test_a_long_run_of_replaced_rows_stays_exact(kind, name: str) -> None:
    network = make_network(name)
    rows = Rows(kind(Forward(network), 3), network, seed=1)
    rows.admit([4, 6, 5])
    for turn in range(30):  # the library's caches pad more with each, and are cut now and then
        rows.step(4)
        rows.replace([turn % 3], [3 + turn % 5])
    rows.step(1)


def test_a_prompt_longer_than_a_prefill_chunk() -> None:
    network = make_network("llama")
    rows = Rows(SharedPrefixBatch(Forward(network), 2), network)
    rows.admit([300], samples=2)
    rows.step(2)


def test_own_positions_in_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.generation.shared_prefix.KEY_BLOCK", 4)
    network = make_network("llama")
    rows = Rows(SharedPrefixBatch(Forward(network), 3), network)
    rows.admit([3], samples=3)
    rows.step(7)
    rows.replace([1], [5])
    rows.step(4)
    rows.select([2, 1, 2])
    rows.step(3)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_caches_share_their_prefix_on_the_cpu(name: str) -> None:
    assert isinstance(choose_batch(Forward(make_network(name)))(2), SharedPrefixBatch)


def test_other_caches_are_the_librarys() -> None:
    assert isinstance(choose_batch(Forward(make_network("llama_sliding")))(2), LibraryBatch)


def test_the_patched_functions_are_put_back() -> None:
    from mlx_lm.models import llama
    from mlx_lm.models.activations import swiglu
    from mlx_lm.models.base import scaled_dot_product_attention

    network = make_network("llama")
    Rows(SharedPrefixBatch(Forward(network), 2), network).admit([5])
    assert llama.swiglu is swiglu
    assert llama.scaled_dot_product_attention is scaled_dot_product_attention
