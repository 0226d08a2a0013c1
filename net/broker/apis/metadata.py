"""Metadata and DescribeCluster: which brokers there are, and who leads what.

Answers are made from the image, so they are as new as what this broker has read of the metadata
log. The controller that clients are told of is any broker: all of them pass on what is the
controller's (KIP-500).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from net.broker.apis.gathering import answer, asked
from net.broker.hints import endpoint_of
from net.errors import MalformedRequest
from net.server.request import Request
from net.wire.library import Message
from protocol.controller.state import Image, Partition, Topic
from protocol.errors import ErrorCode
from protocol.types import NO_LEADER, NodeId

if TYPE_CHECKING:
    from net.broker.broker import Broker

_NO_ID: Final = UUID(int=0)
_NOT_ASKED: Final = -(2**31)
"""Authorized operations that nobody asked for."""
_CONTROLLERS: Final = 2


def metadata(request: Request, broker: Broker) -> None:
    """Tell where everything is; make topics that are not there, if that is wished."""
    message = asked(request)
    image, listener = broker.image, request.connection.listener_name
    wanted = message["topics"]
    if wanted is None or (request.version == 0 and not wanted):
        names = [(name, topic.id) for name, topic in sorted(image.topics.items())]
        topics = [_topic(image, listener, image.topics[name]) for name, _ in names]
    else:
        by_id = {UUID(topic.id): name for name, topic in image.topics.items()}
        topics = [_wanted(image, listener, each, by_id) for each in wanted]
        unknown = [
            each["name"]
            for each in topics
            if each["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]
        if unknown and message.get("allow_auto_topic_creation", True):
            broker.auto_create(unknown)
    answer(
        request,
        {
            "throttle_time": 0,
            "brokers": _brokers(image, listener, "node_id"),
            "cluster_id": broker.cluster_id,
            "controller_id": _controller(image, broker.node),
            "topics": topics,
            "cluster_authorized_operations": _NOT_ASKED,
        },
    )


def _wanted(image: Image, listener: str, each: Message, by_id: dict[UUID, str]) -> Message:
    topic_id = each.get("topic_id", _NO_ID)
    if topic_id == _NO_ID and each["name"] is None:
        raise MalformedRequest("a topic with neither name nor id")
    name = each["name"] if topic_id == _NO_ID else by_id.get(topic_id)
    topic = image.topics.get(name) if name is not None else None
    if topic is not None:
        return _topic(image, listener, topic)
    by_name = topic_id == _NO_ID
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
    return {
        "error_code": error,
        "name": each["name"] if by_name else None,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": _NOT_ASKED,
    }


def _topic(image: Image, listener: str, topic: Topic) -> Message:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": UUID(topic.id),
        "is_internal": False,
        "partitions": [_partition(image, listener, each) for each in image.of_topic(topic)],
        "topic_authorized_operations": _NOT_ASKED,
    }


def _partition(image: Image, listener: str, partition: Partition) -> Message:
    leader, error = partition.leader, ErrorCode.NONE
    if leader == NO_LEADER:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    elif endpoint_of(image, leader, listener) is None:
        leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return {
        "error_code": error,
        "partition_index": partition.index,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": [node for node in partition.replicas if node in partition.isr],
        "offline_replicas": [node for node in partition.replicas if not image.is_available(node)],
    }


def _brokers(image: Image, listener: str, id_field: str) -> list[Message]:
    """List the brokers that take part, where clients of this listener find them."""
    found = []
    for node, registration in sorted(image.brokers.items()):
        endpoint = endpoint_of(image, node, listener)
        if endpoint is not None and not registration.fenced:
            found.append(
                {
                    id_field: node,
                    "host": endpoint.host,
                    "port": endpoint.port,
                    "rack": registration.rack or None,
                }
            )
    return found


def _controller(image: Image, node: NodeId) -> NodeId:
    alive = [each for each, known in sorted(image.brokers.items()) if not known.fenced]
    if not alive:
        return NO_LEADER
    # Each broker names the next one, so that not all requests go to the same.
    return next((each for each in alive if each >= node), alive[0])


def describe_cluster(request: Request, broker: Broker) -> None:
    """Tell the brokers, or the controllers, and the cluster's id."""
    message = asked(request)
    image, listener = broker.image, request.connection.listener_name
    endpoint_type = message.get("endpoint_type", 1)
    body: Message = {
        "throttle_time": 0,
        "error_code": 0,
        "error_message": None,
        "endpoint_type": endpoint_type,
        "cluster_id": broker.cluster_id,
        "controller_id": _controller(image, broker.node),
        "brokers": _brokers(image, listener, "broker_id"),
        "cluster_authorized_operations": _NOT_ASKED,
    }
    if endpoint_type == _CONTROLLERS:
        body.update(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="ask a controller's listener for the controllers",
            brokers=[],
            controller_id=NO_LEADER,
        )
    answer(request, body)
