"""A model asked whether two answers mean the same: the probability of yes over yes and no, in both orders.

Pairs of texts in, numbers out; knows nothing of runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from toolkit.characters import quoted
from toolkit.collect.render import encode
from toolkit.collect.steps import prepared
from toolkit.errors import ToolkitError, argument
from toolkit.generation.reading import MOST_POSITIONS, last_logits
from toolkit.models import Model

Pair = TypeVar("Pair", bound=tuple[str, str, str])
"""A question and two answers to it."""

QUESTION = (
    "Question: {question}\nAnswer 1: {first}\nAnswer 2: {second}\n"
    "Do the two answers mean the same? Reply with Yes or No."
)
UNTEMPLATED = "\nReply:"  # stands after it where the model has no chat template


class PairJudge:
    """Asks a model about pairs; call it with some.

    Parameters
    ----------
    model : Model

    Attributes
    ----------
    yes_ids, no_ids : (n,) int64
        The tokens that are a spelling of yes, or of no, on their own: of any case, with or without a leading space.

    Raises
    ------
    ToolkitError
        The model has no such token.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._forward, _ = prepared(model)
        self._templated = bool(model.tokenizer.has_chat_template)
        self.yes_ids, self.no_ids = spellings(model, "yes"), spellings(model, "no")

    def __call__(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, float]]:
        """Each pair with its similarity, in the order in which the model reads them: the short ones first.

        Yields
        ------
        pair, value
            The mean over both orders of P(yes) / (P(yes) + P(no)) for the token that comes next.

        Raises
        ------
        ToolkitError
            A text is longer than the model's context.
        """
        orders = [(pair, self.token_ids(*pair), self.token_ids(*swapped(pair))) for pair in pairs]
        orders.sort(key=lambda one: len(one[1]) + len(one[2]))
        texts = list(chain.from_iterable(one[1:] for one in orders))
        logits = last_logits(self._forward, texts)
        for pair, *_ in orders:
            yield pair, (self.share_of_yes(next(logits)) + self.share_of_yes(next(logits))) / 2

    def share_of_yes(self, logits: NDArray[np.float32]) -> float:
        """P(yes) / (P(yes) + P(no)) of (vocabulary,) logits, each summed over its spellings."""
        exact = logits.astype(np.float64)
        return float(expit(logsumexp(exact[self.yes_ids]) - logsumexp(exact[self.no_ids])))

    def token_ids(self, question: str, first: str, second: str) -> list[int]:
        """What the model reads of a pair, in this order.

        Raises
        ------
        ToolkitError
            It is longer than the model's context.
        """
        text = QUESTION.format(question=question, first=first, second=second)
        ids = encode(self._model.tokenizer, self._prompt(text), self._templated)
        limit = self._model.context_length
        if limit is not None and len(ids) > limit:
            raise ToolkitError(
                f"two answers to {quoted(question)} are {len(ids):,} tokens to read with it, and the model's context "
                f"is {limit:,}: compare a part of them with {argument('over')}"
            )
        return ids

    def count_tokens(self, pairs: Sequence[Pair]) -> int:
        """Tokens that the model reads for these pairs, both orders counted."""
        return sum(len(self.token_ids(*pair)) + len(self.token_ids(*swapped(pair))) for pair in pairs)

    def tokens_a_second(self, pairs: Sequence[Pair], clock: Callable[[], float] = time.perf_counter) -> float:
        """The speed of one pass over the first of these pairs, after one that warms up."""
        texts, n = [], 0
        for pair in pairs:
            texts.append(self.token_ids(*pair))
            n += len(texts[-1])
            if n >= MOST_POSITIONS // 2:
                break
        list(last_logits(self._forward, texts[:1]))
        start = clock()
        list(last_logits(self._forward, texts))
        return n / max(clock() - start, 1e-9)

    def _prompt(self, text: str) -> str:
        if not self._templated:
            return text + UNTEMPLATED
        message: list[dict[str, Any]] = [{"role": "user", "content": text}]
        try:
            return self._model.tokenizer.apply_chat_template(
                message, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # a template is a program of the model's; it raises what it likes
            reason = " ".join(str(error).split())
            raise ToolkitError(f"model: its chat template refused the question: {reason}") from None


def swapped(pair: tuple[str, str, str]) -> tuple[str, str, str]:
    """The same pair with its answers in the other order."""
    question, first, second = pair
    return question, second, first


def spellings(model: Model, word: str) -> NDArray[np.int64]:
    """Ids of the tokens that are a word alone, in any case, with or without one space before it.

    Raises
    ------
    ToolkitError
        There is none.
    """
    forms = {form.encode() for form in (word, word.capitalize(), word.upper())}
    wanted = forms | {b" " + form for form in forms}
    pieces = model.token_bytes.pieces(range(model.vocabulary_size))
    found = np.array([i for i, piece in enumerate(pieces) if piece in wanted], np.int64)
    if not len(found):
        raise ToolkitError(
            f"model {quoted(model.name)}: it has no token for {word}, so it cannot be asked: use another"
        )
    return found
