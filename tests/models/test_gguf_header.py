import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.gguf_writer import Shape, encode, llama_metadata, llama_tensors, string, write_gguf
from toolkit.errors import ToolkitError
from toolkit.models.gguf_header import read_header

SHAPE = Shape(hidden=32, inner=32, layers=1, heads=2, kv_heads=1, vocabulary=32)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Bytes of a small llama with an embedding in Q8_0 and layers in Q4_1."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    tensors = llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1"))
    return write_gguf(path, llama_metadata(SHAPE), tensors).read_bytes()


def read(tmp_path, content: bytes):
    path = tmp_path / "some.gguf"
    path.write_bytes(content)
    return read_header(path)


def with_one(
    tmp_path, *, shape=(4, 32), type_number=0, offset=0, n_dimensions=None, size=None, extra=b"", n_extra=0
):
    """A file with one tensor whose entry says what is asked."""
    dimensions = struct.pack(f"<{len(shape)}Q", *shape[::-1])
    entry = (
        string("t") + struct.pack("<I", n_dimensions if n_dimensions is not None else len(shape)) + dimensions
    )
    entry += struct.pack("<IQ", type_number, offset)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, n_extra) + extra + entry
    head += bytes(-len(head) % 32)
    return read(tmp_path, head + bytes(size if size is not None else 4 * 4 * 32))


def test_metadata_and_tensors_are_read(tmp_path, tiny):
    header = read(tmp_path, tiny)
    expected = llama_metadata(SHAPE)
    assert header.metadata.keys() == expected.keys()
    assert header.get("llama.block_count", int) == 1
    assert header.get("general.architecture", str) == "llama"
    assert header.metadata["tokenizer.ggml.tokens"] == expected["tokenizer.ggml.tokens"]
    assert header.metadata["tokenizer.ggml.token_type"].tolist() == expected["tokenizer.ggml.token_type"]
    assert header.metadata["llama.rope.freq_base"] == 5000.0


def test_offsets_lead_to_the_values(tmp_path, tiny):
    header = read(tmp_path, tiny)
    written = llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1"))
    assert header.tensors.keys() == written.keys()
    for name, info in header.tensors.items():
        assert info.shape == written[name].shape
        assert tiny[info.offset : info.offset + info.n_bytes] == written[name].content


def test_version_2_is_read_and_others_are_named(tmp_path, tiny):
    assert read(tmp_path, tiny[:4] + struct.pack("<I", 2) + tiny[8:]).version == 2
    for version in (0, 1, 4, 99, 0x03000000):
        with pytest.raises(ToolkitError, match=f"version is {version}"):
            read(tmp_path, tiny[:4] + struct.pack("<I", version) + tiny[8:])


def test_a_truncation_anywhere_is_a_fault(tmp_path, tiny):
    for length in {*range(0, len(tiny), 11), *range(len(tiny) - 40, len(tiny))}:
        with pytest.raises(ToolkitError, match=r"some\.gguf"):
            read(tmp_path, tiny[:length])


@pytest.mark.parametrize("content", [b"", b"GG", b"GGML" + bytes(60), b"{}" * 40])
def test_another_kind_of_file_is_said_to_be_none(tmp_path, content):
    with pytest.raises(ToolkitError, match="not a GGUF file"):
        read(tmp_path, content)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "absent.gguf", tmp_path):
        with pytest.raises(ToolkitError, match="cannot read this file"):
            read_header(path)


