"""`toolkit.generate` and `toolkit.stream`: sequences in memory, and segments as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.calls.prompts import Prompt, as_list, render_given
from toolkit.calls.results import Result, make_result
from toolkit.errors import ToolkitError
from toolkit.records import FinishReason, Segment

if TYPE_CHECKING:
    from toolkit.collect.continuations import TextStep
    from toolkit.collect.settings import Settings
    from toolkit.collect.steps import Generator
    from toolkit.models import Model


class StreamToken(NamedTuple):
    """A token of a segment."""

    id: int
    bytes: bytes
    logprob: float  # from the untouched logits; nats
    entropy: float  # nats
    rank: int  # 1 is the most likely
    alternatives: tuple[tuple[int, float], ...]  # (id, log-probability), most likely first


class StreamSegment(NamedTuple):
    """Text of one sample that was released together, and all tokens that have a byte in it."""

    sample_index: int
    text: str
    tokens: tuple[StreamToken, ...]
    finish_reason: FinishReason | None = None  # with the sample's last segment, whose text may be empty


def generate(
    model: Model,
    prompts: Prompt | Sequence[Prompt],
    *,
    samples: int = 1,
    max_tokens: int = 256,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    order: str = "temperature_first",
    seed: int = 0,
    stop: str | Sequence[str] = (),
    beams: int | None = None,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    n_returned: int | None = None,
    top_logprobs: int = 5,
    regex: str | None = None,
    json_schema: str | Mapping[str, Any] | None = None,
    sampler: Callable[[Any], Any] | None = None,
    logits_processors: Sequence[Callable[[Any, Any], Any]] = (),
    constraint: Any = None,
    system_prompt: str | None = None,
    chat_template: bool = True,
    batch_size: int | None = None,
    watch_tokens: Sequence[str] = (),
    watch_at: str | None = None,
) -> Result:
    """Generate several samples, or the best hypotheses of a beam search, for each of several prompts.

    Parameters
    ----------
    model : Model
        From `toolkit.load`.
    prompts : str, messages, token ids, or a sequence of them
        A text is one user message where the model has a chat template, unless `chat_template` is false. Token
        ids are taken as they are.
    samples : int
        Sequences a prompt; at temperature 0 only 1.
    max_tokens : int
        The most tokens of a sequence, the end token included.
    temperature, top_k, top_p, min_p, order : float, int, float, float, str
        How tokens are drawn: see `toolkit.generation.sampler.Sampler`.
    seed : int
        A sample's random numbers follow from it, the rendered prompt and the sample's index: it comes out the
        same alone and in any batch.
    stop : str or sequence of str
        A text ends before the first of them.
    beams : int, optional
        Search instead of sampling, with so many beams; `length_penalty`, `early_stopping` and `n_returned` are
        for it. The samples are then the hypotheses, best first.
    top_logprobs : int
        Alternatives a token.
    regex, json_schema : str
        Every text has to match.
    sampler : callable, optional
        MLX-LM's kind: log-probabilities (rows, vocabulary) to token ids. It takes the place of temperature and
        filters, and sampling_logprob is not known then.
    logits_processors : sequence of callable
        MLX-LM's kind: (token ids, logits) to logits.
    constraint : optional
        A processing of your own, see `toolkit.generation.processing.Processing`.
    system_prompt : str, optional
    batch_size : int, optional
        Sequences at once; by default as many as make it quicker and memory allows.
    watch_tokens : sequence of str
        Tokens, each by its text with its leading space, that are described however unlikely they are: see
        `Sequence.watched`.
    watch_at : {"first", "every"}, optional
        Where: at the first position of a sequence, which is the default, or at every one.

    Returns
    -------
    Result
        `token_ids` and `logprobs` of shape (n_samples, n_prompts, n_tokens), `text`, `generations`.

    Raises
    ------
    ToolkitError
        An argument is out of range, or a prompt does not fit in the model's context.

    Examples
    --------
    >>> result = toolkit.generate(model, ["2 + 2 =", "3 + 3 ="], samples=4, max_tokens=8)  # doctest: +SKIP
    >>> result.logprobs.shape  # doctest: +SKIP
    (4, 2, 8)
    """
    from dataclasses import replace

    from toolkit.collect.plan import missing_sequences
    from toolkit.collect.steps import Hooks
    from toolkit.collect.watching import make_watch_settings

    settings = _settings(
        samples,
        max_tokens,
        (temperature, top_k, top_p, min_p, order),
        seed,
        stop,
        top_logprobs,
        regex,
        json_schema,
    )
    if beams is not None:
        settings = _with_beams(settings, samples, beams, length_penalty, early_stopping, n_returned)
        if sampler is not None:
            raise ToolkitError("sampler: a beam search does not draw; leave out sampler or beams")
    if sampler is not None and not callable(sampler):
        raise ToolkitError(f"sampler: {sampler!r} cannot be called; give a function of log-probabilities")
    settings = replace(settings, watch=make_watch_settings(watch_tokens, watch_at))
    hooks = Hooks(sampler, tuple(logits_processors), constraint)
    generator = _generator(model, settings, batch_size, hooks)
    records = render_given(model, as_list(prompts), system_prompt, chat_template)
    steps = generator.run(list(missing_sequences(records, settings, ())))
    found = [record for step in steps for record in step.records]
    return make_result(records, found, model.token_bytes.literal)


def stream(
    model: Model,
    prompt: Prompt,
    *,
    samples: int = 1,
    max_tokens: int = 256,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    stop: str | Sequence[str] = (),
    top_logprobs: int = 5,
    regex: str | None = None,
    json_schema: str | Mapping[str, Any] | None = None,
    system_prompt: str | None = None,
    chat_template: bool = True,
) -> Iterator[StreamSegment]:
    """The segments of several samples of one prompt as they come, each with its tokens.

    The arguments are as those of `generate`, and the same seed gives the same samples. Each sample's last
    segment has its finish_reason.
    """
    from toolkit.collect.plan import missing_sequences

    settings = _settings(
        samples,
        max_tokens,
        (temperature, top_k, top_p, min_p, "temperature_first"),
        seed,
        stop,
        top_logprobs,
        regex,
        json_schema,
    )
    generator = _generator(model, settings, None, None)
    records = render_given(model, [prompt], system_prompt, chat_template)
    follower = _SegmentTokens(model)
    for step in generator.run(list(missing_sequences(records, settings, ()))):
        yield from follower.take(step)


class _SegmentTokens:
    """Puts tokens to the segments of a stream."""

    def __init__(self, model: Model) -> None:
        self._pieces = model.token_bytes
        self._tokens: dict[int, list[StreamToken]] = {}  # of each running sample

    def take(self, step: TextStep) -> Iterator[StreamSegment]:
        reasons = {record.sample_index: record.finish_reason for record in step.records}
        for row, (sequence, released) in enumerate(zip(step.step.sequences, step.released, strict=True)):
            index = sequence.sample_index
            tokens = self._tokens.setdefault(index, [])
            if sequence.last >= 0:
                tokens.append(self._token(step, row))
            yield from self._segments(index, released, tokens, reasons.get(index))

    @staticmethod
    def _segments(
        index: int, released: list[Segment], tokens: list[StreamToken], reason: FinishReason | None
    ) -> Iterator[StreamSegment]:
        for place, segment in enumerate(released):
            last = reason if place == len(released) - 1 else None
            inside = tuple(token for token in tokens[segment.token_start : segment.token_end] if token.bytes)
            yield StreamSegment(index, segment.text, inside, last)
        if reason is not None and not released:
            yield StreamSegment(index, "", (), reason)

    def _token(self, step: TextStep, row: int) -> StreamToken:
        token_id, s = int(step.step.token_ids[row]), step.step.statistics
        alternatives = zip(s.alternative_ids[row].tolist(), s.alternative_logprobs[row].tolist(), strict=True)
        return StreamToken(
            token_id,
            self._pieces.piece(token_id) or b"",
            float(s.logprob[row]),
            float(s.entropy[row]),
            int(s.rank[row]),
            tuple(alternatives),
        )


def _settings(
    samples: int,
    max_tokens: int,
    sampler: tuple[Any, ...],
    seed: int,
    stop: str | Sequence[str],
    top_logprobs: int,
    regex: str | None,
    json_schema: str | Mapping[str, Any] | None,
) -> Settings:
    import json

    from toolkit.collect.settings import Constraint, Settings
    from toolkit.generation.sampler import Sampler

    schema = json.dumps(json_schema) if isinstance(json_schema, Mapping) else json_schema
    given = regex is not None or schema is not None
    return Settings(
        num_samples=samples,
        max_tokens=max_tokens,
        sampler=Sampler(*sampler),
        seed=seed,
        stop=(stop,) if isinstance(stop, str) else stop,  # type: ignore[arg-type]  # checked there
        top_logprobs=top_logprobs,
        constraint=Constraint(regex, schema) if given else None,
    )


def _with_beams(
    settings: Settings, samples: int, beams: int, penalty: float, early: bool, n_returned: int | None
) -> Settings:
    from dataclasses import replace

    from toolkit.generation.beam_settings import BeamSettings

    if samples != 1:
        raise ToolkitError(f"samples: {samples} cannot be drawn in a beam search; leave it out, or beams")
    return replace(settings, num_samples=0, beam=BeamSettings(beams, penalty, early, n_returned))


def _generator(model: Model, settings: Settings, batch_size: int | None, hooks: Any) -> Generator:
    from toolkit.collect.steps import Generator, Hooks

    if not hasattr(model, "with_end_tokens"):
        raise ToolkitError(f"model: {str(model)[:60]!r} is no model; give what toolkit.load() gives")
    if batch_size is not None and batch_size < 1:
        raise ToolkitError(f"batch_size: {batch_size} is below 1; use 1 or more")
    return Generator(model, settings, batch_size, hooks or Hooks())
