"""Arrays of transformers: ids with scores, from which everything follows that whole distributions carry."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ingest.sources import rows
from toolkit.errors import ToolkitError
from toolkit.ingest import Outcome, ingest
from toolkit.store import Run, open_run
from toolkit.store.validate import validate

END, PAD = 2, 0
LOGITS = np.random.default_rng(0).normal(0, 3, (3, 2, 9)).astype(np.float32)  # (tokens, rows, vocabulary)
SEQUENCES = np.array([[7, 8, 4, 5, END], [PAD, 8, 6, END, PAD]])


def saved(folder: Path, **arrays: Any) -> tuple[Run, Outcome]:
    path = folder / "out.npz"
    np.savez(path, **{"sequences": SEQUENCES, "eos_token_id": END, "pad_token_id": PAD, **arrays})
    outcome = ingest(path, "transformers", folder / "run")
    assert list(validate(folder / "run")) == []
    return open_run(folder / "run"), outcome


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def test_every_statistic_follows_from_logits(tmp_path: Path) -> None:
    run, _ = saved(tmp_path, logits=LOGITS)
    got = run.load("tokens").to_pydict()
    assert got["token_id"] == [4, 5, END, 6, END]
    places = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
    logp = np.array([log_softmax(LOGITS)[place] for place in places])
    own = logp[np.arange(5), got["token_id"]]
    np.testing.assert_allclose(got["logprob"], own, rtol=1e-5)
    np.testing.assert_allclose(got["entropy"], -(np.exp(logp) * logp).sum(1), rtol=1e-5)
    np.testing.assert_allclose(got["top1_logprob"], logp.max(1), rtol=1e-5)
    assert got["rank"] == [1 + int((row > value).sum()) for row, value in zip(logp, own, strict=True)]
    assert got["n_finite"] == [9] * 5
    assert got["sampling_logprob"] == [None] * 5
    assert len(rows(run, "alternatives", "token_id")) == 5 * 5
    assert rows(run, "sequences", "has_end", "finish_reason") == [(True, "stop")] * 2
    assert rows(run, "prompts", "token_ids") == [[7, 8], [8]]


def test_scores_beside_logits_are_what_was_drawn_from(tmp_path: Path) -> None:
    run, _ = saved(tmp_path, logits=LOGITS, scores=LOGITS / 0.5)
    expected = log_softmax(LOGITS / 0.5)
    got = rows(run, "tokens", "token_id", "sampling_logprob")
    places = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
    np.testing.assert_allclose(
        [value for _, value in got],
        [expected[place][i] for place, (i, _) in zip(places, got, strict=True)],
        rtol=1e-5,
    )


def test_scores_alone_are_taken_and_that_is_told(tmp_path: Path) -> None:
    run, outcome = saved(tmp_path, scores=LOGITS)
    assert rows(run, "tokens", "logprob") == rows(run, "tokens", "sampling_logprob")
    assert any("5 tokens have processed scores only" in note for note in outcome.notes)


def test_log_probabilities_of_the_tokens_alone_leave_the_rest_null(tmp_path: Path) -> None:
    values = np.array([[-0.5, -100.0, -2.0], [-0.25, -0.5, 0.0]])
    run, outcome = saved(tmp_path, transition_scores=values)
    assert rows(run, "tokens", "logprob", "entropy", "rank") == [
        (value, None, None) for value in (-0.5, -math.inf, -2.0, -0.25, -0.5)
    ]
    assert outcome.n_masked == 1
    assert rows(run, "tokens", "bytes") == [b"<4>", b"<5>", None, b"<6>", None]


def test_texts_tokens_and_prompts_are_kept(tmp_path: Path) -> None:
    run, _ = saved(
        tmp_path,
        token_logprobs=np.full((2, 3), -1.0),
        tokens=np.array([["▁Par", "is", "</s>"], ["▁Rome", "</s>", "<pad>"]]),
        texts=np.array([" Paris", " Rome"]),
        prompts=np.array(["France?", "Italy?"]),
        prompt_ids=np.array(["fr", "it"]),
        references=np.array(["Paris", "Rome"]),
        model=np.array("gpt2"),
    )
    assert rows(run, "tokens", "bytes") == [b" Par", b"is", None, b" Rome", None]
    assert rows(run, "prompts", "prompt_id", "text", "reference") == [
        ("fr", "France?", ["Paris"]),
        ("it", "Italy?", ["Rome"]),
    ]
    assert run.manifest.model["name"] == "gpt2"


def test_rows_of_one_prompt_are_its_samples(tmp_path: Path) -> None:
    run, _ = saved(tmp_path, logits=LOGITS, prompts=np.array(["Capital?"]))
    assert rows(run, "sequences", "sample_index") == [0, 1]
    assert len(rows(run, "prompts", "text")) == 1


def test_texts_without_tokens_keep_the_ids_and_can_be_graded(tmp_path: Path) -> None:
    run, _ = saved(tmp_path, logits=LOGITS, texts=np.array(["Paris", "Rome"]))
    assert rows(run, "sequences", "text") == ["Paris", "Rome"]
    assert rows(run, "tokens", "token_id")[0] == 4


def test_a_tokenizer_says_what_the_ids_stand_for(tmp_path: Path, tiny_folder: Path) -> None:
    from tokenizers import Tokenizer

    ids = (
        Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
        .encode("The end", add_special_tokens=False)
        .ids
    )
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"sequences": ids, "token_logprobs": [-1.0] * len(ids)}), encoding="utf-8")
    ingest(path, "transformers", tmp_path / "run", tokenizer=tiny_folder)
    run = open_run(tmp_path / "run")
    assert rows(run, "sequences", "text") == ["The end"]
    assert rows(run, "tokens", "token_id") == ids


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (
            {},
            "expected sequences, and one of logits, scores, token_logprobs and transition_scores, and found "
            "'sequences",
        ),
        ({"logits": LOGITS[:, :1]}, "logits has the shape (3, 1, 9), and there are 2 sequences"),
        ({"logits": LOGITS[..., :3]}, "token id 5 is past the 3 scores"),
        ({"token_logprobs": np.zeros((2, 9))}, "9 scores, and sequences has 5 ids"),
        ({"token_logprobs": np.zeros((1, 3))}, "token_logprobs has 1 rows, and there are 2 sequences"),
        ({"token_logprobs": np.ones((2, 3))}, "token_logprobs is 1, above 0"),
        ({"token_logprobs": np.full((2, 3), np.nan)}, "token 0 has no log-probability"),
        ({"logits": np.array([None, 1], object)}, "holds arrays of objects, which are not plain"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolkitError) as error:
        saved(tmp_path, **arrays)
    assert said in str(error.value)
    assert not (tmp_path / "run").exists()
