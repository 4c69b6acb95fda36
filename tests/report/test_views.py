"""Sequences cut into pieces: their text is kept, and each piece has the value of its tokens."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.store.factory import (
    VOCABULARY,
    make_manifest,
    make_prompt,
    make_record,
    make_records,
    make_run,
    prompt_name,
)
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES
from toolkit.records import SequenceRecord
from toolkit.report.views import SequenceView, has_gaps, sequence_views
from toolkit.store import RunWriter, open_run

RECORDS = {record.key: record for record in make_records()}


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("views") / "run", batch=4)


def views(path: Path, by: str, metric: str, tokens: bool = False) -> dict[tuple[str, str, int], SequenceView]:
    scale = (TOKEN_SCALES if by == "token" else SPAN_SCALES)[metric]
    return sequence_views(open_run(path), list(RECORDS), by, metric, scale, tokens=tokens)


def joined(view: SequenceView) -> str:
    return "".join(piece.text for piece in view.pieces)


def test_tokens_keep_the_text_and_show_the_end(run_path: Path) -> None:
    found = views(run_path, "token", "logprob")
    assert found.keys() == RECORDS.keys()
    for key, record in RECORDS.items():
        assert joined(found[key]) == record.alignment.text + ("<|im_end|>" if record.has_end else "")
        if record.has_end:
            assert found[key].pieces[-1].value == float(record.statistics.logprob[-1])


def test_a_token_of_whole_characters_has_its_own_value(run_path: Path) -> None:
    def whole(record: SequenceRecord) -> bool:
        return all(piece is None or piece.isascii() for piece in record.alignment.pieces)

    plain = {key: record for key, record in RECORDS.items() if whole(record)}
    assert plain
    found = views(run_path, "token", "entropy")
    for key, record in plain.items():
        texts = [VOCABULARY[i][1] for i in record.token_ids.tolist()]
        assert found[key].pieces == list(zip(texts, record.statistics.entropy.tolist(), strict=True))


def test_a_character_of_several_tokens_has_the_least_sure_value(run_path: Path) -> None:
    split = [
        (record, segment)
        for record in RECORDS.values()
        for segment in record.alignment.segments
        if segment.text == "🎉" and segment.token_end - segment.token_start == 4
    ]
    assert split
    found = views(run_path, "token", "logprob")
    for record, segment in split:
        worst = record.statistics.logprob[segment.token_start : segment.token_end].min()
        assert ("🎉", float(worst)) in found[record.key].pieces


def test_segments_are_the_pieces_with_their_statistic(run_path: Path) -> None:
    found = views(run_path, "segment", "min_logprob")
    for key, record in RECORDS.items():
        expected = [
            (segment.text, float(record.statistics.logprob[segment.token_start : segment.token_end].min()))
            for segment in record.alignment.segments
        ]
        assert found[key].pieces == expected


def test_a_sequence_is_one_piece(run_path: Path) -> None:
    found = views(run_path, "sequence", "greedy_fraction")
    for key, record in RECORDS.items():
        (piece,) = found[key].pieces
        assert piece.text == record.alignment.text
        assert piece.value == pytest.approx((record.statistics.rank == 1).mean())


@pytest.mark.parametrize("by", ["word", "sentence", "line", "field", "answer", "regex:[a-m]+"])
def test_spans_keep_the_text_and_what_is_between_them_has_the_value_none(run_path: Path, by: str) -> None:
    found, frame = views(run_path, by, "min_prob"), open_run(run_path).spans_df(by, ["min_prob"])
    rows = frame.set_index(["prompt_id", "kind", "sample_index"])
    for key, record in RECORDS.items():
        assert joined(found[key]) == record.alignment.text
        own = rows[rows.index == key]
        marked = [piece for piece in found[key].pieces if piece.value is not None]
        assert marked == list(zip(own["text"], own["min_prob"], strict=True))


def test_spans_that_overlap_do_not_repeat_the_text(run_path: Path) -> None:
    found = views(run_path, "regex:((..)....)", "mean_prob")
    assert {key: joined(view) for key, view in found.items()} == {
        key: record.alignment.text for key, record in RECORDS.items()
    }


def test_tokens_come_with_what_else_was_likely(run_path: Path) -> None:
    for key, view in views(run_path, "segment", "mean_logprob", tokens=True).items():
        statistics = RECORDS[key].statistics
        assert len(view.tokens) == len(statistics.logprob)
        for i, token in enumerate(view.tokens):
            assert token.position == i
            assert token[2:5] == (statistics.logprob[i], statistics.entropy[i], statistics.rank[i])
            ids = statistics.alternative_ids[i].tolist()
            assert [a.text for a in token.alternatives] == [VOCABULARY[j][1] for j in ids]
            assert [a.logprob for a in token.alternatives] == statistics.alternative_logprobs[i].tolist()
            chosen = RECORDS[key].token_ids[i]
            assert [a.is_chosen for a in token.alternatives] == [j == chosen for j in ids]


def test_tokens_past_a_stop_string_are_not_shown(tmp_path: Path) -> None:
    n_bytes = int(make_record(has_end=False).alignment.byte_start[5])
    record = make_record(has_end=False, n_bytes=n_bytes)
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt("p")])
        writer.commit([record], VOCABULARY)
    run, scale = open_run(tmp_path / "run"), TOKEN_SCALES["logprob"]
    (view,) = sequence_views(run, [record.key], "token", "logprob", scale, tokens=True).values()
    assert [token.position for token in view.tokens] == [0, 1, 2, 3, 4]
    assert joined(view) == record.alignment.text


def test_only_the_wanted_sequences_are_read(run_path: Path) -> None:
    key = (prompt_name(1), "greedy", 0)
    found = sequence_views(open_run(run_path), [key], "token", "constrained_logprob", TOKEN_SCALES["logprob"])
    assert list(found) == [key]
    assert all(piece.value is not None and math.isnan(piece.value) for piece in found[key].pieces)
    assert has_gaps(found[key])
    assert found[key].tokens == []


def test_text_that_is_in_no_span_is_no_gap(run_path: Path) -> None:
    found = views(run_path, "regex:@@", "mean_logprob")
    assert not any(map(has_gaps, found.values()))
    assert all(piece.value is None for view in found.values() for piece in view.pieces)
