"""Produce answers, versions 3 to 11, written and parsed by hand.

5 brings the start of the log, 8 the records that are to blame and a message (KIP-467), 9 compact
lengths and tagged fields, 10 the current leader (KIP-951).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from net.errors import MalformedRequest
from net.wire.common import (
    CurrentLeader,
    NodeEndpoint,
    read_current_leader,
    read_endpoints,
    write_current_leader,
    write_endpoints,
)
from net.wire.primitives import (
    INT32,
    OUT_OF_BYTES,
    Buffer,
    malformed,
    read_count,
    read_nullable_string,
    read_string,
    read_tags,
    skip_tags,
    write_count,
    write_nullable_string,
    write_tag,
)

FIRST_VERSION: Final = 3
LAST_VERSION: Final = 11
FLEXIBLE_FROM: Final = 9
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_LEADER_FROM: Final = 10

_ANSWER: Final = struct.Struct(">ihqq")
_ANSWER_WITH_START: Final = struct.Struct(">ihqqq")
_NO_ERRORS_OR_MESSAGE: Final = b"\x00\x00\x00\x00\xff\xff"
_NO_ERRORS_MESSAGE_OR_TAGS: Final = b"\x01\x00\x00"
_SINGLE_TAIL: Final = _NO_ERRORS_MESSAGE_OR_TAGS + b"\x00" + bytes(4) + b"\x00"
"""Also the end of the topic, no throttling, and no tags of the answer."""
_CURRENT_LEADER_TAG: Final = 0
_NODE_ENDPOINTS_TAG: Final = 0


class RecordError(NamedTuple):
    """Which record of a refused batch is to blame (KIP-467)."""

    batch_index: int
    message: str | None = None


class ProducedPartition(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: CurrentLeader | None = None


class ProduceAnswer(NamedTuple):
    """The answer for everything that was sent."""

    topics: list[tuple[str, list[ProducedPartition]]]
    throttle_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def check_version(version: int) -> None:
    """Refuse versions that this module does not speak."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        malformed(f"Produce version {version}")


def check_own_version(version: int) -> None:
    """Refuse to write a version that is not spoken here."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        raise ValueError(f"Produce version {version} is not spoken here")


def encode_produce_answer(
    version: int,
    topics: Sequence[tuple[str, Sequence[ProducedPartition]]],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Write the body of an answer."""
    check_own_version(version)
    flexible = version >= FLEXIBLE_FROM
    pieces = [write_count(len(topics), flexible)]
    for name, partitions in topics:
        pieces.append(write_nullable_string(name, flexible))
        pieces.append(write_count(len(partitions), flexible))
        for each in partitions:
            _write_partition(version, pieces, each)
        if flexible:
            pieces.append(b"\x00")
    pieces.append(INT32.pack(throttle_ms))
    if flexible:
        if node_endpoints and version >= _LEADER_FROM:
            pieces.append(b"\x01" + write_tag(_NODE_ENDPOINTS_TAG, write_endpoints(node_endpoints)))
        else:
            pieces.append(b"\x00")
    return b"".join(pieces)


def encode_single(
    version: int, name: str, index: int, base_offset: int, time_ms: int, log_start_offset: int
) -> bytes:
    """Write the body of the answer to one batch that was appended, which most answers are."""
    if not FLEXIBLE_FROM <= version <= LAST_VERSION:
        done = ProducedPartition(index, 0, base_offset, time_ms, log_start_offset)
        return encode_produce_answer(version, [(name, [done])])
    placed = _ANSWER_WITH_START.pack(index, 0, base_offset, time_ms, log_start_offset)
    return _single_head(name) + placed + _SINGLE_TAIL


@lru_cache(maxsize=1024)
def _single_head(name: str) -> bytes:
    return b"\x02" + write_nullable_string(name, True) + b"\x02"


