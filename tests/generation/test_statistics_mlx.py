import math

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from toolkit.errors import ToolkitError  # noqa: E402
from toolkit.generation import statistics, statistics_mlx  # noqa: E402
from toolkit.generation.sampling import Sampler  # noqa: E402

from . import reference  # noqa: E402
from .test_sampling import BOTH_ORDERS, settings_of  # noqa: E402
from .test_statistics import KINDS, assert_described, make, tokens_of  # noqa: E402

TOLERANCE = 2e-4
SIZES = [1, 2, 19, 65, 201, 300, 5000]


def step(logits, *arguments, **named):
    return statistics_mlx.step(mx.array(logits), *arguments, **named)


def assert_equal(found, expected, tolerance=TOLERANCE):
    for name in expected._fields:
        own, other = getattr(found, name), getattr(expected, name)
        assert own.dtype == other.dtype, name
        assert own.shape == other.shape, name
        if other.dtype == np.int32:
            assert own.tolist() == other.tolist(), name
        else:
            assert own == pytest.approx(other, abs=tolerance, rel=1e-6, nan_ok=True), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_tokens", SIZES)
def test_every_statistic_equals_numpys_and_a_plain_loop(n_tokens, kind):
    logits = make(kind, n_tokens)
    chosen = np.array(tokens_of(logits))
    rows = np.tile(logits, (len(chosen), 1))
    _, found = step(rows, Sampler(), np.zeros(len(chosen)), forced_ids=chosen)
    _, expected = statistics.step(rows, Sampler(), np.zeros(len(chosen)), forced_ids=chosen)
    assert_equal(found, expected)
    for row, token in enumerate(chosen):
        assert_described(logits, token, found, row, tolerance=TOLERANCE, relative=1e-6)


def test_a_full_vocabulary_keeps_to_the_tolerance():
    rows = np.stack([make("normal", 49_152), make("peaked", 49_152), make("flat_head", 49_152)])
    forced = np.array([7, 30_000, 49_151])
    _, found = step(rows, Sampler(), np.zeros(3), forced_ids=forced)
    _, expected = statistics.step(rows, Sampler(), np.zeros(3), forced_ids=forced)
    assert_equal(found, expected)


@pytest.mark.parametrize("sampler", [*BOTH_ORDERS, Sampler(0), Sampler(top_k=1)], ids=str)
@pytest.mark.parametrize("n_tokens", [1, 2, 65, 700])
def test_a_draw_inverts_the_cumulative_distribution(n_tokens, sampler):
    uniforms = np.array([0, 1e-7, 0.1, 0.33, 0.5, 0.77, 0.99, 1 - 2**-53])
    logits = make("normal", n_tokens)
    ids, found = step(np.tile(logits, (8, 1)), sampler, uniforms)
    if sampler.is_greedy:
        assert ids.tolist() == [logits.argmax()] * 8
        assert found.sampling_logprob.tolist() == [0] * 8
        return
    p = reference.probabilities(logits, sampler.temperature, **settings_of(sampler))
    ends = np.cumsum(p)
    for u, token, logprob in zip(uniforms, ids, found.sampling_logprob, strict=True):
        assert p[token] > 0
        assert ends[token] - p[token] - 1e-5 <= u <= ends[token] + 1e-5
        assert logprob == pytest.approx(math.log(p[token]), abs=1e-4)


@pytest.mark.parametrize("step_size", [0.5, 2.0])
@pytest.mark.parametrize("sampler", BOTH_ORDERS, ids=str)
def test_filters_keep_what_a_plain_implementation_keeps_among_ties(sampler, step_size):
    logits = (np.round(make("normal", 90) / step_size) * step_size).astype(np.float32)
    rows = np.tile(logits, (90, 1))
    _, found = step(rows, sampler, np.zeros(90), forced_ids=np.arange(90), score_sampling=True)
    expected = reference.kept(logits, sampler.temperature, **settings_of(sampler))
    assert np.flatnonzero(np.isfinite(found.sampling_logprob)).tolist() == sorted(expected)


