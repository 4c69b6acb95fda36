"""Sequences as the page's data: places in code units, values, spans, what is left out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.answers import Answer, greedy, make_answers, prompt, sample
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run, prompt_name
from toolkit.alignment import align
from toolkit.judging.grades import grade
from toolkit.records import SequenceRecord
from toolkit.report import reading
from toolkit.report.data import SPAN_KINDS, rounded, utf16_offsets
from toolkit.report.paging import PromptData
from toolkit.report.reading import LONGEST, Source, shortened
from toolkit.store import Run, RunWriter, open_run
from toolkit.store.grades import grade_sets
from toolkit.store.keys import Key

SPECIAL = "<|turn|>"
NASTY: Mapping[str, list[bytes | None]] = {
    "emoji over four tokens": [b"a\xf0", b"\x9f", b"\x8e", b"\x89b"],
    "invalid bytes": [b"\xff", b"x\xe2\x82", b"a", b"\xf0\x9f", None],
    "a lone mark": ["\u0301".encode(), b"e", "\u0301\u0302".encode(), "日本🎉".encode()],
    "a special token within": [b"yes", None, b" no", "🎉🎉".encode(), b"!"],
    "invalid at the end": ["🎉".encode(), b"\xe2\x82"],
    "nothing": [None],
    "U+FFFD itself": ["\ufffd".encode(), b"\xff\xff", b"z"],
}


def of_run(run: Run, **more: Any) -> list[PromptData]:
    return list(Source(0, run, "made", **more).prompts())


def by_key(prompts: Sequence[PromptData]) -> dict[Key, dict[str, Any]]:
    return {one.key: one.fields for prompt in prompts for one in prompt.sequences}


def cut(text: str, start: int, end: int) -> str:
    """What JavaScript's slice gives."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def plain_characters(data: bytes) -> list[tuple[int, int, int, int]]:
    """(byte start, byte end, unit start, unit end) of each character, one after another."""
    found, place, unit = [], 0, 0
    while place < len(data):
        for size in range(1, len(data) - place + 1):
            text = data[place : place + size].decode("utf-8", "replace")
            after = data[place : place + size + 1].decode("utf-8", "replace")
            # The character is whole where one more byte begins another.
            if text != "\ufffd" or len(after) > 1 or place + size == len(data):
                break
        units = 1 + (text[0] > "\uffff")
        found.append((place, place + size, unit, unit + units))
        place, unit = place + size, unit + units
    return found


def plain_places(pieces: Sequence[bytes | None], n_bytes: int) -> tuple[list[int], list[int]]:
    """Where each token's characters begin and end, in code units."""
    data = b"".join(piece or b"" for piece in pieces)[:n_bytes]
    characters = plain_characters(data)
    total = characters[-1][3] if characters else 0
    starts, ends, place = [], [], 0
    for piece in pieces:
        first, last = min(place, n_bytes), min(place + len(piece or b""), n_bytes)
        own = [(a, b) for start, end, a, b in characters if start < last and end > first]
        here = next((a for start, end, a, _ in characters if start <= first < end), total)
        starts.append(own[0][0] if own else here)
        ends.append(own[-1][1] if own else here)
        place += len(piece or b"")
    return starts, ends


def nasty_run(path: Path, cuts: Mapping[str, int]) -> Run:
    """A sequence of each of `NASTY`, its text cut after so many bytes where `cuts` says so."""
    ids = {piece: i for i, piece in enumerate(sorted({p for ps in NASTY.values() for p in ps}, key=str))}
    literals = {
        i: (piece, SPECIAL if piece is None else repr(piece), piece is None) for piece, i in ids.items()
    }
    with RunWriter.create(path, make_manifest()) as writer:
        writer.add_prompts(make_prompt(name, i) for i, name in enumerate(NASTY))
        writer.commit([_record(name, ids, cuts.get(name)) for name in NASTY], {**VOCABULARY, **literals})
    return open_run(path)


