"""The batch grows while measured rates do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolkit.generation import row_memory
from toolkit.generation.row_limits import FIRST_ROWS, MOST_ROWS, N_STEPS, FixedRows, GrowingRows


def run(limit: GrowingRows, seconds: Callable[[int], float], n_steps: int = 200) -> None:
    for _ in range(n_steps):
        limit.observe(limit.now, seconds(limit.now))


def test_it_grows_to_the_most_where_more_rows_cost_nothing() -> None:
    limit = GrowingRows(1000)
    assert limit.now == FIRST_ROWS
    run(limit, lambda rows: 0.5)
    assert limit.now == limit.most == 1000


def test_it_goes_back_where_a_doubling_gained_nothing() -> None:
    limit = GrowingRows(1000)
    run(limit, lambda rows: max(0.5, rows / 256 * 0.5))
    assert limit.now == 256


def test_it_stays_where_rows_cost_in_proportion() -> None:
    limit = GrowingRows(1000)
    run(limit, lambda rows: rows * 0.01)
    assert limit.now == FIRST_ROWS


def test_steps_that_are_not_full_say_nothing() -> None:
    limit = GrowingRows(1000)
    for _ in range(100):
        limit.observe(FIRST_ROWS - 1, 0.1)
    assert limit.now == FIRST_ROWS


def test_one_slow_step_does_not_decide() -> None:
    limit = GrowingRows(FIRST_ROWS * 2)
    for i in range(N_STEPS):
        limit.observe(FIRST_ROWS, 50.0 if i == 3 else 0.5)
    assert limit.now == FIRST_ROWS * 2


def test_the_most_is_never_exceeded() -> None:
    for most in (1, 5, FIRST_ROWS, FIRST_ROWS + 1):
        limit = GrowingRows(most)
        run(limit, lambda rows: 0.5)
        assert limit.now == most
    fixed = FixedRows(7)
    fixed.observe(7, 1.0)
    assert (fixed.now, fixed.most) == (7, 7)


@pytest.mark.parametrize(("free", "expected"), [(None, MOST_ROWS), (0, 1), (10**15, MOST_ROWS)])
def test_rows_in_memory(tiny_model, monkeypatch: pytest.MonkeyPatch, free: int | None, expected: int) -> None:
    monkeypatch.setattr(row_memory, "free_device_bytes", lambda: free)
    assert row_memory.most_rows(tiny_model.network, 100) == expected


def test_a_row_s_bytes_are_its_keys_values_logits_and_statistics(
    tiny_model, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = tiny_model.network
    args = network.args
    head = args.head_dim or args.hidden_size // args.num_attention_heads
    kv = args.num_hidden_layers * 2 * args.num_key_value_heads * head * 4
    one = row_memory.row_bytes(network, 1000)
    assert one == 1000 * (kv + row_memory.TOKEN_BYTES) + args.vocab_size * 4 * row_memory.LOGITS_COPIES
    monkeypatch.setattr(row_memory, "free_device_bytes", lambda: 10 * one)
    assert row_memory.most_rows(network, 1000) == 5
    assert row_memory.most_rows(network, 1000, share=0.25) == 2
