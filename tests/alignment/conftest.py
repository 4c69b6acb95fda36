"""Fixtures of the small tokenizers, each made once a session."""

import pytest
from hypothesis import settings

from tests.alignment.small_tokenizers import NAMES, Made, every_kind, sentencepiece_model

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def spm_bpe_model() -> bytes:
    pytest.importorskip("sentencepiece")
    return sentencepiece_model(model_type="bpe", byte_fallback=True, character_coverage=0.98)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, spm_bpe_model: bytes) -> dict[str, Made]:
    """Every kind of tokenizer by name; `NAMES` lists them."""
    pytest.importorskip("transformers")
    return every_kind(tmp_path_factory.mktemp("tokenizers"), spm_bpe_model)


@pytest.fixture(params=NAMES)
def each(request: pytest.FixtureRequest, made: dict[str, Made]) -> Made:
    return made[request.param]
