import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toolkit.errors import ToolkitError
from toolkit.generation.distribution import Distribution
from toolkit.generation.row_passes import Workspace
from toolkit.generation.sampling import Sampler
from toolkit.generation.statistics import boosted_prob, step, token_statistics

from . import reference

pytestmark = pytest.mark.usefixtures("implementation")

CASES = Path(__file__).parents[1] / "cases" / "metrics.json"
NOT_DRAWN = {"constrained_logprob", "sampling_logprob"}
ALTERNATIVES = {"alternative_ids", "alternative_logprobs"}
WATCHED = {"watched_ids", "watched_logprobs", "watched_ranks"}
# Around the sizes at which something else is done: 15 and 20, blocks of 64 and 256, 32 and 201 likely tokens.
SIZES = [1, 2, 3, 14, 15, 16, 19, 20, 21, 32, 33, 63, 64, 65, 201, 202, 255, 256, 257, 1000]
KINDS = ["normal", "wide", "narrow", "peaked", "uniform", "ties", "masked", "lowest", "offset", "flat_head"]


def make(kind, n_tokens, seed=0):
    """One row of logits."""
    generator = np.random.default_rng([seed, n_tokens])
    logits = generator.normal(0, 2.5, n_tokens)
    if kind == "wide":
        logits *= 20
    elif kind == "narrow":
        logits *= 0.01
    elif kind == "peaked":
        logits[n_tokens // 2] += 30
    elif kind == "uniform":
        logits[:] = 1.5
    elif kind == "ties":
        logits = np.round(logits)
    elif kind in ("masked", "lowest"):
        hidden = generator.random(n_tokens) < 0.7
        hidden[n_tokens // 3] = False
        logits[hidden] = -np.inf if kind == "masked" else np.finfo(np.float32).min
    elif kind == "offset":
        logits += 300
    elif kind == "flat_head":  # some sixty tokens of about a hundredth each
        logits[: n_tokens // 3] += 12
    return logits.astype(np.float32)


def tokens_of(logits):
    """The likeliest token, one in the middle, and one of the least likely that are not masked."""
    order = np.argsort(-logits, kind="stable")[: np.isfinite(logits).sum()]
    return sorted({int(order[0]), int(order[len(order) // 2]), int(order[-1])})


def assert_described(logits, token, statistics, row=0, tolerance=1e-5, relative=3e-7, n_alternatives=5):
    expected = reference.describe(logits, token)
    assert set(expected) == set(statistics._fields) - NOT_DRAWN - ALTERNATIVES - WATCHED
    for name, value in expected.items():
        found = getattr(statistics, name)[row]
        # float32 keeps seven digits, so large values are looked at relatively.
        assert found == pytest.approx(value, abs=tolerance, rel=relative), name
    ids, logprobs = reference.alternatives(logits, n_alternatives)
    assert statistics.alternative_ids[row].tolist() == ids
    assert statistics.alternative_logprobs[row] == pytest.approx(logprobs, abs=tolerance, rel=relative)


def describe(logits, token_ids, n_alternatives=5):
    return token_statistics(Distribution.of(logits), np.asarray(token_ids), n_alternatives)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_tokens", SIZES)
def test_every_statistic_equals_a_plain_loop_in_float64(n_tokens, kind):
    logits = make(kind, n_tokens)
    chosen = tokens_of(logits)
    statistics = describe(np.tile(logits, (len(chosen), 1)), chosen)
    for row, token in enumerate(chosen):
        # Logits some hundreds under the largest are known to 1e-5 themselves.
        assert_described(logits, token, statistics, row, tolerance=3e-5 if kind == "wide" else 1e-5)


@pytest.mark.parametrize("kind", ["normal", "peaked", "masked", "flat_head"])
def test_a_full_vocabulary_is_as_exact_as_a_small_one(kind):
    logits = make(kind, 49_152)
    token = tokens_of(logits)[1]
    assert_described(logits, token, describe(logits[None], [token]))


LOGITS = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 30)),
    elements=st.one_of(
        st.floats(-30, 30, width=32), st.integers(-3, 3).map(np.float32), st.just(np.float32(-np.inf))
    ),
)


@given(LOGITS, st.data())
@settings(max_examples=80, deadline=None)
def test_any_logits_are_described_as_by_a_plain_loop(logits, data):
    logits = logits[np.isfinite(logits).any(axis=1)]
    token_ids = [data.draw(st.integers(0, logits.shape[1] - 1)) for _ in logits]
    statistics = describe(logits, np.array(token_ids, np.int32))
    for row, token in enumerate(token_ids):
        assert_described(logits[row], token, statistics, row, tolerance=3e-5)


@given(LOGITS, st.floats(-50, 50, width=32))
@settings(max_examples=50, deadline=None)
def test_values_keep_to_their_ranges(logits, shift):
    logits = logits[np.isfinite(logits).any(axis=1)] + np.float32(shift)
    statistics = describe(logits, np.zeros(len(logits), np.int32))
    assert (statistics.entropy <= np.log(statistics.n_finite) + 1e-5).all()
    assert (statistics.varentropy >= 0).all()
    assert (statistics.boosted_prob <= 1 + 1e-6).all()
    assert (statistics.logprob <= statistics.top1_logprob).all()
    assert statistics.alternative_logprobs[:, 0].tolist() == statistics.top1_logprob.tolist()


def test_the_types_are_those_of_the_record():
    statistics = describe(make("normal", 50)[None], [3])
    whole = {"rank", "n_finite", "alternative_ids", "watched_ids", "watched_ranks"}
    for name, column in statistics._asdict().items():
        assert column.dtype == (np.int32 if name in whole else np.float32), name


@pytest.mark.parametrize("n_alternatives", [0, 1, 5, 33, 150, 199, 200, 300])
def test_as_many_alternatives_as_asked_for_or_as_there_are(n_alternatives):
    logits = make("ties", 200)
    statistics = describe(logits[None], [0], n_alternatives)
    ids, logprobs = reference.alternatives(logits, n_alternatives)
    assert statistics.alternative_ids.shape == (1, min(n_alternatives, 200))
    assert statistics.alternative_ids[0].tolist() == ids
    assert statistics.alternative_logprobs[0] == pytest.approx(logprobs, abs=1e-5)


def test_equal_logits_are_listed_by_rising_id():
    logits = np.zeros((1, 49_152), np.float32)
    logits[0, [70, 40_000, 9]] = 1
    statistics = describe(logits, [0], 6)
    assert statistics.alternative_ids.tolist() == [[9, 70, 40_000, 0, 1, 2]]


def test_zero_and_negative_zero_tie():
    assert describe(np.array([[-0.0, 0.0]], np.float32), [0], 2).alternative_ids.tolist() == [[0, 1]]


def test_boosted_probability_equals_the_published_test():
    cases = json.loads(CASES.read_text())["token"]
    case = next(case for case in cases if case["name"] == "boosted probability")
    logits = np.log(np.array([case["probabilities"]] * 2)).astype(np.float32)
    found = describe(logits, [2, 1]).boosted_prob
    assert found[0] == pytest.approx(case["expected"]["boosted_prob_of_index_2"], abs=1e-6)
    assert found[1] == pytest.approx(case["expected"]["boosted_prob_of_index_1"], abs=1e-6)


@pytest.mark.parametrize(
    ("probabilities", "token", "expected"),
    [
        ([0.25, 0.25, 0.25, 0.25], 1, 0.25),  # no drop: nothing is dominant
        (
            [0.3, 0.25, 0.2, 0.15, 0.1],
            0,
            0.55 + 0.2 + 0.15,
        ),  # only the last drop is over 0.3 of what is before it
        ([0.5, 0.2, 0.2, 0.05, 0.05], 2, 0.9),  # two drops: the last ends the set
        ([0.5, 0.2, 0.2, 0.05, 0.05], 4, 0.05),
        ([0.995, 0.004, 0.001], 1, 0.004),  # a drop of less than 0.005 does not count
        ([0.5, 0.5, 0.0], 1, 1.0),  # a masked token counts, with its probability of zero
        ([1.0], 0, 1.0),
    ],
)
def test_the_dominant_set_ends_before_the_last_large_drop(probabilities, token, expected):
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([probabilities]))
    assert boosted_prob(logs, logs[:, token])[0] == pytest.approx(expected)
    assert describe(logs.astype(np.float32), [token]).boosted_prob[0] == pytest.approx(expected, abs=1e-6)


def test_a_dominant_set_may_be_larger_than_the_usual_top():
    logits = np.full((2, 500), -20, np.float32)
    logits[:, 100:190] = np.linspace(1, 1.2, 90)  # ninety tokens of about 0.011
    statistics = describe(logits, [100, 0])
    assert statistics.boosted_prob[0] == pytest.approx(1, abs=1e-5)
    assert statistics.boosted_prob[1] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_row_is_reported_and_leaves_the_others_as_they_are(bad):
    logits = np.stack([make("normal", 300, seed) for seed in range(3)])
    alone, of_alone = step(logits[[0, 2]], Sampler(), np.array([0.3, 0.8]))
    logits[1] = bad
    if bad != -np.inf:
        logits[1, 1:] = 0
    ids, statistics = step(logits, Sampler(), np.array([0.3, 0.5, 0.8]))
    assert Distribution.of(logits).bad_rows.tolist() == [False, True, False]
    assert ids.tolist() == [alone[0], -1, alone[1]]
    for name, column in statistics._asdict().items():
        assert np.array_equal(column[[0, 2]], getattr(of_alone, name), equal_nan=True), name
        assert np.isnan(column[1]).all() or not column[1].any(), name
    assert np.isnan(statistics.logprob[1])
    assert np.isnan(statistics.sampling_logprob[1])


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(0.7, top_p=0.9), Sampler(0), Sampler(top_k=7)])
def test_a_row_gives_the_same_bits_alone_and_in_any_batch(sampler):
    kinds = ["normal", "peaked", "masked", "flat_head", "ties"]
    logits = np.stack([make(kind, 1000) for kind in kinds])
    uniforms = np.linspace(0.1, 0.9, len(kinds))
    ids, together = step(logits, sampler, uniforms)
    for row in range(len(kinds)):
        own, alone = step(logits[row : row + 1], sampler, uniforms[row : row + 1])
        assert own[0] == ids[row]
        for name, column in alone._asdict().items():
            assert np.array_equal(column[0], getattr(together, name)[row], equal_nan=True), name


def test_a_workspace_does_not_carry_anything_over():
    space = Workspace()
    for n_rows, n_tokens in [(4, 1000), (2, 70), (5, 300), (1, 1000)]:
        logits = np.stack([make("normal", n_tokens, seed) for seed in range(n_rows)])
        uniforms = np.linspace(0, 0.99, n_rows)
        reused = step(logits, Sampler(0.8), uniforms, workspace=space)
        fresh = step(logits, Sampler(0.8), uniforms)
        assert reused[0].tolist() == fresh[0].tolist()
        for old, new in zip(reused[1], fresh[1], strict=True):
            assert np.array_equal(old, new, equal_nan=True)


def test_no_rows_give_no_statistics():
    ids, statistics = step(np.zeros((0, 10), np.float32), Sampler(top_p=0.5), np.zeros(0))
    assert ids.shape == (0,)
    assert statistics.alternative_ids.shape == (0, 5)


def test_the_logits_are_left_as_they_were():
    logits = make("masked", 300)[None]
    before = logits.copy()
    logits.flags.writeable = False
    step(logits, Sampler(0.5, top_p=0.9), np.array([0.5]))
    assert np.array_equal(logits, before)


def test_raw_log_probabilities_do_not_move_with_the_sampler():
    logits = np.tile(make("normal", 500), (3, 1))
    uniforms = np.array([0.2, 0.5, 0.7])
    samplers = [Sampler(), Sampler(0.3), Sampler(2.0), Sampler(top_k=3), Sampler(top_p=0.4), Sampler(0)]
    for sampler in samplers:
        ids, statistics = step(logits, sampler, uniforms)
        own = describe(logits, ids)
        assert statistics.logprob.tolist() == own.logprob.tolist()
        assert statistics.entropy.tolist() == describe(logits, [0, 0, 0]).entropy.tolist()


def test_without_temperature_and_filters_the_sampling_logprob_is_the_logprob():
    logits = np.stack([make("normal", 500, seed) for seed in range(20)])
    _, statistics = step(logits, Sampler(), np.linspace(0, 0.99, 20))
    assert statistics.sampling_logprob.tolist() == statistics.logprob.tolist()
    assert np.isnan(statistics.constrained_logprob).all()


def test_greedy_rows_take_the_likeliest_and_have_a_sampling_logprob_of_zero():
    logits = np.stack([make("ties", 300, seed) for seed in range(4)])
    ids, statistics = step(logits, Sampler(1.5), np.full(4, 0.999), np.array([True, False, True, False]))
    assert ids[[0, 2]].tolist() == logits[[0, 2]].argmax(axis=1).tolist()
    assert statistics.rank[[0, 2]].tolist() == [1, 1]
    assert statistics.sampling_logprob[[0, 2]].tolist() == [0, 0]
    assert (statistics.sampling_logprob[[1, 3]] < 0).all()


def test_forced_tokens_are_described_without_a_draw():
    logits = np.stack([make("normal", 300, seed) for seed in range(3)])
    forced = np.array([5, 200, 299])
    ids, statistics = step(logits, Sampler(0.5), np.full(3, np.nan), forced_ids=forced)
    assert ids.tolist() == forced.tolist()
    assert np.isnan(statistics.sampling_logprob).all()
    for row in range(3):
        assert_described(logits[row], forced[row], statistics, row)


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(0.6), Sampler(1.3, 20, 0.9, 0.01), Sampler(0)])
def test_the_sampling_logprob_of_forced_tokens_is_that_of_drawn_ones(sampler):
    logits = np.stack([make("normal", 300, seed) for seed in range(8)])
    greedy = np.arange(8) == 2
    ids, drawn = step(logits, sampler, np.linspace(0, 0.99, 8), greedy)
    _, forced = step(logits, sampler, np.zeros(8), greedy, forced_ids=ids, score_sampling=True)
    assert forced.sampling_logprob.tolist() == drawn.sampling_logprob.tolist()


