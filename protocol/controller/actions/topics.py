"""Topics: created, grown, deleted.

A command that names several topics does or refuses each on its own; none is ever half done. Their
settings change in `configs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from protocol.controller.actions.table import Answer, Draft, RefusedError, command
from protocol.controller.decisions import first_of
from protocol.controller.effects import ItemResult, Results
from protocol.controller.events import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
)
from protocol.controller.placement import Placer
from protocol.controller.records import (
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.controller.rules import ControllerRules
from protocol.controller.state import (
    ControllerConfig,
    ControllerState,
    Image,
    Partition,
    Topic,
    TopicConfig,
)
from protocol.errors import ErrorCode
from protocol.types import NodeId

Assignment = tuple[tuple[NodeId, ...], ...]

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def known_topic(image: Image, name: str) -> Topic:
    """Return a topic, or refuse."""
    topic = image.topics.get(name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return topic


def valid_replicas(image: Image, replicas: tuple[NodeId, ...], min_isr: int) -> None:
    """Refuse a list of replicas that nobody could mean."""
    if len(set(replicas)) != len(replicas) or not replicas:
        message = f"{replicas} is not a list of different brokers"
    elif unknown := [node for node in replicas if node not in image.brokers]:
        message = f"there is no broker {unknown[0]}"
    elif len(replicas) < min_isr:
        message = f"{replicas} are fewer than the topic's min ISR, {min_isr}: nobody could write"
    else:
        return
    raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def at_most(limit: int, count: int, what: str) -> None:
    """Refuse a command that asks for too much at once."""
    if count > limit:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"{count} {what} in one command, at most {limit}"
        )


@command("CreateTopics", CreateTopics)
def create_topics(
    rules: ControllerRules,  # noqa: ARG001 - every action is given the same
    state: ControllerState,
    event: CreateTopics,
    now_ms: int,  # noqa: ARG001
) -> Answer:
    """Create topics; each one's result carries its assignment."""
    at_most(state.config.max_items_per_command, len(event.topics), "topics")
    draft = Draft(state.image)
    results = []
    for new in event.topics:
        try:
            assignment = _create(state.config, draft, new)
            results.append(ItemResult(new.name, value=assignment))
        except RefusedError as refused:
            results.append(ItemResult(new.name, refused.error, refused.message))
    if event.validate_only:
        draft = Draft(state.image)
    return Answer(draft, Results(tuple(results)), at_once=not draft.records)


def _create(config: ControllerConfig, draft: Draft, new: NewTopic) -> Assignment:
    if not _NAME.fullmatch(new.name) or new.name in (".", ".."):
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{new.name!r}: a topic's name has 1 to 249 letters, digits, dots, dashes, underscores",
        )
    if new.name in draft.image.topics:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {new.name} already")
    assignment = _assignment(config, draft, new)
    _fits(config, draft, 0, len(assignment))
    for replicas in assignment:
        valid_replicas(draft.image, replicas, min_isr=1)
        _can_begin(draft.image, replicas)
    factor = min(map(len, assignment))
    min_isr = usual_min_isr(config, factor) if new.min_isr is None else new.min_isr
    valid_min_isr(min_isr, factor)
    bounded_settings(config, new.other)
    unclean = new.unclean_election
    unclean = config.default_unclean_election if unclean is None else unclean
    settings = TopicConfig(min_isr, unclean, new.other)
    draft.add(TopicRecord(new.name, new.id, settings))
    _add_partitions(draft, new.name, 0, assignment)
    return assignment


def _assignment(config: ControllerConfig, draft: Draft, new: NewTopic) -> Assignment:
    if new.assignment is not None:
        if new.partitions != -1 or new.replication_factor != -1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "with an assignment, leave both numbers to it (-1)"
            )
        return new.assignment
    count = config.default_partitions if new.partitions == -1 else new.partitions
    factor = new.replication_factor
    factor = config.default_replication_factor if factor == -1 else factor
    # Before placing, which would take as long as the number is large.
    _fits(config, draft, 0, count)
    return _place(Placer(draft.image), count, factor)


def _place(placer: Placer, count: int, factor: int) -> Assignment:
    if not 1 <= factor <= len(placer.brokers):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}, and {len(placer.brokers)} brokers to choose from",
        )
    return tuple(placer.place(factor) for _ in range(count))


