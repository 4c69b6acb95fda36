"""Numbers of keys compare as the keys do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from toolkit.records import KINDS
from toolkit.store.keys import Key, KeyCoder, in_key_order, key_tuples, match_rows

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
KEYS = st.lists(st.tuples(TEXT, st.sampled_from(KINDS), st.integers(0, 2**31 - 1)), max_size=20)


def table(keys: list[Key], coded: bool) -> pa.Table:
    prompts, kinds, samples = zip(*keys, strict=True) if keys else ((), (), ())
    columns = [pa.array(prompts, pa.string()), pa.array(kinds, pa.string()), pa.array(samples, pa.int32())]
    if coded:
        columns[:2] = [column.dictionary_encode() for column in columns[:2]]
    rows = pa.table(columns, names=["prompt_id", "kind", "sample_index"])
    half = len(keys) // 2
    return pa.concat_tables([rows.slice(0, half), rows.slice(half)])  # two chunks


@given(keys=KEYS, coded=st.booleans())
def test_codes_sort_and_equal_as_the_keys_do(keys: list[Key], coded: bool) -> None:
    rows = table(keys, coded)
    codes = KeyCoder([rows]).codes(rows).tolist()
    assert key_tuples(rows) == keys
    for i in range(len(keys)):
        for j in range(len(keys)):
            assert (codes[i] < codes[j]) == (keys[i] < keys[j])
            assert (codes[i] == codes[j]) == (keys[i] == keys[j])


@given(keys=KEYS, others=KEYS, coded=st.booleans())
def test_matching_equals_looking_up_in_a_dictionary(keys: list[Key], others: list[Key], coded: bool) -> None:
    sequences = list(dict.fromkeys(keys))
    wanted = keys + others
    place = {key: index for index, key in enumerate(sequences)}
    found = match_rows(table(wanted, coded), table(sequences, not coded))
    assert found.tolist() == [place.get(key, -1) for key in wanted]


@given(keys=KEYS)
def test_rows_of_a_key_keep_their_order(keys: list[Key]) -> None:
    rows = table(keys * 2, True).append_column("place", pa.array(np.arange(2 * len(keys))))
    expected = sorted(range(2 * len(keys)), key=lambda place: (keys * 2)[place])
    assert in_key_order(rows)["place"].to_pylist() == expected


@given(keys=KEYS, repeats=st.lists(st.integers(0, 3), min_size=20, max_size=20), coded=st.booleans())
def test_neighbours_with_one_key_are_matched_each(keys: list[Key], repeats: list[int], coded: bool) -> None:
    sequences = list(dict.fromkeys(keys))
    rows = [key for key, n in zip(keys, repeats, strict=False) for _ in range(n)]
    found = match_rows(table(rows, coded), table(sequences, coded))
    assert [sequences[place] for place in found] == rows
