"""What must hold after every step, looked at only where something has changed.

The names are those of `spec/ReplicationProperties.tla` where it has one.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.controller.elections import touched
from protocol.controller.records import ProducerIdsRecord
from protocol.controller.state import ControllerState, Image, Partition
from protocol.errors import InvariantViolation
from protocol.machine import Event
from protocol.types import NO_LEADER


def check_step(event: Event, before: ControllerState, after: ControllerState) -> None:
    """Raise `InvariantViolation` if one of the partitions that changed is not as it must be."""
    if not before.active or not after.active or after.last_records is before.last_records:
        return
    records = after.last_records
    _check_producer_ids(event, before, after)
    keys = {key for record in records for key in touched(before.image, after.image, record)}
    for key in sorted(keys):
        new = after.image.partitions.get(key)
        if new is None:
            continue
        old = before.image.partitions.get(key)
        for name, detail in broken(after.image, old, new):
            raise InvariantViolation(name, event, f"{key[0]}-{key[1]}: {detail}")


def broken(image: Image, old: Partition | None, new: Partition) -> Iterator[tuple[str, str]]:
    """Yield the name of each invariant that a partition breaks, with what it found."""
    if new.leader != NO_LEADER and new.leader not in new.isr:
        yield "LeaderInIsr", f"{new.leader} leads outside {sorted(new.isr)}"
    alive = {node for node, broker in _of(image, new) if broker}
    if fenced := new.isr - alive:
        yield "NoFencedInIsr", f"{sorted(fenced)} are fenced and in sync"
    if not new.isr.issubset(new.replicas):
        yield "TypeOk", f"the ISR {sorted(new.isr)} is not within {new.replicas}"
    if not new.elr.issubset(frozenset(new.replicas) - new.isr):
        yield "TypeOk", f"the ELR {sorted(new.elr)} overlaps the ISR or is not within the replicas"
    if old is None or old == new:
        return
    if new.version <= old.version:
        yield "VersionGrows", f"a change from version {old.version} to {new.version}"
    if new.leader_epoch < old.leader_epoch or (
        new.leader != old.leader and new.leader_epoch == old.leader_epoch
    ):
        yield "SingleLeaderPerEpoch", f"from {old.leader_epoch} to {new.leader_epoch}"


def _of(image: Image, partition: Partition) -> Iterator[tuple[int, bool]]:
    for node in partition.isr:
        broker = image.brokers.get(node)
        yield node, broker is not None and not broker.fenced


def _check_producer_ids(event: Event, before: ControllerState, after: ControllerState) -> None:
    """An id below the next one belongs to somebody, so a new block begins there or later."""
    was, next_id = before.image.next_producer_id, after.image.next_producer_id
    given = any(isinstance(record, ProducerIdsRecord) for record in after.last_records)
    if next_id < was or (given and next_id == was):
        raise InvariantViolation("ProducerIdsOnce", event, f"from {was} on to {next_id}")
