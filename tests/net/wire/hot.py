"""What the codecs written by hand find, as the plain messages that the judge knows."""

from collections.abc import Sequence
from typing import Any

from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import (
    DivergingEpoch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    SnapshotId,
)
from net.wire.produce import ProduceAnswer, ProducedPartition, ProduceRequest
from tests.net.wire.oracle import Message


def only(message: Message, like: Message) -> Message:
    """Leave out, at every depth, what the version of the other message does not have."""
    return {key: _like(message[key], value) for key, value in like.items()}


def _like(value: Any, like: Any) -> Any:
    if isinstance(like, dict):
        return only(value, like)
    if isinstance(like, list) and isinstance(value, list) and like and isinstance(like[0], dict):
        return [only(*pair) for pair in zip(value, like, strict=True)]
    return value


def produce_request(request: ProduceRequest) -> Message:
    """Say what a parsed Produce request holds."""
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout": request.timeout_ms,
        "topic_data": [
            {
                "name": name,
                "partition_data": [
                    {"index": index, "records": None if records is None else bytes(records)}
                    for index, records in partitions
                ],
            }
            for name, partitions in request.topics
        ],
    }


def produce_answer(answer: ProduceAnswer) -> Message:
    """Say what a parsed Produce answer holds."""
    return {
        "responses": [
            {"name": name, "partition_responses": [_produced(each) for each in partitions]}
            for name, partitions in answer.topics
        ],
        "throttle_time": answer.throttle_ms,
        "node_endpoints": _endpoints(answer.node_endpoints),
    }


def _produced(each: ProducedPartition) -> Message:
    return {
        "index": each.partition,
        "error_code": each.error_code,
        "base_offset": each.base_offset,
        "log_append_time": each.log_append_time_ms,
        "log_start_offset": each.log_start_offset,
        "record_errors": [
            {"batch_index": error.batch_index, "batch_index_error_message": error.message}
            for error in each.record_errors
        ],
        "error_message": each.error_message,
        "current_leader": (each.current_leader or CurrentLeader())._asdict(),
    }


def _endpoints(endpoints: Sequence[NodeEndpoint]) -> list[Message]:
    return [each._asdict() for each in endpoints]


def fetch_request(request: FetchRequest) -> Message:
    """Say what a parsed Fetch request holds; a topic goes by both its name and its id."""
    return {
        "replica_id": request.replica_id,
        "replica_state": {
            "replica_id": request.replica_id,
            "replica_epoch": request.replica_epoch,
        },
        "cluster_id": request.cluster_id,
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "topics": [
            {"topic": topic, "topic_id": topic, "partitions": [_asked(each) for each in partitions]}
            for topic, partitions in request.topics
        ],
        "forgotten_topics_data": [
            {"topic": topic, "topic_id": topic, "partitions": partitions}
            for topic, partitions in request.forgotten
        ],
        "rack_id": request.rack_id,
    }


def _asked(each: FetchPartition) -> Message:
    message = each._asdict()
    message["partition_max_bytes"] = message.pop("max_bytes")
    message["replica_directory_id"] = message.pop("directory_id")
    return message


def fetch_answer(answer: FetchAnswer) -> Message:
    """Say what a parsed Fetch answer holds; a topic goes by both its name and its id."""
    return {
        "throttle_time": answer.throttle_ms,
        "error_code": answer.error_code,
        "session_id": answer.session_id,
        "responses": [
            {
                "topic": topic,
                "topic_id": topic,
                "partitions": [_fetched(each) for each in partitions],
            }
            for topic, partitions in answer.topics
        ],
        "node_endpoints": _endpoints(answer.node_endpoints),
    }


def _fetched(each: FetchedPartition) -> Message:
    assert each.records_bytes == sum(map(len, each.records))
    aborted = each.aborted
    return {
        "partition_index": each.partition,
        "error_code": each.error_code,
        "high_watermark": each.high_watermark,
        "last_stable_offset": each.last_stable_offset,
        "log_start_offset": each.log_start_offset,
        "diverging_epoch": (each.diverging or DivergingEpoch())._asdict(),
        "current_leader": (each.current_leader or CurrentLeader())._asdict(),
        "snapshot_id": (each.snapshot or SnapshotId())._asdict(),
        "aborted_transactions": None if aborted is None else [x._asdict() for x in aborted],
        "preferred_read_replica": each.preferred_read_replica,
        "records": b"".join(each.records),
    }
