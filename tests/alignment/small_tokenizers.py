"""Small tokenizers of every kind, trained on multilingual text, and text and ids to try them with."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CORPUS = """The quick brown fox jumps over the lazy dog, and isn't it fine? It's 2026-11-30; we've two  ones.
kings) according to specific rules, "quoted" and 'single', e-mail: someone@example.com/?q=1&b=2
def f(x):\n    return x**2 + [1, 2, 3]\n\ttabs\tand\n\nnew lines { } <html> &amp; 100% ~ ^ | `code`
Der schnelle braune Fuchs springt über den faulen Hund; größer, schöner, Straße.
Le renard brun saute par-dessus le chien; naïve café, où êtes-vous, ça va, garçon, œuvre.
El zorro marrón salta sobre el perro perezoso; ¿qué tal?, mañana, ¡adiós!
Быстрая коричневая лиса прыгает через ленивую собаку; да, нет, хорошо, спасибо.
Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.
素早い茶色の狐がのろまな犬を飛び越える。日本語のテスト、東京、カタカナ。
敏捷的棕色狐狸跳过了懒狗。中文测试,北京上海。 빠른 갈색 여우가 게으른 개를 뛰어넘는다. 한국어 서울
तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। हिन्दी में नमस्ते दुनिया
الثعلب البني السريع يقفز فوق الكلب الكسول. مرحبا بالعالم שלום עולם
สุนัขจิ้งจอกสีน้ำตาล กระโดดข้าม 🎉 👨‍👩‍👧 🦊 🐶 ‘curly’ “quotes” — dash… → ∞ ≈ ½ é"""
LINES = [part for line in CORPUS.split("\n") for part in (line, line.lower())] * 3 + [
    "the Paris of Paris"
] * 50
ADDED = ["<tool>", "ADDED", "🧭ok", "two words", "ça", "Straße 7", "new\nline"]
WORDS = [
    *CORPUS.split(" "),
    " ",
    "  ",
    "\n",
    "\t",
    "▁",
    "##",
    "\u200d",
    "🧪",
    "𝔘",
    "\ufffd",
    "<0x0A>",
    "Ġ",
    "</w>",
    *ADDED,
]
SPECIAL = ["<|end|>", "<|user|>"]


class Made(NamedTuple):
    """A tokenizer, and how its own decoding follows from ours."""

    tokenizer: Any
    kind: str
    # (vocabulary strings, bytes) of the ordinary tokens -> the text that the tokenizer decodes
    as_decoded: Callable[[list[str], list[bytes]], str]
    n_differences: int


def joined(tokens: list[str], pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")


def is_byte(token: str) -> bool:
    return len(token) == 6 and token.startswith("<0x")


def byte_runs(tokens: list[str], pieces: list[bytes]) -> str:
    """A run of byte tokens that is not valid as a whole becomes one U+FFFD a byte."""
    text, run = "", b""
    for token, piece in [*zip(tokens, pieces, strict=True), ("", b"")]:
        if is_byte(token):
            run += piece
            continue
        try:
            text += run.decode("utf-8")
        except UnicodeDecodeError:
            text += "\ufffd" * len(run)
        text, run = text + piece.decode("utf-8"), b""
    return text


def byte_runs_stripped(tokens: list[str], pieces: list[bytes]) -> str:
    """And one space is stripped from the start of the text."""
    return byte_runs(tokens, pieces).removeprefix(" ")


def first_without_spaces(tokens: list[str], pieces: list[bytes]) -> str:
    return joined(tokens, [tokens[0].replace("▁", "").encode(), *pieces[1:]]) if tokens else ""


def first_as_written(tokens: list[str], pieces: list[bytes]) -> str:
    return joined(tokens, [tokens[0].encode(), *pieces[1:]]) if tokens else ""


def last_without_space(tokens: list[str], pieces: list[bytes]) -> str:
    return joined(tokens, [*pieces[:-1], tokens[-1].replace("</w>", "").encode()]) if tokens else ""


def with_added(tokenizer: Any) -> Any:
    tokenizer.add_tokens(ADDED)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def byte_level_bpe(decoder: Any = None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoder or decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return with_added(tokenizer)


def byte_fallback_bpe(decoder: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, limit_alphabet=90, show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    # The trainer makes its byte tokens special, which no model's tokenizer does.
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] == "<unk>"]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.decoder = decoder
    return with_added(tokenizer)


def unigram(decoder: Any, scheme: str) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoder
    trainer = trainers.UnigramTrainer(
        vocab_size=700, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    return with_added(tokenizer)


def wordpiece(decoder: Any) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoder
    special = ["[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return with_added(tokenizer)


def suffix_bpe() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(vocab_size=700, end_of_word_suffix="</w>", show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return with_added(tokenizer)


def word_level() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=700, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return with_added(tokenizer)


def sentencepiece_model(**options: Any) -> bytes:
    import sentencepiece

    written = io.BytesIO()
    lines = [line.replace("\n", " ") for line in LINES]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=700,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return written.getvalue()


def from_sentencepiece(folder: Any, model: bytes, tokenizer_class: str) -> Any:
    """As transformers loads a model folder that has only SentencePiece's file."""
    from transformers import AutoTokenizer

    folder.mkdir()
    (folder / "tokenizer.model").write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class}))
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    tokenizer.add_tokens(ADDED)
    tokenizer.add_tokens(SPECIAL, special_tokens=True)
    return tokenizer


