"""Tables of spans against a plain loop over tokens and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spans.text_runs import END, cut, make_text_run, text_record
from toolkit.aggregation import selection
from toolkit.alignment import char_to_byte_offsets
from toolkit.records import SequenceRecord
from toolkit.spans import span_kind
from toolkit.store import Run, open_run

KEY = ["prompt_id", "kind", "sample_index"]
TEXTS = [
    "Dr. Who's 1st naïve café, 今天。It ended? Yes!\n\n- one\n- two",
    '<think>\nhm, {"a": 1}\n</think>\nSo: ```json\n{"name": "Zoë", "tags": ["a", 2], "cut": "unfin',
    "🎉🎉 👩\u200d👩\u200d👧 in 2024 and 1999",
    " ",
    "plain ascii words in one line without an end",
]


def records() -> list[SequenceRecord]:
    made = [
        text_record([*cut(text, *sizes), END], f"p{i}", "sample", j)
        for i, text in enumerate(TEXTS)
        for j, sizes in enumerate([(1,), (3, 1, 4), (7,), (50,)])
    ]
    stopped = cut(TEXTS[0], 3, 4)
    damaged = [b"\xf0\x9f", b"ok \xff", b"\xe4\xbb", b"\x8a then.", b" So \xc3"]
    return [
        *made,
        text_record(stopped, "p7", "greedy", 0, n_bytes=22),
        text_record([*damaged, END], "p8"),
        text_record(damaged[:3], "p8", "greedy"),
        text_record([], "p9"),
        text_record([END], "p9", "greedy"),
    ]


RECORDS = sorted(records(), key=lambda record: record.key)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_text_run(tmp_path_factory.mktemp("spans") / "run", RECORDS))


def characters(record: SequenceRecord) -> list[int]:
    """The byte where each character begins, and the end."""
    data = b"".join(piece or b"" for piece in record.alignment.pieces)[: record.alignment.n_bytes]
    return [int(offset) for offset in char_to_byte_offsets(data)]


def shared_bytes(record: SequenceRecord, token: int, start: int, end: int) -> int:
    own = range(int(record.alignment.byte_start[token]), int(record.alignment.byte_end[token]))
    return len(set(own) & set(range(start, end)))


def rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    yield from frame.to_dict("records")  # type: ignore[misc]


@pytest.mark.parametrize("weights", ["whole", "bytes"])
@pytest.mark.parametrize(
    "by",
    [
        "word",
        "sentence",
        "line",
        "paragraph",
        "field",
        "key",
        r"regex:(?P<n>\d+)",
        "thinking",
        "answer",
        "segment",
    ],
)
def test_a_span_has_the_statistics_of_the_tokens_with_a_byte_in_it(run: Run, by: str, weights: str) -> None:
    frame = run.spans_df(by, ["sum_logprob", "mean_entropy", "min_logprob"], weights=weights)
    assert len(frame) > 2
    own = {record.key: record for record in RECORDS}
    for row in rows(frame):
        record = own[row["prompt_id"], row["kind"], row["sample_index"]]
        offsets, (start, end) = characters(record), (row["byte_start"], row["byte_end"])
        assert (start, end) == (offsets[row["char_start"]], offsets[row["char_end"]])
        assert record.alignment.text[row["char_start"] : row["char_end"]] == row["text"]
        shares = [shared_bytes(record, i, start, end) for i in range(len(record.token_ids))]
        inside = [i for i, n in enumerate(shares) if n]
        assert list(range(row["token_start"], row["token_end"])) == inside
        assert row["n_tokens"] == len(inside)
        lengths = [len(piece or b"") for piece in record.alignment.pieces]
        weight = {i: shares[i] / lengths[i] if weights == "bytes" else 1.0 for i in inside}
        logprob, entropy = record.statistics.logprob.tolist(), record.statistics.entropy.tolist()
        assert row["sum_logprob"] == pytest.approx(math.fsum(weight[i] * logprob[i] for i in inside))
        mean = math.fsum(weight[i] * entropy[i] for i in inside) / math.fsum(weight.values())
        assert row["mean_entropy"] == pytest.approx(mean)
        assert row["min_logprob"] == min(logprob[i] for i in inside)


@pytest.mark.parametrize("by", ["word", "sentence:de", "line", "field", "key", "thinking", "answer"])
def test_every_span_that_the_finder_finds_is_a_row_in_order(run: Run, by: str) -> None:
    kind = span_kind(by)
    assert kind.find is not None
    expected = [
        (*record.key, index, *span)
        for record in RECORDS
        for index, span in enumerate(kind.find(record.alignment.text))
    ]
    names = [*KEY, "span_index", "char_start", "char_end", "label", "complete"]
    assert list(run.spans_df(by)[names].itertuples(index=False, name=None)) == expected


def test_byte_ranges_decode_to_the_text_where_it_is_text(run: Run) -> None:
    own = {record.key: b"".join(piece or b"" for piece in record.alignment.pieces) for record in RECORDS}
    for by in ("word", "sentence", "window:3:2"):
        for row in rows(run.spans_df(by)):
            data = own[row["prompt_id"], row["kind"], row["sample_index"]][
                row["byte_start"] : row["byte_end"]
            ]
            if by == "window:3:2":
                assert data.decode("utf-8", "ignore") in row["text"]
            else:
                assert data.decode("utf-8", "replace") == row["text"]


def test_json_that_was_cut_off_has_its_fields_and_no_draft(run: Run) -> None:
    frame = run.spans_df("field", prompts="p1")
    (first, *others) = [group for _, group in frame.groupby("sample_index")]
    assert first["label"].tolist() == ["name", "tags[0]", "tags[1]", "cut"]
    assert first["text"].tolist() == ["Zoë", "a", "2", "unfin"]
    assert first["complete"].tolist() == [True, True, True, False]
    assert all(other["label"].tolist() == first["label"].tolist() for other in others)


def test_a_function_of_the_text_gives_spans_with_labels_and_may_give_empty_ones(run: Run) -> None:
    frame = run.spans_df(lambda text: [(0, 1, "first"), (1, 1)] if len(text) > 1 else [], kinds=["sample"])
    assert set(frame["label"]) == {"first", ""}
    empty = frame[frame["label"] == ""]
    assert (empty["n_tokens"] == 0).all()
    assert empty["mean_logprob"].isna().all()
    assert (empty["byte_start"] == empty["byte_end"]).all()
    assert (frame["n_tokens"][frame["label"] == "first"] >= 1).all()


@pytest.mark.parametrize(("size", "step"), [(3, 3), (4, 2), (2, 5), (1, 1), (1000, 1)])
def test_windows_are_runs_of_the_text_s_tokens_until_the_last(run: Run, size: int, step: int) -> None:
    frame = run.spans_df(f"window:{size}:{step}", ["sum_logprob"])
    expected = []
    for record in RECORDS:
        n = sum(1 for start in record.alignment.byte_start if start < record.alignment.n_bytes)
        start, index = 0, 0
        while start < n:
            end = min(start + size, n)
            total = math.fsum(record.statistics.logprob[start:end].tolist())
            expected.append((*record.key, index, start, end, total))
            if end == n:
                break
            start, index = start + step, index + 1
    names = [*KEY, "span_index", "token_start", "token_end"]
    assert list(frame[names].itertuples(index=False, name=None)) == [row[:-1] for row in expected]
    assert frame["sum_logprob"].tolist() == pytest.approx([row[-1] for row in expected])


@pytest.mark.parametrize("end", [True, False])
def test_tokens_and_sequences_are_those_that_take_part(run: Run, end: bool) -> None:
    tokens, whole = (run.spans_df(by, ["sum_logprob"], include_end=end) for by in ("token", "sequence"))
    assert len(whole) == len(RECORDS)
    sums = tokens.groupby(KEY)["sum_logprob"].sum()
    for row, record in zip(rows(whole), RECORDS, strict=True):
        n = sum(1 for start in record.alignment.byte_start if start < record.alignment.n_bytes)
        n += end and record.has_end
        assert (row["n_tokens"], row["token_start"], row["token_end"]) == (n, 0, n)
        assert (row["text"], row["byte_end"]) == (record.alignment.text, record.alignment.n_bytes)
        assert row["char_end"] == len(record.alignment.text)
        if n:
            assert row["sum_logprob"] == pytest.approx(sums[record.key])
    ends = tokens[tokens["byte_start"] == tokens["byte_end"]]
    assert (ends["text"] == "<end>").all()
    assert len(ends) == sum(record.has_end for record in RECORDS) * end


def test_a_token_inside_a_character_is_over_the_whole_of_it(run: Run) -> None:
    frame = run.spans_df("window:1", prompts="p2")
    emoji = frame[(frame["sample_index"] == 0) & (frame["char_start"] == 0)]
    assert emoji["text"].tolist() == ["🎉"] * 4
    assert emoji["byte_start"].tolist() == [0, 1, 2, 3]


def logprobs_that_take_part(record: SequenceRecord) -> list[float]:
    alignment, last = record.alignment, len(record.token_ids) - 1
    return [
        value
        for i, value in enumerate(record.statistics.logprob.tolist())
        if alignment.byte_start[i] < alignment.n_bytes or (record.has_end and i == last)
    ]


def test_a_prompt_is_a_row_a_kind_over_all_its_tokens(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = run.spans_df("prompt", ["mean_logprob"])
    keys = sorted({record.key[:2] for record in RECORDS})
    assert list(frame[KEY[:2]].itertuples(index=False, name=None)) == keys
    for row in rows(frame):
        own = [record for record in RECORDS if record.key[:2] == (row["prompt_id"], row["kind"])]
        values = [value for record in own for value in logprobs_that_take_part(record)]
        assert (row["n_sequences"], row["n_tokens"]) == (len(own), len(values))
        expected = math.fsum(values) / len(values) if values else math.nan
        assert row["mean_logprob"] == pytest.approx(expected, nan_ok=True)
    monkeypatch.setattr(selection, "WHOLE_TOKENS", 3)  # a prompt at a time
    pd.testing.assert_frame_equal(run.spans_df("prompt", ["mean_logprob"]), frame)


def test_a_prompt_that_opens_a_thinking_block_makes_its_texts_begin_in_one(tmp_path: Path) -> None:
    made = [
        text_record(cut('hm </think> {"a": 1}', 5), "open", "sample", 0),
        text_record(cut('hm {"a": 1}', 5), "open", "sample", 1),
        text_record(cut('{"a": 1}', 5), "plain"),
    ]
    run = open_run(make_text_run(tmp_path / "run", made, {"open": "<|im_start|>assistant\n<think>\n"}))
    thinking = run.spans_df("thinking")
    assert thinking[["text", "complete"]].values.tolist() == [["hm", True], ['hm {"a": 1}', False]]
    assert run.spans_df("answer")["text"].tolist() == ['{"a": 1}', '{"a": 1}']
    assert run.spans_df("field")[["prompt_id", "sample_index"]].values.tolist() == [["open", 0], ["plain", 0]]


ALPHABET = ["a", " ", ".", "é", "今", "🎉", "\u0301", "\n"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.binary(max_size=3) | st.sampled_from([c.encode() for c in ALPHABET]), max_size=12), st.data()
)
def test_any_bytes_have_spans_whose_edges_are_characters(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], data: st.DataObject
) -> None:
    total = sum(map(len, pieces))
    record = text_record(pieces, n_bytes=data.draw(st.integers(0, total)))
    run = open_run(make_text_run(tmp_path_factory.mktemp("any") / "run", [record]))
    offsets = characters(record)
    for row in rows(run.spans_df("word", weights="bytes")):
        start, end = row["byte_start"], row["byte_end"]
        assert (start, end) == (offsets[row["char_start"]], offsets[row["char_end"]])
        inside = [i for i in range(len(pieces)) if shared_bytes(record, i, start, end)]
        assert (row["token_start"], row["token_end"]) == (inside[0], inside[-1] + 1)
