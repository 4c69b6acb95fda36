import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.generation.distribution import Distribution
from toolkit.generation.filters import keep
from toolkit.generation.sampling import Draw, Sampler, draw, sampling_logprobs

from . import reference

pytestmark = pytest.mark.usefixtures("implementation")

SAMPLERS = [
    Sampler(),
    Sampler(0.7),
    Sampler(1.6),
    Sampler(top_k=3),
    Sampler(0.8, top_k=40),
    Sampler(top_p=0.9),
    Sampler(0.6, top_p=0.5),
    Sampler(2.0, top_p=0.97),
    Sampler(min_p=0.05),
    Sampler(1.5, min_p=0.2),
    Sampler(0.9, 50, 0.9, 0.02),
    Sampler(1.7, 5, 0.5, 0.9),
    Sampler(1.0, 300, 0.999, 0.0001),
]
BOTH_ORDERS = [*SAMPLERS, *(Sampler(s.temperature, s.top_k, s.top_p, s.min_p, "mlx_lm") for s in SAMPLERS)]


def settings_of(sampler):
    return dict(top_k=sampler.top_k, top_p=sampler.top_p, min_p=sampler.min_p, order=sampler.order)


def make(n_tokens, seed=0, scale=2.5, step=0.0):
    logits = np.random.default_rng([seed, n_tokens]).normal(0, scale, n_tokens)
    if step:
        logits = np.round(logits / step) * step
    return logits.astype(np.float32)


def draw_many(logits, sampler, uniforms) -> Draw:
    """The same row for every uniform number."""
    rows = np.tile(np.asarray(logits, np.float32), (len(uniforms), 1))
    return draw(Distribution.of(rows, moments=False), sampler, np.asarray(uniforms, np.float64))


def kept_ids(logits, sampler):
    (found,) = keep(Distribution.of(np.asarray(logits, np.float32)[None], moments=False), sampler)
    return sorted(found.ids[found.is_kept].tolist())


def assert_drawn(logits, sampler, uniforms, tolerance=2e-6):
    """Each token's interval of the float64 cumulative distribution holds the uniform number."""
    p = reference.probabilities(logits, sampler.temperature, **settings_of(sampler))
    ends = np.cumsum(p)
    drawn = draw_many(logits, sampler, uniforms)
    for u, token, logprob in zip(uniforms, drawn.token_ids, drawn.sampling_logprob, strict=True):
        assert p[token] > 0
        assert ends[token] - p[token] - tolerance <= u <= ends[token] + tolerance
        assert logprob == pytest.approx(math.log(p[token]), abs=1e-5)


@pytest.mark.parametrize("sampler", BOTH_ORDERS, ids=str)
@pytest.mark.parametrize("n_tokens", [1, 2, 64, 255, 257, 1000])
def test_a_draw_inverts_the_cumulative_distribution_in_float64(n_tokens, sampler):
    uniforms = [0, 1e-12, 0.1, 0.25, 0.5, 0.77, 0.99, 0.999999, 1 - 2**-53]
    assert_drawn(make(n_tokens), sampler, uniforms)


@pytest.mark.parametrize(
    "sampler", [Sampler(), Sampler(0.7, top_p=0.95), Sampler(1.5, 50, order="mlx_lm")], ids=str
)
def test_a_draw_from_a_full_vocabulary_is_as_exact(sampler):
    logits = make(49_152)
    logits[[7, 30_000]] += 12
    assert_drawn(logits, sampler, [0, 0.2, 0.6, 0.95, 1 - 2**-53])


@pytest.mark.parametrize("sampler", BOTH_ORDERS, ids=str)
@pytest.mark.parametrize("step", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("n_tokens", [1, 5, 100, 1000])
def test_filters_keep_what_a_plain_implementation_keeps(n_tokens, step, sampler):
    logits = make(n_tokens, step=step)
    expected = reference.kept(logits, sampler.temperature, **settings_of(sampler))
    assert kept_ids(logits, sampler) == sorted(expected)


LOGITS = st.lists(
    st.one_of(st.floats(-12, 12, width=32), st.integers(-3, 3).map(float), st.just(-math.inf)),
    min_size=1,
    max_size=90,
).filter(lambda row: max(row) > -math.inf)
ANY_SAMPLER = st.builds(
    Sampler,
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.integers(0, 12),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.999)),
    min_p=st.one_of(st.just(0.0), st.floats(0.001, 1)),
    order=st.sampled_from(["temperature_first", "mlx_lm"]),
)


