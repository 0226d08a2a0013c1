"""Codecs: whole streams come back, broken ones are corrupt, and no bomb goes off."""

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import hypothesis.strategies as st
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings

from protocol.errors import ErrorCode
from storage.batch.codecs import (
    CODECS,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    XERIAL_HEADER,
    ZSTD,
    compress,
    decompress,
)
from storage.errors import InvalidBatch

MIB = 1 << 20
COMPRESSING = (GZIP, SNAPPY, LZ4, ZSTD)
PAYLOADS = st.binary(max_size=300) | st.builds(
    lambda piece, count: piece * count, st.binary(min_size=1, max_size=40), st.integers(1, 5000)
)
TEXT = b"".join(b"line %d\n" % number for number in range(20_000))


def error_of(codec: int, data: bytes, max_bytes: int = MIB) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        decompress(codec, data, max_bytes)
    return caught.value.error


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@given(st.sampled_from(CODECS), PAYLOADS)
@settings(max_examples=300, deadline=None)
def test_what_is_compressed_comes_back_and_not_a_byte_more_than_allowed(
    codec: int, data: bytes
) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    if codec != NONE and data:
        assert error_of(codec, bytes(packed), len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_views_are_taken_like_bytes(codec: int) -> None:
    packed = compress(codec, memoryview(bytearray(TEXT)))
    assert decompress(codec, memoryview(bytearray(packed)), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", [5, 6, 7, 100])
def test_an_unknown_codec_is_named(codec: int) -> None:
    assert error_of(codec, b"") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(InvalidBatch) as caught:
        compress(codec, b"")
    assert caught.value.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("data", [b"", b"some bytes", TEXT], ids=["empty", "short", "long"])
def test_a_stream_cut_anywhere_is_corrupt(codec: int, data: bytes) -> None:
    packed = bytes(compress(codec, data))
    for length in {*range(min(len(packed), 40)), *range(len(packed) - 12, len(packed))} - {-1}:
        if codec == SNAPPY and (not data or length == len(XERIAL_HEADER)):
            continue
        if 0 <= length < len(packed):
            assert error_of(codec, packed[:length]) is ErrorCode.CORRUPT_MESSAGE, length


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bytes_behind_the_end_are_corrupt(codec: int) -> None:
    packed = bytes(compress(codec, TEXT))
    for garbage in (b"\x00", b"garbage", bytes(100)):
        assert error_of(codec, packed + garbage) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(b"one", wbits=31) + zlib.compress(b"two", wbits=31),
        compress(SNAPPY, b"one") + compress(SNAPPY, b"two"),  # type: ignore[operator]
        zstandard.compress(b"one") + zstandard.compress(b"two"),
    ],
    ids=["gzip", "snappy", "zstd"],
)
def test_streams_in_a_row_are_one_where_java_reads_them_so(packed: bytes) -> None:
    codec = {0x1F: GZIP, 0x82: SNAPPY, 0x28: ZSTD}[packed[0]]
    assert decompress(codec, packed, 6) == b"onetwo"
    assert error_of(codec, packed, 5) is ErrorCode.MESSAGE_TOO_LARGE
    assert error_of(codec, packed, 2) is ErrorCode.MESSAGE_TOO_LARGE


def test_java_reads_one_lz4_frame_and_so_do_we() -> None:
    packed = bytes(compress(LZ4, b"one"))
    assert error_of(LZ4, packed + packed) is ErrorCode.CORRUPT_MESSAGE


