"""The tables are those of the design, and files are encoded as they say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.store.factory import make_run
from toolkit.store import open_run
from toolkit.store.schemas import GROUP_OF, GROUPS, SCHEMA_VERSION, TABLES, Table

KEY = "prompt_id kind sample_index"
TOKEN = (
    "token_index token_id bytes byte_start byte_end is_special logprob constrained_logprob sampling_logprob rank "
    "entropy varentropy logsumexp mean_logit n_finite lse_half lse_quarter top1_logprob top2_logprob "
    "top15_entropy top20_mean_logprob boosted_prob"
)
COLUMNS = {
    "prompts": "prompt_id prompt_index text messages token_ids n_tokens reference metadata",
    "sequences": f"{KEY} text n_bytes n_tokens has_end finish_reason stop_reason sum_logprob "
    "sum_sampling_logprob beam_score seed",
    "segments": f"{KEY} segment_index text byte_start byte_end char_start char_end token_start token_end emitted_at",
    "tokens": f"{KEY} {TOKEN}",
    "alternatives": f"{KEY} token_index alternative_rank token_id logprob",
    "watched": f"{KEY} token_index token_id logprob rank",
    "prompt_tokens": f"prompt_id {TOKEN}",
    "vocabulary": "token_id bytes literal is_special",
    "grades": f"{KEY} span_kind span_start span_end grader config_hash value extracted",
    "similarities": "prompt_id name first_kind first_index second_kind second_index value",
    "choices": f"{KEY} letter letter_logprob sum_logprob mean_logprob byte_logprob bare_logprob pmi "
    "p_letter p_sum p_mean p_byte p_pmi",
    "truths": f"{KEY} p_true mass p_true_with_samples mass_with_samples n_shown",
}


@pytest.fixture(scope="module")
def footers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pq.FileMetaData]:
    run = open_run(make_run(tmp_path_factory.mktemp("schemas") / "run"))
    tables = ("prompts", "sequences", "segments", "tokens", "alternatives", "vocabulary")
    return {table: pq.read_metadata(run.part_path(table, run.parts(table)[0])) for table in tables}


def test_tables_have_the_columns_of_the_design() -> None:
    assert {name: " ".join(table.names) for name, table in TABLES.items()} == COLUMNS


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_column_is_described(table: Table) -> None:
    assert table.row
    for column in table.columns:
        assert len(column.description) > 3, column.name
    assert table.names[: len(table.key)] == list(table.key)
    assert set(table.order) <= set(table.names)


def test_every_table_is_in_one_group_and_groups_end_with_their_own() -> None:
    assert sorted(GROUP_OF) == sorted(TABLES)
    assert sum(map(len, GROUPS.values())) == len(TABLES)
    assert all(tables[-1] == group for group, tables in GROUPS.items())


def test_a_log_probability_is_a_float_in_nats() -> None:
    for table in TABLES.values():
        for column in table.columns:
            if column.name.endswith("logprob"):
                assert pa.types.is_floating(column.type)
                assert column.unit == "nats"
                assert column.encoding == "split"


def test_files_use_the_encoding_of_each_column(footers: dict[str, pq.FileMetaData]) -> None:
    expected = {"delta": "DELTA_BINARY_PACKED", "split": "BYTE_STREAM_SPLIT", "dictionary": "RLE_DICTIONARY"}
    for table, metadata in footers.items():
        group = metadata.row_group(0)
        chunks = {
            chunk.path_in_schema.split(".")[0]: chunk for chunk in map(group.column, range(group.num_columns))
        }
        for column in TABLES[table].columns:
            chunk = chunks[column.name]
            assert chunk.compression == "ZSTD"
            if column.encoding in expected:
                assert expected[column.encoding] in chunk.encodings, (table, column.name)
            assert chunk.has_dictionary_page == (column.encoding == "dictionary"), (table, column.name)


def test_positions_are_deltas_floats_are_split_and_ids_have_a_dictionary() -> None:
    tokens = {column.name: column.encoding for column in TABLES["tokens"].columns}
    assert {tokens[name] for name in ("token_index", "byte_start", "byte_end")} == {"delta"}
    assert {tokens[name] for name in ("prompt_id", "kind", "token_id", "bytes")} == {"dictionary"}
    assert {tokens[name] for name in ("logprob", "entropy", "boosted_prob")} == {"split"}


def test_files_name_their_table_version_and_sort_order(footers: dict[str, pq.FileMetaData]) -> None:
    for table, metadata in footers.items():
        assert metadata.metadata[b"toolkit.table"].decode() == table
        assert metadata.metadata[b"toolkit.schema_version"].decode() == SCHEMA_VERSION
        names = [metadata.schema.column(i.column_index).name for i in metadata.row_group(0).sorting_columns]
        assert names == list(TABLES[table].order)


def test_pages_carry_checksums(tmp_path: Path) -> None:
    assert all(table.writer_options["write_page_checksum"] for table in TABLES.values())


def test_plain_readers_need_nothing_of_ours(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n_prompts=1)
    frame = pq.read_table(run / "tokens").to_pandas()
    ours = open_run(run).tokens_df()
    assert frame["logprob"].tolist() == ours["logprob"].tolist()
    assert frame["prompt_id"].tolist() == ours["prompt_id"].tolist()
