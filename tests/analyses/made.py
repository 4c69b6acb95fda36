"""Made runs of the first questions of each file, as the analyses read them; and the scripts as modules."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from tests.answers import END, Answer, statistics
from tests.store.factory import make_manifest
from toolkit.alignment import align
from toolkit.collect.prompts import Prompt, read_prompts
from toolkit.records import Kind, PromptRecord, SequenceRecord
from toolkit.store import RunWriter, open_run

ROOT = Path(__file__).parents[2]
ANALYSES = ROOT / "analyses"
CAPITALS = ROOT / "data" / "prompts" / "capitals.jsonl"
N_PROMPTS = 8  # as many as --quick wants
SCRIPTS = [  # those with a report: a text that quotes what they found
    path.stem
    for path in sorted(ANALYSES.glob("0*.py"))
    if (ANALYSES / "texts" / f"{path.stem}.md.j2").exists()
]
if str(ANALYSES) not in sys.path:
    sys.path.append(str(ANALYSES))

Writer = Callable[[Prompt, np.random.Generator], tuple[str, bool]]


def script(name: str) -> ModuleType:
    """A script of the folder analyses as a module; names that begin with a digit cannot be imported."""
    spec = importlib.util.spec_from_file_location(f"analysis_{name}", ANALYSES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def support(name: str) -> ModuleType:
    return importlib.import_module(f"support.{name}")


def make_runs(folder: Path) -> None:
    """All runs that the analyses read, graded by nobody yet."""
    kinds: list[tuple[Kind, int]] = [("greedy", 1), ("sample", 8)]
    _make(folder / "capitals", "capitals.jsonl", kinds, _capital, seed=1)
    _make(folder / "beams", "capitals.jsonl", [("beam", 4)], _capital, seed=23)
    for i, temperature in enumerate(("0.3", "0.7", "1.0", "1.5")):
        path = folder / f"temperature-{temperature}"
        _make(path, "capitals.jsonl", [("sample", 4)], _capital, seed=3 + i, temperature=float(temperature))
    for i, name in enumerate(("float32", "8-bit", "4-bit")):
        few: list[tuple[Kind, int]] = [("greedy", 1), ("sample", 4)]
        _make(folder / f"quantised-{name}", "capitals.jsonl", few, _capital, seed=11 + i)
        _score(folder / "quantised-float32", folder / f"quantised-{name}-scored", shift=0.05 * i)
    _make(folder / "arithmetic", "arithmetic.jsonl", [("greedy", 1), ("sample", 16)], _sum, seed=7)
    _make(folder / "questions", "questions.jsonl", [("greedy", 1), ("sample", 4)], _answer, seed=8)


def _make(
    path: Path,
    file: str,
    kinds: Sequence[tuple[Kind, int]],
    write: Writer,
    *,
    seed: int,
    temperature: float = 1.0,
) -> None:
    rng = np.random.default_rng(seed)
    prompts = read_prompts(ROOT / "data" / "prompts" / file, limit=N_PROMPTS)
    sampler = {"temperature": temperature, "top_p": 1.0}
    with RunWriter.create(path, make_manifest(content_config={"sampler": sampler})) as writer:
        writer.add_prompts([_record_of(prompt) for prompt in prompts])
        vocabulary: dict[int, tuple[bytes | None, str, bool]] = {0: (None, END, True)}
        records = []
        for prompt in prompts:
            for kind, n in kinds:
                records += _sequences(prompt, kind, n, write, rng, temperature, vocabulary)
        writer.commit(records, vocabulary)


def _score(answered: Path, path: Path, shift: float) -> None:
    """The greedy answers of a run as given completions, each token up to `shift` nats less likely."""
    rng = np.random.default_rng(5)
    run = open_run(answered)
    with RunWriter.create(path, make_manifest(content_config={"joint": False})) as writer:
        writer.add_prompts([_record_of(one) for one in read_prompts(CAPITALS, limit=N_PROMPTS)])
        records = []
        for one in run.iter_sequences(kinds="greedy"):
            moved = one.statistics.logprob - shift * rng.random(len(one.token_ids), np.float32)
            changed = one.statistics._replace(
                logprob=moved, entropy=one.statistics.entropy + np.float32(shift)
            )
            records.append(dataclasses.replace(one, kind="scored", statistics=changed))
        writer.commit(records, {i: tuple(entry) for i, entry in run.vocabulary.items()})


def _sequences(
    prompt: Prompt,
    kind: Kind,
    n: int,
    write: Writer,
    rng: np.random.Generator,
    temperature: float,
    vocabulary: dict[int, tuple[bytes | None, str, bool]],
) -> list[SequenceRecord]:
    answers = [_given(prompt, kind, i, *write(prompt, rng), rng, temperature) for i in range(n)]
    scores = [float(np.mean(np.float32(answer.all_logprobs))) for answer in answers]
    if kind != "beam":
        return [_record(answer, None, vocabulary) for answer in answers]
    order = np.argsort(scores)[::-1]
    return [
        _record(_numbered(answers[i], place), scores[i], vocabulary) for place, i in enumerate(order.tolist())
    ]


def _given(
    prompt: Prompt,
    kind: Kind,
    index: int,
    text: str,
    right: bool,
    rng: np.random.Generator,
    temperature: float,
) -> Answer:
    """An answer whose log-probabilities partly tell whether it is right."""
    words = re.findall(r"\s?[^\s.]+|\.", text)
    pieces = [piece for word in words for piece in _halves(word)]
    assert "".join(pieces) == text
    logprobs = (-rng.exponential(0.3 if right else 0.7, len(pieces))).tolist()
    end = -float(rng.exponential(0.2))
    own = [*logprobs, end]
    sampling = own if temperature == 1 else [value * 0.6 for value in own]
    return Answer(str(prompt.id), pieces, logprobs, kind, index, end, sampling=sampling)


def _halves(word: str) -> list[str]:
    """A long word is two tokens."""
    middle = len(word) // 2
    return [word] if len(word) < 8 else [word[:middle], word[middle:]]


def _numbered(answer: Answer, index: int) -> Answer:
    return Answer(
        answer.prompt_id,
        answer.pieces,
        answer.logprobs,
        answer.kind,
        index,
        answer.end,
        sampling=answer.sampling,
    )


def _record(
    answer: Answer, score: float | None, vocabulary: dict[int, tuple[bytes | None, str, bool]]
) -> SequenceRecord:
    ids = []
    for piece in answer.pieces:
        known = {entry[1]: number for number, entry in vocabulary.items()}
        ids.append(known.get(piece, len(vocabulary)))
        vocabulary[ids[-1]] = (piece.encode(), piece, False)
    return SequenceRecord(
        prompt_id=answer.prompt_id,
        kind=answer.kind,
        sample_index=answer.sample_index,
        token_ids=np.array([*ids, 0], np.int32),
        statistics=statistics(answer),
        alignment=align([*(piece.encode() for piece in answer.pieces), None]),
        has_end=True,
        finish_reason="stop",
        stop_reason=END,
        beam_score=score,
    )


def _record_of(prompt: Prompt) -> PromptRecord:
    text = prompt.prompt or str(prompt.messages)
    return PromptRecord(
        str(prompt.id),
        prompt.index,
        text,
        np.array([1], np.int32),
        prompt.messages,
        prompt.reference,
        prompt.metadata,
    )


def _capital(prompt: Prompt, rng: np.random.Generator) -> tuple[str, bool]:
    found = re.search("capital of (.*)[?]", str(prompt.prompt))
    assert found is not None
    choice = rng.random()
    if choice < 0.5:
        return f"The capital of {found[1]} is {prompt.reference[0]}.", True
    if choice < 0.85:
        return f"The capital of {found[1]} is {rng.choice(['Springfield', 'New Atlantis'])}.", False
    return "This is a question that nobody here can answer.", False


def _sum(prompt: Prompt, rng: np.random.Generator) -> tuple[str, bool]:
    assert prompt.messages is not None
    asked = re.search("What is (.*)[?]", prompt.messages[-1]["content"])
    assert asked is not None
    right = bool(rng.random() < 0.45)
    answer = int(prompt.reference[0]) + (0 if right else int(rng.integers(1, 4)))
    return f"{asked[1]} = {answer}", right


def _answer(prompt: Prompt, rng: np.random.Generator) -> tuple[str, bool]:
    right = bool(rng.random() < 0.5)
    named = prompt.reference[0] if right else "Erewhon"
    tail = " Since 1872 it has been so in Japan. Ask Mary." if rng.random() < 0.5 else ""
    return f"I think that the answer is {named}.{tail}", right
