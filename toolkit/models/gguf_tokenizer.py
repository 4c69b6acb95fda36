"""Build tokenizer.json and tokenizer_config.json from the metadata of a GGUF.

Two kinds: byte-level BPE (`gpt2`) with the pre-tokenizers of `PATTERNS`, and SentencePiece BPE with byte
fallback (`llama`), whose merges follow from the scores of its pieces.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

from toolkit.errors import ToolkitError
from toolkit.models.gguf_config import foreign
from toolkit.models.gguf_header import GgufHeader, damaged

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # of tokenizer.ggml.token_type
SPACE = "\u2581"  # what SentencePiece writes for a space

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{REST}"
QWEN2 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{REST}"
# What llama.cpp takes for a file that names no pre-tokenizer
DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2.removesuffix(r"|\s+"), r"\p{N}+", r"[0-9][0-9][0-9]")


class PreTokenizer(NamedTuple):
    """How text is cut before merging: by one pattern after another, each match and each gap a piece."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a piece that is a token is that token, whatever the merges say
    add_bos: bool = False  # where the file does not say
    nfc: bool = False


PRE_TOKENIZERS = {
    "default": PreTokenizer(DEFAULT),
    "gpt-2": PreTokenizer((GPT2,)),
    "smollm": PreTokenizer((r"\p{N}", GPT2)),
    "llama-bpe": PreTokenizer((LLAMA3,), ignore_merges=True, add_bos=True),
    "qwen2": PreTokenizer((QWEN2,), nfc=True),
}


