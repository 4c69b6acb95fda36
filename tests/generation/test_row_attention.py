"""A step's attention, compiled and in NumPy, against one softmax in float64 over all that a row has read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from toolkit.generation import row_attention
from toolkit.generation.numpy_kernels import Rotary, SharedPrefix
from toolkit.generation.row_attention import CompiledRows, Heads, PlainRows, Stored

BLOCK = 8
ROTARIES = [None, Rotary(6, False, 10_000.0, 1.0), Rotary(8, True, 500.0, 0.5)]


@dataclass
class Case:
    """Rows of several prompts, each with a text of its own."""

    starts: np.ndarray  # positions of each row's prompt
    own: np.ndarray  # own positions before the step
    members: list[np.ndarray]
    prefixes: list[SharedPrefix]
    keys: np.ndarray  # (rows, kv_heads, room, dim), what is stored before the step
    values: np.ndarray
    heads: Heads

    def stored(self, slots: int) -> Stored:
        blocks = []
        for array in (self.keys, self.values):
            room = np.zeros((slots, *array.shape[1:]), np.float32)
            room[: len(array)] = array
            blocks.append(
                [np.ascontiguousarray(part) for part in np.split(room, array.shape[2] // BLOCK, axis=2)]
            )
        return Stored(*blocks)


def make_case(rows: int = 40, heads: int = 6, kv_heads: int = 2, dim: int = 8, seed: int = 0) -> Case:
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(0, 1.2, shape).astype(np.float32)

    owner = random.integers(0, 3, rows)
    owner[:3] = range(3)
    lengths = [1, 70, 13]
    own = random.integers(0, 3 * BLOCK, rows)
    own[:4] = [0, BLOCK - 1, BLOCK, 3 * BLOCK - 1]
    room = 3 * BLOCK
    members = [np.flatnonzero(owner == prompt) for prompt in range(3)]
    return Case(
        starts=np.array(lengths)[owner],
        own=own,
        members=members,
        prefixes=[
            SharedPrefix(rows_of, normal(kv_heads, n, dim), normal(kv_heads, n, 5))
            for rows_of, n in zip(members, lengths, strict=True)
        ],
        keys=normal(rows, kv_heads, room, dim),
        values=normal(rows, kv_heads, room, 5),
        heads=Heads(normal(rows, heads, dim), normal(rows, kv_heads, dim), normal(rows, kv_heads, 5)),
    )


def turned(head: np.ndarray, position: int, rotary: Rotary | None) -> np.ndarray:
    """One head, rotated in float64 pair by pair."""
    head = head.astype(np.float64)
    if rotary is None:
        return head
    out, half = head.copy(), rotary.dims // 2
    for i in range(half):
        a, b = (2 * i, 2 * i + 1) if rotary.traditional else (i, i + half)
        angle = position * rotary.scale * rotary.base ** (-2 * i / rotary.dims)
        out[a] = head[a] * np.cos(angle) - head[b] * np.sin(angle)
        out[b] = head[a] * np.sin(angle) + head[b] * np.cos(angle)
    return out


def expected_row(case: Case, row: int, head: int, rotary: Rotary | None, scale: float) -> np.ndarray:
    kv = head // (case.heads.queries.shape[1] // case.keys.shape[1])
    position, n = case.starts[row] + case.own[row], case.own[row]
    prefix = next(one for one in case.prefixes if row in one.rows)
    new = turned(case.heads.keys[row, kv], position, rotary)
    keys = np.vstack([prefix.keys[kv], case.keys[row, kv, :n], new[None]])
    values = np.vstack([prefix.values[kv], case.values[row, kv, :n], case.heads.values[row, kv][None]])
    scores = keys @ turned(case.heads.queries[row, head], position, rotary) * scale
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


@pytest.mark.parametrize("kind", [PlainRows, CompiledRows])
@pytest.mark.parametrize("rotary", ROTARIES)
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(6, 2, 8), (3, 3, 9), (4, 1, 21)])
def test_attention_and_what_is_stored(kind, rotary, heads: int, kv_heads: int, dim: int) -> None:
    case = make_case(heads=heads, kv_heads=kv_heads, dim=dim)
    stored = case.stored(slots=len(case.own) + 3)
    step = kind(case.starts, case.own, case.members, BLOCK)
    found = step.attend(case.heads, rotary, stored, case.prefixes, 0.3)
    for row in range(len(case.own)):
        for head in range(heads):
            np.testing.assert_allclose(
                found[row, head], expected_row(case, row, head, rotary, 0.3), atol=3e-5, err_msg=f"row {row}"
            )
        block, place = divmod(int(case.own[row]), BLOCK)
        for kv in range(kv_heads):
            key = turned(case.heads.keys[row, kv], case.starts[row] + case.own[row], rotary)
            np.testing.assert_allclose(stored.keys[block][row, kv, place], key, atol=1e-5)
            np.testing.assert_array_equal(stored.values[block][row, kv, place], case.heads.values[row, kv])
    before = case.stored(len(case.own) + 3)
    written = sum(int((a != b).any(axis=-1).sum()) for a, b in zip(stored.keys, before.keys, strict=True))
    assert written == len(case.own) * kv_heads  # nothing else was touched


def test_both_give_the_same() -> None:
    case = make_case(rows=64, heads=9, kv_heads=3, dim=64, seed=5)
    found = [
        np.array(kind(case.starts, case.own, case.members, BLOCK).attend(
            case.heads, Rotary(64, False, 1e5, 1.0), case.stored(64), case.prefixes, 0.125
        ))
        for kind in (PlainRows, CompiledRows)
    ]  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], atol=2e-5)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize(
    "some", [[7], [3, 20], [0, 1, 2, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 4, 5, 6, 9, 17]]
)
def test_a_row_s_result_does_not_depend_on_the_rows_beside_it(
    some: list[int], n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(rows=40, heads=9, kv_heads=3, dim=64)
    rotary = Rotary(64, False, 1e5, 1.0)
    together = np.array(
        CompiledRows(case.starts, case.own, case.members, BLOCK).attend(
            case.heads, rotary, case.stored(40), case.prefixes, 0.125
        )
    )
    monkeypatch.setattr(row_attention, "n_threads", lambda: n_threads)
    members = [np.flatnonzero(np.isin(some, rows)) for rows in case.members]
    few = Case(
        case.starts[some],
        case.own[some],
        members,
        [SharedPrefix(rows, one.keys, one.values) for rows, one in zip(members, case.prefixes, strict=True)],
        case.keys[some],
        case.values[some],
        Heads(*(array[some] for array in case.heads)),
    )
    alone = CompiledRows(few.starts, few.own, members, BLOCK).attend(
        few.heads, rotary, few.stored(len(some)), few.prefixes, 0.125
    )
    np.testing.assert_array_equal(alone, together[some])


@pytest.mark.parametrize("kind", [PlainRows, CompiledRows])
def test_a_row_of_not_a_number_stays_one_and_leaves_the_others(kind) -> None:
    case = make_case()
    plain = np.array(
        kind(case.starts, case.own, case.members, BLOCK).attend(
            case.heads, None, case.stored(40), case.prefixes, 0.3
        )
    )
    case.heads.queries[11] = np.nan
    with np.errstate(invalid="ignore"):
        found = kind(case.starts, case.own, case.members, BLOCK).attend(
            case.heads, None, case.stored(40), case.prefixes, 0.3
        )
    assert np.isnan(found[11]).all()
    others = np.arange(40) != 11
    np.testing.assert_allclose(found[others], plain[others], atol=1e-6)


@pytest.mark.parametrize("kind", [PlainRows, CompiledRows])
def test_large_scores_do_not_overflow(kind) -> None:
    case = make_case()
    loud = case.heads._replace(queries=case.heads.queries * 300)
    found = kind(case.starts, case.own, case.members, BLOCK).attend(
        loud, None, case.stored(40), case.prefixes, 1.0
    )
    assert np.isfinite(found).all()
