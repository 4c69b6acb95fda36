"""An audit passes a run that holds what its model says, and finds every value that was changed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toolkit.cli.main import main
from toolkit.collect.audit import (
    N_WORST,
    AuditResult,
    audit,
    check_same_model,
    differences_of,
    same_alternatives,
    tolerance_for,
)
from toolkit.collect.collector import Work, collect
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings, Settings
from toolkit.errors import DataFault, ToolkitError
from toolkit.generation.beam_settings import BeamSettings
from toolkit.records import PromptRecord, SequenceRecord, TokenStatistics
from toolkit.store import Run, RunWriter, open_run

TOLERANCE = 5e-3  # the tiny model's logits are ten times as large as a real one's
Change = Callable[[SequenceRecord], SequenceRecord]


@pytest.fixture(scope="module")
def collected(tiny_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of samples, greedy sequences and beams."""
    path = tmp_path_factory.mktemp("audit") / "run"
    prompts = [Prompt(i, i + 1, id=f"q{i}", prompt=text) for i, text in enumerate(["How many?", "да!"])]
    records = render_prompts(tiny_model.tokenizer, prompts, RenderSettings())
    settings = Settings(3, greedy=True, max_tokens=6, beam=BeamSettings(2))
    collect(Work(tiny_model, settings, records, 4), path)
    return path


def changed(run: Run, path: Path, change: Change) -> Run:
    """A copy of a run, each of its sequences as `change` gives it back."""
    rows = run.prompts_df()
    prompts = [
        PromptRecord(row.prompt_id, row.prompt_index, row.text, np.array(row.token_ids, np.int32))
        for row in rows.itertuples()
    ]
    with RunWriter.create(path, run.manifest) as writer:
        writer.add_prompts(prompts)
        writer.commit([change(record) for record in run.iter_sequences()], _More(run.vocabulary))
    return open_run(path)


class _More(dict[int, Any]):
    """A vocabulary entry for any id."""

    def __missing__(self, token_id: int) -> tuple[bytes, str, bool]:
        return b"?", "?", False


def at(key: tuple[str, str, int], **columns: Callable[[np.ndarray], None]) -> Change:
    """Change columns of one sequence's statistics in place."""

    def change(record: SequenceRecord) -> SequenceRecord:
        if record.key != key:
            return record
        copies = {name: getattr(record.statistics, name).copy() for name in columns}
        for name, alter in columns.items():
            alter(copies[name])
        return replace(record, statistics=record.statistics._replace(**copies))

    return change


def put(place: Any, by: float) -> Callable[[np.ndarray], None]:
    def alter(column: np.ndarray) -> None:
        column[place] += by

    return alter


def run_audit(run: Run, model: Any, **more: Any) -> AuditResult:
    return audit(run, model, **{"tolerance": TOLERANCE, **more})


def test_a_good_run_passes_and_every_token_is_compared(collected: Path, tiny_model: Any) -> None:
    run = open_run(collected)
    result = run_audit(run, tiny_model)
    frame = run.tokens_df()
    assert result.passed
    assert set(run.sequences_df()["kind"]) == {"beam", "greedy", "sample"}
    assert (result.n_sequences, result.n_tokens) == (len(run.sequence_keys()), len(frame))
    assert {name: found.n for name, found in result.differences.items()} == {
        "logprob": len(frame),
        "entropy": len(frame),
        "alternatives": len(run.alternatives_df()),
    }
    assert result.differences["logprob"].largest < TOLERANCE
    assert (result.stored_dtype, result.scored_dtype) == ("float32", "float32")


def test_tokens_past_a_stop_string_are_compared(tiny_model: Any, tmp_path: Path) -> None:
    prompts = render_prompts(tiny_model.tokenizer, [Prompt(0, 1, id="q", prompt="How?")], RenderSettings())
    collect(Work(tiny_model, Settings(1, max_tokens=8), prompts), tmp_path / "whole")
    text = open_run(tmp_path / "whole").sequences_df()["text"][0]
    settings = Settings(1, max_tokens=8, stop=(text[2:4],))
    collect(Work(tiny_model, settings, prompts), tmp_path / "cut")
    run = open_run(tmp_path / "cut")
    (record,) = run.iter_sequences()
    assert record.alignment.n_bytes < record.alignment.byte_end[-1]
    assert run_audit(run, tiny_model).n_tokens == len(record.token_ids)


