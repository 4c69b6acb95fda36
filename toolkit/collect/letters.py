"""What a model says next: log-probabilities of single tokens after many texts, and which tokens those are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import clip, quoted
from toolkit.collect.render import encode
from toolkit.collect.steps import prepared
from toolkit.errors import ToolkitError
from toolkit.generation.forward import Forward
from toolkit.generation.reading import last_logits
from toolkit.models import Model

_TEXTS = 64  # whose logits are asked for at a time


class Asked(NamedTuple):
    """A text, and the tokens that are looked at after it."""

    token_ids: list[int]
    answers: list[int]


def logprobs_after(model: Model, asked: Iterable[Asked]) -> Iterator[NDArray[np.float64]]:
    """Log-probabilities of each text's answers as its next token, in the order of the texts.

    Yields
    ------
    (n_answers,) float64
        NaN where the logits are not finite.
    """
    forward, _ = prepared(model)
    pending: list[Asked] = []
    for one in asked:
        pending.append(one)
        if len(pending) == _TEXTS:
            yield from _read(forward, pending)
            pending = []
    yield from _read(forward, pending)


def _read(forward: Forward, asked: Sequence[Asked]) -> Iterator[NDArray[np.float64]]:
    logits = last_logits(forward, [one.token_ids for one in asked])
    for one, found in zip(asked, logits, strict=True):
        yield token_logprobs(found, one.answers)


def token_logprobs(logits: NDArray[np.float32], token_ids: Sequence[int]) -> NDArray[np.float64]:
    """Log-probabilities of tokens under logits (vocabulary,); NaN where a logit is NaN or inf."""
    values = logits.astype(np.float64)
    top = values.max()
    if not np.isfinite(top):
        return np.full(len(token_ids), np.nan)
    return np.asarray(values[list(token_ids)] - top - np.log(np.exp(values - top).sum()))


def parting(model: Model, text: str, templated: bool, answers: Sequence[str], *, whole: bool) -> Asked:
    """Where several answers to a text part: all tokens before, and the token of each answer there.

    Parameters
    ----------
    model : its tokenizer
    text : as rendered
    templated : whether a template wrote it
    answers : what follows, two or more
    whole : whether nothing of an answer may come after its token

    Raises
    ------
    ToolkitError
        Two answers begin with the same token where they part, or one is more than its token; the message says
        what it becomes.
    """
    encoded = [encode(model.tokenizer, text + answer, templated) for answer in answers]
    place = next((i for i, ids in enumerate(zip(*encoded, strict=False)) if len(set(ids)) > 1), None)
    owners: dict[int, str] = {}
    for answer, ids in zip(answers, encoded, strict=True):
        own = ids[place:] if place else []
        if not own or own[0] in owners or (whole and len(own) > 1):
            pieces = ", ".join(quoted(model.tokenizer.decode([one])) for one in own) or "nothing of its own"
            raise ToolkitError(
                f"{quoted(answer.strip())} is no single token of the model {model.name} among the answers "
                f"{clip(', '.join(map(str.strip, answers)), 80)} (it becomes {pieces}): ask another model"
            )
        owners[own[0]] = answer
    return Asked(encoded[0][:place], list(owners))
