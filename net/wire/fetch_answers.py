"""Fetch answers, versions 4 to 17: parsed and written by hand, without touching a record.

An answer is written as a list of parts: bytes of ours, and between them whatever the caller gave as
records, untouched: a buffer or a region of a file. Parsed records are views into the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from net.errors import MalformedRequest
from net.wire.common import (
    CurrentLeader,
    NodeEndpoint,
    check_tag_end,
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
    read_length,
    read_tags,
    skip_tags,
    write_count,
    write_tag,
    write_uvarint,
)
from net.wire.topics import Topic, read_topic, smallest_topic_bytes, write_topic

FIRST_VERSION: Final = 4
LAST_VERSION: Final = 17
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_PREFERRED_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_ENDPOINTS_FROM: Final = 16

_SESSION: Final = struct.Struct(">hi")
_HEAD: Final = struct.Struct(">ihqq")
_HEAD_WITH_START: Final = struct.Struct(">ihqqq")
_COMMON: Final = struct.Struct(">ihqqqbi")
_COMMON_OLD: Final = struct.Struct(">ihqqqii")
"""All that stands before the records when there is no list of aborted transactions."""
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_AND_OFFSET: Final = struct.Struct(">iq")
_OFFSET_AND_EPOCH: Final = struct.Struct(">qi")
_DIVERGING_TAG: Final = 0
_LEADER_TAG: Final = 1
_SNAPSHOT_TAG: Final = 2
_ENDPOINTS_TAG: Final = 0
_NOTHING: Final = memoryview(b"")


class DivergingEpoch(NamedTuple):
    """Up to where the logs of leader and follower can agree (KIP-595)."""

    epoch: int = -1
    end_offset: int = -1


class SnapshotId(NamedTuple):
    """The snapshot to take instead, of a log that begins later than what was asked for."""

    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(NamedTuple):
    """A transaction whose records the reader must leave out."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """The answer for one partition; `records` are parts of together `records_bytes`."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    diverging: DivergingEpoch | None = None
    current_leader: CurrentLeader | None = None
    snapshot: SnapshotId | None = None
    records: Sequence[Any] = ()
    records_bytes: int = 0


class FetchAnswer(NamedTuple):
    """The answer for everything that was asked."""

    topics: Sequence[tuple[Topic, Sequence[FetchedPartition]]]
    session_id: int = 0
    error_code: int = 0
    throttle_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def encode_fetch_answer(version: int, answer: FetchAnswer) -> list[Any]:
    """Write the body of an answer: bytes, with the given records between them, to send in order."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        raise ValueError(f"Fetch version {version} is not spoken here")
    flexible = version >= _FLEXIBLE_FROM
    parts: list[Any] = []
    pieces = [INT32.pack(answer.throttle_ms)]
    if version >= _SESSIONS_FROM:
        pieces.append(_SESSION.pack(answer.error_code, answer.session_id))
    pieces.append(write_count(len(answer.topics), flexible))
    for topic, partitions in answer.topics:
        pieces.append(write_topic(version, topic, flexible))
        pieces.append(write_count(len(partitions), flexible))
        for each in partitions:
            _write_head(version, pieces, each)
            pieces.append(write_count(each.records_bytes, flexible))
            if each.records_bytes:
                parts.append(b"".join(pieces))
                parts.extend(each.records)
                pieces = []
            if flexible:
                has_tags = each.diverging or each.current_leader or each.snapshot
                pieces.append(_write_tags(each) if has_tags else b"\x00")
        if flexible:
            pieces.append(b"\x00")
    if flexible:
        if answer.node_endpoints and version >= _ENDPOINTS_FROM:
            endpoints = write_endpoints(answer.node_endpoints)
            pieces.append(b"\x01" + write_tag(_ENDPOINTS_TAG, endpoints))
        else:
            pieces.append(b"\x00")
    if pieces:
        parts.append(b"".join(pieces))
    return parts


def _write_head(version: int, pieces: list[bytes], each: FetchedPartition) -> None:
    """Write what stands before the records."""
    if each.aborted is None and version >= _PREFERRED_FROM:
        if version >= _FLEXIBLE_FROM:
            pieces.append(_COMMON.pack(*each[:5], 0, each.preferred_read_replica))
        else:
            pieces.append(_COMMON_OLD.pack(*each[:5], -1, each.preferred_read_replica))
        return
    if version >= _LOG_START_FROM:
        pieces.append(_HEAD_WITH_START.pack(*each[:5]))
    else:
        pieces.append(_HEAD.pack(*each[:4]))
    flexible = version >= _FLEXIBLE_FROM
    if each.aborted is None:
        pieces.append(b"\x00" if flexible else b"\xff\xff\xff\xff")
    else:
        pieces.append(write_count(len(each.aborted), flexible))
        for aborted in each.aborted:
            pieces.append(_ABORTED.pack(*aborted))
            if flexible:
                pieces.append(b"\x00")
    if version >= _PREFERRED_FROM:
        pieces.append(INT32.pack(each.preferred_read_replica))


def _write_tags(each: FetchedPartition) -> bytes:
    tags = []
    if each.diverging is not None and each.diverging != DivergingEpoch():
        tags.append(write_tag(_DIVERGING_TAG, _EPOCH_AND_OFFSET.pack(*each.diverging) + b"\x00"))
    if each.current_leader is not None and each.current_leader != CurrentLeader():
        tags.append(write_tag(_LEADER_TAG, write_current_leader(each.current_leader)))
    if each.snapshot is not None and each.snapshot != SnapshotId():
        tags.append(write_tag(_SNAPSHOT_TAG, _OFFSET_AND_EPOCH.pack(*each.snapshot) + b"\x00"))
    return write_uvarint(len(tags)) + b"".join(tags)


def parse_fetch_answer(version: int, body: Buffer) -> FetchAnswer:
    """Read the body of an answer; `records` is one view into `body`, or empty."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        malformed(f"Fetch version {version}")
    try:
        return _parse(version, memoryview(body))
    except OUT_OF_BYTES:
        raise MalformedRequest(f"Fetch answer of {len(body)} bytes ends too early") from None


