"""Sequences and runs as HTML for notebooks: coloured text, and under the pointer what each token was.

Self-contained: no script, no style sheet, no identifiers and nothing from a network, since a notebook mixes
outputs and strips what it does not trust. Only marked text has colours of its own; all else takes those of the
notebook's theme. What is shown is bounded, however much there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from toolkit.appearance.questions import question
from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.report.snippets import Literals, block, bold, legend, line, more, record, table, text

if TYPE_CHECKING:
    from toolkit.calls.results import Generation, Result, Sequence
    from toolkit.records import SequenceRecord
    from toolkit.store import Run, Runs

MOST_TOKENS = 800  # of one output, over all its sequences
MOST_SEQUENCES = 8
MOST_PROMPTS = 4
MOST_RUNS = 20
_MOST_FILES = 200  # that are opened for their number of rows


def sequence_html(sequence: Sequence) -> str:
    """A sequence: what it is, and its text coloured by the log-probabilities of its tokens."""
    return block(record(sequence.record, sequence.literals, MOST_TOKENS), legend())


def generation_html(generation: Generation) -> str:
    """The first `MOST_SEQUENCES` sequences of a prompt."""
    return block(*_generation(generation, MOST_SEQUENCES, MOST_TOKENS), legend())


def result_html(result: Result) -> str:
    """The first `MOST_PROMPTS` prompts of a result, with the first sequences of each."""
    n_samples, n_prompts, n_tokens = result.shape
    shown = result.generations[:MOST_PROMPTS]
    share = max(1, len(shown))
    size = f"{count(n_prompts, 'prompt')}, {count(n_samples, 'sample')} of each, {count(n_tokens, 'token')} at most"
    parts = [line(bold(size))]
    for generation in shown:
        parts += _generation(generation, MOST_SEQUENCES // share, MOST_TOKENS // share)
    return block(*parts, more(n_prompts - len(shown), "prompt"), legend())


def _generation(generation: Generation, most: int, tokens: int) -> Iterator[str]:
    prompt, shown = generation.prompt, generation.sequences[:most]
    asked = question({"messages": prompt.messages, "text": prompt.text})
    yield _prompt(prompt.prompt_id, asked, prompt.reference)
    for sequence in shown:
        yield record(sequence.record, sequence.literals, tokens // len(shown))
    yield more(len(generation.sequences) - len(shown), "sequence")


def _prompt(prompt_id: str, asked: str, reference: Iterable[str]) -> str:
    right = " | ".join(reference)
    parts = [bold(prompt_id), text(asked), *([f"right: {text(right)}"] if right else [])]
    return line("<br>".join(parts), "margin-top:.8em")


def run_html(run: Run) -> str:
    """What a run holds, in a table, and its first sequences.

    Reads the sizes from the files' footers, one row group of sequences, and the prompts and literals of what is
    shown; a run that cannot be read says so.
    """
    try:
        facts = list(_facts(run))
        sequences = _first_sequences(run)
    except ToolkitError as error:
        return block(line(bold(str(run.path))), line(text(str(error))))
    return block(line(bold(str(run.path))), table(facts), *sequences, legend())


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    from toolkit.judging.evaluation import sampler_of
    from toolkit.store.grades import grade_sets

    sizes = [_counted(run, name) for name in ("prompt", "sequence", "token")]
    yield "model", str(run.manifest.model.get("name") or "-")
    yield "sampler", sampler_of(run)
    yield "holds", ", ".join(sizes)
    yield "graded", ", ".join(one.label for one in grade_sets(run.path)) or "no"


def _counted(run: Run, noun: str) -> str:
    n = _size(run, f"{noun}s")
    return f"? {noun}s" if n is None else count(n, noun)


def _size(run: Run, table: str) -> int | None:
    """Rows of a table; those that the manifest says where there are many files."""
    from toolkit.store.parquet import TableFile

    parts = run.parts(table)
    if len(parts) > _MOST_FILES:
        return run.manifest.counts.get(table)
    rows = 0
    for part in parts:
        with TableFile(run.part_path(table, part), table) as file:
            rows += file.n_rows
    return rows


def _first_sequences(run: Run) -> list[str]:
    """The sequences that are first in the files, each prompt before those of it."""
    shown = list(islice(run.iter_sequences(), MOST_SEQUENCES))
    literals = _literals(run, shown)
    prompts = _prompts(run, {one.prompt_id for one in shown})
    parts: list[str] = []
    before = None
    for one in shown:
        if one.prompt_id != before:
            prompt = prompts.get(one.prompt_id, {"messages": None, "text": "", "reference": []})
            parts.append(_prompt(one.prompt_id, question(prompt), prompt["reference"] or []))
        parts.append(record(one, literals, MOST_TOKENS // len(shown)))
        before = one.prompt_id
    n_sequences = _size(run, "sequences")
    rest = 0 if n_sequences is None else n_sequences - len(shown)
    return [*parts, more(rest, "sequence")]


def _literals(run: Run, shown: Iterable[SequenceRecord]) -> Literals:
    """What a person reads for the tokens that occur, without holding the vocabulary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = {
        i
        for one in shown
        for i in (*one.token_ids.tolist(), *one.statistics.alternative_ids.ravel().tolist())
    }
    found: dict[int, str] = {}
    for rows in run.iter_row_groups("vocabulary", ["token_id", "literal"]):
        own = rows.filter(
            pc.is_in(rows["token_id"], value_set=pa.array(sorted(wanted), rows["token_id"].type))
        )
        found.update(zip(own["token_id"].to_pylist(), own["literal"].to_pylist(), strict=True))
        if len(found) >= len(wanted):
            break
    return found


def _prompts(run: Run, ids: set[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for rows in run.iter_row_groups("prompts", ["prompt_id", "text", "messages", "reference"], sorted(ids)):
        found.update((row["prompt_id"], row) for row in rows.to_pylist())
        if len(found) == len(ids):
            break
    return found


def runs_html(runs: Runs) -> str:
    """A row a run: its model, how it was sampled, and what it holds."""
    from toolkit.store.grades import grade_sets

    heads = ["run", "model", "temperature", "top_p", "sequences", "graded"]
    rows = []
    for label, run in list(zip(runs.labels, runs, strict=True))[:MOST_RUNS]:
        size = _size(run, "sequences")
        graded = ", ".join(one.label for one in grade_sets(run.path)) or "no"
        values = [*label.values(), "?" if size is None else f"{size:,}", graded]
        rows.append(["-" if value is None else str(value) for value in values])
    return block(line(bold(count(len(runs), "run"))), table(rows, heads), more(len(runs) - len(rows), "run"))
