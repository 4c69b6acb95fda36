"""A tiny model that can be asked: its tokenizer has the words yes and no, in some of their spellings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

WORDS = ("Yes", " Yes", "yes", " YES", "No", " No", "no")


def make_asked(tiny: Path, folder: Path, *, template: bool = True) -> Path:
    """The tiny random model with tokens and random embeddings for `WORDS`, as a folder."""
    import mlx.core as mx
    from tokenizers import AddedToken, Tokenizer

    shutil.copytree(tiny, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in WORDS])
    tokenizer.save(str(folder / "tokenizer.json"))
    weights = mx.load(str(folder / "model.safetensors"))
    name = "model.embed_tokens.weight"
    mx.random.seed(11)
    more = mx.random.normal((len(WORDS), weights[name].shape[1])) * mx.std(weights[name])
    weights[name] = mx.concatenate([weights[name], more])
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    _change(folder / "config.json", vocab_size=weights[name].shape[0])
    if not template:
        _change(folder / "tokenizer_config.json", chat_template=None)
    return folder


def _change(path: Path, **values: object) -> None:
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
