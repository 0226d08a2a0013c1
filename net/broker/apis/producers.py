"""Producer ids given away, and what partitions remember of their producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from net.broker.apis.gathering import answer, asked
from net.broker.partition import Partition
from net.server.request import Request
from net.wire.library import Message
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from net.broker.broker import Broker

_NOBODY: Final = -1


def init_producer_id(request: Request, broker: Broker) -> None:
    """Give a producer an id. One that has an id and asks again gets another, as in Kafka."""
    if asked(request)["transactional_id"] is not None:
        _init(request, ErrorCode.INVALID_REQUEST, _NOBODY)
        return
    broker.producer_ids.take(lambda error, producer_id: _init(request, error, producer_id))


def _init(request: Request, error: ErrorCode, producer_id: int) -> None:
    answer(
        request,
        {
            "throttle_time": 0,
            "error_code": error,
            "producer_id": producer_id,
            "producer_epoch": _NOBODY if error else 0,
        },
    )


def describe_producers(request: Request, broker: Broker) -> None:
    """Tell who has written to partitions lately, and whose transactions are open."""
    topics = []
    for topic in asked(request)["topics"]:
        partitions = [
            _described(broker, topic["name"], index) for index in topic["partition_indexes"]
        ]
        topics.append({"name": topic["name"], "partitions": partitions})
    answer(request, {"throttle_time": 0, "topics": topics})


def _described(broker: Broker, topic: str, index: int) -> Message:
    found = broker.replicas.find_by_name(topic, index)
    error = ErrorCode.NONE
    if not isinstance(found, Partition):
        error = found
    elif not found.leads:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    producers = []
    if isinstance(found, Partition) and not error:
        for entry in found.log.producers.entries.values():
            first_offset = entry.transaction_first_offset
            producers.append(
                {
                    "producer_id": entry.producer_id,
                    "producer_epoch": entry.epoch,
                    "last_sequence": entry.last_sequence,
                    "last_timestamp": entry.timestamp_ms,
                    "coordinator_epoch": entry.coordinator_epoch,
                    "current_txn_start_offset": _NOBODY if first_offset is None else first_offset,
                }
            )
    return {
        "partition_index": index,
        "error_code": error,
        "error_message": None,
        "active_producers": producers,
    }
