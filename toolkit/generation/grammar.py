"""Regular expressions and JSON schemas as masks over the next token, through llguidance (an extra)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ToolkitError, argument


def _library() -> Any:
    try:
        import llguidance
    except ModuleNotFoundError:
        raise ToolkitError(
            "constraints need the package llguidance; install it with "
            "pip install 'token-confidence-toolkit[constraints]'"
        ) from None
    return llguidance


class Grammar:
    """Masks out every token that would leave a grammar. A processing for the loops.

    llguidance masks more than that: text that the grammar forces may only be spelled as the tokenizer would
    spell it, so other tokens for the same text are masked too, and constrained_logprob is 0 there.

    When the grammar is complete, only the end tokens are left, and one is drawn and recorded.

    Parameters
    ----------
    grammar : what llguidance's `grammar_from_regex` or `grammar_from_json_schema` gave
    named : the argument that it came from, for messages
    tokenizer : Hugging Face's, whose backend is a `tokenizers.Tokenizer`
    end_ids : tokens that end a sequence

    Raises
    ------
    ToolkitError
        llguidance is not installed, or the grammar is not valid.
    """

    def __init__(self, grammar: str, named: str, tokenizer: Any, end_ids: Iterable[int]) -> None:
        library = _library()
        self._end_ids = sorted(end_ids)
        if not self._end_ids:
            raise ToolkitError(f"{named}: the model has no end token, so a grammar could never end")
        backend = tokenizer.backend_tokenizer
        known = library.LLTokenizer(backend.to_str(), n_vocab=_n_ids(backend), eos_token=self._end_ids)
        wrong = library.LLMatcher.validate_grammar(grammar, known)
        if wrong and not wrong.startswith("WARNING"):
            raise ToolkitError(f"{named}: {' '.join(wrong.split())}; see the syntax of llguidance")
        self._first = library.LLMatcher(known, grammar, log_level=0)
        if self._first.is_error():
            raise ToolkitError(f"{named}: {' '.join(self._first.get_error().split())}")

    def begin(self, prompt_ids: Sequence[int]) -> Any:
        """A matcher at the beginning of the grammar; the prompt is not part of it."""
        return self._first

    def apply(self, states: Sequence[Any], logits: mx.array) -> mx.array:
        """The logits with -inf where the grammar does not allow a token."""
        allowed = np.zeros((len(states), logits.shape[1]), bool)
        for row, matcher in zip(allowed, states, strict=True):
            self._allow(matcher, row)
        return mx.where(mx.array(allowed), logits, -mx.inf)

    def follow(self, state: Any, token_id: int) -> Any:
        """A copy of the matcher that has taken one more token."""
        matcher = state.deep_copy()
        matcher.consume_token(token_id)
        return matcher

    def _allow(self, matcher: Any, row: NDArray[np.bool_]) -> None:
        if matcher.is_stopped() and not matcher.is_error():
            row[self._end_ids] = True
        elif not matcher.is_error():
            # The mask comes with a word too many.
            bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
            mask = np.unpackbits(bits, bitorder="little", count=min(8 * len(bits), len(row)))
            row[: len(mask)] = mask


def _n_ids(backend: Any) -> int:
    return max(backend.get_vocab(with_added_tokens=True).values()) + 1


def regex_grammar(pattern: str, tokenizer: Any, end_ids: Iterable[int]) -> Grammar:
    """A grammar of the texts that match a regular expression from beginning to end.

    Its syntax is that of Rust's `regex`; `\\d` is any Unicode digit.
    """
    if not pattern:
        raise ToolkitError(f"{argument('regex')}: it is empty; give a regular expression")
    return Grammar(_library().LLMatcher.grammar_from_regex(pattern), argument("regex"), tokenizer, end_ids)


def json_grammar(schema: str | Mapping[str, Any], tokenizer: Any, end_ids: Iterable[int]) -> Grammar:
    """A grammar of the JSON texts that a JSON schema allows."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if not isinstance(json.loads(text), dict | bool):
            raise ToolkitError(f"{argument('json_schema')}: it is no JSON object; give a JSON schema")
        grammar = _library().LLMatcher.grammar_from_json_schema(text)
    except (ValueError, RecursionError, TypeError) as error:
        raise ToolkitError(
            f"{argument('json_schema')}: it is not valid JSON ({' '.join(str(error).split())})"
        ) from None
    return Grammar(grammar, argument("json_schema"), tokenizer, end_ids)