def test_equal_logits_are_listed_by_rising_id_and_the_lowest_is_greedy():
    logits = np.zeros((1, 5000), np.float32)
    assert step(logits, Sampler(0), np.zeros(1))[1].alternative_ids.tolist() == [[0, 1, 2, 3, 4]]
    logits[0, [70, 4000, 9]] = 1
    ids, found = step(logits, Sampler(0), np.zeros(1), n_alternatives=6)
    assert found.alternative_ids.tolist() == [[9, 70, 4000, 0, 1, 2]]
    assert ids.tolist() == [9]
    logits[0, 3999] = 2  # whose neighbour is not to come with it
    assert step(logits, Sampler(0), np.zeros(1))[1].alternative_ids.tolist() == [[3999, 9, 70, 4000, 0]]


@pytest.mark.parametrize("n_alternatives", [0, 1, 40, 250, 400])
def test_as_many_alternatives_as_asked_for_or_as_there_are(n_alternatives):
    logits = make("masked", 300)[None]
    _, found = step(logits, Sampler(0), np.zeros(1), n_alternatives=n_alternatives)
    _, expected = statistics.step(logits, Sampler(0), np.zeros(1), n_alternatives=n_alternatives)
    assert_equal(found, expected)


def test_greedy_rows_constraints_and_bad_rows_are_as_with_numpy():
    rows = np.stack([make("normal", 300, seed) for seed in range(6)])
    rows[1, 5], rows[2, 6], rows[3] = np.nan, np.inf, -np.inf
    masked = np.full_like(rows, -np.inf)
    masked[:, 10:40] = rows[:, 10:40]
    masked[5] = -np.inf
    greedy = np.array([True, False, False, False, False, False])
    arguments = (Sampler(0.8, top_p=0.9), np.linspace(0.1, 0.9, 6), greedy)
    for constrained in (None, masked):
        ids, found = step(rows, *arguments, constrained_logits=constrained)
        own, expected = statistics.step(rows, *arguments, constrained_logits=constrained)
        assert ids.tolist() == own.tolist()
        assert_equal(found, expected)
    assert ids.tolist()[1:4] == [-1, -1, -1]
    assert ids[5] == -1


@pytest.mark.parametrize(
    "sampler", [Sampler(), Sampler(0.6, 20), Sampler(0), Sampler(1.3, top_p=0.9)], ids=str
)
def test_forced_tokens_are_scored_as_with_numpy(sampler):
    rows = np.stack([make("normal", 300, seed) for seed in range(5)])
    forced = np.array([rows[0].argmax(), 3, 299, rows[3].argmin(), -1])
    greedy = np.array([True, True, False, False, False])
    ids, found = step(rows, sampler, np.zeros(5), greedy, forced_ids=forced, score_sampling=True)
    _, expected = statistics.step(rows, sampler, np.zeros(5), greedy, forced_ids=forced, score_sampling=True)
    assert ids.tolist() == forced.tolist()
    assert_equal(found, expected)
    _, unscored = step(rows, sampler, np.zeros(5), greedy, forced_ids=forced)
    assert np.isnan(unscored.sampling_logprob).all()


def test_half_precision_logits_are_described_as_the_float32_they_stand_for():
    logits = mx.array(make("normal", 300)[None]).astype(mx.bfloat16)
    _, found = statistics_mlx.step(logits, Sampler(), np.array([0.5]))
    _, expected = statistics.step(np.array(logits.astype(mx.float32)), Sampler(), np.array([0.5]))
    assert_equal(found, expected)


def test_wrong_arguments_are_named():
    logits = np.zeros((1, 10), np.float32)
    with pytest.raises(ToolkitError, match="token id 10 is not in the vocabulary"):
        step(logits, Sampler(), np.zeros(1), forced_ids=np.array([10]))
    with pytest.raises(ToolkitError, match="n_alternatives: -1"):
        step(logits, Sampler(), np.zeros(1), n_alternatives=-1)
    with pytest.raises(ToolkitError, match=r"constrained_logits: shape \(1, 9\)"):
        step(logits, Sampler(), np.zeros(1), constrained_logits=logits[:, :9])
    with pytest.raises(ToolkitError, match=r"logits: shape \(10,\)"):
        step(logits[0], Sampler(), np.zeros(1))
