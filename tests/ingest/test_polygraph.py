"""Statistics of LM-Polygraph are read without unpickling, and what is not plain is refused by its name."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections import OrderedDict, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.sources import rows
from toolkit.errors import ToolkitError
from toolkit.ingest import ingest
from toolkit.ingest.plain_pickle import read_plain
from toolkit.store import open_run
from toolkit.store.validate import validate

STATS: dict[str, Any] = {
    "input_texts": ["Capital of France?", "Of Italy?"],
    "target_texts": ["Paris", ["Rome", "Roma"]],
    "greedy_texts": [" Paris", " Rome"],
    "greedy_tokens": [[4, 5], [6]],
    "greedy_log_likelihoods": [np.array([-0.5, -0.25]), np.array([-1.0], np.float32)],
    "greedy_tokens_alternatives": [
        [[(4, -0.5), (9, -3.0)], [(5, -0.25), (4, -1e9)]],
        [[(6, -1.0), (7, -0.5)]],
    ],
    "sample_tokens": [[[4, 5], [9]], [[6], [6]]],
    "sample_texts": [[" Paris", " Lyon"], [" Rome", " Rome"]],
    "sample_log_likelihoods": [[[-0.5, -0.25], [-3.0]], [[-1.0], [-1.0]]],
}


def archived(path: Path, value: Any, protocol: int = 2) -> Path:
    """As torch.save writes what has no tensors: a zip with a pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manager/data.pkl", pickle.dumps(value, protocol))
        archive.writestr("manager/version", "3\n")
    return path


def manager(stats: dict[str, Any]) -> dict[str, Any]:
    kept: defaultdict[str, Any] = defaultdict(list, stats)
    return {
        "metrics": {("sequence", "a", "b", "c"): np.float64(0.5)},
        "estimations": defaultdict(list),
        "stats": kept,
    }


@pytest.mark.parametrize("protocol", range(6))
def test_saved_statistics_become_greedy_answers_and_samples(tmp_path: Path, protocol: int) -> None:
    path = archived(tmp_path / "manager", manager(STATS), protocol)
    outcome = ingest(path, "polygraph", tmp_path / "run")
    assert list(validate(tmp_path / "run")) == []
    run = open_run(tmp_path / "run")
    assert (outcome.n_prompts, outcome.n_sequences) == (2, 6)
    assert rows(run, "sequences", "prompt_id", "kind", "sample_index", "text") == [
        ("000000", "greedy", 0, " Paris"),
        ("000000", "sample", 0, " Paris"),
        ("000000", "sample", 1, " Lyon"),
        ("000001", "greedy", 0, " Rome"),
        ("000001", "sample", 0, " Rome"),
        ("000001", "sample", 1, " Rome"),
    ]
    assert rows(run, "prompts", "text", "reference") == [
        ("Capital of France?", ["Paris"]),
        ("Of Italy?", ["Rome", "Roma"]),
    ]
    assert rows(run, "tokens", "logprob")[:2] == [-0.5, -0.25]
    assert rows(run, "tokens", "rank")[:2] == [1, 1]


def test_alternatives_come_in_any_order(tmp_path: Path) -> None:
    ingest(archived(tmp_path / "m", manager(STATS)), "polygraph", tmp_path / "run")
    got = open_run(tmp_path / "run").load(
        "alternatives", ["prompt_id", "token_index", "alternative_rank", "logprob"]
    )
    listed = [tuple(row.values()) for row in got.to_pylist()]
    assert listed[-2:] == [("000001", 0, 1, -0.5), ("000001", 0, 2, -1.0)]


def test_whole_distributions_serve_where_likelihoods_are_not_saved(tmp_path: Path) -> None:
    stats = {name: STATS[name] for name in ("input_texts", "greedy_tokens", "greedy_texts")}
    stats["greedy_log_probs"] = [np.full((2, 9), -2.0), np.full((1, 9), -3.0)]
    ingest(archived(tmp_path / "m", manager(stats)), "polygraph", tmp_path / "run")
    assert rows(open_run(tmp_path / "run"), "tokens", "logprob") == [-2.0, -2.0, -3.0]


