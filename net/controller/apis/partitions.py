"""AlterPartition, ElectLeaders, and moving partitions: AlterPartitionReassignments and the list."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from net.controller.apis.exchange import (
    OK,
    Exchange,
    Failure,
    Gather,
    Handling,
    Table,
    failure_of,
    too_many,
)
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import (
    AlterPartition,
    AlterReassignment,
    ElectionKind,
    ElectLeaders,
    Partition,
    Refuse,
    Reply,
    Results,
)
from protocol.errors import ErrorCode

_RECOVERED: Final = 0
_NOT_GIVEN: Final = -1

Key = tuple[str, int]


def alter_partition(exchange: Exchange) -> None:
    """Decide about the ISRs that a leader proposes, each on its own."""
    topics: list[Message] = exchange.message["topics"]
    shape = [(topic["topic_id"], len(topic["partitions"])) for topic in topics]
    count = sum(length for _, length in shape)
    gather = Gather(
        count,
        lambda results: exchange.respond({**_code(OK), "topics": _by_topic(shape, results)}),
    )
    place = 0
    for topic in topics:
        name = exchange.node.topic_of(topic["topic_id"])
        for asked in topic["partitions"]:
            _propose(exchange, name, asked, gather, place)
            place += 1


def _by_topic(shape: Sequence[tuple[uuid.UUID, int]], results: Sequence[Message]) -> list[Message]:
    """Put results under their topics again, in the order of the request."""
    rest = iter(results)
    return [
        {"topic_id": topic_id, "partitions": [next(rest) for _ in range(length)]}
        for topic_id, length in shape
    ]


def _propose(
    exchange: Exchange, name: str | None, asked: Message, gather: Gather, place: int
) -> None:
    index = asked["partition_index"]
    if name is None:
        gather.put(place, {"partition_index": index, "error_code": ErrorCode.UNKNOWN_TOPIC_ID})
        return
    node, epoch = exchange.message["broker_id"], exchange.message["broker_epoch"]
    isr, joiner_epoch = _isr(exchange, (name, index), asked)

    def done(answer: Reply | Refuse) -> None:
        gather.put(place, _altered(index, answer))

    exchange.node.command(
        lambda correlation: AlterPartition(
            correlation,
            node,
            epoch,
            name,
            index,
            asked["leader_epoch"],
            asked["partition_epoch"],
            isr,
            joiner_epoch,
        ),
        done,
        proposal_id=f"p{node}-{epoch}-{exchange.correlation_id}",
    )


def _isr(exchange: Exchange, key: Key, asked: Message) -> tuple[frozenset[int], int]:
    """Return the proposed ISR, and the epoch with which the added replica has caught up."""
    image = exchange.node.deciding
    epochs: dict[int, int] = dict.fromkeys(asked.get("new_isr", ()), _NOT_GIVEN)
    epochs |= {
        each["broker_id"]: each["broker_epoch"] for each in asked.get("new_isr_with_epochs", ())
    }
    known = image.partitions.get(key)
    added = sorted(epochs.keys() - known.isr) if known is not None else []
    if not added:
        return frozenset(epochs), 0
    # A leader adds one at a time; the epoch of one does not fit the others, who are refused then.
    joiner = added[0]
    epoch = epochs[joiner]
    if epoch == _NOT_GIVEN and joiner in image.brokers:
        epoch = image.brokers[joiner].epoch
    return frozenset(epochs), epoch


def _altered(index: int, answer: Reply | Refuse) -> Message:
    partition = answer.value if isinstance(answer, Reply) else None
    if not isinstance(partition, Partition):
        return {"partition_index": index, **_code(failure_of(answer)), "leader_id": -1}
    return {
        "partition_index": index,
        **_code(OK),
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "isr": sorted(partition.isr),
        "leader_recovery_state": _RECOVERED,
        "partition_epoch": partition.version,
    }


def _code(failure: Failure) -> Message:
    return {"error_code": int(failure.code)}


def alter_refused(message: Message, failure: Failure) -> Message:
    """Refuse all, in the one place that a leader looks at first."""
    del message
    return {**_code(failure), "topics": []}


def elect_leaders(exchange: Exchange) -> None:
    """Elect where an operator wants it, or wherever it is needed."""
    message = exchange.message
    try:
        kind = ElectionKind(message.get("election_type", 0))
    except ValueError:
        reason = "an election is preferred (0) or unclean (1)"
        failure = Failure(ErrorCode.INVALID_REQUEST, reason)
        exchange.respond(elect_refused(message, failure))
        return
    _elect(exchange, kind, _wanted(message), {})


def _wanted(message: Message) -> tuple[Key, ...] | None:
    topics = message["topic_partitions"]
    if topics is None:
        return None
    return tuple((topic["topic"], index) for topic in topics for index in topic["partitions"])


def _elect(
    exchange: Exchange,
    kind: ElectionKind,
    wanted: tuple[Key, ...] | None,
    found: dict[Key, Failure],
) -> None:
    """Elect, and again if one command was not enough for all."""

    def done(answer: Reply | Refuse) -> None:
        results = answer.value if isinstance(answer, Reply) else None
        if not isinstance(results, Results):
            exchange.respond(elect_refused(exchange.message, failure_of(answer)))
            return
        for item in results.items:
            key: Any = item.name
            found[key] = failure_of(item)
        if results.complete:
            exchange.respond(_elected(found, OK))
        else:
            _elect(exchange, kind, wanted, found)

    exchange.node.command(
        lambda correlation: ElectLeaders(correlation, kind, wanted),
        done,
        timeout_ms=exchange.message["timeout"],
    )


def _elected(found: dict[Key, Failure], failure: Failure) -> Message:
    by_topic: dict[str, list[Message]] = {}
    for (topic, index), result in found.items():
        partition = {"partition_id": index, **result.fields}
        by_topic.setdefault(topic, []).append(partition)
    results = [
        {"topic": topic, "partition_result": partitions} for topic, partitions in by_topic.items()
    ]
    return {**_code(failure), "replica_election_results": results}


def elect_refused(message: Message, failure: Failure) -> Message:
    """Refuse every election; the first version has no place for one error of all."""
    return _elected(dict.fromkeys(_wanted(message) or (), failure), failure)


def alter_reassignments(exchange: Exchange) -> None:
    """Begin to move partitions, or give that up."""
    message = exchange.message
    asked = [(topic["name"], each) for topic in message["topics"] for each in topic["partitions"]]
    failure = too_many(exchange, len(asked))
    if failure is not None:
        exchange.respond(move_refused(message, failure))
        return

    def then(results: list[Failure]) -> None:
        exchange.respond(_moved(message, OK, results))

    gather = Gather(len(asked), then)
    for place, (name, each) in enumerate(asked):
        _move(exchange, name, each, gather, place)


def _move(exchange: Exchange, name: str, asked: Message, gather: Gather, place: int) -> None:
    index, given = asked["partition_index"], asked["replicas"]
    replicas = None if given is None else tuple(given)
    known = exchange.node.deciding.partitions.get((name, index))
    fixed = not exchange.message.get("allow_replication_factor_change", True)
    if fixed and known is not None and replicas and len(replicas) != len(known.target):
        reason = f"{len(replicas)} replicas, where there are {len(known.target)}"
        gather.put(place, Failure(ErrorCode.INVALID_REPLICATION_FACTOR, reason))
        return
    exchange.node.command(
        lambda correlation: AlterReassignment(correlation, name, index, replicas),
        lambda answer: gather.put(place, failure_of(answer)),
        timeout_ms=exchange.message["timeout"],
    )


def _moved(message: Message, failure: Failure, results: Iterable[Failure]) -> Message:
    rest = iter(results)
    return {
        "allow_replication_factor_change": message.get("allow_replication_factor_change", True),
        **failure.fields,
        "responses": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": each["partition_index"], **next(rest).fields}
                    for each in topic["partitions"]
                ],
            }
            for topic in message["topics"]
        ],
    }


def move_refused(message: Message, failure: Failure) -> Message:
    """Refuse every move."""
    count = sum(len(topic["partitions"]) for topic in message["topics"])
    return _moved(message, failure, [failure] * count)


def list_reassignments(exchange: Exchange) -> None:
    """Tell which partitions are being moved; what is durable of it."""
    partitions = exchange.node.committed_image.partitions
    topics = exchange.message["topics"]
    if topics is None:
        keys: Iterable[Key] = partitions.keys()
    else:
        keys = [(topic["name"], index) for topic in topics for index in topic["partition_indexes"]]
    moving = {key for key in keys if key in partitions and partitions[key].reassigning}
    by_topic: dict[str, list[Message]] = {}
    for key in sorted(moving):
        by_topic.setdefault(key[0], []).append(_moving(partitions[key]))
    listed = [{"name": name, "partitions": each} for name, each in by_topic.items()]
    exchange.respond({**OK.fields, "topics": listed})


def _moving(partition: Partition) -> Message:
    return {
        "partition_index": partition.index,
        "replicas": list(partition.replicas),
        "adding_replicas": sorted(partition.adding),
        "removing_replicas": sorted(partition.removing),
    }


def list_refused(message: Message, failure: Failure) -> Message:
    """Refuse to tell."""
    del message
    return {**failure.fields, "topics": []}


TABLE: Final[Table] = {
    Api.ALTER_PARTITION: Handling(alter_partition, alter_refused, forwarded=False),
    Api.ELECT_LEADERS: Handling(elect_leaders, elect_refused),
    Api.ALTER_PARTITION_REASSIGNMENTS: Handling(alter_reassignments, move_refused),
    Api.LIST_PARTITION_REASSIGNMENTS: Handling(list_reassignments, list_refused),
}
