"""Similarities by embeddings: cosines of what a model gives, and plain errors where there is none."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toolkit.aggregation.answer_pairs import TextPair
from toolkit.aggregation.embedded_similarity import embedding_measure, load_embedder
from toolkit.errors import ToolkitError

VECTORS = {"a": [1.0, 0.0], "b": [3.0, 4.0], "c": [-2.0, 0.1], "nothing": [0.0, 0.0]}
PAIRS = [TextPair("", x, y) for x, y in (("a", "b"), ("a", "c"), ("b", "c"), ("a", "nothing"))]


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [VECTORS[text] for text in texts]


def test_the_value_is_the_cosine_and_0_below() -> None:
    found = dict(embedding_measure(embed)(PAIRS))
    assert [found[pair] for pair in PAIRS] == pytest.approx([0.6, 0.0, 0.0, 0.0])


def test_each_text_is_embedded_once() -> None:
    seen: list[str] = []
    list(embedding_measure(lambda texts: seen.extend(texts) or embed(texts))(PAIRS))  # type: ignore[func-returns-value]
    assert sorted(seen) == sorted(VECTORS)


def test_vectors_must_be_one_a_text() -> None:
    with pytest.raises(ToolkitError, match=r"shape \(3,\): they must be \(4, dimensions\)"):
        list(embedding_measure(lambda texts: np.zeros(3))(PAIRS))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(ToolkitError, match=r"needs the package model2vec.*\[embeddings\]"):
        load_embedder("x")


def stub(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    module = ModuleType("model2vec")
    module.StaticModel = SimpleNamespace(from_pretrained=load)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "model2vec", module)


def test_the_model_is_loaded_by_its_name_and_encodes_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    stub(monkeypatch, lambda name: SimpleNamespace(encode=lambda texts: [[len(name), len(t)] for t in texts]))
    assert load_embedder("abc")(("x", "yy")) == [[3, 1], [3, 2]]


def test_what_is_no_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError("no such repository\nand a long story")

    stub(monkeypatch, fail)
    with pytest.raises(ToolkitError, match=r"'x' cannot be loaded \(no such repository\): name the folder"):
        load_embedder("x")


@pytest.mark.skipif(importlib.util.find_spec("model2vec") is None, reason="the extra is not installed")
def test_a_folder_of_a_real_model_is_read(tmp_path: Path) -> None:
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "paris": 1, "lyon": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.array([[0.0, 0.0], [1.0, 0.0], [0.6, 0.8]])
    StaticModel(vectors, tokenizer).save_pretrained(tmp_path / "model")
    pair = TextPair("", "lyon", "paris")
    found = dict(embedding_measure(load_embedder(str(tmp_path / "model")))([pair]))
    assert found[pair] == pytest.approx(0.6, abs=1e-6)
