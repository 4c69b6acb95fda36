"""What a collection is asked to do, and which part of it decides a sequence's content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Any

from toolkit.collect.watching import WatchSettings
from toolkit.errors import ToolkitError, argument
from toolkit.generation.beam_settings import BeamSettings
from toolkit.generation.sampling import Sampler

MAX_TOP_LOGPROBS = 20


@dataclass(frozen=True)
class RenderSettings:
    """How a prompt becomes the text that the model reads."""

    system_prompt: str | None = None
    ignore_chat_template: bool = False
    chat_template_config: Mapping[str, Any] = field(default_factory=dict)
    prefill_response: str | None = None


@dataclass(frozen=True)
class Constraint:
    """What every text has to match; the grammar is made when the model is there.

    Raises
    ------
    ToolkitError
        Both or none are given.
    """

    regex: str | None = None
    json_schema: str | None = None

    def __post_init__(self) -> None:
        if (self.regex is None) == (self.json_schema is None):
            raise ToolkitError(f"{argument('regex')}, {argument('json_schema')}: give exactly one of them")


def check_top_logprobs(n: int) -> None:
    """Raise ToolkitError where so many alternatives a token are not stored."""
    if not 0 <= n <= MAX_TOP_LOGPROBS:
        raise ToolkitError(
            f"{argument('top_logprobs')}: {n} is outside 0 to {MAX_TOP_LOGPROBS}; use 0 to {MAX_TOP_LOGPROBS}"
        )


@dataclass(frozen=True)
class Settings:
    """How sequences are drawn. Every field is checked.

    Raises
    ------
    ToolkitError
        A value is out of range, or values contradict each other.
    """

    num_samples: int = 1
    greedy: bool = False  # one greedy sequence beside the samples
    beam: BeamSettings | None = None
    max_tokens: int = 256
    sampler: Sampler = field(default_factory=Sampler)
    seed: int = 0
    top_logprobs: int = 5
    stop: tuple[str, ...] = ()
    extra_eos_tokens: tuple[str, ...] = ()
    constraint: Constraint | None = None
    watch: WatchSettings | None = None
    render: RenderSettings = field(default_factory=RenderSettings)

    def __post_init__(self) -> None:
        for name in ("num_samples", "max_tokens", "top_logprobs", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral):
                named = argument("samples" if name == "num_samples" else name)
                raise ToolkitError(f"{named}: {value!r} is not a whole number; use a whole number")
        if not isinstance(self.stop, Sequence) or not all(isinstance(text, str) for text in self.stop):
            raise ToolkitError(
                f"{argument('stop')}: {self.stop!r} is no text; give a text, or a list of texts"
            )
        object.__setattr__(self, "stop", tuple(self.stop))
        if self.num_samples < 0 or (self.num_samples == 0 and not self.greedy and self.beam is None):
            raise ToolkitError(
                f"{argument('samples')}: {self.num_samples} is not allowed; "
                "use 1 or more, or 0 beside a greedy sequence or a beam search"
            )
        if self.num_samples > 1 and self.sampler.temperature == 0:
            raise ToolkitError(
                f"{argument('samples')}: {self.num_samples} at {argument('temperature')} 0 would all be the same; "
                f"use {argument('temperature')} above 0, or 1 sample"
            )
        if self.max_tokens < 1:
            raise ToolkitError(f"{argument('max_tokens')}: {self.max_tokens} is below 1; use 1 or more")
        check_top_logprobs(self.top_logprobs)
        if not 0 <= self.seed < 2**63:
            raise ToolkitError(
                f"{argument('seed')}: {self.seed} is outside 0 to 2**63 - 1; use a number in that range"
            )
        if not all(self.stop):
            raise ToolkitError(f"{argument('stop')}: '' is empty; give a text of at least one character")
        if self.beam is not None and self.stop:
            raise ToolkitError(
                f"{argument('stop')}: a beam search ends only at end tokens; "
                f"leave out {argument('stop')} or {argument('beams')}"
            )

    def content(self) -> dict[str, Any]:
        """The part that decides what a sequence holds: it must be the same whenever a run goes on.

        The number of samples, the prompts, the batch size and the shard are not in it.
        """
        settings = asdict(self)
        for name in ("num_samples", "greedy", "watch"):
            del settings[name]
        lists = {"stop": list(self.stop), "extra_eos_tokens": list(self.extra_eos_tokens)}
        return {**settings, **lists, **_watched(self.watch)}


def _watched(watch: WatchSettings | None) -> dict[str, Any]:
    """The part of the content that says what is watched; nothing where nothing is.

    So a run that was begun before tokens could be watched has the same content still, and goes on.
    """
    return {} if watch is None else {"watch": watch.content()}


@dataclass(frozen=True)
class ScoreSettings:
    """How given completions become tokens, and what is kept of them.

    Raises
    ------
    ToolkitError
        A value is out of range.
    """

    joint: bool = False  # a text is tokenised together with its prompt, not apart from it
    add_end: bool = False  # the end token follows a completion that does not end in one
    top_logprobs: int = 5
    render: RenderSettings = field(default_factory=RenderSettings)
    watch: WatchSettings | None = None

    def __post_init__(self) -> None:
        check_top_logprobs(self.top_logprobs)

    def content(self) -> dict[str, Any]:
        """The part that decides what a sequence holds: all of it, but the completions themselves."""
        settings = asdict(self)
        del settings["watch"]
        return {**settings, **_watched(self.watch)}
