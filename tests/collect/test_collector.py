"""Collections with a tiny random model: what a run holds, and how it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.at_once import AtOnce
from toolkit.collect.collector import Outcome, Work, collect
from toolkit.collect.plan import in_shard, missing_sequences
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings, Settings
from toolkit.errors import DataFault, ToolkitError
from toolkit.generation.beam_settings import BeamSettings
from toolkit.generation.sampler import Sampler
from toolkit.store import RunWriter, open_run
from toolkit.store.lock import Shard
from toolkit.store.validate import validate

QUESTIONS = ["What is the capital of France?", "How many legs?", "да!", "def add", "🎉 party", "naïve café"]

Collect = Callable[..., Outcome]


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def collected(tiny_model: Any, run_path: Path) -> Collect:
    def start(
        n_prompts: int = 3,
        *,
        batch_size: int = 4,
        shard: Shard | None = None,
        prompt_logprobs: bool = False,
        more: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Outcome:
        settings = {"num_samples": 3, "max_tokens": 8, **settings}
        prompts = [Prompt(i, i + 1, id=f"q{i}", prompt=QUESTIONS[i]) for i in range(n_prompts)]
        records = render_prompts(tiny_model.tokenizer, prompts, RenderSettings())
        work = Work(tiny_model, Settings(**settings), records, batch_size, shard, "hash", prompt_logprobs)
        return collect(work, run_path, **(more or {}))

    return start


def ids_of(run_path: Path) -> dict[tuple[str, str, int], list[int]]:
    return {record.key: record.token_ids.tolist() for record in open_run(run_path).iter_sequences()}


def test_a_run_has_every_sequence_and_is_valid(collected: Collect, run_path: Path) -> None:
    outcome = collected(greedy=True, prompt_logprobs=True)
    run = open_run(run_path)
    assert outcome.n_sequences == len(run.sequence_keys()) == 3 * 4
    assert not list(validate(run_path))
    frame = run.sequences_df()
    assert frame["n_tokens"].sum() == outcome.n_tokens == len(run.tokens_df())
    assert set(frame["kind"]) == {"greedy", "sample"}


def test_the_tables_say_what_the_model_says(collected: Collect, run_path: Path, tiny_model: Any) -> None:
    import mlx.core as mx

    collected()
    run = open_run(run_path)
    prompts = run.prompts_df().set_index("prompt_id")
    for record in run.iter_sequences():
        prompt = [int(i) for i in prompts.loc[record.prompt_id, "token_ids"]]
        ids = record.token_ids.tolist()
        logits = np.array(tiny_model.network(mx.array([[*prompt, *ids]]))[0, len(prompt) - 1 : -1])
        logp = logits - np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(record.statistics.logprob, logp[np.arange(len(ids)), ids], atol=5e-3)


def test_prompt_tokens_are_scored_but_the_first(collected: Collect, run_path: Path) -> None:
    collected(1, prompt_logprobs=True)
    run = open_run(run_path)
    frame = run.prompt_tokens_df()
    assert frame["token_id"].tolist() == list(run.prompts_df()["token_ids"][0])
    assert frame["logprob"].isna().tolist() == [True] + [False] * (len(frame) - 1)
    assert (frame["logprob"][1:] < 0).all()


def test_it_goes_on_with_more_samples_and_prompts(collected: Collect, run_path: Path) -> None:
    collected(2)
    before = ids_of(run_path)
    outcome = collected(4, num_samples=5, greedy=True, batch_size=7)
    after = ids_of(run_path)
    assert outcome.n_before == 6
    assert len(after) == 4 * 6
    assert {key: after[key] for key in before} == before
    assert collected(4, num_samples=5, greedy=True).n_sequences == 0


def test_the_same_samples_at_once_and_bit_by_bit(collected: Collect, run_path: Path, tmp_path: Path) -> None:
    for n in range(1, 4):
        collected(n, num_samples=n)
    collected(3, num_samples=3)
    pieces = ids_of(run_path)
    collected(3, num_samples=3, batch_size=32, more={"overwrite": True})
    assert ids_of(run_path) == pieces


def test_other_settings_are_refused_with_the_difference(collected: Collect, run_path: Path) -> None:
    collected(1)
    before = ids_of(run_path)
    with pytest.raises(ToolkitError, match=r"sampler\.temperature: 1\.0 -> 0\.5.*with overwrite"):
        collected(1, sampler=Sampler(0.5))
    assert ids_of(run_path) == before


def test_without_resume_a_run_is_refused(collected: Collect) -> None:
    collected(1)
    with pytest.raises(ToolkitError, match="already holds a run"):
        collected(1, more={"resume": False})


def test_shards_share_a_run_and_may_change_in_number(collected: Collect, run_path: Path) -> None:
    first = collected(6, shard=Shard(0, 3))
    collected(6, shard=Shard(0, 2))
    collected(6, shard=Shard(1, 2))
    assert first.n_sequences < 18
    in_shards = ids_of(run_path)
    assert len(in_shards) == 18
    assert not list(validate(run_path))
    collected(6, more={"overwrite": True})
    assert ids_of(run_path) == in_shards


def test_every_prompt_is_in_one_shard() -> None:
    for prompt_id in map(str, range(200)):
        assert sum(in_shard(prompt_id, Shard(i, 5)) for i in range(5)) == 1
    sizes = [sum(in_shard(str(p), Shard(i, 5)) for p in range(200)) for i in range(5)]
    assert min(sizes) > 20


def test_an_interrupt_keeps_what_was_finished(
    collected: Collect, run_path: Path, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def stop(step: Any) -> None:
        seen.extend(step.records)
        if len(seen) >= 4:
            raise KeyboardInterrupt

    outcome = collected(3, more={"on_step": stop})
    assert outcome.interrupted
    assert set(ids_of(run_path)) == {record.key for record in seen}
    collected(3)
    pieces = ids_of(run_path)
    collected(3, more={"overwrite": True})
    assert ids_of(run_path) == pieces


def test_an_error_in_the_loop_keeps_what_was_finished(collected: Collect, run_path: Path) -> None:
    seen = []

    def fail(step: Any) -> None:
        seen.extend(step.records)
        if len(seen) >= 4:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        collected(3, more={"on_step": fail})
    assert set(ids_of(run_path)) == {record.key for record in seen}


def test_many_small_commits_hold_the_same(
    collected: Collect, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(3)
    at_once = ids_of(run_path)
    monkeypatch.setattr("toolkit.collect.collector.COMMIT_SEQUENCES", 1)
    collected(3, more={"overwrite": True})
    assert len(open_run(run_path).parts()) > 1
    assert ids_of(run_path) == at_once


def test_the_loop_goes_on_while_a_commit_is_written(
    collected: Collect, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, steps, original = threading.Event(), [0], RunWriter.commit

    def slow(writer: RunWriter, *given: Any) -> Any:
        assert written.wait(60)
        return original(writer, *given)

    def on_step(step: Any) -> None:
        steps[0] += 1
        if steps[0] == 12:
            written.set()

    monkeypatch.setattr("toolkit.collect.collector.COMMIT_SEQUENCES", 1)
    monkeypatch.setattr(RunWriter, "commit", slow)
    outcome = collected(3, more={"on_step": on_step})
    assert steps[0] > 12
    assert outcome.n_sequences == len(ids_of(run_path)) == 9
    assert not list(validate(run_path))


@pytest.mark.parametrize("stays", [False, True])
def test_a_commit_that_fails_ends_the_loop_and_is_tried_once_more(
    stays: bool, collected: Collect, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, seen, original = [], [], RunWriter.commit

    def failing(writer: RunWriter, records: Any, vocabulary: Any) -> Any:
        tried.append({record.key for record in records})
        if len(tried) == 2 or (stays and len(tried) > 2):
            raise DataFault("cannot write: No space left on device")
        return original(writer, records, vocabulary)

    monkeypatch.setattr("toolkit.collect.collector.COMMIT_SEQUENCES", 1)
    monkeypatch.setattr("toolkit.collect.collector.ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(RunWriter, "commit", failing)
    with pytest.raises(DataFault, match="No space left"):
        collected(3, more={"on_step": lambda step: seen.extend(record.key for record in step.records)})
    assert tried[1] <= tried[2]
    assert set(ids_of(run_path)) == (tried[0] if stays else tried[0] | tried[2])
    monkeypatch.setattr(RunWriter, "commit", original)
    collected(3)
    assert len(ids_of(run_path)) == 9


def test_beams_beside_samples(collected: Collect, run_path: Path) -> None:
    collected(2, beam=BeamSettings(3, 0.0))
    frame = open_run(run_path).sequences_df()
    beams = frame[frame["kind"] == "beam"]
    assert len(beams) == 2 * 3
    np.testing.assert_allclose(beams["beam_score"], beams["sum_logprob"], atol=1e-4)
    assert frame[frame["kind"] == "sample"]["beam_score"].isna().all()
    assert not list(validate(run_path))
    assert collected(2, beam=BeamSettings(3, 0.0)).n_sequences == 0


def test_a_stop_string_cuts_the_text_and_keeps_the_tokens(collected: Collect, run_path: Path) -> None:
    collected(3, max_tokens=40)
    texts = open_run(run_path).sequences_df()["text"]
    stop = max(
        (text[3:5] for text in texts if len(text) > 6), key=lambda s: texts.str.contains(s, regex=False).sum()
    )
    collected(3, max_tokens=40, stop=(stop,), more={"overwrite": True})
    run = open_run(run_path)
    frame = run.sequences_df()
    stopped = frame[frame["stop_reason"] == stop]
    assert len(stopped)
    assert not frame["text"].str.contains(stop, regex=False).any()
    assert not list(validate(run_path))
    for record in run.iter_sequences():
        assert sum(len(piece or b"") for piece in record.alignment.pieces) >= record.alignment.n_bytes


def test_an_extra_end_token_ends_and_has_no_bytes(
    collected: Collect, run_path: Path, tiny_model: Any
) -> None:
    collected(3, max_tokens=40)
    ids = open_run(run_path).tokens_df()["token_id"]
    common = int(ids[ids > 2].mode()[0])
    token = tiny_model.tokenizer.convert_ids_to_tokens(common)
    collected(3, max_tokens=40, extra_eos_tokens=(token,), more={"overwrite": True})
    ended = [r for r in open_run(run_path).iter_sequences() if r.has_end and r.token_ids[-1] == common]
    assert ended
    for record in ended:
        assert common not in record.token_ids[:-1]
        assert record.alignment.pieces[-1] is None
        assert record.finish_reason == "stop"
    assert common not in tiny_model.end_ids
    assert not list(validate(run_path))


def test_the_manifest_says_what_was_done(collected: Collect, run_path: Path) -> None:
    collected(2, seed=9)
    manifest = open_run(run_path).manifest
    assert manifest.seed == 9
    assert manifest.dtype == "float32"
    assert manifest.logits_dtype == "float32"
    assert {"mlx", "mlx-lm", "numpy", "python"} <= set(manifest.versions)
    assert manifest.counts == {
        "prompts": 2,
        "sequences": 6,
        "tokens": open_run(run_path).tokens_df().shape[0],
    }
    assert manifest.sessions[0].ended is not None


def test_a_beam_search_that_found_fewer_is_not_repeated() -> None:
    settings = Settings(num_samples=0, beam=BeamSettings(4))
    from toolkit.records import PromptRecord

    prompt = PromptRecord("p", 0, "x", np.array([1], np.int32))
    assert not list(missing_sequences([prompt], settings, {("p", "beam", 0), ("p", "beam", 1)}))
    (plan,) = missing_sequences([prompt], settings, set())
    assert len(plan.sequences) == 4


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_samples": 0}, "samples: 0"),
        ({"num_samples": -1}, "samples: -1"),
        ({"num_samples": 2, "sampler": Sampler(0.0)}, "samples: 2 at temperature 0"),
        ({"max_tokens": 0}, "max_tokens: 0"),
        ({"top_logprobs": 21}, "top_logprobs: 21"),
        ({"top_logprobs": -1}, "top_logprobs: -1"),
        ({"seed": -1}, "seed: -1"),
        ({"seed": 2**63}, "seed: 9"),
        ({"beam": BeamSettings(2), "stop": ("x",)}, "leave out stop or beams"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ToolkitError, match=named):
        Settings(**settings)