@given(LOGITS, ANY_SAMPLER, st.floats(0, 1, exclude_max=True))
@settings(max_examples=200, deadline=None)
def test_any_filters_of_any_logits_are_those_of_a_plain_implementation(row, sampler, uniform):
    expected = reference.kept(row, sampler.temperature, **settings_of(sampler))
    assert kept_ids(row, sampler) == sorted(expected)
    if not sampler.is_greedy:
        assert_drawn(row, sampler, [uniform])


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(0.5), Sampler(top_k=4), Sampler(top_p=0.8)], ids=str)
def test_evenly_spaced_numbers_draw_each_token_as_often_as_its_probability(sampler):
    logits = make(20, scale=1.0)
    n = 5000
    ids = draw_many(logits, sampler, (np.arange(n) + 0.5) / n).token_ids
    p = np.array(reference.probabilities(logits, sampler.temperature, **settings_of(sampler)))
    assert np.abs(np.bincount(ids, minlength=20) / n - p).max() <= 1 / n
    assert (np.diff(ids) >= 0).all()


def test_a_token_of_zero_mass_is_never_drawn():
    logits = np.full(600, -np.inf, np.float32)
    logits[[100, 255, 256, 599]] = 0
    logits[[0, 300]] = -200  # finite, and zero in float32
    uniforms = [0, 0.2499999, 0.25, 0.5, 0.75, 0.9999999, 1 - 2**-53]
    for sampler in (Sampler(), Sampler(0.5), Sampler(top_p=0.9999), Sampler(top_k=500)):
        found = draw_many(logits, sampler, uniforms)
        assert found.token_ids.tolist() == [100, 100, 255, 256, 599, 599, 599], sampler
        assert found.sampling_logprob == pytest.approx(np.full(7, -math.log(4)), abs=1e-6)


def test_zero_draws_the_first_token_with_mass_and_the_largest_number_the_last():
    logits = np.array([-np.inf, -1, 0, 3, 1, -np.inf])
    assert draw_many(logits, Sampler(), [0, 1 - 2**-53]).token_ids.tolist() == [1, 4]


@pytest.mark.parametrize("order", ["temperature_first", "mlx_lm"])
def test_the_likeliest_of_equal_logits_is_the_lowest_id_with_a_sampling_logprob_of_zero(order):
    logits = [0, 5, 5, 1, 5]
    for sampler in (
        Sampler(0, order=order),
        Sampler(1.3, top_k=1, order=order),
        Sampler(0, 3, 0.2, 0.1, order),
    ):
        found = draw_many(logits, sampler, [0, 0.5, 0.99])
        assert found.token_ids.tolist() == [1, 1, 1]
        assert found.sampling_logprob.tolist() == [0, 0, 0]


def test_a_set_of_one_token_has_a_sampling_logprob_of_zero():
    for sampler in (Sampler(0.7, top_p=1e-9), Sampler(min_p=1.0), Sampler(2.0, top_p=0.01, order="mlx_lm")):
        assert draw_many(make(100), sampler, [0.3]).sampling_logprob.tolist() == [0]


def test_tokens_that_tie_with_the_kth_stay_as_in_hugging_face():
    logits = [3, 1, 2, 2, 2, 0]
    assert kept_ids(logits, Sampler(top_k=2)) == [0, 2, 3, 4]
    assert kept_ids(logits, Sampler(top_k=2, order="mlx_lm")) == [0, 2]


def test_top_p_keeps_the_smallest_set_with_the_token_that_crosses():
    logits = np.log([0.15, 0.5, 0.05, 0.3])
    assert kept_ids(logits, Sampler(top_p=0.49)) == [1]
    assert kept_ids(logits, Sampler(top_p=0.5)) == [1]
    assert kept_ids(logits, Sampler(top_p=0.51)) == [1, 3]
    assert kept_ids(logits, Sampler(top_p=0.8)) == [1, 3]
    assert kept_ids(logits, Sampler(top_p=0.81)) == [0, 1, 3]
    assert kept_ids(logits, Sampler(top_p=0.96)) == [0, 1, 2, 3]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12, unique=True), st.data())
@settings(max_examples=200, deadline=None)
def test_a_mass_that_is_top_p_exactly_has_reached_it_whatever_the_rounding(counts, data):
    falling = sorted(counts, reverse=True)
    n = data.draw(st.integers(1, len(falling)))
    top_p = sum(falling[:n]) / sum(falling)
    for order in ("temperature_first", "mlx_lm"):
        kept = kept_ids(np.log(counts), Sampler(top_p=top_p, order=order))
        assert sorted(counts[i] for i in kept) == sorted(falling[:n])


