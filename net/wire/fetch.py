"""Fetch requests, versions 4 to 17: parsed and written by hand. Answers are in `fetch_answers`.

Sessions begin with 7, leader epochs with 9, racks with 11. 12 brings the last fetched epoch,
compact lengths and tagged fields; from 13 on topics are named by their ids; from 15 on a follower
names itself in a tagged field. Clients are offered up to 16; 17, with the directory, is spoken
between brokers and in the quorum.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from net.errors import MalformedRequest
from net.wire.common import check_tag_end
from net.wire.fetch_answers import (
    FIRST_VERSION,
    LAST_VERSION,
    AbortedTransaction,
    DivergingEpoch,
    FetchAnswer,
    FetchedPartition,
    SnapshotId,
    encode_fetch_answer,
    parse_fetch_answer,
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
    refuse_if_large,
    skip_tags,
    write_count,
    write_nullable_string,
    write_tag,
    write_uvarint,
)
from net.wire.topics import (
    NO_UUID,
    Topic,
    read_topic,
    read_uuid,
    smallest_topic_bytes,
    write_topic,
)

__all__ = (
    "FIRST_VERSION",
    "LAST_VERSION",
    "AbortedTransaction",
    "DivergingEpoch",
    "FetchAnswer",
    "FetchPartition",
    "FetchRequest",
    "FetchedPartition",
    "Forgotten",
    "SnapshotId",
    "Topic",
    "encode_fetch",
    "encode_fetch_answer",
    "parse_fetch",
    "parse_fetch_answer",
)

_SESSIONS_FROM: Final = 7
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_REPLICA_STATE_FROM: Final = 15
_DIRECTORY_FROM: Final = 17

_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_CLUSTER_ID_TAG: Final = 0
_REPLICA_STATE_TAG: Final = 1
_DIRECTORY_TAG: Final = 0
_NO_REPLICA: Final = -1
_NO_EPOCH: Final = -1


class FetchPartition(NamedTuple):
    """Where somebody wants to read on in one partition."""

    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = _NO_EPOCH
    last_fetched_epoch: int = _NO_EPOCH
    log_start_offset: int = -1
    directory_id: uuid.UUID = NO_UUID


Forgotten: TypeAlias = tuple[Topic, list[int]]
"""A topic, and its partitions that the session shall no longer have."""


class FetchRequest(NamedTuple):
    """What a consumer or a follower asks for; a topic is its name, and from 13 on its id."""

    max_wait_ms: int
    min_bytes: int
    topics: Sequence[tuple[Topic, Sequence[FetchPartition]]]
    replica_id: int = _NO_REPLICA
    replica_epoch: int = -1
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    forgotten: Sequence[Forgotten] = ()
    rack_id: str = ""
    cluster_id: str | None = None


def _layout(version: int) -> struct.Struct:
    """How the fields of a partition lie: epochs and the start of the log came later."""
    letters = ">i"
    letters += "i" if version >= 9 else ""
    letters += "q"
    letters += "i" if version >= 12 else ""
    letters += "q" if version >= 5 else ""
    return struct.Struct(letters + "i")


_LAYOUTS: Final = {version: _layout(version) for version in range(FIRST_VERSION, LAST_VERSION + 1)}


def parse_fetch(version: int, body: Buffer) -> FetchRequest:
    """Read the body of a request; nothing of the buffer is kept."""
    if version not in _LAYOUTS:
        malformed(f"Fetch version {version}")
    refuse_if_large(len(body))
    try:
        return _parse(version, memoryview(body))
    except OUT_OF_BYTES:
        raise MalformedRequest(f"Fetch request of {len(body)} bytes ends too early") from None


def _parse(version: int, view: memoryview) -> FetchRequest:
    flexible = version >= _FLEXIBLE_FROM
    at, replica_id, replica_epoch, cluster_id = 0, _NO_REPLICA, -1, None
    if version < _REPLICA_STATE_FROM:
        replica_id, at = INT32.unpack_from(view, 0)[0], 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(view, at)
    at += _LIMITS.size
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(view, at)
        at += _SESSION.size
    topics, at = _parse_topics(version, view, at)
    forgotten: Sequence[Forgotten] = ()
    if version >= _SESSIONS_FROM:
        forgotten, at = _parse_forgotten(version, view, at)
    rack_id = ""
    if version >= _RACK_FROM:
        rack_id, at = read_string(view, at, flexible)
    if flexible:
        tags, at = read_tags(view, at)
        for tag, begin, end in tags:
            if tag == _CLUSTER_ID_TAG:
                cluster_id, behind = read_nullable_string(view, begin, True)
                check_tag_end(behind, end)
            elif tag == _REPLICA_STATE_TAG and version >= _REPLICA_STATE_FROM:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(view, begin)
                check_tag_end(skip_tags(view, begin + _REPLICA_STATE.size), end)
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        topics,
        replica_id,
        replica_epoch,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        forgotten,
        rack_id,
        cluster_id,
    )


def _parse_topics(
    version: int, view: memoryview, at: int
) -> tuple[list[tuple[Topic, list[FetchPartition]]], int]:
    flexible = version >= _FLEXIBLE_FROM
    count, at = read_count(view, at, flexible, smallest_topic_bytes(version, flexible))
    topics = []
    for _ in range(count):
        topic, at = read_topic(version, view, at, flexible)
        partitions, at = _parse_partitions(version, view, at)
        if flexible:
            at = skip_tags(view, at)
        topics.append((topic, partitions))
    return topics, at


def _parse_partitions(version: int, view: memoryview, at: int) -> tuple[list[FetchPartition], int]:
    flexible = version >= _FLEXIBLE_FROM
    layout = _LAYOUTS[version]
    count, at = read_count(view, at, flexible, layout.size)
    partitions = []
    for _ in range(count):
        fields = layout.unpack_from(view, at)
        at += layout.size
        directory_id = NO_UUID
        if flexible:
            tags, at = read_tags(view, at)
            for tag, begin, end in tags:
                if tag == _DIRECTORY_TAG and version >= _DIRECTORY_FROM:
                    directory_id, behind = read_uuid(view, begin)
                    check_tag_end(behind, end)
        partitions.append(_partition(version, fields, directory_id))
    return partitions, at


def _partition(version: int, fields: tuple[int, ...], directory_id: uuid.UUID) -> FetchPartition:
    """Put the fields of a version where they belong."""
    if version >= 12:
        partition, epoch, offset, last_epoch, start, max_bytes = fields
        return FetchPartition(partition, offset, max_bytes, epoch, last_epoch, start, directory_id)
    if version >= 9:
        partition, epoch, offset, start, max_bytes = fields
        return FetchPartition(partition, offset, max_bytes, epoch, log_start_offset=start)
    if version >= 5:
        partition, offset, start, max_bytes = fields
        return FetchPartition(partition, offset, max_bytes, log_start_offset=start)
    partition, offset, max_bytes = fields
    return FetchPartition(partition, offset, max_bytes)


def _parse_forgotten(version: int, view: memoryview, at: int) -> tuple[list[Forgotten], int]:
    flexible = version >= _FLEXIBLE_FROM
    count, at = read_count(view, at, flexible, smallest_topic_bytes(version, flexible))
    forgotten: list[Forgotten] = []
    for _ in range(count):
        topic, at = read_topic(version, view, at, flexible)
        partitions, at = read_count(view, at, flexible, INT32.size)
        layout = struct.Struct(f">{partitions}i")
        forgotten.append((topic, list(layout.unpack_from(view, at))))
        at += layout.size
        if flexible:
            at = skip_tags(view, at)
    return forgotten, at


def encode_fetch(version: int, request: FetchRequest) -> bytes:
    """Write the body of a request; what the version does not have is left out."""
    if version not in _LAYOUTS:
        raise ValueError(f"Fetch version {version} is not spoken here")
    flexible = version >= _FLEXIBLE_FROM
    pieces: list[bytes] = []
    if version < _REPLICA_STATE_FROM:
        pieces.append(INT32.pack(request.replica_id))
    pieces.append(
        _LIMITS.pack(
            request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
        )
    )
    if version >= _SESSIONS_FROM:
        pieces.append(_SESSION.pack(request.session_id, request.session_epoch))
    pieces.append(write_count(len(request.topics), flexible))
    for topic, partitions in request.topics:
        pieces += (write_topic(version, topic, flexible), write_count(len(partitions), flexible))
        pieces.extend(_write_partition(version, each) for each in partitions)
        if flexible:
            pieces.append(b"\x00")
    if version >= _SESSIONS_FROM:
        pieces.append(_write_forgotten(version, request.forgotten))
    if version >= _RACK_FROM:
        pieces.append(write_nullable_string(request.rack_id, flexible))
    if flexible:
        pieces.append(_write_tags(version, request))
    return b"".join(pieces)


def _write_partition(version: int, each: FetchPartition) -> bytes:
    fields = [each.partition, each.fetch_offset]
    if version >= 9:
        fields.insert(1, each.current_leader_epoch)
    if version >= _FLEXIBLE_FROM:
        fields.append(each.last_fetched_epoch)
    if version >= 5:
        fields.append(each.log_start_offset)
    fixed = _LAYOUTS[version].pack(*fields, each.max_bytes)
    if version < _FLEXIBLE_FROM:
        return fixed
    if version < _DIRECTORY_FROM or each.directory_id == NO_UUID:
        return fixed + b"\x00"
    return fixed + b"\x01" + write_tag(_DIRECTORY_TAG, each.directory_id.bytes)


def _write_forgotten(version: int, forgotten: Sequence[Forgotten]) -> bytes:
    flexible = version >= _FLEXIBLE_FROM
    pieces = [write_count(len(forgotten), flexible)]
    for topic, partitions in forgotten:
        pieces.append(write_topic(version, topic, flexible))
        pieces.append(write_count(len(partitions), flexible))
        pieces.append(struct.pack(f">{len(partitions)}i", *partitions))
        if flexible:
            pieces.append(b"\x00")
    return b"".join(pieces)


def _write_tags(version: int, request: FetchRequest) -> bytes:
    tags = []
    if request.cluster_id is not None:
        cluster_id = write_nullable_string(request.cluster_id, True)
        tags.append(write_tag(_CLUSTER_ID_TAG, cluster_id))
    state = (request.replica_id, request.replica_epoch)
    if version >= _REPLICA_STATE_FROM and state != (_NO_REPLICA, -1):
        tags.append(write_tag(_REPLICA_STATE_TAG, _REPLICA_STATE.pack(*state) + b"\x00"))
    return write_uvarint(len(tags)) + b"".join(tags)
