"""Scoring given completions with a tiny random model: what is stored, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import toolkit
from tests.collect.test_audit import changed
from tests.generation.mock import MockBatch, hashed_logits, numpy_statistics
from toolkit.alignment import align
from toolkit.collect.collector import Outcome
from toolkit.collect.completions import Completion, read_completions
from toolkit.collect.prompts import Prompt
from toolkit.collect.score import ScoreWork, score, scored
from toolkit.collect.scoring_plans import ScoringPlan, check_stored, completion_tokens, plan_completions
from toolkit.collect.settings import ScoreSettings
from toolkit.collect.status import run_status
from toolkit.errors import ToolkitError
from toolkit.generation.sampling import Sampler
from toolkit.generation.scoring import Scorer
from toolkit.records import SequenceRecord
from toolkit.store import open_run
from toolkit.store.lock import Shard
from toolkit.store.validate import validate

END = 2
LEGS = {"prompt": "How many legs?", "completion": " eight legs"}
PARIS = {"id": "p", "prompt": "What is the capital?", "completion": " Paris 🎉"}
LINES: list[dict[str, Any]] = [LEGS, PARIS, {**LEGS, "completion": " six"}, {**PARIS, "completion": "да!"}]

Start = Callable[..., Outcome]


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    return tmp_path / "run"


def write(folder: Path, lines: list[dict[str, Any]]) -> Path:
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def plans_of(model: Any, folder: Path, lines: list[dict[str, Any]], **settings: Any) -> list[ScoringPlan]:
    return plan_completions(model, read_completions(write(folder, lines)), ScoreSettings(**settings))


@pytest.fixture
def start(tiny_model: Any, run_path: Path, tmp_path: Path) -> Start:
    def scoring(
        lines: list[dict[str, Any]] = LINES,
        *,
        shard: Shard | None = None,
        prompt_logprobs: bool = False,
        more: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Outcome:
        plans = plans_of(tiny_model, tmp_path, lines, **settings)
        work = ScoreWork(tiny_model, ScoreSettings(**settings), plans, shard, "hash", prompt_logprobs)
        return score(work, run_path, **(more or {}))

    return scoring


def records_of(run_path: Path) -> dict[tuple[str, int], SequenceRecord]:
    return {(r.prompt_id, r.sample_index): r for r in open_run(run_path).iter_sequences()}


def forward(model: Any, prompt: list[int], ids: list[int]) -> np.ndarray:
    """Float64 log-probabilities at every position of `ids`, from one plain pass over the whole text."""
    import mlx.core as mx

    logits = np.array(model.network(mx.array([[*prompt, *ids]]))[0, len(prompt) - 1 : -1], np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def test_a_run_is_valid_and_says_what_a_plain_forward_pass_says(
    start: Start, run_path: Path, tiny_model: Any
) -> None:
    outcome = start()
    assert (outcome.n_sequences, outcome.n_before, outcome.n_errors) == (4, 0, 0)
    assert not list(validate(run_path))
    prompts = open_run(run_path).prompts_df().set_index("prompt_id")["token_ids"]
    for record in records_of(run_path).values():
        ids = record.token_ids.tolist()
        logp = forward(tiny_model, [int(i) for i in prompts[record.prompt_id]], ids)
        found = record.statistics
        own = logp[np.arange(len(ids)), ids]
        # The tiny model's attention scores reach hundreds, where float32 is coarse.
        np.testing.assert_allclose(found.logprob, own, atol=5e-3)
        np.testing.assert_allclose(found.entropy, -(np.exp(logp) * logp).sum(axis=1), atol=5e-3)
        np.testing.assert_array_equal(found.rank, 1 + (logp > own[:, None]).sum(axis=1))
        falling = -np.sort(-logp, axis=1)[:, :5]
        np.testing.assert_allclose(found.alternative_logprobs, falling, atol=5e-3)
        assert np.isnan(found.sampling_logprob).all()
        assert np.isnan(found.constrained_logprob).all()


def test_scoring_what_was_generated_gives_what_was_recorded(tiny_model: Any, tmp_path: Path) -> None:
    prompts = ["What is the capital of France?", "naïve café"]
    made = toolkit.generate(tiny_model, prompts, samples=4, max_tokens=40, temperature=100.0, seed=0)
    lines = [
        {
            "id": generation.prompt.prompt_id,
            "prompt": prompt,
            "completion_token_ids": s.record.token_ids.tolist(),
        }
        for prompt, generation in zip(prompts, made.generations, strict=True)
        for s in generation.sequences
    ]
    plans = plans_of(tiny_model, tmp_path, lines)
    records = [r for step in scored(tiny_model, scorer_of(tiny_model), plans) for r in step.records]
    expected = [s.record for generation in made.generations for s in generation.sequences]
    assert len({len(record.token_ids) for record in expected}) > 1
    for record, recorded in zip(records, expected, strict=True):
        assert (record.prompt_id, record.sample_index) == (recorded.prompt_id, recorded.sample_index)
        assert (record.has_end, record.finish_reason) == (recorded.has_end, recorded.finish_reason)
        assert record.stop_reason == recorded.stop_reason
        assert record.alignment.text == recorded.alignment.text
        assert [s._replace(emitted_at=0) for s in record.alignment.segments] == [
            s._replace(emitted_at=0) for s in recorded.alignment.segments
        ]
        for name, found in record.statistics._asdict().items():
            if name != "sampling_logprob":
                wanted = getattr(recorded.statistics, name)
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=3e-3, err_msg=name)


def scorer_of(model: Any) -> Scorer:
    from toolkit.collect.steps import make_scorer

    return make_scorer(model, 5)


def test_lines_of_one_prompt_are_its_samples_in_order(start: Start, run_path: Path) -> None:
    start()
    run = open_run(run_path)
    texts = {key: record.alignment.text for key, record in records_of(run_path).items()}
    (legs,) = {prompt_id for prompt_id, _ in texts} - {"p"}
    assert texts == {(legs, 0): " eight legs", (legs, 1): " six", ("p", 0): " Paris 🎉", ("p", 1): "да!"}
    assert run.prompts_df().set_index("prompt_id")["prompt_index"].to_dict() == {legs: 0, "p": 1}
    assert set(run.sequences_df()["finish_reason"]) == {"length"}
    assert run.sequences_df()["seed"].isna().all()


def test_each_prompt_is_read_once(tiny_model: Any, tmp_path: Path) -> None:
    plans = plans_of(tiny_model, tmp_path, LINES)
    batch = MockBatch(hashed_logits(tiny_model.vocabulary_size))
    list(scored(tiny_model, Scorer(batch, numpy_statistics(Sampler())), plans))
    assert batch.prefilled == [tuple(plan.prompt.token_ids.tolist()) for plan in plans]
    batch.prefilled.clear()
    stored = {("p", "scored", 0), ("p", "scored", 1)}
    list(scored(tiny_model, Scorer(batch, numpy_statistics(Sampler())), plans, stored))
    assert batch.prefilled == [tuple(plans[0].prompt.token_ids.tolist())]


def test_the_end_token_is_appended_once(start: Start, run_path: Path) -> None:
    prompt = {"prompt": "How many legs?"}
    start(
        [
            {**prompt, "completion": " eight"},
            {**prompt, "completion": ""},
            {**prompt, "completion_token_ids": [7, END]},
            {**prompt, "completion": " eight<|im_end|>"},
        ],
        add_end=True,
    )
    first, empty, ids, text = records_of(run_path).values()
    assert first.token_ids.tolist() == text.token_ids.tolist()
    assert (empty.token_ids.tolist(), ids.token_ids.tolist()) == ([END], [7, END])
    for record in (first, empty, ids, text):
        assert record.token_ids.tolist().count(END) == 1
        assert (record.has_end, record.finish_reason, record.stop_reason) == (True, "stop", "<|im_end|>")
    assert first.alignment.text == " eight"
    assert not list(validate(run_path))


def test_an_end_token_inside_is_a_token_like_others(start: Start, run_path: Path) -> None:
    start([{"prompt": "a", "completion_token_ids": [7, END, 8]}])
    (record,) = records_of(run_path).values()
    assert (record.has_end, record.finish_reason, record.stop_reason) == (False, "length", None)
    assert record.alignment.pieces[1] is None


def test_prompt_tokens_are_stored_where_asked_for(start: Start, run_path: Path, tiny_model: Any) -> None:
    start(prompt_logprobs=True)
    frame = open_run(run_path).prompt_tokens_df(prompts="p")
    ids = frame["token_id"].tolist()
    assert np.isnan(frame["logprob"][0])
    own = forward(tiny_model, ids[:1], ids[1:])[np.arange(len(ids) - 1), ids[1:]]
    np.testing.assert_allclose(frame["logprob"][1:], own, atol=1e-4)


def test_prompts_as_ids_and_messages(start: Start, run_path: Path, tiny_model: Any) -> None:
    start()
    (legs, _), stored = next(
        (key, r) for key, r in records_of(run_path).items() if r.alignment.text == " six"
    )
    row = open_run(run_path).prompts_df(prompts=legs).iloc[0]
    same = [
        {"id": "ids", "prompt_token_ids": [int(i) for i in row["token_ids"]], "completion": " six"},
        {"id": "chat", "messages": [{"role": "user", "content": LEGS["prompt"]}], "completion": " six"},
    ]
    start(same, more={"overwrite": True})
    found = records_of(run_path)
    for name in ("ids", "chat"):
        np.testing.assert_array_equal(found[name, 0].token_ids, stored.token_ids)
        np.testing.assert_allclose(found[name, 0].statistics.logprob, stored.statistics.logprob, atol=1e-5)


def metaspace_model() -> Any:
    """A tokenizer that writes a space before a text, and what `completion_tokens` needs of a model."""
    from mlx_lm.tokenizer_utils import TokenizerWrapper
    from tokenizers import decoders

    from tests.alignment.small_tokenizers import fast, unigram

    tokenizer = TokenizerWrapper(fast(unigram(decoders.Metaspace(prepend_scheme="always"), "always")))
    return SimpleNamespace(
        tokenizer=tokenizer, vocabulary_size=len(tokenizer), end_ids={0}, context_length=None
    )


def test_a_text_is_tokenised_apart_from_its_prompt_or_together_with_it() -> None:
    model = metaspace_model()
    encode = model.tokenizer.encode

    def tokens(joint: bool) -> list[int]:
        completion = Completion("f:1", Prompt(0, 1, prompt="the Paris of"), text=", the fox")
        (plan,) = plan_completions(model, [completion], ScoreSettings(joint=joint))
        (ids,) = plan.completions
        return ids.tolist()

    together = encode("the Paris of, the fox")
    alone = encode("the Paris of")
    assert together[: len(alone)] == alone
    assert tokens(joint=True) == together[len(alone) :]
    assert tokens(joint=False) == encode(", the fox", add_special_tokens=False)
    assert tokens(joint=True) != tokens(joint=False)


def test_a_prompt_whose_tokens_change_is_refused_with_joint(tiny_model: Any, tmp_path: Path) -> None:
    lines = [{"prompt": "The capi", "completion": "tal of France"}]
    apart = plans_of(tiny_model, tmp_path, lines, render=bare())
    assert len(apart[0].completions) == 1
    with pytest.raises(ToolkitError, match=r"given\.jsonl:1: tokenised with its completion.*leave out joint"):
        plans_of(tiny_model, tmp_path, lines, joint=True, render=bare())


def bare() -> Any:
    from toolkit.collect.settings import RenderSettings

    return RenderSettings(ignore_chat_template=True)


def test_it_goes_on_with_more_lines(start: Start, run_path: Path) -> None:
    start(LINES[:2])
    before = records_of(run_path)
    outcome = start(LINES)
    assert (outcome.n_before, outcome.n_sequences) == (2, 2)
    after = records_of(run_path)
    assert len(after) == 4
    for key, record in before.items():
        np.testing.assert_array_equal(after[key].statistics.logprob, record.statistics.logprob)
    assert start(LINES).n_sequences == 0
    assert not list(validate(run_path))


@pytest.mark.parametrize(
    ("lines", "settings", "named"),
    [
        ([LEGS, {**PARIS, "completion": " Rome"}], {}, r"given\.jsonl:2: the run holds another completion 0"),
        (
            [LEGS, {**PARIS, "completion": " Paris"}],
            {},
            r"given\.jsonl:2: the run holds another completion 0",
        ),
        (
            [LEGS, {**PARIS, "completion": " Paris 🎉!"}],
            {},
            r"given\.jsonl:2: the run holds another completion 0",
        ),
        ([LEGS, {**PARIS, "prompt": "Well?"}], {}, r"given\.jsonl:2: the run holds another prompt 'p'"),
        ([LEGS, PARIS], {"add_end": True}, r"add_end: false -> true"),
        ([LEGS, PARIS], {"joint": True}, r"joint: false -> true"),
    ],
)
def test_what_does_not_fit_the_run_is_refused_and_changes_nothing(
    start: Start, run_path: Path, lines: list[Any], settings: dict[str, Any], named: str
) -> None:
    start([LEGS, PARIS])
    before = open_run(run_path).tokens_df()
    with pytest.raises(ToolkitError, match=f"{named}.*with overwrite"):
        start(lines, **settings)
    assert open_run(run_path).tokens_df().equals(before)
    with pytest.raises(ToolkitError, match="already holds a run"):
        start(more={"resume": False})


def test_a_completion_that_an_error_cut_is_the_same_one(
    start: Start, run_path: Path, tiny_model: Any, tmp_path: Path
) -> None:
    start([PARIS])
    (record,) = open_run(run_path).iter_sequences()
    kept = len(record.token_ids) - 1
    cut = replace(
        record,
        token_ids=record.token_ids[:kept],
        statistics=record.statistics.rows(slice(0, kept)),
        alignment=align(record.alignment.pieces[:kept]),
    )
    plans = plans_of(tiny_model, tmp_path, [PARIS])
    error, length = replace(cut, finish_reason="error"), replace(cut, finish_reason="length")
    check_stored(changed(open_run(run_path), tmp_path / "error", lambda _: error), plans)
    with pytest.raises(ToolkitError, match="another completion 0"):
        check_stored(changed(open_run(run_path), tmp_path / "length", lambda _: length), plans)


class _Interrupting:
    """A progress display that is interrupted at the second sequence."""

    def __init__(self) -> None:
        self.seen = 0

    def update(self, sequences: int, tokens: int) -> None:
        self.seen += sequences
        if self.seen == 2:
            raise KeyboardInterrupt

    def close(self) -> None:
        pass


def test_an_interrupt_keeps_what_was_finished(start: Start, run_path: Path) -> None:
    outcome = start(more={"progress": lambda total, done: _Interrupting()})
    assert outcome.interrupted
    assert (outcome.n_sequences, len(records_of(run_path))) == (2, 2)
    start()
    pieces = open_run(run_path).tokens_df()
    start(more={"overwrite": True})
    assert open_run(run_path).tokens_df().equals(pieces)


def test_many_small_commits_hold_the_same(
    start: Start, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(prompt_logprobs=True)
    at_once = open_run(run_path).tokens_df(), open_run(run_path).prompt_tokens_df()
    monkeypatch.setattr("toolkit.collect.collector.COMMIT_SEQUENCES", 1)
    monkeypatch.setattr("toolkit.collect.collector.COMMIT_PROMPT_TOKENS", 1)
    start(prompt_logprobs=True, more={"overwrite": True})
    run = open_run(run_path)
    assert 2 <= len(run.parts()) <= 4  # what ends during a commit waits for the next
    assert len(run.parts("prompt_tokens")) == 2
    assert run.tokens_df().equals(at_once[0])
    assert run.prompt_tokens_df().equals(at_once[1])


def test_shards_share_a_run_and_keep_a_prompt_together(start: Start, run_path: Path) -> None:
    lines = [{"id": str(i), "prompt": "Hi", "completion": text} for i in range(6) for text in ("a", "b")]
    first = start(lines, shard=Shard(0, 2))
    second = start(lines, shard=Shard(1, 2))
    assert min(first.n_sequences, second.n_sequences) > 0
    assert first.n_sequences % 2 == 0
    assert len(records_of(run_path)) == 12
    assert open_run(run_path).prompts_df()["prompt_index"].tolist() == list(range(6))
    assert not list(validate(run_path))


def test_logits_that_are_not_finite_end_a_sequence_before_them(tiny_model: Any, tmp_path: Path) -> None:
    (plan,) = plans_of(tiny_model, tmp_path, [LEGS])
    ids = plan.completions[0].tolist()
    prompt, rule = plan.prompt.token_ids.tolist(), hashed_logits(tiny_model.vocabulary_size)

    def broken(read: tuple[int, ...]) -> np.ndarray:
        logits = rule(read)
        return logits * np.nan if len(read) == len(prompt) + 2 else logits

    (step,) = scored(tiny_model, Scorer(MockBatch(broken), numpy_statistics(Sampler())), [plan])
    (record,) = step.records
    assert (record.finish_reason, record.stop_reason) == ("error", "the model's logits are not finite")
    assert record.token_ids.tolist() == ids[:2]
    assert (step.n_tokens, len(record.statistics.logprob), len(record.alignment.pieces)) == (2, 2, 2)
    assert not record.has_end


def test_the_manifest_and_the_status_say_what_was_done(start: Start, run_path: Path) -> None:
    start(LINES[:3], add_end=True)
    run = open_run(run_path)
    assert run.manifest.seed is None
    assert run.manifest.prompt_file_hash == "hash"
    assert run.manifest.content_config["add_end"] is True
    assert {"weights_hash", "tokenizer_hash", "template_hash"} <= set(run.manifest.content_config)
    status = run_status(run)
    assert (status.planned, status.done, status.complete) == ({"scored": 3}, {"scored": 3}, True)


@pytest.mark.parametrize(
    ("second", "settings", "named"),
    [
        ({**PARIS, "prompt": "Another"}, {}, "id 'p' is that of another prompt, .*given.jsonl:1"),
        ({**PARIS, "reference": "x"}, {}, "its reference is not that of .*given.jsonl:1"),
        ({**PARIS, "label": 1}, {}, "its metadata is not that of .*given.jsonl:1"),
        ({"prompt": "a", "completion": ""}, {}, "the completion has no tokens"),
        ({"prompt": "a", "completion_token_ids": []}, {}, "the completion has no tokens"),
        (
            {"prompt": "a", "completion_token_ids": [5, 320]},
            {},
            "completion_token_ids has token id 320; .* 0 to 319",
        ),
        (
            {"prompt_token_ids": [320], "completion": "a"},
            {},
            "prompt_token_ids has token id 320; .* 0 to 319",
        ),
        ({"prompt_token_ids": [], "completion": "a"}, {}, "the prompt has no tokens"),
        ({"prompt": "a", "completion_token_ids": [5] * 512}, {}, r"have \d+ \+ 512 tokens .* context is 512"),
        ({"prompt_token_ids": [5], "completion": "a"}, {"joint": True}, "prompt_token_ids are no text"),
    ],
)
def test_a_wrong_line_is_named(
    tiny_model: Any, tmp_path: Path, second: dict[str, Any], settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ToolkitError, match=named) as caught:
        plans_of(tiny_model, tmp_path, [PARIS, second], **settings)
    assert "2" in str(caught.value).split(": ")[0]


def test_ids_that_read_alike_are_another_prompt(tiny_model: Any) -> None:
    other = tiny_model.tokenizer.encode(" a", add_special_tokens=False)
    letters = [tiny_model.tokenizer.convert_tokens_to_ids(letter) for letter in "Ġa"]
    assert (len(other), len(letters)) == (1, 2)
    given = [
        Completion(f"f:{i}", Prompt(i, i + 1, token_ids=tuple(ids)), text="x")
        for i, ids in enumerate((other, letters))
    ]
    with pytest.raises(ToolkitError, match="f:1: its text is that of another prompt, f:0"):
        plan_completions(tiny_model, given, ScoreSettings())


def test_the_context_may_be_filled_to_the_last_token(tiny_model: Any) -> None:
    record = SimpleNamespace(token_ids=np.arange(3, 13, dtype=np.int32))
    full = Completion("f:1", Prompt(0, 1), token_ids=(5,) * 502)
    assert len(completion_tokens(tiny_model, record, full, ScoreSettings())) == 502  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="context is 512"):
        completion_tokens(tiny_model, record, full, ScoreSettings(add_end=True))  # type: ignore[arg-type]


def test_without_an_end_token_none_can_be_added(tiny_model: Any) -> None:
    model = SimpleNamespace(
        **{**vars(tiny_model), "end_ids": frozenset(), "vocabulary_size": 320, "context_length": 9}
    )
    completion = Completion("f:1", Prompt(0, 1), token_ids=(5,))
    with pytest.raises(ToolkitError, match="add_end: the model has no end token"):
        completion_tokens(model, SimpleNamespace(token_ids=[3]), completion, ScoreSettings(add_end=True))  # type: ignore[arg-type]
    own = replace(tiny_model, more_end_ids=frozenset({0, 1}))
    (_, end) = completion_tokens(own, SimpleNamespace(token_ids=[3]), completion, ScoreSettings(add_end=True))  # type: ignore[arg-type]
    assert end == END


def test_alternatives_out_of_range_are_named() -> None:
    with pytest.raises(ToolkitError, match="top_logprobs"):
        ScoreSettings(top_logprobs=21)
