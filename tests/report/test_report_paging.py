"""Prompts on pages: how many, how large, what stays together, and a vocabulary a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.report.hostile import Page, read_page
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run
from toolkit.errors import DataFault
from toolkit.report import paging
from toolkit.report.paging import PAGE_BYTES, PageWriter, Placed, PromptData, island_json
from toolkit.report.reading import Source
from toolkit.report.writing import Settings, write_report
from toolkit.store import Run, RunWriter, open_run

QUICK = Settings(figures=False, bootstrap=0)


def lengths_run(path: Path, lengths: Sequence[Sequence[int]]) -> Run:
    """A prompt a list, with a sample of each of these numbers of tokens."""
    with RunWriter.create(path, make_manifest()) as writer:
        writer.add_prompts(make_prompt(f"p{i:04}", i) for i in range(len(lengths)))
        for i, own in enumerate(lengths):
            records = [make_record(f"p{i:04}", sample_index=j, n_tokens=n, seed=j) for j, n in enumerate(own)]
            writer.commit(records, VOCABULARY)
    return open_run(path)


def filled(run: Run, folder: Path, taken: int = 0, taken_later: int = 0) -> list[list[Placed]]:
    """Each prompt's sequences, placed."""
    writer = PageWriter(folder, taken, taken_later)
    placed = [writer.add(prompt) for prompt in Source(0, run, "made").prompts()]
    writer.finish()
    return placed


def islands(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield read_page(path).island


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_run(tmp_path_factory.mktemp("paging") / "run", 12, 3, n_tokens=6))


