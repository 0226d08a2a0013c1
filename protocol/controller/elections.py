"""Which leaderless partitions could have a leader: found at each step, not by looking at them all.

It says what is due, and takes a decision about it for nobody; see `actions.partitions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from immutables import Map

from protocol.controller.records import (
    BrokerRecord,
    ConfigRecord,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
)
from protocol.controller.rules import ControllerRules
from protocol.controller.state import EMPTY, Image, Key, Partition
from protocol.types import NO_LEADER


def election_due(rules: ControllerRules, image: Image, partition: Partition) -> bool | None:
    """Tell whether a clean (False) or an unclean (True) election is due; None for neither."""
    if partition.leader != NO_LEADER:
        return None
    fenced = image.unavailable(partition)
    candidates = rules.candidates(partition, fenced)
    if candidates:
        return False
    allowed = image.topics[partition.topic].config.unclean_election
    if not rules.may_elect_uncleanly(allowed, partition.leader, candidates):
        return None
    return None if fenced.issuperset(partition.replicas) else True


def all_due(rules: ControllerRules, image: Image) -> Map[Key, bool]:
    """Return every election that is due: a scan, for a controller that has just become active."""
    return _update(rules, image, EMPTY, image.partitions)


def due_after(
    rules: ControllerRules,
    before: Image,
    after: Image,
    due: Map[Key, bool],
    records: Iterable[Record],
) -> Map[Key, bool]:
    """Return the elections that are due after these records, given those due before them."""
    keys = {key for record in records for key in touched(before, after, record)}
    return _update(rules, after, due, keys)


def touched(before: Image, after: Image, record: Record) -> Iterator[Key]:
    """Yield the partitions that a record is about, also when only a broker of theirs changed."""
    if isinstance(record, PartitionRecord):
        yield record.partition.key
    elif isinstance(record, BrokerRecord):
        yield from after.assigned.get(record.registration.node, EMPTY)
    elif isinstance(record, ConfigRecord):
        topic = after.topics[record.topic]
        yield from ((topic.name, index) for index in range(topic.partitions))
    elif isinstance(record, RemoveTopicRecord):
        topic = before.topics[record.name]
        yield from ((topic.name, index) for index in range(topic.partitions))


def _update(
    rules: ControllerRules, image: Image, due: Map[Key, bool], keys: Iterable[Key]
) -> Map[Key, bool]:
    for key in keys:
        partition = image.partitions.get(key)
        unclean = election_due(rules, image, partition) if partition else None
        if unclean is not None:
            due = due.set(key, unclean)
        elif key in due:
            due = due.delete(key)
    return due
