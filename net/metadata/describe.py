"""DescribeQuorum: who votes, who observes, and how far each of them is; only the leader knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from net.clock import wall_ms
from net.metadata.apis import QUORUM_HANDLERS, Asked, Handler, admitted
from net.metadata.fetch_apis import handle_fetch, handle_fetch_snapshot
from net.metadata.log import TOPIC
from net.metadata.node import QuorumNode
from net.wire.apis import Api
from net.wire.library import Message, encode_response
from protocol.errors import ErrorCode
from protocol.quorum import Leader
from protocol.quorum.state import Progress
from protocol.types import Offset


def handle_describe_quorum(node: QuorumNode, request: Asked) -> None:
    """Somebody wants to know how the quorum is."""
    if admitted(node, request) is None:
        return
    role = node.state.role
    leader, epoch = node.leader
    partition: Message = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch}
    if isinstance(role, Leader):
        partition |= _described(node, role)
    else:
        partition |= {
            "error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            "error_message": f"node {node.identity.node} does not lead the quorum",
            "high_watermark": -1,
            "current_voters": [],
            "observers": [],
        }
    message = {
        "error_code": 0,
        "topics": [{"topic_name": TOPIC, "partitions": [partition]}],
    }
    request.reply([encode_response(request.api_key, request.version, message)])


def _described(node: QuorumNode, leader: Leader) -> Message:
    state, now_ms = node.state, wall_ms()
    itself = Progress(state.node, state.log.end_offset)
    nodes = [itself, *leader.followers]
    described = {each.node: _replica(node, each, state.log.end_offset, now_ms) for each in nodes}
    described[state.node] |= {"last_fetch_timestamp": now_ms, "last_caught_up_timestamp": now_ms}
    return {
        "error_code": 0,
        "high_watermark": state.high_watermark,
        "current_voters": [described[each] for each in sorted(state.voters)],
        "observers": [described[each] for each in sorted(described) if each not in state.voters],
    }


def _replica(node: QuorumNode, progress: Progress, end_offset: Offset, now_ms: int) -> Message:
    if progress.heard_ms is None:
        return {
            "replica_id": progress.node,
            "log_end_offset": progress.end_offset if progress.node == node.identity.node else -1,
            "last_fetch_timestamp": -1,
            "last_caught_up_timestamp": -1,
        }
    fetched_ms = now_ms - (node.clock_ms() - progress.heard_ms)
    return {
        "replica_id": progress.node,
        "log_end_offset": progress.end_offset,
        "last_fetch_timestamp": fetched_ms,
        "last_caught_up_timestamp": fetched_ms if progress.end_offset >= end_offset else -1,
    }


HANDLERS: Final[Mapping[int, Handler]] = {
    **QUORUM_HANDLERS,
    Api.FETCH: handle_fetch,
    Api.DESCRIBE_QUORUM: handle_describe_quorum,
    Api.FETCH_SNAPSHOT: handle_fetch_snapshot,
}
"""All requests that a node of the quorum answers, by API key."""