def test_snappy_is_written_with_the_framing_of_java_and_read_without_it_too() -> None:
    packed = bytes(compress(SNAPPY, TEXT))
    assert packed.startswith(bytes.fromhex("82534e41505059000000000100000001"))
    (size,) = struct.unpack_from(">i", packed, 16)
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + size]) == 32 * 1024
    assert decompress(SNAPPY, raw_snappy(TEXT), len(TEXT)) == TEXT
    assert error_of(SNAPPY, raw_snappy(TEXT), len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_lz4_is_written_as_java_reads_it() -> None:
    info = lz4.frame.get_frame_info(compress(LZ4, TEXT))
    assert not info["block_linked"]
    assert info["content_size"] == 0
    assert info["block_size"] == 64 * 1024


@pytest.mark.parametrize(
    "packed",
    [
        lz4.frame.compress(TEXT, block_linked=True, content_checksum=True, block_checksum=True),
        lz4.frame.compress(TEXT, store_size=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        zstandard.ZstdCompressor(level=19, write_checksum=True).compress(TEXT),
        zstandard.ZstdCompressor(level=-5, write_content_size=False).compress(TEXT),
        zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(
                window_log=27, write_content_size=False
            )
        ).compress(TEXT),
        zlib.compress(TEXT, 1, wbits=31),
    ],
)
def test_every_flavour_of_a_format_is_read(packed: bytes) -> None:
    codec = {0x1F: GZIP, 0x04: LZ4, 0x28: ZSTD}[packed[0]]
    assert decompress(codec, packed, len(TEXT)) == TEXT


def test_flipped_checksums_inside_streams_are_seen() -> None:
    for codec, packed in (
        (GZIP, zlib.compress(TEXT, wbits=31)),
        (LZ4, lz4.frame.compress(TEXT, content_checksum=True)),
        (ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    ):
        damaged = bytearray(packed)
        damaged[-5 if codec == GZIP else -1] ^= 1
        assert error_of(codec, bytes(damaged)) is ErrorCode.CORRUPT_MESSAGE


def test_a_size_that_snappy_only_claims_is_not_believed() -> None:
    for size, block in (
        ((1 << 31) - 1, b"\xff\xff\xff\xff\x07" + bytes(100)),
        ((1 << 20) - 1, b"\xff\xff\x3f" + bytes(100)),
    ):
        framed = XERIAL_HEADER + struct.pack(">i", len(block)) + block
        for packed in (block, framed):
            with pytest.raises(InvalidBatch, match=f"{len(block)} bytes never become {size}"):
                decompress(SNAPPY, packed, 1 << 31)
            assert error_of(SNAPPY, packed, size - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("size", [-1, 0, 2, 1 << 30, -(1 << 31)])
def test_a_snappy_block_that_is_not_there_is_corrupt(size: int) -> None:
    with pytest.raises(InvalidBatch, match="a block is not as long as it says") as caught:
        decompress(SNAPPY, XERIAL_HEADER + struct.pack(">i", size) + b"\x00", MIB)
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


def zstd_claiming(size: int) -> bytes:
    """Return a frame whose header claims a size that its one short block does not have."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x21\x00\x00data"


@pytest.mark.parametrize("size", [0, 3, 5, 100 * MIB, (1 << 64) - 3])
def test_a_size_that_zstd_only_claims_is_not_believed(size: int) -> None:
    assert decompress(ZSTD, zstd_claiming(4), 4) == b"data"
    assert error_of(ZSTD, zstd_claiming(size)) is ErrorCode.CORRUPT_MESSAGE


def test_a_zstd_frame_ends_with_its_checksum() -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    for missing in range(1, 5):
        with pytest.raises(InvalidBatch, match="the frame ends too early"):
            decompress(ZSTD, packed[:-missing], MIB)


def test_a_zstd_frame_to_be_skipped_is_corrupt() -> None:
    skippable = bytes.fromhex("502a4d18") + struct.pack("<I", 4) + b"skip"
    for packed in (skippable + zstandard.compress(b"x"), zstandard.compress(b"x") + skippable):
        with pytest.raises(InvalidBatch, match="there is no frame here") as caught:
            decompress(ZSTD, packed, MIB)
        assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


ZEROS = bytes(100 * MIB)
BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip": (GZIP, lambda: zlib.compress(ZEROS, wbits=31)),
    "gzip in members": (GZIP, lambda: zlib.compress(bytes(MIB // 2), wbits=31) * 200),
    "snappy": (SNAPPY, lambda: raw_snappy(ZEROS)),
    "xerial": (SNAPPY, lambda: bytes(compress(SNAPPY, ZEROS))),
    "lz4": (LZ4, lambda: bytes(compress(LZ4, ZEROS))),
    "lz4 that tells": (LZ4, lambda: bytes(lz4.frame.compress(ZEROS, store_size=True))),
    "zstd": (ZSTD, lambda: zstandard.compress(ZEROS)),
    "zstd in frames": (ZSTD, lambda: zstandard.compress(bytes(MIB // 2)) * 200),
    "zstd of one byte": (
        ZSTD,
        # Blocks that say: repeat this byte 128 KiB times.
        lambda: b"\x28\xb5\x2f\xfd\x00\x88" + b"\x02\x00\x10\x00" * 800 + b"\x01\x00\x00",
    ),
    "zstd with the largest window": (
        ZSTD,
        lambda: zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(
                window_log=27, write_content_size=False
            )
        ).compress(ZEROS),
    ),
}
DEFUSE = """
import sys
from pathlib import Path
from storage.batch.codecs import compress, decompress
from storage.errors import InvalidBatch

def peak_kib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

codec, bomb = int(sys.argv[1]), Path(sys.argv[2]).read_bytes()
decompress(codec, compress(codec, b"warm"), 4)
before = peak_kib()
try:
    decompress(codec, bomb, 1 << 20)
except InvalidBatch as error:
    print(error.error.name, peak_kib() - before)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_100_mib_is_refused_within_the_memory_of_the_limit(
    name: str, tmp_path: Path
) -> None:
    codec, make = BOMBS[name]
    file = tmp_path / "bomb"
    file.write_bytes(make())
    result = subprocess.run(
        [sys.executable, "-c", DEFUSE, str(codec), str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    error, grown_kib = result.stdout.split()
    assert error == "MESSAGE_TOO_LARGE"
    assert int(grown_kib) < 12 * 1024


@pytest.mark.parametrize("name", ["zstd of one byte", "zstd with the largest window"])
def test_a_bomb_is_what_it_is_called(name: str) -> None:
    codec, make = BOMBS[name]
    packed = make()
    assert len(packed) < 16 * 1024
    assert len(decompress(codec, packed, 100 * MIB)) == 100 * MIB


@pytest.mark.parametrize(("window_log", "is_taken"), [(27, True), (28, False)])
def test_a_zstd_window_beyond_what_clients_use_is_refused(window_log: int, is_taken: bool) -> None:
    """A frame of a few bytes may ask for two gigabytes of window before its first block."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(b"small") + stream.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 1 << window_log
    if is_taken:
        assert decompress(ZSTD, packed, MIB) == b"small"
    else:
        assert error_of(ZSTD, packed) is ErrorCode.CORRUPT_MESSAGE