def _record(name: str, ids: Mapping[bytes | None, int], n_bytes: int | None) -> SequenceRecord:
    pieces = NASTY[name]
    record = make_record(name, "greedy", n_tokens=len(pieces), has_end=False)
    return dataclasses.replace(
        record,
        token_ids=np.array([ids[piece] for piece in pieces], np.int32),
        alignment=align(pieces, n_bytes),
        has_end=pieces[-1] is None,
        finish_reason="stop",
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_run(tmp_path_factory.mktemp("data") / "run", 5, 3, batch=4, shuffled=True))


@pytest.fixture(scope="module")
def prompts(run: Run) -> list[PromptData]:
    return of_run(run)


@pytest.mark.parametrize("name", NASTY)
def test_a_token_stands_where_a_plain_walk_over_the_bytes_finds_its_characters(
    tmp_path: Path, name: str
) -> None:
    (fields,) = [
        one for key, one in by_key(of_run(nasty_run(tmp_path / "run", {}))).items() if key[0] == name
    ]
    data = b"".join(piece or b"" for piece in NASTY[name])
    expected = plain_places(NASTY[name], len(data))
    assert (fields["tokens"]["start"], fields["tokens"]["end"]) == expected
    assert fields["tokens"]["kept"] == len(NASTY[name])
    assert fields["text"] == data.decode("utf-8", "replace")


def test_tokens_of_a_made_run_stand_where_a_plain_walk_finds_them(
    run: Run, prompts: list[PromptData]
) -> None:
    found = by_key(prompts)
    records = list(run.iter_sequences())
    assert len(found) == len(records) == 20
    assert any(utf16_offsets(fields["text"]) is not None for fields in found.values())
    for record in records:
        tokens = found[record.key]["tokens"]
        places = plain_places(record.alignment.pieces, record.alignment.n_bytes)
        assert (tokens["start"], tokens["end"]) == places
        assert tokens["start"] == sorted(tokens["start"])
        for piece, start, end in zip(record.alignment.pieces, *places, strict=True):
            if piece is not None and "\ufffd" not in (own := piece.decode("utf-8", "replace")):
                assert cut(found[record.key]["text"], start, end) == own


def test_what_a_stop_string_cut_off_stands_at_the_end_and_is_not_kept(tmp_path: Path) -> None:
    run = nasty_run(tmp_path / "run", {"a lone mark": 3, "emoji over four tokens": 5})
    found = {key[0]: fields for key, fields in by_key(of_run(run)).items()}
    mark = found["a lone mark"]
    assert (mark["text"], mark["tokens"]["kept"]) == ("\u0301e", 2)
    assert (mark["tokens"]["start"], mark["tokens"]["end"]) == ([0, 1, 2, 2], [1, 2, 2, 2])
    assert len(mark["tokens"]["logprob"]) == len(mark["tokens"]["start"]) == 4
    whole = found["emoji over four tokens"]
    assert (whole["text"], whole["tokens"]["kept"]) == ("a🎉", 4)
    assert whole["tokens"]["end"] == [3, 3, 3, 3]
    expected = plain_places(NASTY["emoji over four tokens"], 5)
    assert (whole["tokens"]["start"], whole["tokens"]["end"]) == expected


def test_values_of_tokens_are_those_of_the_tables(run: Run, prompts: list[PromptData]) -> None:
    frame = run.tokens_df()
    for key, rows in frame.groupby(["prompt_id", "kind", "sample_index"]):
        tokens = by_key(prompts)[key]["tokens"]  # type: ignore[index]
        assert tokens["rank"] == rows["rank"].tolist()
        for name in ("logprob", "entropy"):
            assert tokens[name] == pytest.approx(rows[name].tolist(), abs=5.001e-5)


def test_sums_and_means_are_those_of_the_confidence_table(run: Run, prompts: list[PromptData]) -> None:
    from toolkit.aggregation.summary import summary_df

    frame = summary_df(run, "sequence", ["sum_logprob", "mean_logprob", "n_tokens"])
    for row in frame.to_dict("records"):
        key = (row["prompt_id"], row["kind"], row["sample_index"])
        fields = by_key(prompts)[key]
        assert fields["sum_logprob"] == pytest.approx(row["sum_logprob"], abs=5.001e-5)
        assert fields["mean_logprob"] == pytest.approx(row["mean_logprob"], abs=5.001e-5)
        assert (fields["text"], fields["finish"]) == (row["text"], row["finish_reason"])