def usual_min_isr(config: ControllerConfig, factor: int) -> int:
    """Return the min ISR of a topic that has none of its own: never more than it has replicas."""
    return min(config.default_min_isr, factor)


def valid_min_isr(min_isr: int, factor: int) -> None:
    """Refuse a min ISR that no partition, or not every one, could reach."""
    if not 1 <= min_isr <= factor:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"min.insync.replicas {min_isr} is not between 1 and the number of replicas, {factor}",
        )


def bounded_settings(limits: ControllerConfig, settings: Mapping[str, str]) -> None:
    """Refuse more settings than a topic or a broker may have."""
    chars = sum(len(name) + len(value) for name, value in settings.items())
    if len(settings) > limits.max_settings or chars > limits.max_settings_chars:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"{len(settings)} settings of {chars} characters, at most {limits.max_settings} "
            f"of {limits.max_settings_chars}",
        )


def _fits(config: ControllerConfig, draft: Draft, existing: int, count: int) -> None:
    more = count - existing
    total = len(draft.image.partitions) + more
    if more < 1:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS, f"{count} partitions, where there are {existing}"
        )
    if total > config.max_partitions:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"{total} partitions in the cluster, at most {config.max_partitions}",
        )
    if len(draft.records) + more > config.max_new_partitions_per_command:
        raise RefusedError(
            ErrorCode.POLICY_VIOLATION,
            f"more than {config.max_new_partitions_per_command} partitions in one command",
        )


def _can_begin(image: Image, replicas: tuple[NodeId, ...]) -> None:
    if not any(image.is_available(node) for node in replicas):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"none of {replicas} is alive to begin with"
        )


def _add_partitions(
    draft: Draft, topic: str, first: int, assignment: Iterable[tuple[NodeId, ...]]
) -> None:
    # There is nothing yet that a replica could lack, so all who are alive are in sync.
    for index, replicas in enumerate(assignment, first):
        alive = frozenset(node for node in replicas if draft.image.is_available(node))
        partition = Partition(
            topic,
            index,
            replicas,
            isr=alive,
            leader=first_of(replicas, alive),
            leader_epoch=draft.image.floor.leader_epoch + 1,
            version=draft.image.floor.version + 1,
        )
        draft.add(PartitionRecord(partition))


@command("CreatePartitions", CreatePartitions)
def create_partitions(
    rules: ControllerRules,  # noqa: ARG001
    state: ControllerState,
    event: CreatePartitions,
    now_ms: int,  # noqa: ARG001
) -> Answer:
    """Let a topic grow; the reply is the new partitions' assignment, or what it would be."""
    draft = Draft(state.image)
    topic = known_topic(draft.image, event.topic)
    if any(partition.reassigning for partition in draft.image.of_topic(topic)):
        raise RefusedError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"{topic.name} is being reassigned; wait for that"
        )
    _fits(state.config, draft, topic.partitions, event.count)
    more = event.count - topic.partitions
    if event.assignment is None:
        factor = len(draft.image.partitions[topic.name, 0].replicas)
        assignment = _place(Placer(draft.image), more, factor)
    elif len(event.assignment) == more:
        assignment = event.assignment
    else:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(event.assignment)} lists of replicas for {more} new partitions",
        )
    for replicas in assignment:
        valid_replicas(draft.image, replicas, topic.config.min_isr)
        _can_begin(draft.image, replicas)
    if event.validate_only:
        return Answer(draft, assignment, at_once=True)
    _add_partitions(draft, topic.name, topic.partitions, assignment)
    return Answer(draft, assignment)


@command("DeleteTopics", DeleteTopics)
def delete_topics(
    rules: ControllerRules,  # noqa: ARG001
    state: ControllerState,
    event: DeleteTopics,
    now_ms: int,  # noqa: ARG001
) -> Answer:
    """Delete topics."""
    at_most(state.config.max_items_per_command, len(event.names), "topics")
    draft = Draft(state.image)
    results = []
    for name in event.names:
        try:
            known_topic(draft.image, name)
            draft.add(RemoveTopicRecord(name))
            results.append(ItemResult(name))
        except RefusedError as refused:
            results.append(ItemResult(name, refused.error, refused.message))
    return Answer(draft, Results(tuple(results)), at_once=not draft.records)
