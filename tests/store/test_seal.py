"""Every change to a file is noticed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import DataFault, ToolkitError
from toolkit.store.parquet import TableFile, read_rows, writing_file
from toolkit.store.schemas import VOCABULARY
from toolkit.store.seal import check_seal

ROWS = pa.table(
    {
        "token_id": range(40),
        "bytes": [None, *[f" word{i}".encode() for i in range(39)]],
        "literal": [f" word{i}" for i in range(40)],
        "is_special": [i == 0 for i in range(40)],
    },
    schema=VOCABULARY.schema,
)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seal") / "good.parquet"
    with writing_file(path, "vocabulary") as writer:
        writer.write_table(ROWS)
    return path


def test_a_good_file_passes(sealed: Path) -> None:
    assert check_seal(sealed, whole=True)
    assert read_rows(sealed, "vocabulary").equals(ROWS)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_is_a_one_line_fault(sealed: Path, data: st.DataObject) -> None:
    content = bytearray(sealed.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    bad = sealed.with_name("flipped.parquet")
    bad.write_bytes(content)
    with pytest.raises(DataFault) as caught, TableFile(bad, "vocabulary", whole=True):
        pass
    assert "\n" not in str(caught.value)
    assert str(bad) in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_cut_is_a_fault(sealed: Path, data: st.DataObject) -> None:
    content = sealed.read_bytes()
    bad = sealed.with_name("cut.parquet")
    bad.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(DataFault), TableFile(bad, "vocabulary"):
        pass


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=400))
def test_any_bytes_are_a_fault(sealed: Path, content: bytes) -> None:
    bad = sealed.with_name("foreign.parquet")
    for wrapped in (content, b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1"):
        bad.write_bytes(wrapped)
        with pytest.raises(ToolkitError), TableFile(bad, "vocabulary"):
            pass


def test_a_flipped_footer_is_noticed_without_reading_the_whole(sealed: Path) -> None:
    content = bytearray(sealed.read_bytes())
    content[-20] ^= 1
    bad = sealed.with_name("footer.parquet")
    bad.write_bytes(content)
    with pytest.raises(DataFault, match="checksum of its footer"), TableFile(bad, "vocabulary"):
        pass


def test_a_file_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(ROWS, tmp_path / "foreign.parquet")
    with pytest.raises(DataFault, match="this package did not write it"):
        read_rows(tmp_path / "foreign.parquet", "vocabulary")


def test_a_file_of_another_table_is_refused(sealed: Path) -> None:
    with pytest.raises(DataFault, match=r"not a file of the table tokens \(it says 'vocabulary'\)"):
        read_rows(sealed, "tokens")