def test_alternatives_come_with_their_log_probabilities_the_likeliest_first(
    run: Run, prompts: list[PromptData]
) -> None:
    rows = run.alternatives_df().groupby(["prompt_id", "kind", "sample_index", "token_index"])
    for prompt_data in prompts:
        for one in prompt_data.sequences:
            for i, (ids, logprobs) in enumerate(
                zip(one.alternative_ids, one.alternative_logprobs, strict=True)
            ):
                expected = rows.get_group((*one.key, i)).sort_values("alternative_rank")
                assert ids.tolist() == expected["token_id"].tolist()
                assert logprobs.tolist() == pytest.approx(expected["logprob"].tolist(), abs=5.001e-5)


@pytest.mark.parametrize("kind", ["segment", "word", "sentence"])
def test_spans_are_those_of_the_confidence_table_at_their_text(
    run: Run, prompts: list[PromptData], kind: str
) -> None:
    metrics = list(SPAN_KINDS[kind])
    frame = run.spans_df(by=kind, metrics=metrics)
    rows = {key: own for key, own in frame.groupby(["prompt_id", "kind", "sample_index"])}
    for key, fields in by_key(prompts).items():
        if key not in rows:
            assert kind not in fields["spans"]
            continue
        spans, own = fields["spans"][kind], rows[key]
        places = zip(spans["start"], spans["end"], strict=True)
        assert [cut(fields["text"], start, end) for start, end in places] == own["text"].tolist()
        assert spans["first"] == own["token_start"].tolist()
        assert spans["last"] == own["token_end"].tolist()
        for metric in metrics:
            assert spans[metric] == pytest.approx(own[metric].tolist(), abs=5.001e-5)


def test_fields_have_their_paths_and_lines_are_of_texts_that_have_several(tmp_path: Path) -> None:
    answers = [
        greedy("json", '{"name": "é🎉", "n": [1]}', -1.0),
        greedy("lines", "one\ntwo", *[-0.5] * 7),
        greedy("line", "one", *[-0.5] * 3),
    ]
    made = make_answers(tmp_path / "run", [prompt(name) for name in ("json", "lines", "line")], answers)
    found = {key[0]: fields for key, fields in by_key(of_run(made)).items()}
    fields = found["json"]["spans"]["field"]
    assert fields["label"] == ["name", "n[0]"]
    places = zip(fields["start"], fields["end"], strict=True)
    assert [cut(found["json"]["text"], start, end) for start, end in places] == ["é🎉", "1"]
    assert [len(found[name]["spans"].get("line", {"start": ()})["start"]) for name in found] == [0, 0, 2]


def test_numbers_are_rounded_masked_and_never_minus_zero() -> None:
    values = rounded(np.array([-1e-9, -math.inf, math.inf, 1.23456, np.nan]))
    assert values[:4].tolist() == [0.0, -9999.0, 9999.0, 1.2346]
    assert math.copysign(1, values[0]) == 1
    assert math.isnan(values[4])


def test_what_was_not_computed_is_null_and_what_is_masked_is_9999(tmp_path: Path) -> None:
    answers = [greedy("p", "ab", -math.inf, -1.0, end=None), Answer("q", [], [], "greedy", end=None)]
    made = make_answers(tmp_path / "run", [prompt("p"), prompt("q")], answers)
    found = {key[0]: fields for key, fields in by_key(of_run(made)).items()}
    assert found["p"]["tokens"]["logprob"] == [-9999.0, -1.0]
    assert found["p"]["mean_logprob"] == -9999.0
    assert "constrained_logprob" not in found["p"]["tokens"]
    assert (found["q"]["mean_logprob"], found["q"]["spans"]) == (None, {})
    assert found["q"]["tokens"]["kept"] == 0


