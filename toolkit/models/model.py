"""A loaded model and what a run's manifest says of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError, argument

if TYPE_CHECKING:
    from toolkit.alignment import TokenBytes

# Names under which a config.json has the longest context, the most common first
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
WEIGHT_PATTERNS = ("config.json", "model*.safetensors")
TOKENIZER_PATTERNS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "added_tokens.json",
    "*.tiktoken",
)


@dataclass(frozen=True, eq=False)
class Model:
    """A language model, ready to run. Made by `toolkit.models.load`."""

    network: Any  # MLX-LM's nn.Module: token ids (B, T) to logits (B, T, V)
    tokenizer: Any  # MLX-LM's TokenizerWrapper
    config: dict[str, Any]  # of config.json
    name: str  # what the user asked for
    path: Path  # the local folder
    dtype: str  # that products are made in: float32, float16 or bfloat16
    more_end_ids: frozenset[int] = frozenset()  # beside the tokenizer's own; see `with_end_tokens`

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a continuation."""
        return frozenset(self.tokenizer.eos_token_ids) | self.more_end_ids

    def with_end_tokens(self, tokens: Collection[str]) -> Model:
        """The same model, whose continuations end at these tokens too.

        Raises
        ------
        ToolkitError
            A text is no token of the model.
        """
        vocabulary = self.tokenizer.get_vocab() if tokens else {}
        for token in tokens:
            if token not in vocabulary:
                raise ToolkitError(
                    f"{argument('extra_eos_tokens')}: {token!r} is no token of the model; give one that is"
                )
        more = self.more_end_ids | {vocabulary[token] for token in tokens}
        return self if more == self.more_end_ids else replace(self, more_end_ids=more)

    @property
    def context_length(self) -> int | None:
        """The most tokens, prompt included, that the model was made for; None where the config is silent."""
        for config in (self.config, self.config.get("text_config") or {}):
            for key in CONTEXT_KEYS:
                if isinstance(config.get(key), int):
                    return int(config[key])
        return None

    @property
    def vocabulary_size(self) -> int:
        """Token ids are below it; MLX does not check, and reads beside the embedding or crashes."""
        for config in (self.config, self.config.get("text_config") or {}):
            if isinstance(config.get("vocab_size"), int):
                return int(config["vocab_size"])
        return len(self.tokenizer.get_vocab())

    @cached_property
    def weights_hash(self) -> str:
        """SHA-256 over the names and contents of config.json and the weight files."""
        return hash_files(self.path, WEIGHT_PATTERNS)

    @cached_property
    def tokenizer_hash(self) -> str:
        """SHA-256 over the names and contents of the tokenizer's files."""
        return hash_files(self.path, TOKENIZER_PATTERNS)

    @cached_property
    def template_hash(self) -> str:
        """SHA-256 of the chat template; of nothing where there is none."""
        template = self.tokenizer.chat_template
        text = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
        return hashlib.sha256(b"" if template is None else text.encode()).hexdigest()

    @cached_property
    def token_bytes(self) -> TokenBytes:
        """Token ids to bytes."""
        from toolkit.alignment import TokenBytes

        return TokenBytes(self.tokenizer, self.end_ids)


def describe(model: Model) -> dict[str, Any]:
    """What `toolkit model info` shows; JSON types only."""
    from toolkit.models.precision import float32_bytes

    return {
        "name": model.name,
        "path": str(model.path),
        "architecture": model.config.get("model_type"),
        "parameters": float32_bytes(model.network) // 4,
        "layers": model.config.get("num_hidden_layers"),
        "vocabulary": model.config.get("vocab_size"),
        "context_length": model.context_length,
        "stored_bits": stored_bits(model.config),
        "dtype": model.dtype,
        "end_tokens": [model.tokenizer.convert_ids_to_tokens(token) for token in sorted(model.end_ids)],
        "chat_template": bool(model.tokenizer.chat_template),
        "weights_hash": model.weights_hash,
        "tokenizer_hash": model.tokenizer_hash,
        "template_hash": model.template_hash,
    }


def stored_bits(config: dict[str, Any]) -> list[int]:
    """Bits of the quantised layers of a config, which may differ; empty where none is quantised."""
    quantised = config.get("quantization") or {}
    parts = [quantised, *(part for part in quantised.values() if isinstance(part, dict))]
    return sorted({part["bits"] for part in parts if "bits" in part})


def hash_files(folder: Path, patterns: Iterable[str]) -> str:
    """SHA-256 over the files of a folder that match a pattern: name, size and content, sorted by name."""
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        digest.update(bytes.fromhex(hash_file(file)))
    return digest.hexdigest()


def hash_file(file: Path) -> str:
    """SHA-256 of a file's content."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
