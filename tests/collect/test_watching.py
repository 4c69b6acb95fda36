"""Watched tokens end to end on the tiny model: which tokens they are, what is stored, and how a run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.test_audit import changed
from tests.generation.networks import believed
from toolkit.alignment import TokenBytes
from toolkit.collect.audit import audit
from toolkit.collect.collector import Outcome, Work, collect
from toolkit.collect.completions import read_completions
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.score import ScoreWork, score
from toolkit.collect.scoring_plans import plan_completions
from toolkit.collect.settings import Constraint, RenderSettings, ScoreSettings, Settings
from toolkit.collect.watching import (
    MAX_WATCHED,
    WatchSettings,
    described,
    make_watch_settings,
    parse_tokens,
    token_of,
    watch_of,
)
from toolkit.errors import ToolkitError
from toolkit.generation.beam_settings import BeamSettings
from toolkit.store import Run, open_run
from toolkit.store.validate import validate

TOLERANCE = 2e-2  # attention scores of the tiny network reach 350, so float32 is off by some 1e-3
TOKENS = (" capital", "A", "<|im_end|>", ",")
Collect = Callable[..., Outcome]


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def collected(tiny_model: Any, run_path: Path) -> Collect:
    def start(watch: WatchSettings | None, **settings: Any) -> Outcome:
        prompts = [
            Prompt(i, i + 1, id=f"q{i}", prompt=text) for i, text in enumerate(["How many legs?", "да!"])
        ]
        records = render_prompts(tiny_model.tokenizer, prompts, RenderSettings())
        settings = {"num_samples": 3, "max_tokens": 6, "greedy": True, **settings}
        return collect(Work(tiny_model, Settings(**settings, watch=watch), records, 4), run_path)

    return start


def assert_believed(run: Run, model: Any, ids: list[int], at: str) -> None:
    """Every row has the float64 log-softmax of the model's logits, by teacher forcing, and no row is lacking."""
    prompts = run.prompts_df().set_index("prompt_id")["token_ids"]
    for record in run.iter_sequences():
        generated = record.token_ids.tolist()
        expected = believed(model.network, [int(i) for i in prompts[record.prompt_id]], generated)
        n = len(generated) if at == "every" else 1
        s = record.statistics
        assert s.watched_ids.tolist() == [sorted(ids)] * len(generated)
        np.testing.assert_allclose(s.watched_logprobs[:n], expected[:n, sorted(ids)], atol=TOLERANCE)
        assert np.isnan(s.watched_logprobs[n:]).all()
        for position in range(n):
            falling = np.sort(expected[position])[::-1]
            for rank, logprob in zip(s.watched_ranks[position], s.watched_logprobs[position], strict=True):
                # By as much as rounding may move a logit, its neighbours may change places with it.
                low = int((falling > logprob + TOLERANCE).sum())
                assert low < rank <= int((falling >= logprob - TOLERANCE).sum())
    frame = run.watched_df()
    lengths = run.sequences_df()["n_tokens"]
    assert len(frame) == len(ids) * (lengths.sum() if at == "every" else len(lengths))
    assert list(validate(run.path)) == []


def ids_of(model: Any, tokens: tuple[str, ...] = TOKENS) -> list[int]:
    return watch_of(model, WatchSettings(tokens)).token_ids.tolist()


@pytest.mark.parametrize("at", ["first", "every"])
def test_samples_greedy_sequences_and_beams(
    at: Any, collected: Collect, run_path: Path, tiny_model: Any
) -> None:
    collected(WatchSettings(TOKENS, at), beam=BeamSettings(2))
    run = open_run(run_path)
    assert set(run.sequences_df()["kind"]) == {"sample", "greedy", "beam"}
    assert_believed(run, tiny_model, ids_of(tiny_model), at)
    assert set(run.watched_df()["literal"]) == set(TOKENS)
    assert run.manifest.tables == ("watched",)


def test_under_a_constraint_they_are_of_the_untouched_logits(
    collected: Collect, run_path: Path, tiny_model: Any
) -> None:
    collected(WatchSettings(TOKENS, "every"), constraint=Constraint("(a|b){4}"))
    run = open_run(run_path)
    assert run.tokens_df()["constrained_logprob"].notna().all()
    assert_believed(run, tiny_model, ids_of(tiny_model), "every")


