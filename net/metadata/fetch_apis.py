"""Fetch of the metadata log and FetchSnapshot, on the receiving side.

A handler is as in `net.metadata.apis`. What is sent of the log is durable there already; a snapshot
is sent as it lies in its file, in parts.
"""

from __future__ import annotations

import uuid
from typing import Final

from net.errors import MalformedRequest
from net.metadata.apis import (
    Asked,
    admitted,
    endpoints,
    is_of_cluster,
    receive,
)
from net.metadata.log import TOPIC
from net.metadata.node import QuorumNode
from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import (
    DivergingEpoch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    SnapshotId,
    Topic,
    encode_fetch_answer,
    parse_fetch,
)
from net.wire.library import Message, encode_response
from protocol.errors import ErrorCode
from protocol.machine import Effect
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.quorum.log import SnapshotId as Snapshot
from protocol.types import NodeId

METADATA_ID: Final = uuid.UUID(int=1)
"""Kafka's id of the metadata topic."""
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
MAX_PART_BYTES: Final = 1024 * 1024
MAX_WAIT_MS: Final = 30_000


def handle_fetch(node: QuorumNode, request: Asked) -> None:
    """A follower or an observer asks for records; or for the leader, with a fetch of epoch 0."""
    fetch = parse_fetch(request.version, request.body)
    if not is_of_cluster(node, fetch.cluster_id):
        answer = FetchAnswer([], error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        request.reply(encode_fetch_answer(request.version, answer))
        return
    topic, asked = _only_partition(fetch)
    if asked is None or fetch.replica_id < 0:
        answer = FetchAnswer([], error_code=ErrorCode.INVALID_REQUEST)
        request.reply(encode_fetch_answer(request.version, answer))
        return
    connection = request.connection.peer

    def reply(effect: Effect) -> None:
        if isinstance(effect, do.SendEntries):
            node.fetchers.told(fetch.replica_id, connection, effect.high_watermark)
        _reply_fetch(node, request, topic, effect)

    receive(
        node,
        e.FetchReceived(
            reply,
            fetch.replica_id,
            max(asked.current_leader_epoch, 0),
            asked.fetch_offset,
            max(asked.last_fetched_epoch, 0),
            node.fetchers.known_to(fetch.replica_id, connection),
            max(1, min(fetch.max_bytes, asked.max_bytes, MAX_ANSWER_BYTES)),
            max(0, min(fetch.max_wait_ms, MAX_WAIT_MS)),
        ),
    )


def _only_partition(fetch: FetchRequest) -> tuple[Topic, FetchPartition | None]:
    if len(fetch.topics) == 1:
        topic, partitions = fetch.topics[0]
        if topic in (TOPIC, METADATA_ID) and len(partitions) == 1 and partitions[0].partition == 0:
            return topic, partitions[0]
    return TOPIC, None


def _reply_fetch(node: QuorumNode, request: Asked, topic: Topic, effect: Effect) -> None:
    me = node.identity.node
    match effect:
        case do.SendEntries(_, offset, end_offset, max_bytes, epoch, high_watermark):
            content = node.read(offset, end_offset, max_bytes)
            if content is None:
                partition = FetchedPartition(0, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                partition = FetchedPartition(
                    0,
                    high_watermark=high_watermark,
                    last_stable_offset=high_watermark,
                    log_start_offset=node.state.log.start_offset,
                    current_leader=CurrentLeader(me, epoch),
                    records=[content],
                    records_bytes=len(content),
                )
        case do.SendDivergence(_, epoch, end):
            diverging = DivergingEpoch(end.epoch, end.offset)
            leader = CurrentLeader(me, epoch)
            partition = FetchedPartition(0, diverging=diverging, current_leader=leader)
        case do.SendSnapshotId(_, epoch, snapshot):
            found = SnapshotId(snapshot.end_offset, snapshot.epoch)
            leader = CurrentLeader(me, epoch)
            partition = FetchedPartition(0, snapshot=found, current_leader=leader)
        case do.Refuse(_, error, epoch, named):
            leader = CurrentLeader(named, epoch)
            partition = FetchedPartition(0, int(error), current_leader=leader)
        case _:
            raise TypeError(f"{type(effect).__name__} answers no fetch")
    named = partition.current_leader.leader_id if partition.current_leader is not None else -1
    where = [
        NodeEndpoint(each["node_id"], each["host"], each["port"]) for each in endpoints(node, named)
    ]
    answer = FetchAnswer([(topic, [partition])], node_endpoints=where)
    request.reply(encode_fetch_answer(request.version, answer))


def handle_fetch_snapshot(node: QuorumNode, request: Asked) -> None:
    """A node downloads a part of the snapshot that the log begins with."""
    found = admitted(node, request)
    if found is None:
        return
    message, asked = found
    wanted = Snapshot(asked["snapshot_id"]["end_offset"], asked["snapshot_id"]["epoch"])
    position, replica = asked["position"], message["replica_id"]
    if replica < 0 or replica == node.identity.node:
        raise MalformedRequest(f"a download in the name of node {replica}")
    max_bytes = max(1, min(message["max_bytes"], MAX_PART_BYTES))

    def reply(effect: Effect) -> None:
        if isinstance(effect, do.SendSnapshot):
            _reply_part(node, request, wanted, position, max_bytes)
            return
        if not isinstance(effect, do.Refuse):
            raise TypeError(f"{type(effect).__name__} answers no download")
        gone = effect.error == ErrorCode.OFFSET_OUT_OF_RANGE
        error = ErrorCode.SNAPSHOT_NOT_FOUND if gone else int(effect.error)
        _reply_snapshot(node, request, wanted, effect.leader, effect.epoch, {"error_code": error})

    receive(node, e.SnapshotAsked(reply, replica, asked["current_leader_epoch"], wanted))


def _reply_part(
    node: QuorumNode, request: Asked, wanted: Snapshot, position: int, max_bytes: int
) -> None:
    leader, epoch = node.leader
    part = node.read_snapshot(wanted, position, max_bytes)
    if part is None:
        more: Message = {"error_code": ErrorCode.SNAPSHOT_NOT_FOUND}
    elif not 0 <= position < part.size_bytes:
        more = {"error_code": ErrorCode.POSITION_OUT_OF_RANGE}
    else:
        more = {
            "error_code": 0,
            "size": part.size_bytes,
            "position": position,
            "unaligned_records": part.content,
        }
    _reply_snapshot(node, request, wanted, leader, epoch, more)


def _reply_snapshot(
    node: QuorumNode, request: Asked, wanted: Snapshot, leader: NodeId, epoch: int, more: Message
) -> None:
    partition = {
        "index": 0,
        "snapshot_id": {"end_offset": wanted.end_offset, "epoch": wanted.epoch},
        "current_leader": {"leader_id": leader, "leader_epoch": epoch},
        "size": 0,
        "position": 0,
        "unaligned_records": b"",
        **more,
    }
    message = {
        "error_code": 0,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
        "node_endpoints": endpoints(node, leader),
    }
    request.reply([encode_response(request.api_key, request.version, message)])