def fast(tokenizer: Any, **options: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", **options)


def every_kind(folder: Path, spm_bpe_model: bytes) -> dict[str, Made]:
    """Every kind of tokenizer by name; `folder` is for their files."""
    from tokenizers import decoders

    space, strip = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
    gemma = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse()])
    llama = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), strip])
    spm_unigram = sentencepiece_model(model_type="unigram", character_coverage=0.98)
    nested = decoders.Sequence([decoders.Sequence([decoders.ByteLevel()]), decoders.Fuse()])
    return {
        "byte-level": Made(byte_level_bpe(), "byte-level", joined, 0),
        "byte-level in transformers": Made(fast(byte_level_bpe()), "byte-level", joined, 0),
        "byte-level in a sequence": Made(byte_level_bpe(nested), "byte-level", joined, 0),
        "bpe with byte fallback": Made(byte_fallback_bpe(gemma), "sentencepiece", byte_runs, 1),
        "bpe with byte fallback, stripped": Made(
            fast(byte_fallback_bpe(llama)), "sentencepiece", byte_runs_stripped, 2
        ),
        "sentencepiece bpe": Made(
            from_sentencepiece(folder / "bpe", spm_bpe_model, "LlamaTokenizer"),
            "sentencepiece",
            byte_runs_stripped,
            2,
        ),
        "sentencepiece unigram": Made(
            from_sentencepiece(folder / "unigram", spm_unigram, "XLNetTokenizer"),
            "metaspace",
            first_without_spaces,
            1,
        ),
        "unigram": Made(unigram(decoders.Metaspace(), "always"), "metaspace", first_without_spaces, 1),
        "unigram, no prefix space": Made(
            fast(unigram(decoders.Metaspace(prepend_scheme="never"), "never")), "metaspace", joined, 0
        ),
        "wordpiece": Made(wordpiece(decoders.WordPiece(cleanup=False)), "wordpiece", first_as_written, 1),
        "wordpiece, cleaned": Made(
            fast(wordpiece(decoders.WordPiece(cleanup=True))), "wordpiece", first_as_written, 1
        ),
        "bpe with a word end": Made(suffix_bpe(), "suffix", last_without_space, 1),
        "no decoder": Made(word_level(), "spaced", first_as_written, 1),
    }


NAMES = (
    "byte-level",
    "byte-level in transformers",
    "byte-level in a sequence",
    "bpe with byte fallback",
    "bpe with byte fallback, stripped",
    "sentencepiece bpe",
    "sentencepiece unigram",
    "unigram",
    "unigram, no prefix space",
    "wordpiece",
    "wordpiece, cleaned",
    "bpe with a word end",
    "no decoder",
)


def generated_texts(n: int, seed: int = 0) -> Iterator[str]:
    """Words of all languages of the corpus, joined with and without spaces, and single characters."""
    rng = np.random.default_rng(seed)
    characters = sorted(set(CORPUS))
    for _ in range(n):
        words = rng.choice(WORDS, size=rng.integers(1, 12))
        yield rng.choice(["", " "]).join(words) + "".join(rng.choice(characters, size=rng.integers(0, 8)))


def random_ids(n: int, size: int, seed: int = 1) -> Iterator[list[int]]:
    """Sequences of any ids at all, some of them past the vocabulary."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield rng.integers(0, size + 5, size=rng.integers(0, 30)).tolist()