@pytest.mark.parametrize(
    ("column", "place", "by", "measure"),
    [
        ("logprob", 4, -0.05, "logprob"),
        ("entropy", 4, 0.05, "entropy"),
        ("alternative_logprobs", (4, 2), -0.05, "alternative 3"),
    ],
)
def test_a_changed_value_is_found_and_named(
    collected: Path, tiny_model: Any, tmp_path: Path, column: str, place: Any, by: float, measure: str
) -> None:
    key = ("q1", "sample", 2)
    run = changed(open_run(collected), tmp_path / "run", at(key, **{column: put(place, by)}))
    result = run_audit(run, tiny_model)
    assert not result.passed
    worst = result.worst[0]
    assert (worst.prompt_id, worst.kind, worst.sample_index, worst.token_index) == (*key, 4)
    assert worst.measure == measure
    assert worst.stored - worst.scored == pytest.approx(by, abs=TOLERANCE)
    assert worst.difference == pytest.approx(0.05, abs=TOLERANCE)
    assert [name for name, found in result.differences.items() if found.largest > TOLERANCE] == [
        measure if measure != "alternative 3" else "alternatives"
    ]


def test_alternatives_under_each_others_ids_are_found(
    collected: Path, tiny_model: Any, tmp_path: Path
) -> None:
    def swap(ids: np.ndarray) -> None:
        ids[0, [0, 4]] = ids[0, [4, 0]]

    run = changed(open_run(collected), tmp_path / "run", at(("q0", "greedy", 0), alternative_ids=swap))
    result = run_audit(run, tiny_model)
    assert not result.passed
    assert result.worst[0].measure in ("alternative 1", "alternative 5")


def test_other_tokens_are_found(collected: Path, tiny_model: Any, tmp_path: Path) -> None:
    def other(record: SequenceRecord) -> SequenceRecord:
        ids = record.token_ids.copy()
        ids[0] = 50 if ids[0] != 50 else 51
        return replace(record, token_ids=ids) if record.key == ("q0", "greedy", 0) else record

    result = run_audit(changed(open_run(collected), tmp_path / "run", other), tiny_model)
    assert not result.passed
    assert result.worst[0].prompt_id == "q0"


def test_the_worst_come_first_and_are_few(collected: Path, tiny_model: Any, tmp_path: Path) -> None:
    sizes = iter(np.linspace(0.1, 0.9, 200))

    def all_of_them(record: SequenceRecord) -> SequenceRecord:
        lower = record.statistics.logprob - np.float32([next(sizes) for _ in record.token_ids])
        return replace(record, statistics=record.statistics._replace(logprob=lower))

    run = changed(open_run(collected), tmp_path / "run", all_of_them)
    result = run_audit(run, tiny_model)
    found = [token.difference for token in result.worst]
    assert len(found) == N_WORST
    assert found == sorted(found, reverse=True)
    assert found[0] == result.differences["logprob"].largest
    every = np.linspace(0.1, 0.9, 200)[: result.n_tokens]
    np.testing.assert_allclose(found, every[::-1][:N_WORST], atol=TOLERANCE)
    assert result.differences["logprob"].median == pytest.approx(np.median(every), rel=0.05)


def test_a_limit_takes_the_first_sequences(collected: Path, tiny_model: Any) -> None:
    run = open_run(collected)
    first = next(run.iter_sequences())
    result = run_audit(run, tiny_model, limit=1)
    assert (result.n_sequences, result.n_tokens) == (1, len(first.token_ids))
    assert run_audit(run, tiny_model, limit=10**6).n_sequences == len(run.sequence_keys())


