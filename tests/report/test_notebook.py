"""What a notebook shows of sequences and runs: the text, coloured and escaped, bounded, and self-contained."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence as Sequence_
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import toolkit
from tests.graded import Answer, make_answers, prompt
from tests.report.hostile import ATTACKS, OBEYED, hostile_run
from tests.store.factory import VOCABULARY, make_prompt, make_record, make_records, make_run, prompt_name
from tests.test_characters import WHOLE
from toolkit.appearance import palette
from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.calls.results import Generation, Result, Sequence, make_result
from toolkit.characters import visible
from toolkit.records import PromptRecord, SequenceRecord
from toolkit.report.notebook import MOST_PROMPTS, MOST_RUNS, MOST_SEQUENCES, MOST_TOKENS
from toolkit.report.snippets import LONGEST_TEXT
from toolkit.report.terminal import number
from toolkit.store import Run, open_run, open_runs
from toolkit.store.parquet import TableFile

LARGEST = 400_000  # characters of one output
TAGS = {"div", "span", "bdi", "b", "br", "table", "thead", "tbody", "tr", "td", "th"}
BLACK, WHITE = palette.BLACK, palette.WHITE
RECORDS = list(make_records())


class Shown(HTMLParser):
    """An output taken apart: its elements, the coloured spans in order, and all text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.spans: list[tuple[str, dict[str, str]]] = []  # with a title: tokens
        self.text = ""
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag != "br":
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1][0] == "span" and "title" in self._open[-1][1]:
            self.spans.append((data, self._open[-1][1]))

    @property
    def marked(self) -> str:
        """The text of the tokens."""
        return "".join(text for text, _ in self.spans)


def literal(token_id: int) -> str:
    return VOCABULARY[token_id][1]


def result_of(records: Sequence_[SequenceRecord], prompts: Sequence_[PromptRecord]) -> Result:
    return make_result(prompts, records, literal)


def small() -> Result:
    return result_of(RECORDS, [make_prompt(prompt_name(i), i) for i in range(3)])


def shown(value: Any) -> Shown:
    return Shown(value._repr_html_())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return hostile_run(tmp_path_factory.mktemp("hostile") / "run")


def hostile_result(run: Run) -> Result:
    prompts = [
        PromptRecord(row["prompt_id"], i, row["text"], RECORDS[0].token_ids, reference=row["reference"])
        for i, row in enumerate(run.load("prompts").to_pylist())
    ]
    return make_result(prompts, list(run.iter_sequences()), lambda i: run.vocabulary[i].literal)


def hostile_values(run: Run) -> list[Any]:
    result = hostile_result(run)
    return [
        run,
        open_runs([run.path]),
        result,
        *result.generations,
        *(g.sequences[0] for g in result.generations),
    ]


def test_the_text_is_kept_and_its_end_is_shown() -> None:
    for record in RECORDS:
        found = shown(Sequence((), record, {i: entry[1] for i, entry in VOCABULARY.items()}))
        end = "<|im_end|>" if record.has_end else ""
        assert found.marked == visible(record.alignment.text + end, newlines=True)


def test_each_token_has_the_colour_of_its_logprob_and_says_what_else_was_likely() -> None:
    scale = TOKEN_SCALES["logprob"]
    for record in RECORDS[:6]:
        sequence = result_of([record], [make_prompt(record.prompt_id)]).generations[0].sequences[0]
        for part, attributes in shown(sequence).spans:
            owners = [int(i) for i in re.findall(r": token (\d+), id", attributes["title"])]
            worst = min(float(record.statistics.logprob[i]) for i in owners)
            confidence = scale.confidence(worst)
            assert f"background:{palette.hex_colour(confidence)};" in attributes["style"]
            assert ("underline" in attributes["style"]) == (confidence < 0.5)
            for i in owners:
                assert f"logprob {number(worst)}" in attributes["title"] or len(owners) > 1
                for other in record.statistics.alternative_ids[i].tolist():
                    assert f" % '{visible(literal(other))}'" in attributes["title"]
                assert f"rank {record.statistics.rank[i]}" in attributes["title"]
            assert part