def test_ties_at_the_edge_of_top_p_stay_in_mlx_lms_order_only():
    logits = np.zeros(10)
    assert kept_ids(logits, Sampler(top_p=0.45)) == [0, 1, 2, 3, 4]
    assert kept_ids(logits, Sampler(top_p=0.45, order="mlx_lm")) == list(range(10))


def test_min_p_is_a_share_of_the_largest_probability():
    logits = np.log([0.1, 0.5, 0.25, 0.05])
    assert kept_ids(logits, Sampler(min_p=0.5)) == [1, 2]
    assert kept_ids(logits, Sampler(min_p=0.2)) == [0, 1, 2]
    # Tempered, the shares are 0.04, 1, 0.25 and 0.01.
    assert kept_ids(logits, Sampler(0.5, min_p=0.2)) == [1, 2]
    assert kept_ids(logits, Sampler(0.5, min_p=0.2, order="mlx_lm")) == [0, 1, 2]


def test_top_p_follows_the_temperature_or_comes_before_it():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    assert kept_ids(logits, Sampler(3.0, top_p=0.75)) == [0, 1, 2]
    assert kept_ids(logits, Sampler(3.0, top_p=0.75, order="mlx_lm")) == [0, 1]


def test_top_p_is_a_share_of_what_top_k_left_or_of_all():
    logits = np.log([0.4, 0.2, 0.2 - 1e-3, 0.1, 0.1 + 1e-3])
    assert kept_ids(logits, Sampler(top_k=2, top_p=0.65)) == [0]
    assert kept_ids(logits, Sampler(top_k=2, top_p=0.65, order="mlx_lm")) == [0, 1]


@pytest.fixture
def sample_utils():
    """MLX-LM's filters, which would otherwise be compiled anew for every setting."""
    mx = pytest.importorskip("mlx.core")
    mx.disable_compile()
    yield pytest.importorskip("mlx_lm.sample_utils")
    mx.enable_compile()


@pytest.mark.parametrize("seed", range(20))
def test_the_kept_sets_of_mlx_lms_order_are_mlx_lms(seed, sample_utils):
    mx = pytest.importorskip("mlx.core")
    generator = np.random.default_rng(seed)
    logits = make(500, seed, scale=generator.uniform(0.5, 4))
    top_p, min_p = generator.uniform(0.05, 0.99), generator.uniform(0.001, 0.5)
    top_k = int(generator.integers(2, 200))
    if seed % 3 == 0:
        min_p = 0.0
    logprobs = mx.array(logits[None]) - mx.logsumexp(mx.array(logits))
    logprobs = sample_utils.apply_top_p(logprobs, top_p)
    if min_p:
        logprobs = sample_utils.apply_min_p(logprobs, min_p)
    logprobs = sample_utils.apply_top_k(logprobs, top_k)
    expected = np.flatnonzero(np.isfinite(np.array(logprobs)[0]))
    assert kept_ids(logits, Sampler(0.7, top_k, top_p, min_p, "mlx_lm")) == expected.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_the_kept_sets_of_the_default_order_are_hugging_faces_where_nothing_ties(seed):
    """Its rule for top-p: from below, tokens are removed while their cumulative mass is at most 1 - p."""
    generator = np.random.default_rng(seed)
    logits = make(400, seed, scale=2).astype(np.float64)
    temperature, top_p = generator.uniform(0.3, 2), generator.uniform(0.1, 0.99)
    top_k, min_p = int(generator.integers(2, 200)), generator.uniform(0.001, 0.3)
    scores = logits / temperature
    scores[scores < np.sort(scores)[-top_k]] = -np.inf
    order = np.argsort(scores)
    p = np.exp(scores - scores.max())
    removed = np.cumsum(p[order] / p.sum()) <= 1 - top_p
    scores[order[removed]] = -np.inf
    p = np.exp(scores - scores.max())
    scores[p < min_p * p.max()] = -np.inf
    assert (
        kept_ids(logits, Sampler(temperature, top_k, top_p, min_p))
        == np.flatnonzero(scores > -np.inf).tolist()
    )


@pytest.mark.parametrize("sampler", BOTH_ORDERS, ids=str)
def test_the_probability_of_every_token_can_be_asked_for(sampler):
    logits = make(60)
    p = reference.probabilities(logits, sampler.temperature, **settings_of(sampler))
    found = sampling_logprobs(Distribution.of(np.tile(logits, (60, 1))), sampler, np.arange(60))
    assert np.exp(found.astype(np.float64)) == pytest.approx(np.array(p), abs=1e-6)
    assert (np.isneginf(found) == (np.array(p) == 0)).all()