def test_few_sequences_at_a_time_give_the_same(
    collected: Path, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = run_audit(open_run(collected), tiny_model)
    monkeypatch.setattr("toolkit.collect.audit._AT_ONCE", 2)
    assert run_audit(open_run(collected), tiny_model) == at_once


def test_a_run_without_tokens_is_refused(collected: Path, tiny_model: Any, tmp_path: Path) -> None:
    run = open_run(collected)
    with RunWriter.create(tmp_path / "run", run.manifest):
        pass
    with pytest.raises(ToolkitError, match="there are no tokens to audit"):
        run_audit(open_run(tmp_path / "run"), tiny_model)


def test_sequences_that_ended_by_an_error_have_fewer_tokens_or_none(
    collected: Path, tiny_model: Any, tmp_path: Path
) -> None:
    from toolkit.alignment import align

    def cut(record: SequenceRecord) -> SequenceRecord:
        kept = {0: 2, 1: 0}.get(record.sample_index, 1)
        return replace(
            record,
            token_ids=record.token_ids[:kept],
            statistics=record.statistics.rows(slice(0, kept)),
            alignment=align(record.alignment.pieces[:kept]),
            finish_reason="error",
        )

    run = changed(open_run(collected), tmp_path / "run", cut)
    result = run_audit(run, tiny_model)
    assert result.passed
    assert result.n_tokens == len(run.tokens_df())
    assert result.n_sequences < len(run.sequence_keys())


def test_a_run_that_lost_its_prompts_is_a_fault(collected: Path, tiny_model: Any, tmp_path: Path) -> None:
    shutil.copytree(collected, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "prompts")
    with pytest.raises(DataFault, match="prompt 'q0' of a sequence is not stored"):
        run_audit(open_run(tmp_path / "run"), tiny_model)


def test_a_token_that_the_model_has_not_is_a_fault(collected: Path, tiny_model: Any, tmp_path: Path) -> None:
    def beyond(record: SequenceRecord) -> SequenceRecord:
        return replace(record, token_ids=np.full_like(record.token_ids, 320))

    run = changed(open_run(collected), tmp_path / "run", beyond)
    with pytest.raises(DataFault, match=r"beam 0 of prompt 'q0' has token id 320; the model's are 0 to 319"):
        run_audit(run, tiny_model)


def test_another_model_or_tokenizer_is_refused(collected: Path, tiny_model: Any) -> None:
    manifest = open_run(collected).manifest
    check_same_model(manifest, tiny_model)
    for what, part in (("model", {"weights_hash": "x"}), ("tokenizer", {"tokenizer_hash": "x"})):
        hashes = {"weights_hash": tiny_model.weights_hash, "tokenizer_hash": tiny_model.tokenizer_hash}
        with pytest.raises(ToolkitError, match=f"collected with another {what} .* as model, .* with force"):
            check_same_model(manifest, SimpleNamespace(name="m", **{**hashes, **part}))  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="another model"):
        check_same_model(replace(manifest, model={}), tiny_model)


def test_the_tolerance_is_that_of_the_coarser_type() -> None:
    assert tolerance_for("float32", "float32") == 1e-3
    assert tolerance_for("float32", "float16") == tolerance_for("float16", "float32") > 1e-3
    assert tolerance_for("bfloat16", "float16") > tolerance_for("float16")


def test_differences_of_what_is_not_finite() -> None:
    nan, inf = math.nan, math.inf
    stored = np.float32([[-1.0, -inf, -inf, nan, -1.0, nan]])
    scored = np.float32([[-1.5, -inf, -2.0, -2.0, nan, nan]])
    found = differences_of(stored, scored)
    np.testing.assert_array_equal(found, np.float32([[0.5, 0, inf, nan, inf, nan]]))


def listing(ids: list[int], logprobs: list[float]) -> TokenStatistics:
    return TokenStatistics.empty()._replace(
        alternative_ids=np.array([ids], np.int32), alternative_logprobs=np.float32([logprobs])
    )


def test_an_alternative_is_compared_by_its_id_wherever_it_stands() -> None:
    scored = listing([7, 8, 9], [-1.0, -1.1, -2.0])
    np.testing.assert_allclose(same_alternatives(listing([8, 7], [-1.0, -1.1]), scored), [[-1.1, -1.0]])
    # Not among the scored ones: at least so far off as the last of them, and right where it is below.
    np.testing.assert_allclose(same_alternatives(listing([7, 1], [-1.0, -1.5]), scored), [[-1.0, -2.0]])
    np.testing.assert_allclose(same_alternatives(listing([7, 1], [-1.0, -3.0]), scored), [[-1.0, -3.0]])


@pytest.mark.model
def test_a_run_of_the_default_model_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "What is the capital of France?"}\n{"prompt": "7 + 5?"}\n')
    output = tmp_path / "run"
    options = ["--prompts", str(prompts), "--output", str(output), "-n", "3", "--max-tokens", "8"]
    assert main(["collect", *options]) == 0
    assert main(["audit", str(output)]) == 0
    assert "no difference is over the tolerance of 0.001 nats" in capsys.readouterr().out