def _parse(version: int, view: memoryview) -> FetchAnswer:
    flexible = version >= _FLEXIBLE_FROM
    throttle_ms, at = INT32.unpack_from(view, 0)[0], 4
    error_code = session_id = 0
    if version >= _SESSIONS_FROM:
        error_code, session_id = _SESSION.unpack_from(view, at)
        at += _SESSION.size
    count, at = read_count(view, at, flexible, smallest_topic_bytes(version, flexible))
    topics = []
    for _ in range(count):
        topic, at = read_topic(version, view, at, flexible)
        partitions, at = _parse_partitions(version, view, at)
        topics.append((topic, partitions))
    endpoints: Sequence[NodeEndpoint] = ()
    if flexible:
        tags, at = read_tags(view, at)
        for tag, begin, end in tags:
            if tag == _ENDPOINTS_TAG and version >= _ENDPOINTS_FROM:
                endpoints = read_endpoints(view, begin, end)
    return FetchAnswer(topics, session_id, error_code, throttle_ms, endpoints)


def _parse_partitions(
    version: int, view: memoryview, at: int
) -> tuple[list[FetchedPartition], int]:
    """Read the partitions of one topic, and in the flexible format also the topic's tags."""
    flexible = version >= _FLEXIBLE_FROM
    head = _HEAD_WITH_START if version >= _LOG_START_FROM else _HEAD
    count, at = read_count(view, at, flexible, head.size)
    partitions = []
    for _ in range(count):
        fields = head.unpack_from(view, at)
        aborted, at = _parse_aborted(view, at + head.size, flexible)
        preferred = -1
        if version >= _PREFERRED_FROM:
            preferred = INT32.unpack_from(view, at)[0]
            at += INT32.size
        records, at = _parse_records(view, at, flexible)
        diverging = leader = snapshot = None
        if flexible:
            diverging, leader, snapshot, at = _parse_tags(view, at)
        partition, error_code, high_watermark, stable_offset, *start = fields
        partitions.append(
            FetchedPartition(
                partition,
                error_code,
                high_watermark,
                stable_offset,
                start[0] if start else -1,
                aborted,
                preferred,
                diverging,
                leader,
                snapshot,
                (records,) if records else (),
                len(records),
            )
        )
    return partitions, skip_tags(view, at) if flexible else at


def _parse_aborted(
    view: memoryview, at: int, flexible: bool
) -> tuple[Sequence[AbortedTransaction] | None, int]:
    count, at = read_length(view, at, flexible, INT32)
    if count < 0:
        return None, at
    if count * _ABORTED.size > len(view) - at:
        malformed(f"{count} aborted transactions in {len(view) - at} bytes")
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(view, at)))
        at += _ABORTED.size
        if flexible:
            at = skip_tags(view, at)
    return aborted, at


def _parse_records(view: memoryview, at: int, flexible: bool) -> tuple[memoryview, int]:
    length, at = read_length(view, at, flexible, INT32)
    if length <= 0:
        # Null and nothing are the same to a reader.
        return _NOTHING, at
    if length > len(view) - at:
        malformed(f"records of {length} bytes, with {len(view) - at} left")
    return view[at : at + length], at + length


def _parse_tags(
    view: memoryview, at: int
) -> tuple[DivergingEpoch | None, CurrentLeader | None, SnapshotId | None, int]:
    diverging = leader = snapshot = None
    tags, behind = read_tags(view, at)
    for tag, begin, end in tags:
        if tag == _DIVERGING_TAG:
            diverging = DivergingEpoch(*_EPOCH_AND_OFFSET.unpack_from(view, begin))
            check_tag_end(skip_tags(view, begin + _EPOCH_AND_OFFSET.size), end)
        elif tag == _LEADER_TAG:
            leader = read_current_leader(view, begin, end)
        elif tag == _SNAPSHOT_TAG:
            snapshot = SnapshotId(*_OFFSET_AND_EPOCH.unpack_from(view, begin))
            check_tag_end(skip_tags(view, begin + _OFFSET_AND_EPOCH.size), end)
    return diverging, leader, snapshot, behind
