"""The five compressions of Kafka's record batches, with a bound on what may come out.

A few kilobytes can claim or really become gigabytes, so nothing here believes a size that the bytes
declare: output is made piece by piece, or only after the claim is known to be possible and allowed.
What is too large is refused as such; whatever else is wrong with a stream makes it corrupt, and so
do bytes behind its end. Batches are usually passed on as they came: only compaction, the check of
compacted topics, tools and tests get here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

from protocol.errors import ErrorCode
from storage.disk.seam import Buffer
from storage.errors import InvalidBatch

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODECS: Final = (NONE, GZIP, SNAPPY, LZ4, ZSTD)

_PIECE_BYTES: Final = 64 * 1024
_GZIP_FORMAT: Final = 31
"""zlib's way to say: gzip, the largest window."""

XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
"""What snappy-java puts in front of its blocks; most clients write it, librdkafka does not."""
_XERIAL_MAGIC: Final = XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")
_SNAPPY_MOST_PER_BYTE: Final = 22
"""Snappy's densest element makes 64 bytes of 3."""

_ZSTD_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_BYTES: Final = 1 << 27
"""What a client may ask for at the highest level; pages that are not written cost nothing."""
_ZSTD_RLE: Final = 1
_ZSTD_COMPRESSED: Final = 2
_ZSTD_CHECKSUM_BYTES: Final = 4


def compress(codec: int, data: Buffer) -> Buffer:
    """Compress the records of a batch the way the Java clients do; codec 0 returns them."""
    if codec == NONE:
        return data
    if codec not in _COMPRESSORS:
        raise _unknown(codec)
    return _COMPRESSORS[codec](data)


def decompress(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """Return a batch's records, refusing more than `max_bytes`; codec 0 returns what is there."""
    if codec == NONE:
        return data
    if codec not in _DECOMPRESSORS:
        raise _unknown(codec)
    return _DECOMPRESSORS[codec](memoryview(data), max_bytes)


def _unknown(codec: int) -> InvalidBatch:
    return InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {codec}")


def _corrupt(reason: str, position: int) -> InvalidBatch:
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason, position)


def _too_large(max_bytes: int, position: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the records decompress to more than the {max_bytes} bytes allowed",
        position,
    )


def _gzip(data: Buffer) -> bytes:
    return zlib.compress(data, wbits=_GZIP_FORMAT)


def _gunzip(data: memoryview, max_bytes: int) -> bytes:
    # What follows a member's end is copied to `unused_data`: input goes in by pieces, so that many
    # tiny members cannot make that quadratic.
    pieces, room, position = [], max_bytes, 0
    member = zlib.decompressobj(_GZIP_FORMAT)
    while position < len(data):
        taken = data[position : position + _PIECE_BYTES]
        try:
            piece = member.decompress(taken, room + 1)
        except zlib.error as error:
            raise _corrupt(f"gzip: {error}", position) from error
        room -= len(piece)
        if room < 0:
            raise _too_large(max_bytes, position)
        pieces.append(piece)
        position += len(taken) - len(member.unused_data)
        if member.eof and position < len(data):
            member = zlib.decompressobj(_GZIP_FORMAT)
    if not member.eof:
        raise _corrupt("gzip: the stream ends too early", position)
    return b"".join(pieces)


def _snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    pieces = [XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += [_INT32.pack(len(block)), block]
    return b"".join(pieces)


def _unsnappy(data: memoryview, max_bytes: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(data, max_bytes, max_bytes, 0)
    pieces, room, position = [], max_bytes, 0
    while position < len(data):
        # Two streams may be put one behind the other, each with its header.
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        start = position + _INT32.size
        size = _INT32.unpack_from(data, position)[0] if start <= len(data) else -1
        if not 0 < size <= len(data) - start:
            raise _corrupt("snappy: a block is not as long as it says", position)
        piece = _unsnappy_block(data[start : start + size], room, max_bytes, start)
        room -= len(piece)
        pieces.append(piece)
        position = start + size
    if position > len(data):
        raise _corrupt("snappy: the header ends too early", position)
    return b"".join(pieces)


def _unsnappy_block(block: memoryview, room: int, max_bytes: int, position: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > room:
            raise _too_large(max_bytes, position)
        if not block or size > len(block) * _SNAPPY_MOST_PER_BYTE:
            raise _corrupt(f"snappy: {len(block)} bytes never become {size}", position)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(f"snappy: {error}", position) from error


def _lz4(data: Buffer) -> bytes:
    # Independent blocks and no content size: the Java clients read and write nothing else.
    compressed: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return compressed


def _unlz4(data: memoryview, max_bytes: int) -> bytes:
    pieces, room, position, ended = [], max_bytes, 0, False
    context = lz4.frame.create_decompression_context()
    while not ended:
        most = min(room + 1, _PIECE_BYTES)
        try:
            piece, read, ended = lz4.frame.decompress_chunk(context, data[position:], most)
        except RuntimeError as error:
            raise _corrupt(f"lz4: {error}", position) from error
        if not (piece or read or ended):
            raise _corrupt("lz4: the frame ends too early", position)
        room -= len(piece)
        if room < 0:
            raise _too_large(max_bytes, position)
        pieces.append(piece)
        position += read
    if position != len(data):
        raise _corrupt("lz4: there are bytes behind the frame", position)
    return b"".join(pieces)


def _zstd(data: Buffer) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _unzstd(data: memoryview, max_bytes: int) -> bytes:
    pieces, room, position = [], max_bytes, 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    while True:
        end, most = _measure_zstd_frame(data, position)
        try:
            piece = decompressor.stream_reader(data[position:end]).read(min(most, room) + 1)
        except zstandard.ZstdError as error:
            raise _corrupt(f"zstd: {error}", position) from error
        room -= len(piece)
        if room < 0:
            raise _too_large(max_bytes, position)
        pieces.append(piece)
        position = end
        if position == len(data):
            return b"".join(pieces)


def _measure_zstd_frame(data: memoryview, start: int) -> tuple[int, int]:
    """Return where a frame ends and how many bytes its blocks can become at most.

    The library neither reports a frame that ends too early nor says where the next one begins.
    """
    try:
        if bytes(data[start : start + len(_ZSTD_MAGIC)]) != _ZSTD_MAGIC:
            raise _corrupt("zstd: there is no frame here", start)
        position = start + zstandard.frame_header_size(data[start:])
        checksum = zstandard.get_frame_parameters(data[start:]).has_checksum
    except zstandard.ZstdError as error:
        raise _corrupt(f"zstd: {error}", start) from error
    most, is_last = 0, False
    while not is_last:
        block = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        position += 3 + (1 if kind == _ZSTD_RLE else size)
        if position > len(data):
            raise _corrupt("zstd: the frame ends too early", start)
        most += _ZSTD_BLOCK_BYTES if kind == _ZSTD_COMPRESSED else size
    position += _ZSTD_CHECKSUM_BYTES if checksum else 0
    if position > len(data):
        raise _corrupt("zstd: the frame ends too early", start)
    return position, most


_COMPRESSORS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[int, Callable[[memoryview, int], bytes]]] = {
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