@pytest.mark.parametrize("at", ["first", "every"])
def test_given_completions(at: Any, tmp_path: Path, run_path: Path, tiny_model: Any) -> None:
    lines = [{"prompt": "How many legs?", "completion": " eight legs"}, {"prompt": "да!", "completion": "🎉"}]
    path = tmp_path / "given.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    settings = ScoreSettings(watch=WatchSettings(TOKENS, at))
    score(
        ScoreWork(tiny_model, settings, plan_completions(tiny_model, read_completions(path), settings)),
        run_path,
    )
    assert_believed(open_run(run_path), tiny_model, ids_of(tiny_model), at)


def test_a_run_goes_on_with_the_same_tokens_in_any_order(
    collected: Collect, run_path: Path, tiny_model: Any
) -> None:
    collected(WatchSettings(TOKENS))
    before = open_run(run_path).watched_df()
    assert collected(WatchSettings(TOKENS[::-1]), num_samples=5).n_before == 8
    run = open_run(run_path)
    assert len(run.sequence_keys()) == 12
    assert_believed(run, tiny_model, ids_of(tiny_model), "first")
    after = run.watched_df().merge(before[["prompt_id", "kind", "sample_index"]].drop_duplicates())
    assert after.equals(before)


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        (
            None,
            WatchSettings(("A",)),
            r'watch\.at: \(not set\) -> "first"; watch\.tokens: \(not set\) -> \["A"\]',
        ),
        (WatchSettings(("A",)), None, r'watch\.tokens: \["A"\] -> \(not set\)'),
        (WatchSettings(("A",)), WatchSettings(("A", "B")), r'watch\.tokens: \["A"\] -> \["A", "B"\]'),
        (WatchSettings(("A",)), WatchSettings(("A",), "every"), r'watch\.at: "first" -> "every"'),
    ],
)
def test_other_watched_tokens_are_refused_with_the_difference_shown(
    first: Any, then: Any, words: str, collected: Collect, run_path: Path
) -> None:
    collected(first, num_samples=1)
    before = open_run(run_path).sequences_df()
    with pytest.raises(ToolkitError, match=f"other settings .*{words}"):
        collected(then, num_samples=2)
    assert open_run(run_path).sequences_df().equals(before)
    assert list(validate(run_path)) == []


def test_where_nothing_is_watched_the_content_is_that_of_earlier_runs() -> None:
    assert "watch" not in Settings().content()
    assert "watch" not in ScoreSettings().content()
    assert Settings(watch=WatchSettings(("B", "A"))).content()["watch"] == {
        "tokens": ["A", "B"],
        "at": "first",
    }


def test_a_wrong_token_is_refused_before_anything_is_written(collected: Collect, run_path: Path) -> None:
    with pytest.raises(ToolkitError, match="no single token"):
        collected(WatchSettings(("antidisestablishmentarianism",)))
    assert not run_path.exists()


def test_an_audit_compares_them_and_finds_one_that_was_changed(
    collected: Collect, run_path: Path, tmp_path: Path, tiny_model: Any
) -> None:
    collected(WatchSettings(TOKENS), beam=BeamSettings(2))
    run = open_run(run_path)
    result = audit(run, tiny_model, tolerance=TOLERANCE)
    assert result.passed
    assert result.differences["watched"].n == len(run.watched_df())
    last = max(ids_of(tiny_model))

    def edit(record: Any) -> Any:
        if record.key == ("q0", "sample", 1):
            record.statistics.watched_logprobs[0, -1] -= 0.5
        return record

    result = audit(changed(run, tmp_path / "other", edit), tiny_model, tolerance=TOLERANCE)
    assert not result.passed
    worst = result.worst[0]
    assert (worst.prompt_id, worst.kind, worst.sample_index, worst.token_index) == ("q0", "sample", 1, 0)
    assert worst.measure == f"watched token {last}"
    assert worst.difference == pytest.approx(0.5, abs=TOLERANCE)


def test_a_text_is_the_token_that_has_its_bytes(tiny_model: Any) -> None:
    for token_id in range(tiny_model.vocabulary_size):
        piece = tiny_model.token_bytes.piece(token_id)
        text = tiny_model.token_bytes.literal(token_id)
        if piece is None or piece.decode("utf-8", "replace") == text:
            assert token_of(tiny_model, text) == token_id
    assert token_of(tiny_model, "What is") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "apital",
            r"'apital' is no single token of this tokenizer: it splits into .*; name its first token, '.*' or ' .*'",
        ),
        ("What is", r"it splits into 'Wha', 't', ' is'; name its first token"),
        ("日", r"it splits into '\\xe6', "),
        ("\n\n \n", r"splits into '↵', '↵', ' ', '↵'; name one$"),
    ],
)
def test_what_is_no_token_is_refused_with_its_pieces(tiny_model: Any, text: str, words: str) -> None:
    with pytest.raises(ToolkitError, match=words):
        watch_of(tiny_model, WatchSettings((text,)))