def test_a_page_has_at_most_so_many_sequences_and_whole_prompts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE_SEQUENCES", 10)
    placed = filled(run, tmp_path)
    assert [[one.page for one in prompt] for prompt in placed] == [[1 + i // 2] * 4 for i in range(12)]


def test_a_page_is_cut_where_the_next_prompt_would_take_it_over_its_bytes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len((filled_page(run, tmp_path / "whole")).encode())
    monkeypatch.setattr(paging, "PAGE_BYTES", whole // 3)
    (tmp_path / "cut").mkdir()
    placed = filled(run, tmp_path / "cut")
    pages = [{one.page for one in prompt} for prompt in placed]
    assert all(len(own) == 1 for own in pages)
    last = max(max(own) for own in pages)
    sizes = [(tmp_path / "cut" / f"page-{i}.json").stat().st_size for i in range(1, last + 1)]
    assert 3 < last < 12
    assert max(sizes) <= whole // 3 + 100  # the names of the three lists


def filled_page(run: Run, folder: Path) -> str:
    folder.mkdir()
    filled(run, folder)
    return (folder / "page-1.json").read_text()


def test_what_else_a_page_has_counts(run: Run, tmp_path: Path) -> None:
    placed = filled(run, tmp_path, taken=PAGE_BYTES - 30_000, taken_later=PAGE_BYTES - 60_000)
    counts = Counter(prompt[0].page for prompt in placed)
    assert counts[1] < counts[2]


def test_a_prompt_too_large_for_a_page_is_split_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lengths_run(tmp_path / "run", [[5], [60, 60, 60, 60], [5]])
    monkeypatch.setattr(paging, "PAGE_BYTES", 40_000)
    placed = filled(made, tmp_path)
    pages = [[one.page for one in prompt] for prompt in placed]
    assert len(set(pages[1])) > 1
    assert pages[1] == sorted(pages[1])
    assert len(pages[0]) == len(pages[2]) == 1
    sizes = [path.stat().st_size for path in tmp_path.glob("page-*.json")]
    assert max(sizes) <= 40_100


def test_a_sequence_too_large_for_a_page_has_one_of_its_own_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lengths_run(tmp_path / "run", [[5], [5000], [5]])
    for module in ("paging", "writing"):
        monkeypatch.setattr(f"toolkit.report.{module}.PAGE_BYTES", 400_000)
    report = write_report([made.path], tmp_path / "r.html", QUICK)
    assert [len(island["sequences"]) for island in islands(report.paths)] == [1, 1, 1]
    (note,) = report.notes
    assert note.startswith(f"{tmp_path / 'r-2.html'}: ")
    assert note.endswith("bytes, over 400,000: a single sequence is larger than a page should be")


@pytest.mark.parametrize(
    ("sequences", "size", "n_pages"),
    [(9, 10**6, range(6, 7)), (500, 30_000, range(3, 11)), (500, 5_000, range(20, 40))],
)
def test_all_sequences_are_on_the_pages_once_with_the_tokens_of_the_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sequences: int, size: int, n_pages: range
) -> None:
    monkeypatch.setattr(paging, "PAGE_SEQUENCES", sequences)
    monkeypatch.setattr(paging, "PAGE_BYTES", size)
    filled(run, tmp_path)
    ids = {
        key: rows["token_id"].tolist()
        for key, rows in run.tokens_df().groupby(["prompt_id", "kind", "sample_index"])
    }
    alternatives = run.alternatives_df().groupby(["prompt_id", "kind", "sample_index"])
    paths = sorted(tmp_path.glob("page-*.json"))
    seen = []
    for island in (json.loads(f"{{{path.read_text()}}}") for path in paths):
        texts, codes = island["vocabulary"]["texts"], island["vocabulary"]["bytes"]
        assert len(set(zip(texts, codes, strict=True))) == len(texts)
        used = set()
        for sequence in island["sequences"]:
            key = (island["prompts"][sequence["prompt"]]["id"], sequence["kind"], sequence["sample"])
            tokens = sequence["tokens"]
            others = [v for row in tokens["alternatives"] for v in row[::2]]
            wanted = [*ids[key], *alternatives.get_group(key)["token_id"].tolist()]
            entries = [run.vocabulary[token_id] for token_id in wanted]
            assert [texts[v] for v in (*tokens["v"], *others)] == [entry.literal for entry in entries]
            assert [codes[v] for v in (*tokens["v"], *others)] == [
                None if entry.bytes is None else entry.bytes.hex() for entry in entries
            ]
            used.update(tokens["v"], others)
            seen.append(key)
        assert used == set(range(len(texts)))
        for i, prompt in enumerate(island["prompts"]):
            own = [j for j, one in enumerate(island["sequences"]) if one["prompt"] == i]
            assert prompt["sequences"] == own
    assert sorted(seen) == sorted(ids)
    assert len(paths) in n_pages


def test_a_page_names_the_granularities_that_its_sequences_have(run: Run, tmp_path: Path) -> None:
    report = write_report([run.path], tmp_path / "r.html", QUICK)
    (island,) = islands(report.paths)
    named = {one["name"]: one["metrics"] for one in island["granularities"]}
    assert named["token"] == ["logprob", "entropy", "rank", "sampling_logprob"]
    found = {name for one in island["sequences"] for name in one["spans"]}
    assert set(named) == {"token", *found}
    for one in island["sequences"]:
        for name, spans in one["spans"].items():
            assert all(len(spans[metric]) == len(spans["start"]) for metric in named[name])
            assert all(metric in island["metrics"] for metric in named[name])


def test_five_hundred_sequences_of_32_tokens_are_one_page_below_5_mb(tmp_path: Path) -> None:
    made = lengths_run(tmp_path / "run", [[32] * 10] * 50)
    report = write_report([made.path], tmp_path / "r.html", QUICK)
    assert [path.name for path in report.paths] == ["r.html"]
    # What figures take at most beside it: eleven, twice, of 50 kB and a third more.
    assert report.paths[0].stat().st_size + 2 * 11 * 66_000 < PAGE_BYTES == 5_000_000


def test_long_sequences_are_on_more_pages_all_below_5_mb(tmp_path: Path) -> None:
    made = lengths_run(tmp_path / "run", [[1000] * 4] * 12)
    report = write_report([made.path], tmp_path / "r.html", QUICK)
    sizes = [path.stat().st_size for path in report.paths]
    assert len(sizes) > 1
    assert max(sizes) < PAGE_BYTES
    assert min(sizes[:-1]) > 0.7 * PAGE_BYTES
    assert report.notes == []


def test_pages_link_to_the_first_the_last_and_their_neighbours(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE_SEQUENCES", 4)
    monkeypatch.setattr("toolkit.report.writing._NEIGHBOURS", 1)
    report = write_report([run.path], tmp_path / "a b#1.html", QUICK)
    names = [path.name for path in report.paths]
    assert names[:2] == ["a b#1.html", "a b#1-2.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    address = [name.replace(" ", "%20").replace("#", "%23") for name in names]
    pages = [read_page(path) for path in report.paths]
    for page, shown in zip((pages[0], pages[5], pages[11]), ([1, 2, 12], [1, 5, 6, 7, 12], [1, 11, 12])):  # noqa: B905
        assert numbered(page) == [address[i - 1] for i in shown]
        assert page.island["page"]["files"] == address
    current = [attributes for _, attributes in pages[5].elements if "aria-current" in attributes]
    assert [attributes["href"] for attributes in current] == [address[5]]


def numbered(page: Page) -> list[str]:
    """Where the numbers of the pages lead."""
    return [
        str(attributes["href"])
        for tag, attributes in page.elements
        if tag == "a" and "title" in attributes and attributes["href"]
    ]


def test_a_token_that_the_vocabulary_lacks_is_a_fault(run: Run, tmp_path: Path) -> None:
    prompt: PromptData = next(Source(0, run, "made").prompts())
    with pytest.raises(DataFault, match="is not in the run's vocabulary: run toolkit validate"):
        PageWriter(tmp_path, 0, 0).add(prompt._replace(vocabulary={}))


def test_json_of_the_island_ends_no_element_and_no_line() -> None:
    value = ["</script>", "<!--", "a & b", "\u2028\u2029", 'quote " and \\', "\x00"]
    text = island_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029\x00") & set(text)
