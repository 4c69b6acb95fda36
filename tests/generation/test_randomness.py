import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.generation.randomness import uniforms


def test_known_keys_give_the_numbers_they_always_gave():
    assert uniforms(0, "a", 0, 3).tolist() == [0.4566090718547774, 0.17477469081851282, 0.12655090759507281]
    assert uniforms(2**63 - 1, "première question ✓", 41, 3).tolist() == [
        0.5110076654268852,
        0.4608562002262794,
        0.16940786987189627,
    ]


def philox(key, counter, mask=2**64 - 1):
    """Four words of Philox 4x64-10, after the paper."""
    for _ in range(10):
        low, high = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [
            (high >> 64) ^ counter[1] ^ key[0],
            high & mask,
            (low >> 64) ^ counter[3] ^ key[1],
            low & mask,
        ]
        key = [(key[0] + 0x9E3779B97F4A7C15) & mask, (key[1] + 0xBB67AE8584CAA73B) & mask]
    return counter


@given(st.integers(0, 2**63 - 1), st.text(), st.integers(0, 2**63 - 1))
def test_numbers_are_those_of_a_plain_philox(seed, prompt_id, sample_index):
    text = f"{seed}:{sample_index}:".encode() + prompt_id.encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    key = [int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")]
    words = philox(key, [1, 0, 0, 0]) + philox(key, [2, 0, 0, 0])
    assert uniforms(seed, prompt_id, sample_index, 8).tolist() == [(word >> 11) / 2**53 for word in words]


@given(st.integers(0, 2**63 - 1), st.text(), st.integers(0, 1000), st.integers(0, 40), st.integers(0, 40))
def test_fewer_numbers_are_a_prefix_of_more(seed, prompt_id, sample_index, n, more):
    long = uniforms(seed, prompt_id, sample_index, n + more)
    assert uniforms(seed, prompt_id, sample_index, n).tolist() == long[:n].tolist()


def test_numbers_fill_the_unit_interval_evenly():
    numbers = uniforms(7, "prompt", 3, 20_000)
    assert numbers.dtype == np.float64
    assert numbers.min() >= 0
    assert numbers.max() < 1
    # Kolmogorov and Smirnov's distance is under 1.63 / sqrt(n) in 99 of 100 streams.
    steps = np.arange(20_000) / 20_000
    assert np.abs(np.sort(numbers) - steps).max() < 1.63 / np.sqrt(20_000)


def test_keys_that_would_read_alike_have_streams_of_their_own():
    keys = [(1, "2:x", 3), (1, "x", 3), (13, "x", 2), (1, "3:2:x", 2), (12, "x", 3), (3, "x", 1), (1, "3", 3)]
    assert len({tuple(uniforms(seed, prompt, sample, 4)) for seed, prompt, sample in keys}) == len(keys)


def test_a_lone_surrogate_is_a_key_like_any_other():
    assert uniforms(0, "\ud800", 0, 1) != uniforms(0, "\ud801", 0, 1)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "0", None])
def test_a_seed_out_of_range_is_named(seed):
    with pytest.raises(ToolkitError, match=r"^seed: .*from 0 to 2\*\*63 - 1"):
        uniforms(seed, "a", 0, 1)


def test_a_negative_sample_index_is_named():
    with pytest.raises(ToolkitError, match=r"^sample_index: -1"):
        uniforms(0, "a", -1, 1)


def test_numpy_integers_are_integers():
    assert uniforms(np.int64(5), "a", np.int32(2), 2).tolist() == uniforms(5, "a", 2, 2).tolist()