def colour(text: str) -> palette.RGB:
    return palette.RGB(*(int(text[i : i + 2], 16) for i in (1, 3, 5)))


def test_coloured_text_has_contrast_in_itself_so_that_the_theme_is_no_matter() -> None:
    record = make_record(n_tokens=200)
    found = shown(Sequence((), record))
    styles = [
        attributes["style"]
        for tag, attributes in found.elements
        if "background:#" in attributes.get("style", "")
    ]
    assert len(styles) > 100
    for style in styles:
        back, ink = re.findall(r"(?:background|color):(#[0-9a-f]{6})", style)
        assert palette.contrast(colour(back), colour(ink)) >= 4.5


def test_what_was_not_computed_has_no_colour() -> None:
    record = make_record()
    unknown = record.statistics._replace(logprob=record.statistics.logprob * math.nan)
    found = shown(Sequence((), SequenceRecord(**{**vars(record), "statistics": unknown})))
    assert all("style" not in attributes for _, attributes in found.spans)
    assert "sum_logprob ?" in found.text
    assert "logprob ?, entropy" in found.spans[0][1]["title"]


def test_a_sequence_of_nothing_can_be_shown() -> None:
    record = make_record(n_tokens=0)
    assert "0 tokens" in shown(Sequence((), record)).text
    assert "0 prompts, 0 samples of each" in shown(Result(())).text
    assert shown(Generation(make_prompt(), ())).text.startswith("pWhat is p?")


def test_a_character_of_several_tokens_is_whole_and_names_them_all(tmp_path: Path) -> None:
    text = "".join(WHOLE)
    run = make_answers(tmp_path / "run", [prompt("p")], [Answer("p", list(text), [-1.0] * len(text))])
    assert f"holds1 prompt, 1 sequence, {len(text) + 1} tokens" in shown(run).text
    (record,) = run.iter_sequences()
    spans = shown(Sequence((), record)).spans
    assert [part for part, _ in spans][: len(WHOLE)] == list(WHOLE)
    assert [attributes["title"].count(": token ") for _, attributes in spans][: len(WHOLE)] == [
        min(4, len(part)) for part in WHOLE
    ]


def test_a_generation_and_a_result_show_prompts_and_sequences() -> None:
    result = small()
    one, whole = shown(result.generations[1]), shown(result)
    assert f"{prompt_name(1)}What is {prompt_name(1)}?right: Paris" in one.text
    for index in range(4):
        assert f"sample {index} · " in one.text
    assert whole.text.startswith("3 prompts, 5 samples of each, ")
    assert all(prompt_name(i) in whole.text for i in range(3))
    assert "greedy 0" in one.text