def write_tokenizer(header: GgufHeader, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json, chat template included, into `folder`.

    Raises
    ------
    ToolkitError
        If the tokenizer model or pre-tokenizer is unknown (it is named), or its metadata is damaged.
    """
    build_tokenizer(header).save(str(folder / "tokenizer.json"))
    text = json.dumps(tokenizer_config(header), indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def build_tokenizer(header: GgufHeader) -> Tokenizer:
    """The tokenizer that the metadata describes, with added tokens and the BOS and EOS rule.

    Raises
    ------
    ToolkitError
        As `write_tokenizer`.
    """
    model = header.get("tokenizer.ggml.model", str)
    builders = {"gpt2": byte_level, "llama": sentencepiece}
    if model not in builders:
        raise foreign(header, f"its tokenizer.ggml.model is {model!r}; known are {', '.join(builders)}")
    try:
        tokenizer = builders[model](header)
        add_tokens(tokenizer, header)
        add_ends(tokenizer, header)
    except ToolkitError:
        raise
    except Exception as error:  # tokenizers raises plain Exception, for a merge outside the vocabulary say
        raise damaged(header.path, f"its tokenizer: {error}") from error
    return tokenizer


def vocabulary(header: GgufHeader) -> list[str]:
    """The tokens; their places are their ids."""
    tokens: list[str] = header.get("tokenizer.ggml.tokens", list, [])
    if not tokens or len(set(tokens)) < len(tokens):
        raise damaged(header.path, "tokenizer.ggml.tokens is missing, or has a token twice")
    embedding = header.tensors.get("token_embd.weight")
    if embedding is not None and len(tokens) > embedding.shape[0]:
        raise damaged(header.path, f"{len(tokens)} tokens, and an embedding of {embedding.shape[0]} rows")
    return tokens


def token_types(header: GgufHeader, n_tokens: int) -> list[int]:
    """A type for each token; all are normal where the file says nothing."""
    types = header.get("tokenizer.ggml.token_type", np.ndarray)
    found = [NORMAL] * n_tokens if types is None else types.tolist()
    if len(found) != n_tokens:
        raise damaged(header.path, f"{len(found)} token types for {n_tokens} tokens")
    return found


def byte_level(header: GgufHeader) -> Tokenizer:
    """Byte-level BPE with the merges of the file."""
    name = header.get("tokenizer.ggml.pre", str, "default")
    if name not in PRE_TOKENIZERS:
        raise foreign(header, f"its tokenizer.ggml.pre is {name!r}; known are {', '.join(PRE_TOKENIZERS)}")
    rule = PRE_TOKENIZERS[name]
    tokens = vocabulary(header)
    merges = [tuple(merge.split(" ")) for merge in header.get("tokenizer.ggml.merges", list, [])]
    if any(len(merge) != 2 for merge in merges):
        raise damaged(header.path, "an entry of tokenizer.ggml.merges is not two tokens")
    ids = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(ids, merges, ignore_merges=rule.ignore_merges))
    if rule.nfc:
        tokenizer.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentencepiece(header: GgufHeader) -> Tokenizer:
    """SentencePiece BPE: any two neighbours that make a piece merge, the best score first."""
    tokens = vocabulary(header)
    scores = header.get("tokenizer.ggml.scores", np.ndarray)
    if scores is None or len(scores) != len(tokens):
        raise damaged(header.path, "tokenizer.ggml.scores is missing, or is not one number a token")
    ids = {token: index for index, token in enumerate(tokens)}
    types = token_types(header, len(tokens))
    merges = merges_from_scores(tokens, scores.tolist(), types)
    model = BPE(ids, merges, unk_token=special_token(header, "unknown"), fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    prefix = header.get("tokenizer.ggml.add_space_prefix", bool, True)
    steps = [normalizers.Prepend(SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def merges_from_scores(tokens: list[str], scores: list[float], types: list[int]) -> list[tuple[str, str]]:
    """All pairs of normal pieces that make a normal piece, in falling order of its score."""
    normal = {token: index for index, token in enumerate(tokens) if types[index] == NORMAL}
    found = []
    for whole, index in normal.items():
        for cut in range(1, len(whole)):
            left, right = normal.get(whole[:cut]), normal.get(whole[cut:])
            if left is not None and right is not None:
                found.append((-scores[index], index, left, right))
    return [(tokens[left], tokens[right]) for _, _, left, right in sorted(found)]


def add_tokens(tokenizer: Tokenizer, header: GgufHeader) -> None:
    """Register control tokens (special: no text) and the user's own (found before anything is cut)."""
    tokens = vocabulary(header)
    for token, kind in zip(tokens, token_types(header, len(tokens)), strict=True):
        if kind in (CONTROL, UNKNOWN, USER_DEFINED) and token:
            special = kind != USER_DEFINED
            tokenizer.add_tokens([AddedToken(token, special=special, normalized=False)])


def special_token(header: GgufHeader, name: str) -> str | None:
    """The token of `tokenizer.ggml.{name}_token_id`."""
    index = header.get(f"tokenizer.ggml.{name}_token_id", int)
    tokens = vocabulary(header)
    if index is None:
        return None
    if not 0 <= index < len(tokens):
        raise damaged(
            header.path, f"tokenizer.ggml.{name}_token_id is {index}, and there are {len(tokens)} tokens"
        )
    return tokens[index]


def adds(header: GgufHeader, end: str) -> bool:
    """Whether encoding puts `end`, "bos" or "eos", around a text."""
    default = False
    if end == "bos":
        if header.get("tokenizer.ggml.model", str) == "llama":
            default = True
        else:
            default = PRE_TOKENIZERS[header.get("tokenizer.ggml.pre", str, "default")].add_bos
    return bool(header.get(f"tokenizer.ggml.add_{end}_token", bool, default))


def add_ends(tokenizer: Tokenizer, header: GgufHeader) -> None:
    """BOS and EOS around what is encoded with special tokens, as the file says."""
    wanted = {end: special_token(header, end) for end in ("bos", "eos") if adds(header, end)}
    ends = {end: token for end, token in wanted.items() if token is not None}
    if not ends:
        return
    first, last = ends.get("bos"), ends.get("eos")
    template = [*([first] if first else []), "$A", *([last] if last else [])]
    special = [(token, tokenizer.token_to_id(token)) for token in set(ends.values())]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)


def tokenizer_config(header: GgufHeader) -> dict[str, Any]:
    """tokenizer_config.json, as transformers reads it."""
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    special = {f"{short}_token": special_token(header, name) for short, name in names.items()}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **{key: token for key, token in special.items() if token is not None},
    }
    length = header.get("llama.context_length", int)
    if length is not None:
        config["model_max_length"] = length
    template = header.get("tokenizer.chat_template", str)
    if template is not None:
        config["chat_template"] = template
    return config