def test_a_forced_token_that_cannot_be_drawn_has_minus_infinity():
    logits = make("normal", 300)[None]
    least = np.array([logits.argmin()])
    for sampler in (Sampler(top_k=5), Sampler(top_p=0.5), Sampler(min_p=0.1), Sampler(0)):
        _, statistics = step(logits, sampler, np.zeros(1), forced_ids=least, score_sampling=True)
        assert statistics.sampling_logprob[0] == -np.inf


def test_constrained_logits_decide_the_draw_and_their_own_logprob_only():
    logits = np.stack([make("normal", 300, seed) for seed in range(4)])
    masked = np.full_like(logits, -np.inf)
    masked[:, [4, 17, 250]] = logits[:, [4, 17, 250]]
    masked[3] = -np.inf  # the grammar allows nothing
    ids, statistics = step(logits, Sampler(), np.array([0.1, 0.5, 0.9, 0.5]), constrained_logits=masked)
    assert set(ids[:3]) <= {4, 17, 250}
    for row in range(3):
        assert_described(logits[row], ids[row], statistics, row)
        expected = reference.describe(masked[row], ids[row])["logprob"]
        assert statistics.constrained_logprob[row] == pytest.approx(expected, abs=1e-6)
        assert statistics.sampling_logprob[row] == statistics.constrained_logprob[row]
    assert ids[3] == -1
    assert statistics.rank[3] == 0
    for name in ("logprob", "constrained_logprob", "sampling_logprob", "boosted_prob"):
        assert np.isnan(getattr(statistics, name)[3])
    assert statistics.entropy[3] == pytest.approx(reference.describe(logits[3], 0)["entropy"], abs=1e-5)