def test_the_spelling_that_is_a_token_is_offered(tiny_model: Any) -> None:
    assert token_of(tiny_model, " capital") is not None
    with pytest.raises(ToolkitError, match=r"'capital' is no single token.*; name ' capital', which is one$"):
        watch_of(tiny_model, WatchSettings(("capital",)))
    with pytest.raises(
        ToolkitError, match=r"'  capital' is no single token.*; name ' capital', which is one$"
    ):
        watch_of(tiny_model, WatchSettings(("  capital",)))


def test_what_is_watched_is_said_with_the_other_spelling(tiny_model: Any) -> None:
    a, space = token_of(tiny_model, "a"), token_of(tiny_model, " a")
    assert space is not None
    line = described(tiny_model, watch_of(tiny_model, WatchSettings(("a",))))
    assert line == f"watches 'a' ({a}) at the first position; not ' a', which is a token of its own"
    line = described(tiny_model, watch_of(tiny_model, WatchSettings(("a", " a"), "every")))
    assert "every position" in line
    assert "not" not in line


def test_a_tokenizer_that_writes_a_space_first_has_another_token_for_the_text_alone() -> None:
    """As SentencePiece does: 'A' alone is encoded as ' A', and byte 0x41 stands in for nothing here."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    vocabulary = {"<unk>": 0, "<0x41>": 1, "▁A": 2, "A": 3, "▁": 4}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("▁", "A")], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    names = {i: name for name, i in vocabulary.items()}
    model: Any = SimpleNamespace(
        tokenizer=SimpleNamespace(
            encode=lambda text, add_special_tokens: tokenizer.encode(text).ids,
            convert_ids_to_tokens=names.__getitem__,
        ),
        token_bytes=TokenBytes(tokenizer),
        vocabulary_size=5,
    )
    assert tokenizer.encode("A").ids == [2]
    assert (token_of(model, " A"), token_of(model, "A")) == (2, 3)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=5))
def test_quoted_tokens_are_read_as_they_were_written(tokens: list[str]) -> None:
    assert parse_tokens(",".join(json.dumps(text) for text in tokens)) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A,B,C,D", ["A", "B", "C", "D"]),
        ('" A"," B"', [" A", " B"]),
        (r'A,"," ,"\n"'.replace(" ", ""), ["A", ",", "\n"]),
        ('it"s,5"', ['it"s', '5"']),
    ],
)
def test_a_list_of_tokens(text: str, tokens: list[str]) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A, B", "' B' has a space at its end or beginning; .*: \" B\"$"),
        ("A ,B", "'A ' has a space"),
        ('"A', "'\"A' begins with a quote and is no string of JSON"),
        ('"A"B', "'B' follows a quoted token; put a comma between"),
        ('A,"B" ,C', "' ,C' follows a quoted token"),
    ],
)
def test_a_wrong_list_is_refused(text: str, words: str) -> None:
    with pytest.raises(ToolkitError, match=f"^watch_tokens: {words}"):
        parse_tokens(text)


@pytest.mark.parametrize(
    ("tokens", "at", "words"),
    [
        ("AB", None, "watch_tokens: 'AB' is no list of texts; give a list"),
        (5, None, "watch_tokens: 5 is no list of texts"),
        ([5], None, "watch_tokens: 5 is no text"),
        (["A", ""], None, "watch_tokens: '' is empty"),
        (["A", "B", "A"], None, "watch_tokens: 'A' is named twice; name each token once"),
        (["\ud800"], None, "watch_tokens: .* is no Unicode"),
        ([str(i) for i in range(MAX_WATCHED + 1)], None, "watch_tokens: 101 tokens are named; name 1 to 100"),
        (["A"], "last", "watch_at: there is no 'last'; use one of first, every"),
        ([], "every", "watch_at: there is nothing to watch; name watch_tokens, or leave it out"),
        (None, "first", "watch_at: there is nothing to watch"),
    ],
)
def test_wrong_settings_are_refused(tokens: Any, at: Any, words: str) -> None:
    with pytest.raises(ToolkitError, match=f"^{words}"):
        make_watch_settings(tokens, at)


def test_two_texts_of_one_token_are_refused(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.collect.watching.token_of", lambda model, text: 65)
    with pytest.raises(ToolkitError, match="watch_tokens: 'A' and 'Á' are both token 65; name one of them"):
        watch_of(tiny_model, WatchSettings(("A", "Á")))