def test_json_and_a_bare_pickle_are_read_too(tmp_path: Path) -> None:
    plain = {name: value for name, value in STATS.items() if name != "greedy_log_likelihoods"}
    plain["greedy_log_likelihoods"] = [[-0.5, -0.25], [-1.0]]
    (tmp_path / "a.json").write_text(json.dumps({"stats": plain}), encoding="utf-8")
    (tmp_path / "b.pkl").write_bytes(pickle.dumps(STATS))
    for name in ("a.json", "b.pkl"):
        assert ingest(tmp_path / name, "polygraph", tmp_path / f"run-{name}").n_sequences == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"greedy_log_likelihoods": None, "sample_log_likelihoods": None},
            "stats without log-probabilities of tokens",
        ),
        ({"greedy_log_likelihoods": [[-0.5], [-1.0]]}, "has 1 numbers for 2 tokens"),
        ({"greedy_tokens_alternatives": [[[(4,)], []], [[]]]}, "has a list of 1; use pairs"),
        ({"greedy_texts": ["a"]}, "greedy_texts has 1 entries"),
    ],
)
def test_statistics_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    stats = {name: value for name, value in {**STATS, **change}.items() if value is not None}
    with pytest.raises(ToolkitError) as error:
        ingest(archived(tmp_path / "m", manager(stats)), "polygraph", tmp_path / "run")
    assert said in str(error.value)


class Harmful:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_what_a_pickle_would_run_is_named_and_not_run(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    path = tmp_path / "bad.pkl"
    path.write_bytes(pickle.dumps({"stats": [Harmful(str(made))]}, protocol))
    with pytest.raises(ToolkitError, match=r"bad.pkl: holds '(posix|nt).mkdir', which is not plain"):
        ingest(path, "polygraph", tmp_path / "run")
    assert not made.exists()


def of_torch(*, storage: str) -> bytes:
    """A pickle with a tensor's storage, as torch.save leaves it outside."""
    stream = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return ("storage", OrderedDict, "0", "cpu", 1) if isinstance(value, complex) else None

    Pickler(stream, 2).dump({"stats": 1j})
    return stream.getvalue().replace(b"collections\nOrderedDict", storage.replace(".", "\n").encode())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (of_torch(storage="torch.FloatStorage"), "holds 'torch.FloatStorage', which is not plain"),
        (pickle.dumps(Fraction(1, 2)), "holds 'fractions.Fraction'"),
        (pickle.dumps(np.zeros(1, [("a", "i4")])), "holds an array"),
        (pickle.dumps(np.array(["2020-01-01"], "M8[D]")), "holds an array of the type"),
        (pickle.dumps([1, 2])[:-3], "damaged"),
        (b"hello", "no pickle, or a damaged one"),
        (b"\x80\x04e.", "damaged"),
        (b"\x80\x04].h\x00.", "holds a list"),
        (b"c\nx\n.", "holds a _Name"),
    ],
)
def test_what_is_not_plain_is_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "bad.pkl"
    path.write_bytes(data)
    with pytest.raises(ToolkitError) as error:
        ingest(path, "polygraph", tmp_path / "run")
    assert said in str(error.value)


PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=("Cs",))),
        st.binary(),
        st.complex_numbers(allow_nan=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=4), inner, max_size=4),
        st.tuples(inner, inner),
        st.sets(st.integers(), max_size=3),
        st.frozensets(st.text(st.characters(exclude_categories=("Cs",)), max_size=2), max_size=3),
    ),
    max_leaves=12,
)


@given(PLAIN, st.integers(0, 5))
def test_plain_data_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "plain.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    assert read_plain(path) == value


ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.array([True, False]),
    np.array(["é", "abc"]),
    np.array([b"a", b"bc"]),
    np.arange(3, dtype=">i4"),
    np.zeros((0, 3), np.float16),
    np.array(1.5),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype}{value.shape}")
def test_arrays_come_back_as_they_were(tmp_path: Path, value: np.ndarray, protocol: int) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps([value, {"again": value}, np.float32(2.5), np.int64(7)], protocol))
    first, second, number, whole = read_plain(path)
    np.testing.assert_array_equal(first, value)
    assert first.dtype == value.dtype
    assert first is second["again"]
    assert (number, whole) == (2.5, 7)


def test_an_array_of_objects_is_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(np.array([[1, "a"], [None, 2.5]], object), 4))
    assert read_plain(path) == [[1, "a"], [None, 2.5]]
