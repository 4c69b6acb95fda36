"""Made data islands: texts, statistics and grades that a test chooses."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from toolkit.appearance import palette
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES

MASKED = -9999.0
END = "<|im_end|>"
SPAN_METRICS = ("mean_logprob", "min_logprob", "sum_logprob", "mean_entropy")


def units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass
class Text:
    """A sequence: its tokens' texts (the end token comes by itself) and what the model believed of each.

    `shared` are (first token, last token exclusive, text) of characters that several tokens make together; those
    tokens' own texts are then what a person reads of them alone.
    """

    pieces: Sequence[str]
    logprobs: Sequence[float | None]
    kind: str = "greedy"
    sample: int = 0
    grade: float | None = None
    extracted: str | None = None
    entropies: Sequence[float | None] | None = None
    ranks: Sequence[int | None] | None = None
    has_end: bool = True
    finish: str = "stop"
    cut: Sequence[str] = ()  # tokens past a stop string
    shared: tuple[int, int, str] | None = None
    alternatives: Sequence[Sequence[tuple[str, float]]] = ()

    @property
    def tokens(self) -> list[str]:
        return [*self.pieces, *([END] if self.has_end else []), *self.cut]


@dataclass
class Prompt:
    id: str
    texts: list[Text]
    question: str = "What is it?"
    reference: list[str] = field(default_factory=list)
    run: int = 0


class _Vocabulary:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.bytes: list[str | None] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
            special = re.fullmatch(r"<\|\w+\|>", text) is not None
            self.bytes.append(None if special else text.encode("utf-8", "surrogatepass").hex())
        return self._places[text]


def make_island(
    prompts: Sequence[Prompt], *, runs: Sequence[dict[str, str]] = (), **more: Any
) -> dict[str, Any]:
    """A page's island, as the docstring of `toolkit.report.data` says it."""
    vocabulary = _Vocabulary()
    island: dict[str, Any] = {
        "format": 1,
        "title": "made",
        "page": {"number": 1, "files": ["report.html"]},
        "palette": [palette.hex_colour(i / 16) for i in range(17)],
        "metrics": {
            name: {"unit": s.unit, "unsure": s.unsure, "sure": s.sure, "log": s.logarithmic}
            for name, s in {**TOKEN_SCALES, **SPAN_SCALES}.items()
        },
        "runs": list(runs) or [{"name": "made", "model": "none", "sampler": "temperature 1"}],
        "prompts": [],
        "sequences": [],
    }
    for prompt in prompts:
        first = len(island["sequences"])
        island["sequences"] += [_sequence(len(island["prompts"]), text, vocabulary) for text in prompt.texts]
        island["prompts"].append(
            {
                "run": prompt.run,
                "id": prompt.id,
                "question": prompt.question,
                "reference": prompt.reference,
                "sequences": list(range(first, len(island["sequences"]))),
            }
        )
    island["vocabulary"] = {"texts": vocabulary.texts, "bytes": vocabulary.bytes}
    present = {name for sequence in island["sequences"] for name in sequence["spans"]}
    island["granularities"] = [
        {"name": "token", "metrics": ["logprob", "entropy", "rank"]},
        *({"name": n, "metrics": list(SPAN_METRICS)} for n in ("word", "sentence", "field") if n in present),
    ]
    return {**island, **more}


def _sequence(prompt: int, text: Text, vocabulary: _Vocabulary) -> dict[str, Any]:
    whole, starts, ends = _layout(text)
    n = len(text.tokens)
    kept = len(text.pieces) + text.has_end
    known = [value for value in text.logprobs[:kept] if value not in (None, MASKED)]
    tokens: dict[str, Any] = {
        "v": [vocabulary.place(token) for token in text.tokens],
        "start": starts,
        "end": ends,
        "kept": kept,
        "logprob": _padded(text.logprobs, n, -0.1),
        "entropy": _padded(text.entropies, n, 0.5),
        "rank": _padded(text.ranks, n, 1),
        "alternatives": [
            [part for token, logprob in row for part in (vocabulary.place(token), logprob)]
            for row in [*text.alternatives, *([[]] * n)][:n]
        ],
    }
    return {
        "prompt": prompt,
        "kind": text.kind,
        "sample": text.sample,
        "text": whole,
        "finish": text.finish,
        "grade": text.grade,
        "extracted": text.extracted,
        "sum_logprob": round(sum(known), 4) if known else None,
        "mean_logprob": round(sum(known) / len(known), 4) if known else None,
        "tokens": tokens,
        "spans": _spans(whole, tokens),
    }


def _padded(values: Sequence[Any] | None, n: int, default: Any) -> list[Any]:
    return [*(values or []), *([default] * n)][:n]


def _layout(text: Text) -> tuple[str, list[int], list[int]]:
    """The whole text, and where each token begins and ends in it; special and cut ones where they stand."""
    drawn: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    place = 0
    for i, piece in enumerate(text.pieces):
        is_shared = text.shared is not None and text.shared[0] <= i < text.shared[1]
        if text.shared is not None and is_shared and i > text.shared[0]:
            starts.append(starts[-1])
        else:
            drawn.append(text.shared[2] if text.shared is not None and is_shared else piece)
            starts.append(place)
            place += units(drawn[-1])
        ends.append(place)
    others = len(text.tokens) - len(text.pieces)
    return "".join(drawn), starts + [place] * others, ends + [place] * others


def _spans(text: str, tokens: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, pattern in (
        ("word", r"\w+"),
        ("sentence", r"[^.!?]+[.!?]*\s*"),
        ("field", r'(?<=": ")[^"]*(?=")'),
    ):
        matches = list(re.finditer(pattern, text))
        if matches:
            found[name] = _columns(text, matches, tokens)
            if name == "field":
                found[name]["label"] = [f"field{i}" for i in range(len(matches))]
    return found


def _columns(text: str, matches: Sequence[re.Match[str]], tokens: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [] for name in ("start", "end", "first", "last", *SPAN_METRICS)}
    starts, ends = (tokens[name][: tokens["kept"]] for name in ("start", "end"))
    offsets = [0, *accumulate(map(units, text))]
    for match in matches:
        start, end = offsets[match.start()], offsets[match.end()]
        near = range(bisect_right(ends, start), bisect_left(starts, end))
        owners = [i for i in near if starts[i] < end and ends[i] > start]
        logprobs = [tokens["logprob"][i] for i in owners if tokens["logprob"][i] is not None]
        entropies = [tokens["entropy"][i] for i in owners if tokens["entropy"][i] is not None]
        columns["start"].append(start)
        columns["end"].append(end)
        columns["first"].append(owners[0] if owners else 0)
        columns["last"].append(owners[-1] + 1 if owners else 0)
        columns["mean_logprob"].append(round(sum(logprobs) / len(logprobs), 4) if logprobs else None)
        columns["min_logprob"].append(min(logprobs) if logprobs else None)
        columns["sum_logprob"].append(round(sum(logprobs), 4) if logprobs else None)
        columns["mean_entropy"].append(round(sum(entropies) / len(entropies), 4) if entropies else None)
    return columns


def piece_text(text: str, start: int, end: int) -> str:
    """A part of a text by UTF-16 code units."""
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")