def test_nothing_is_drawn_where_the_model_gave_no_number_even_if_the_constraint_did():
    logits = np.stack([make("normal", 30), make("normal", 30, 1)])
    constrained = logits.copy()
    logits[0, 3] = np.nan
    ids, statistics = step(logits, Sampler(), np.array([0.5, 0.5]), constrained_logits=constrained)
    assert ids[0] == -1
    assert ids[1] >= 0
    assert np.isnan([statistics.sampling_logprob[0], statistics.constrained_logprob[0]]).all()


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(0), Sampler(top_k=3)])
def test_no_token_has_no_log_probabilities(sampler):
    logits = np.stack([make("normal", 30)] * 2)
    forced = np.array([-1, 4])
    _, statistics = step(logits, sampler, np.zeros(2), forced_ids=forced, score_sampling=True)
    for name in ("logprob", "sampling_logprob", "boosted_prob"):
        assert np.isnan(getattr(statistics, name)).tolist() == [True, False], name
    assert statistics.rank[0] == 0
    assert statistics.entropy[0] == statistics.entropy[1]


def test_a_forced_token_outside_the_constraint_has_minus_infinity_there():
    logits = make("normal", 30)[None]
    masked = np.where(np.arange(30) < 3, logits, -np.inf).astype(np.float32)
    _, statistics = step(logits, Sampler(), np.zeros(1), forced_ids=np.array([9]), constrained_logits=masked)
    assert statistics.constrained_logprob[0] == -np.inf
    assert np.isfinite(statistics.logprob[0])


def test_wrong_arguments_are_named():
    logits = np.zeros((1, 10), np.float32)
    with pytest.raises(ToolkitError, match="token id 10 is not in the vocabulary: ids are from 0 to 9"):
        step(logits, Sampler(), np.zeros(1), forced_ids=np.array([10]))
    with pytest.raises(ToolkitError, match="n_alternatives: -1"):
        step(logits, Sampler(), np.zeros(1), n_alternatives=-1)
    with pytest.raises(ToolkitError, match=r"constrained_logits: shape \(1, 9\)"):
        step(logits, Sampler(), np.zeros(1), constrained_logits=logits[:, :9])
    with pytest.raises(ToolkitError, match=r"logits: shape \(10,\)"):
        Distribution.of(logits[0])
    with pytest.raises(ToolkitError, match=r"logits: shape \(3, 0\)"):
        Distribution.of(np.zeros((3, 0), np.float32))
    with pytest.raises(ValueError, match="moments"):
        token_statistics(Distribution.of(logits, moments=False), np.zeros(1, np.int32))