def test_rows_with_many_and_with_few_tokens_left_do_not_mix():
    """Flat rows are filtered a few at a time, between rows of one token."""
    logits = np.random.default_rng(0).normal(0, 0.1, (9, 40_000)).astype(np.float32)
    logits[[0, 4, 5], [3, 30_000, 9]] = 30
    uniforms = np.linspace(0.05, 0.95, 9)
    together = draw(Distribution.of(logits), Sampler(top_p=0.9), uniforms)
    assert together.token_ids[[0, 4, 5]].tolist() == [3, 30_000, 9]
    for row in range(9):
        alone = draw(Distribution.of(logits[row : row + 1]), Sampler(top_p=0.9), uniforms[row : row + 1])
        assert alone.token_ids[0] == together.token_ids[row]
        assert alone.sampling_logprob[0] == together.sampling_logprob[row]
    scored = sampling_logprobs(Distribution.of(logits), Sampler(top_p=0.9), together.token_ids)
    assert scored.tolist() == together.sampling_logprob.tolist()


def test_rows_may_be_greedy_one_by_one():
    logits = np.tile(make(100), (4, 1))
    greedy = np.array([True, False, True, False])
    found = draw(Distribution.of(logits), Sampler(2.0), np.full(4, 0.01), greedy)
    sampled = draw(Distribution.of(logits), Sampler(2.0), np.full(4, 0.01))
    assert found.token_ids[greedy].tolist() == [logits[0].argmax()] * 2
    assert found.token_ids[~greedy].tolist() == sampled.token_ids[~greedy].tolist()
    assert found.sampling_logprob[greedy].tolist() == [0, 0]
    assert (
        sampling_logprobs(Distribution.of(logits), Sampler(2.0), found.token_ids, greedy).tolist()
        == found.sampling_logprob.tolist()
    )
    other = (found.token_ids + 1) % 100
    assert sampling_logprobs(Distribution.of(logits), Sampler(), other, greedy)[0] == -np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "sampler", [Sampler(), Sampler(0), Sampler(0.7, 5, 0.9, 0.1), Sampler(top_p=0.5)], ids=str
)
def test_nothing_is_drawn_in_a_bad_row(sampler, bad):
    logits = np.stack([make(70), make(70, 1)])
    logits[0] = bad
    found = draw(Distribution.of(logits), sampler, np.array([0.5, 0.5]))
    assert found.token_ids[0] == -1
    assert np.isnan(found.sampling_logprob[0])
    assert found.token_ids[1] == draw(Distribution.of(logits[1:]), sampler, np.array([0.5])).token_ids[0]
    assert np.isnan(sampling_logprobs(Distribution.of(logits), sampler, np.array([3, 3]))[0])


def test_high_and_low_temperatures_are_computed_without_overflow():
    logits = make(300, scale=30)
    assert draw_many(logits, Sampler(1e-5), [0.5]).token_ids[0] == logits.argmax()
    assert draw_many(logits, Sampler(1e30), [0.5 - 1e-9, 0.5]).token_ids.tolist() == [149, 150]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -0.1}, "temperature: -0.1; it must be 0, or from 1e-5"),
        ({"temperature": math.nan}, "temperature: nan"),
        ({"temperature": math.inf}, "temperature: inf"),
        ({"temperature": 1e-6}, "temperature: 1e-06"),
        ({"temperature": "warm"}, "temperature: 'warm'; it must be a number"),
        ({"top_k": -1}, "top_k: -1; it must be a whole number of at least 0"),
        ({"top_k": 2.5}, r"top_k: 2\.5"),
        ({"top_k": True}, "top_k: True"),
        ({"top_p": 0}, "top_p: 0; it must be over 0 and at most 1"),
        ({"top_p": 1.01}, r"top_p: 1\.01"),
        ({"top_p": math.nan}, "top_p: nan"),
        ({"top_p": None}, "top_p: None; it must be a number"),
        ({"min_p": -0.1}, "min_p: -0.1; it must be from 0 to 1"),
        ({"min_p": 1.5}, r"min_p: 1\.5"),
        ({"order": "vllm"}, "order: 'vllm'; it must be temperature_first or mlx_lm"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(arguments, message):
    with pytest.raises(ToolkitError, match="^" + message):
        Sampler(**arguments)


def test_a_sampler_says_whether_it_is_greedy_and_whether_it_filters():
    assert Sampler(0).is_greedy
    assert Sampler(top_k=1).is_greedy
    assert not Sampler(top_k=2).is_greedy
    assert not Sampler(0.5).has_filter
    assert all(s.has_filter for s in (Sampler(top_k=1), Sampler(top_p=0.99), Sampler(min_p=0.01)))