def test_sampling_log_probabilities_are_given_where_they_say_something(tmp_path: Path, run: Run) -> None:
    assert Source(0, run, "made").optional == ["sampling_logprob"]  # drawn at 0.8
    raw = make_answers(
        tmp_path / "raw",
        [prompt("p")],
        [sample("p", 0, "a", -1.0), greedy("p", "a", -1.0, sampling=[0.0, 0.0])],
    )
    assert Source(0, raw, "raw").optional == []
    drawn = make_answers(
        tmp_path / "drawn", [prompt("p")], [sample("p", 0, "a", -1.0, sampling=[-0.4, -0.1])]
    )
    assert by_key(of_run(drawn))[("p", "sample", 0)]["tokens"]["sampling_logprob"] == [-0.4, -0.1]


def test_constrained_log_probabilities_are_given_where_there_are_some(tmp_path: Path) -> None:
    record = make_record("p", "greedy", n_tokens=3, has_end=False)
    statistics = record.statistics._replace(constrained_logprob=np.array([-0.5, -np.inf, np.nan], np.float32))
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt("p")])
        writer.commit([dataclasses.replace(record, statistics=statistics)], VOCABULARY)
    (fields,) = by_key(of_run(open_run(tmp_path / "run"))).values()
    assert fields["tokens"]["constrained_logprob"] == [-0.5, -9999.0, None]


def test_prompts_come_in_the_order_of_their_file_however_they_are_read(
    run: Run, prompts: list[PromptData], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [one.prompt_id for one in prompts] == [prompt_name(i) for i in range(5)]
    monkeypatch.setattr(reading, "CHUNK_TOKENS", 1)
    again = of_run(run)
    assert by_key(again) == by_key(prompts)
    assert [one.prompt_id for one in again] == [one.prompt_id for one in prompts]
    turned = make_answers(
        tmp_path / "run",
        [prompt("b", index=0), prompt("a", index=1)],
        [greedy("a", "x", -1.0), greedy("b", "y", -1.0)],
    )
    assert [one.prompt_id for one in of_run(turned)] == ["b", "a"]


def test_a_prompt_comes_with_what_was_asked_and_what_is_right(prompts: list[PromptData]) -> None:
    assert prompts[2].question == f"What is {prompt_name(2)}?"
    assert prompts[2].reference == ["Paris", "paris"]
    assert [one.key[1:] for one in prompts[2].sequences] == [
        ("greedy", 0),
        ("sample", 0),
        ("sample", 1),
        ("sample", 2),
    ]


def test_a_question_as_long_as_a_book_is_cut_and_says_so(tmp_path: Path) -> None:
    assert shortened("x" * LONGEST) == "x" * LONGEST
    assert shortened("x" * (LONGEST + 1234)) == "x" * LONGEST + "… (1,234 more characters)"
    long = "y" * 30_000
    made = make_answers(tmp_path / "run", [prompt("p", long, text=long)], [greedy("p", "a", -1.0)])
    (one,) = of_run(made)
    assert one.question == one.reference[0] == shortened(long)


def test_grades_come_with_what_the_grader_read(tmp_path: Path) -> None:
    answers = [greedy("p", "Yes", -1.0), sample("p", 0, "No", -1.0), Answer("q", ["x"], [-1.0])]
    made = make_answers(tmp_path / "run", [prompt("p", "Yes"), prompt("q")], answers)
    grade(made, "exact")
    (chosen,) = grade_sets(made.path)
    found = by_key(of_run(made, grades=chosen))
    assert [(one["grade"], one["extracted"]) for one in found.values()] == [
        (1.0, "Yes"),
        (0.0, "No"),
        (None, None),
    ]


def test_the_grade_of_an_answer_judged_by_field_is_the_mean_of_its_fields(tmp_path: Path) -> None:
    answers = [greedy("p", '{"a": "x", "b": "y", "c": "z"}', -1.0)]
    made = make_answers(tmp_path / "run", [prompt("p", '{"a": "x", "b": "no", "c": "no"}')], answers)
    grade(made, "exact", by="field")
    (chosen,) = grade_sets(made.path)
    (fields,) = by_key(of_run(made, grades=chosen)).values()
    assert (fields["grade"], fields["extracted"]) == (0.3333, None)
