"""Produce requests, versions 3 to 11, without copying a record. Answers are in `produce_answers`.

Up to 8 the format is the old one; 9 brings compact lengths and tagged fields. Records are views
into the buffer of the request and live no longer than it does. Versions from 12 on belong to
transactions of the second kind and are not spoken here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from net.errors import MalformedRequest
from net.wire.primitives import (
    INT32,
    OUT_OF_BYTES,
    Buffer,
    malformed,
    read_count,
    read_length,
    read_nullable_string,
    read_string,
    read_text,
    read_uvarint,
    skip_tags,
    write_count,
    write_nullable_string,
)
from net.wire.produce_answers import (
    FIRST_VERSION,
    FLEXIBLE_FROM,
    LAST_VERSION,
    ProduceAnswer,
    ProducedPartition,
    RecordError,
    check_own_version,
    encode_produce_answer,
    encode_single,
    parse_produce_answer,
)

__all__ = (
    "FIRST_VERSION",
    "LAST_VERSION",
    "ProduceAnswer",
    "ProduceRequest",
    "ProducedPartition",
    "RecordError",
    "encode_produce",
    "encode_produce_answer",
    "encode_single",
    "parse_produce",
    "parse_produce_answer",
)

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_ONE_TOPIC: Final = struct.Struct(">BhiBB")
"""No transactional id, acks, timeout, how many topics, how long the name of the first one is."""
_ONE_PARTITION: Final = struct.Struct(">Bi")
_NO_TAGS: Final = b"\x00\x00\x00"
"""Of the partition, of the topic and of the request."""
_tuple: Final = tuple.__new__


class ProduceRequest(NamedTuple):
    """What a producer sends; records of a partition are one or more batches, or nothing."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str, Sequence[tuple[int, memoryview | None]]]]


def parse_produce(version: int, body: Buffer) -> ProduceRequest:
    """Read a request; its records are views into `body`."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        malformed(f"Produce version {version}")
    view = memoryview(body)
    flexible = version >= FLEXIBLE_FROM
    try:
        if flexible and (single := _parse_single(view)) is not None:
            return single
        transactional_id, at = read_nullable_string(view, 0, flexible)
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(view, at)
        count, at = read_count(view, at + 6, flexible, 3 if flexible else 6)
        topics = []
        for _ in range(count):
            name, at = read_string(view, at, flexible)
            partitions, at = _parse_partitions(view, at, flexible)
            topics.append((name, partitions))
        if flexible:
            at = at + 1 if view[at] == 0 else skip_tags(view, at)
    except OUT_OF_BYTES:
        raise MalformedRequest(f"Produce request of {len(view)} bytes ends too early") from None
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _parse_single(view: memoryview) -> ProduceRequest | None:
    """Read what most requests are, one batch for one partition; `None` if this is another one."""
    transactional_id, acks, timeout_ms, topics, name_length = _ONE_TOPIC.unpack_from(view)
    at = _ONE_TOPIC.size + name_length - 1
    behind = at + _ONE_PARTITION.size
    if transactional_id or topics != 2 or not 1 < name_length < 0x80 or behind >= len(view):
        return None
    partitions, index = _ONE_PARTITION.unpack_from(view, at)
    if partitions != 2:
        return None
    length, begin = read_uvarint(view, behind)
    end = begin + length - 1
    if not length or bytes(view[end : end + 4]) != _NO_TAGS:
        return None
    name = read_text(view, _ONE_TOPIC.size, at)
    return _tuple(ProduceRequest, (None, acks, timeout_ms, [(name, [(index, view[begin:end])])]))


def _parse_partitions(
    view: memoryview, at: int, flexible: bool
) -> tuple[list[tuple[int, memoryview | None]], int]:
    """Read the partitions of one topic, and in the flexible format also the topic's tags."""
    count, at = read_count(view, at, flexible, 6 if flexible else 8)
    partitions: list[tuple[int, memoryview | None]] = []
    size = len(view)
    for _ in range(count):
        index = INT32.unpack_from(view, at)[0]
        length, at = read_length(view, at + 4, flexible, INT32)
        if length < 0:
            partitions.append((index, None))
        else:
            end = at + length
            if end > size:
                malformed(f"records of {length} bytes, with {size - at} left")
            partitions.append((index, view[at:end]))
            at = end
        if flexible:
            # Nearly always there is no tag, and this is every record's way.
            at = at + 1 if view[at] == 0 else skip_tags(view, at)
    if flexible:
        at = at + 1 if view[at] == 0 else skip_tags(view, at)
    return partitions, at


def encode_produce(version: int, request: ProduceRequest) -> list[bytes | memoryview]:
    """Write a request as buffers to be sent one after the other; records are not copied."""
    check_own_version(version)
    flexible = version >= FLEXIBLE_FROM
    end = b"\x00" if flexible else b""
    parts: list[bytes | memoryview] = []
    head = write_nullable_string(request.transactional_id, flexible)
    head += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    head += write_count(len(request.topics), flexible)
    for name, partitions in request.topics:
        head += write_nullable_string(name, flexible) + write_count(len(partitions), flexible)
        for index, records in partitions:
            head += INT32.pack(index) + write_count(
                -1 if records is None else len(records), flexible
            )
            if records:
                parts += (head, records)
                head = b""
            head += end
        head += end
    head += end
    if head:
        parts.append(head)
    return parts
