"""Hostile bytes: only the documented error, and only the memory that was allowed."""

import contextlib
import importlib.util
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from storage.batch.build import rebuild
from storage.batch.codecs import CODECS, NONE, compress, decompress
from storage.batch.control import read_marker
from storage.batch.header import CRC_FROM, HEADER_BYTES, LENGTH_FROM, Batch, checksum, split
from storage.batch.records import decode
from storage.errors import InvalidBatch
from tests.storage.batch.strategies import batches, only, plain

KIB = 1 << 10
PROGRAM = Path(__file__).resolve().parents[3] / "scripts" / "fuzz.py"


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[bytearray], start: int = 0) -> bytearray:
    """Something valid with a few bytes changed, put in or taken out behind `start`."""
    data = draw(valid)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(start, len(data)))
        length = draw(st.integers(0, 4))
        data[position : position + length] = draw(st.binary(max_size=4))
    return data


def repaired(data: bytearray) -> bytes:
    """Give damaged bytes a length and a checksum with which they pass as a batch."""
    data = data.ljust(HEADER_BYTES, b"\x00")
    struct.pack_into(">i", data, 8, len(data) - LENGTH_FROM)
    struct.pack_into(">I", data, CRC_FROM - 4, checksum(memoryview(data)))
    return bytes(data)


def read_all(batch: Batch, max_bytes: int) -> None:
    """Do with a batch what compaction and tools do; let `InvalidBatch` pass and nothing else."""
    with contextlib.suppress(InvalidBatch):
        read_marker(batch)
    try:
        found = list(decode(batch, max_bytes))
    except InvalidBatch:
        return
    again = only(rebuild(batch.header, found))
    assert [plain(each) for each in decode(again)] == [plain(each) for each in found]


@given(mutated(batches()))
@settings(max_examples=300, deadline=None)
def test_a_damaged_batch_is_refused(data: bytearray) -> None:
    with contextlib.suppress(InvalidBatch):
        for batch in split(data):
            read_all(batch, 64 * KIB)


@given(mutated(batches(), start=21))
@settings(max_examples=300, deadline=None)
def test_a_hostile_batch_with_a_good_checksum_is_read_or_refused(data: bytearray) -> None:
    with contextlib.suppress(InvalidBatch):
        for batch in split(repaired(data)):
            read_all(batch, 64 * KIB)


@st.composite
def streams(draw: st.DrawFn, codec: int) -> bytes:
    """Bytes that are nothing, or a damaged stream of a codec."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=100))
    data = draw(st.binary(max_size=60)) * draw(st.integers(1, 200))
    return bytes(draw(mutated(st.just(bytearray(compress(codec, data))))))


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != NONE])
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_stream_is_read_or_refused_within_its_limit(
    codec: int, data: st.DataObject
) -> None:
    stream = data.draw(streams(codec))
    limit = data.draw(st.integers(0, 16 * KIB))
    with contextlib.suppress(InvalidBatch):
        assert len(decompress(codec, stream, limit)) <= limit


@given(mutated(batches(), start=HEADER_BYTES))
@settings(max_examples=50, deadline=None)
def test_no_length_in_a_batch_makes_memory_grow(data: bytearray) -> None:
    payload = repaired(data)
    tracemalloc.start()
    with contextlib.suppress(InvalidBatch):
        list(decode(only(payload), 64 * KIB))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1024 * KIB


def fuzz(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris has wheels for Linux on x86-64 alone",
)
def test_the_fuzzer_finds_nothing_here_and_something_where_there_is_something(
    tmp_path: Path,
) -> None:
    clean = fuzz(PROGRAM, "--runs", "300")
    assert clean.returncode == 0, clean.stderr
    assert "Done 300 runs" in clean.stderr
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import importlib.util, pathlib, sys\n"
        f"spec = importlib.util.spec_from_file_location('program', {str(PROGRAM)!r})\n"
        "program = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(program)\n"
        "def check(data):\n"
        "    if data[:1] == b'!':\n"
        "        raise KeyError('not a documented error')\n"
        "target = program.Target(check, lambda: iter([]))\n"
        "program.fuzz(target, pathlib.Path(sys.argv[1]), 100_000)\n"
    )
    found = fuzz(planted, tmp_path)
    assert found.returncode != 0
    assert "KeyError" in found.stdout + found.stderr
    assert [path.read_bytes()[:1] for path in tmp_path.glob("found-*")] == [b"!"]


def test_the_fuzzer_says_when_atheris_is_missing(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "import runpy, sys\n"
        "sys.modules['atheris'] = None\n"
        f"sys.argv = ['fuzz', '--corpus', {str(tmp_path)!r}]\n"
        f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n"
    )
    result = fuzz(hidden)
    assert result.returncode != 0
    assert "atheris is not installed" in result.stderr