def test_a_run_says_what_it_holds_and_shows_its_first_sequences(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    found = shown(run)
    n_tokens = sum(len(record.token_ids) for record in RECORDS)
    for fact in ("modelmade", "sampler", f"holds3 prompts, 15 sequences, {n_tokens} tokens", "gradedno"):
        assert fact in found.text
    assert f"… {15 - MOST_SEQUENCES} more sequences" in found.text
    first = sorted(RECORDS, key=lambda record: record.key)[:MOST_SEQUENCES]
    for record in first:
        assert visible(record.alignment.text, newlines=True) in found.text
    assert "% '" in found.spans[0][1]["title"]
    toolkit.grade(run, "exact")
    assert re.search(r"gradedexact@\w{6}", shown(run).text)


def copies(path: Path, folder: Path, n: int) -> list[Path]:
    return [shutil.copytree(path, folder / f"{n}-{i}" / path.name) for i in range(n)]


def test_several_runs_are_a_row_each(tmp_path: Path) -> None:
    path = make_run(tmp_path / "one")
    found = shown(open_runs([path, *copies(path, tmp_path, 2)]))
    assert found.text.startswith("3 runsrunmodeltemperaturetop_psequencesgraded")
    assert found.text.count("made0.81.015no") == 3
    many = shown(open_runs([path, *copies(path, tmp_path, MOST_RUNS + 4)]))
    assert many.text.count("made0.81.015no") == MOST_RUNS
    assert many.text.endswith("… 5 more runs")


@pytest.mark.parametrize("n_tokens", [50, 5_000])
def test_the_size_is_bounded_and_what_is_left_out_is_counted(n_tokens: int) -> None:
    record = make_record(n_tokens=n_tokens, has_end=False)
    literals = {i: entry[1] for i, entry in VOCABULARY.items()}
    prompts = [make_prompt(str(i), i) for i in range(50)]
    sequence = Sequence((), record, literals)
    many = Result(tuple(Generation(one, (sequence,) * 30) for one in prompts))
    for value in (sequence, many.generations[0], many):
        assert len(value._repr_html_()) < LARGEST
    assert (f"… {n_tokens - MOST_TOKENS:,} more tokens" in shown(sequence).text) == (n_tokens > MOST_TOKENS)
    assert f"… {30 - MOST_SEQUENCES} more sequences" in shown(many.generations[0]).text
    assert shown(many).text.count("… 28 more sequences") == MOST_PROMPTS
    assert f"… {50 - MOST_PROMPTS} more prompts" in shown(many).text


def test_a_run_is_not_read_beyond_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(make_run(tmp_path / "run", n_prompts=40, batch=3))
    read: list[tuple[str, str]] = []
    original = TableFile.read

    def spy(self: TableFile, columns: Any = None, groups: Any = None) -> Any:
        read.append((self.table.name, self.path.name))
        return original(self, columns, groups)

    monkeypatch.setattr(TableFile, "read", spy)
    shown(run)
    parts = {table: len({part for name, part in read if name == table}) for table, _ in read}
    assert len(run.parts()) > 60
    assert max(parts[table] for table in ("tokens", "alternatives", "segments", "sequences")) <= 3
    assert parts["prompts"] <= 2


def test_of_very_many_files_the_manifest_says_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(make_run(tmp_path / "run", batch=3))
    monkeypatch.setattr("toolkit.report.notebook._MOST_FILES", 2)
    assert "15 sequences" in shown(run).text
    monkeypatch.setattr(run, "manifest", run.manifest.__class__(**{**vars(run.manifest), "sessions": ()}))
    assert "? sequences" in shown(run).text


def test_a_run_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run"))
    (file,) = (run.path / "tokens").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    assert "is damaged or is no Parquet file" in shown(run).text


def test_nothing_hostile_becomes_markup_or_is_obeyed(hostile: Run) -> None:
    for value in hostile_values(hostile):
        found = shown(value)
        assert {tag for tag, _ in found.elements} <= TAGS
        assert {name for _, attributes in found.elements for name in attributes} <= {"style", "title", "dir"}
        texts = [found.text, *(attributes.get("title", "") for _, attributes in found.elements)]
        assert not any(OBEYED.search(text) for text in texts)
        assert not re.search(
            r"url\(|@import|expression|javascript", "".join(a.get("style", "") for _, a in found.elements)
        )
        assert len(found.source) < LARGEST


def test_hostile_text_is_all_there(hostile: Run) -> None:
    result = hostile_result(hostile)
    for generation in result.generations:
        found = shown(generation)
        for sequence in generation.sequences:
            text = visible(sequence.text, newlines=True)
            assert text[:LONGEST_TEXT] in found.text
    assert visible(ATTACKS[0], newlines=True) in shown(hostile).text


def test_a_text_of_a_megabyte_is_cut(hostile: Run) -> None:
    for value in hostile_values(hostile):
        assert "x" * (LONGEST_TEXT + 1) not in value._repr_html_()


def test_what_a_model_generates_knows_its_alternatives(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, ["How many legs?", "Hi"], samples=2, max_tokens=6, seed=1)
    scored = toolkit.score(tiny_model, "Hi", [" legs"])
    for value in (result, scored, result.generations[0], result.generations[0].sequences[1]):
        found = shown(value)
        assert found.spans
        assert all(attributes["title"].count(" % '") >= 5 for _, attributes in found.spans)
        assert "<id " not in found.source
    sequence = result.generations[0].sequences[0]
    ids = set(sequence.generated_token_ids) | set(sequence.statistics.alternative_ids.ravel().tolist())
    assert ids <= set(sequence.literals)
    assert "literals" not in repr(sequence)