@pytest.mark.parametrize("count", [2**20, 2**31, 2**32, 2**62, 2**63, 2**64 - 1])
@pytest.mark.parametrize("at", [8, 16, 24])  # tensors, metadata entries, length of the first key
def test_huge_counts_are_refused_without_taking_memory(tmp_path, tiny, count, at):
    tracemalloc.start()
    try:
        with pytest.raises(ToolkitError, match="damaged GGUF"):
            read(tmp_path, tiny[:at] + struct.pack("<Q", count) + tiny[at + 8 :])
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n_dimensions": 0}, "0 dimensions"),
        ({"n_dimensions": 5}, "5 dimensions"),
        ({"n_dimensions": 2**32 - 1}, "4294967295 dimensions"),
        ({"shape": (4, 0)}, r"shape \(4, 0\)"),
        ({"shape": (2**40, 2**40)}, "ends at"),
        ({"shape": (2**63, 2**63, 2**63, 2**63)}, "ends at"),
        ({"type_number": 4}, "unknown type 4"),
        ({"type_number": 12345}, "unknown type 12345"),
        ({"type_number": 8, "shape": (4, 48)}, "multiples of 32"),
        ({"offset": 8}, "no multiple of 32"),
        ({"offset": 1024}, "ends at"),
        ({"offset": 2**63}, "ends at"),
        ({"size": 4 * 4 * 32 - 1}, "ends at"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(tmp_path, options, named):
    with pytest.raises(ToolkitError, match=named):
        with_one(tmp_path, **options)


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (struct.pack("<IQ", 10, 32), "unsigned 32-bit"),
        (struct.pack("<II", 4, 0), "general.alignment is 0"),
        (struct.pack("<II", 4, 12), "general.alignment is 12"),
        (struct.pack("<II", 4, 2**31), "general.alignment is 2147483648"),
    ],
)
def test_a_wrong_alignment_is_refused(tmp_path, entry, named):
    with pytest.raises(ToolkitError, match=named):
        with_one(tmp_path, extra=string("general.alignment") + entry, n_extra=1)


def test_another_alignment_is_used(tmp_path):
    extra = string("general.alignment") + struct.pack("<II", 4, 64)
    header = with_one(tmp_path, extra=extra, n_extra=1, size=4 * 4 * 32 + 32)
    assert header.tensors["t"].offset % 64 == 0


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (struct.pack("<I", 13), "has type 13"),
        (struct.pack("<IIQ", 9, 9, 1), "elements of type 9"),
        (struct.pack("<IIQ", 9, 77, 1), "elements of type 77"),
        (struct.pack("<IIQ", 9, 6, 2**61), "2305843009213693952"),
        (struct.pack("<IIQ", 9, 8, 2**61), "2305843009213693952"),
        (struct.pack("<IB", 7, 2), "neither 0 nor 1"),
        (struct.pack("<IQ", 8, 2) + b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_wrong_metadata_value_is_refused(tmp_path, entry, named):
    with pytest.raises(ToolkitError, match=named):
        with_one(tmp_path, extra=string("a.key") + entry, n_extra=1)


def test_doubled_names_are_refused(tmp_path, tiny):
    extra = (string("a.key") + struct.pack("<II", 4, 1)) * 2
    with pytest.raises(ToolkitError, match=r"'a\.key' occurs twice"):
        with_one(tmp_path, extra=extra, n_extra=2)
    assert tiny.count(b"blk.0.attn_k.weight") == 1
    with pytest.raises(ToolkitError, match="same name"):
        read(tmp_path, tiny.replace(b"blk.0.attn_k.weight", b"blk.0.attn_v.weight"))


def test_overlapping_tensors_are_refused(tmp_path):
    tensors = {"a": encode(np.zeros((4, 32)), "F32"), "b": encode(np.zeros((4, 32)), "F32")}
    path = write_gguf(tmp_path / "two.gguf", {"a.key": 1}, tensors)
    content = path.read_bytes()
    at = content.index(struct.pack("<Q", 512), content.index(string("b")))
    path.write_bytes(content[:at] + struct.pack("<Q", 32) + content[at + 8 :])
    with pytest.raises(ToolkitError, match="overlaps"):
        read_header(path)


def test_a_value_of_another_kind_is_named(tmp_path, tiny):
    header = read(tmp_path, tiny)
    with pytest.raises(ToolkitError, match=r"llama\.block_count is 1, and a str is expected"):
        header.get("llama.block_count", str)
    assert header.get("absent", str, "default") == "default"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_any_damage_is_a_toolkit_error_or_harmless(tmp_path, tiny, changes):
    damaged = bytearray(tiny)
    for at, new in changes:
        at %= len(tiny)
        damaged[at : at + len(new)] = new
    message = ""
    try:
        read(tmp_path, bytes(damaged))
    except ToolkitError as error:
        message = str(error)
    assert "\n" not in message
