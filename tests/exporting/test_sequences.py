"""A line of JSON has everything that is stored of a sequence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.exporting.odd_runs import LITERALS, PIECES, Odd, by_key, odd_runs
from tests.exporting.test_tables import from_json
from tests.graded import graded_run
from tests.store.factory import make_records, make_run, prompt_name
from toolkit.aggregation.selection import Selection
from toolkit.errors import ToolkitError
from toolkit.exporting import rows, sequence_text
from toolkit.records import SequenceRecord
from toolkit.store import Run, open_run, open_runs
from toolkit.store.schemas import TABLES


def lines_of(*runs: Run, **more: Any) -> list[dict[str, Any]]:
    text = b"".join(sequence_text(open_runs([run.path for run in runs]), **more)).decode()
    return [json.loads(line) for line in text.splitlines()]


def number(value: float | None) -> float:
    return math.nan if value is None else -math.inf if value == -9999.0 else value


def check_tokens(found: list[dict[str, Any]], record: SequenceRecord) -> None:
    statistics = record.statistics
    assert [token["token_index"] for token in found] == list(range(len(record.token_ids)))
    for i, token in enumerate(found):
        piece = record.alignment.pieces[i]
        token_id = int(record.token_ids[i])
        assert (token["token_id"], token["literal"]) == (token_id, LITERALS[token_id])
        assert (token["bytes"], token["is_special"]) == (
            None if piece is None else piece.hex(),
            piece is None,
        )
        for name in ("logprob", "constrained_logprob", "entropy", "boosted_prob", "lse_quarter"):
            stored = getattr(statistics, name)[i]
            np.testing.assert_array_equal(np.float32(number(token[name])), stored)
        assert token["rank"] == (int(statistics.rank[i]) or None)
        likely = zip(statistics.alternative_ids[i].tolist(), statistics.alternative_logprobs[i], strict=True)
        assert [
            (a["alternative_rank"], a["token_id"], np.float32(number(a["logprob"])))
            for a in token["alternatives"]
        ] == [(rank, token_id, logprob) for rank, (token_id, logprob) in enumerate(likely, 1)]
        for likely_one in token["alternatives"]:
            data = PIECES[likely_one["token_id"]]
            assert likely_one["bytes"] == (None if data is None else data.hex())
            assert likely_one["literal"] == LITERALS[likely_one["token_id"]]


@settings(max_examples=15, deadline=None)
@given(odd_runs())
def test_every_sequence_comes_back_from_its_line(odd: Odd) -> None:
    with odd.run(batch=2) as run:
        found = lines_of(run)
        prompts = {row["prompt_id"]: row for row in run.load("prompts").to_pylist()}
        heads = {(r["prompt_id"], r["kind"], r["sample_index"]): r for r in run.load("sequences").to_pylist()}
    assert len(found) == len(heads) == len(odd.sequences)
    for line in found:
        key = (line["prompt_id"], line["kind"], line["sample_index"])
        record = by_key(odd.sequences)[key]
        check_tokens(line.pop("tokens"), record)
        assert [
            {name: value for name, value in segment.items() if name != "segment_index"}
            for segment in line.pop("segments")
        ] == [segment._asdict() for segment in record.alignment.segments]
        assert from_json(json.dumps(line.pop("prompt")), "prompts") == prompts[key[0]]
        assert line.pop("grades") == []
        assert from_json(json.dumps(line), "sequences") == heads[key]


def test_the_lines_do_not_depend_on_how_many_sequences_are_text_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(make_run(tmp_path / "run"))
    whole = lines_of(run)
    assert {(r["prompt_id"], r["kind"], r["sample_index"]) for r in whole} == {r.key for r in make_records()}
    monkeypatch.setattr(rows, "SLICE_TOKENS", 20)
    assert lines_of(run) == whole


def test_grades_are_inside_with_their_grader(tmp_path: Path) -> None:
    run = graded_run(tmp_path / "run")
    found = lines_of(run)
    grades = {
        (row["prompt_id"], row["kind"], row["sample_index"]): row
        for row in open_run(run.path).load("grades").to_pylist()
    }
    names = [name for name in TABLES["grades"].names if name not in TABLES["grades"].key]
    some = lines_of(run, selection=Selection(kinds=["sample"], samples=[1, 3]))
    assert (len(found), len(some)) == (8 * 6, 8 * 2)
    for line in found + some:
        stored = grades[(line["prompt_id"], line["kind"], line["sample_index"])]
        assert line["grades"] == [{name: stored[name] for name in names}]


def test_only_the_selected_sequences_are_written(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    chosen = lines_of(run, selection=Selection([prompt_name(2)], ["sample"], [1, 3]))
    assert [(line["prompt_id"], line["sample_index"]) for line in chosen] == [
        (prompt_name(2), 1),
        (prompt_name(2), 3),
    ]


def test_several_runs_carry_their_labels(tmp_path: Path) -> None:
    runs = [open_run(make_run(tmp_path / name, n_prompts=1)) for name in ("one", "two")]
    found = lines_of(*runs)
    assert [line["run"] for line in found] == ["one"] * 5 + ["two"] * 5
    assert list(found[0])[:5] == ["run", "model", "temperature", "top_p", "prompt_id"]


def test_a_selection_of_nothing_is_an_error(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    with pytest.raises(ToolkitError, match="nothing is selected"):
        lines_of(run, selection=Selection(samples=[99]))
    with pytest.raises(ToolkitError, match="'nobody' is not in"):
        lines_of(run, selection=Selection(["nobody"]))


def test_a_token_that_the_vocabulary_lacks_is_a_fault_of_the_data(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    run.vocabulary.popitem()
    from toolkit.errors import DataFault
    from toolkit.exporting.words import Words

    words = Words(run, lambda entry: entry.literal)
    with pytest.raises(DataFault, match=r"token id \d+ is not in vocabulary: run toolkit validate"):
        words.of(open_run(run.path).load("vocabulary")["token_id"])