def _write_partition(version: int, pieces: list[bytes], each: ProducedPartition) -> None:
    if version < _LOG_START_FROM:
        pieces.append(_ANSWER.pack(*each[:4]))
        return
    pieces.append(_ANSWER_WITH_START.pack(*each[:5]))
    if version < _RECORD_ERRORS_FROM:
        return
    flexible = version >= FLEXIBLE_FROM
    if not each.record_errors and each.error_message is None and each.current_leader is None:
        pieces.append(_NO_ERRORS_MESSAGE_OR_TAGS if flexible else _NO_ERRORS_OR_MESSAGE)
        return
    pieces.append(write_count(len(each.record_errors), flexible))
    for error in each.record_errors:
        pieces.append(INT32.pack(error.batch_index))
        pieces.append(write_nullable_string(error.message, flexible))
        if flexible:
            pieces.append(b"\x00")
    pieces.append(write_nullable_string(each.error_message, flexible))
    if flexible:
        leader = each.current_leader
        if leader is None or leader == CurrentLeader() or version < _LEADER_FROM:
            pieces.append(b"\x00")
        else:
            pieces.append(b"\x01" + write_tag(_CURRENT_LEADER_TAG, write_current_leader(leader)))


def parse_produce_answer(version: int, body: Buffer) -> ProduceAnswer:
    """Read the body of an answer."""
    check_version(version)
    view = memoryview(body)
    flexible = version >= FLEXIBLE_FROM
    endpoints: Sequence[NodeEndpoint] = ()
    try:
        count, at = read_count(view, 0, flexible, 3 if flexible else 6)
        topics = []
        for _ in range(count):
            name, at = read_string(view, at, flexible)
            partitions, at = _parse_answers(version, view, at)
            topics.append((name, partitions))
        throttle_ms = INT32.unpack_from(view, at)[0]
        at += INT32.size
        if flexible:
            tags, at = read_tags(view, at)
            for tag, begin, end in tags:
                if tag == _NODE_ENDPOINTS_TAG and version >= _LEADER_FROM:
                    endpoints = read_endpoints(view, begin, end)
    except OUT_OF_BYTES:
        raise MalformedRequest(f"Produce answer of {len(view)} bytes ends too early") from None
    return ProduceAnswer(topics, throttle_ms, endpoints)


def _parse_answers(version: int, view: memoryview, at: int) -> tuple[list[ProducedPartition], int]:
    """Read the partitions of one topic, and in the flexible format also the topic's tags."""
    flexible = version >= FLEXIBLE_FROM
    layout = _ANSWER_WITH_START if version >= _LOG_START_FROM else _ANSWER
    count, at = read_count(view, at, flexible, layout.size)
    partitions = []
    for _ in range(count):
        fixed = layout.unpack_from(view, at)
        at += layout.size
        if version < _RECORD_ERRORS_FROM:
            partitions.append(ProducedPartition(*fixed))
            continue
        errors, at = _parse_record_errors(view, at, flexible)
        message, at = read_nullable_string(view, at, flexible)
        leader = None
        if flexible:
            tags, at = read_tags(view, at)
            for tag, begin, end in tags:
                if tag == _CURRENT_LEADER_TAG and version >= _LEADER_FROM:
                    leader = read_current_leader(view, begin, end)
        partition, error_code, base_offset, time_ms, start = fixed
        partitions.append(
            ProducedPartition(
                partition, error_code, base_offset, time_ms, start, errors, message, leader
            )
        )
    return partitions, skip_tags(view, at) if flexible else at


def _parse_record_errors(
    view: memoryview, at: int, flexible: bool
) -> tuple[Sequence[RecordError], int]:
    count, at = read_count(view, at, flexible, 6)
    errors = []
    for _ in range(count):
        index = INT32.unpack_from(view, at)[0]
        message, at = read_nullable_string(view, at + 4, flexible)
        if flexible:
            at = skip_tags(view, at)
        errors.append(RecordError(index, message))
    return errors or (), at
