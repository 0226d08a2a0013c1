"""What the controller asks its driver to do, and the values that its replies carry.

The driver appends records to the metadata log and answers with `RecordsCommitted`; it hands replies
and refusals to whoever sent the command. What these look like on the wire is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from protocol.errors import ErrorCode
from protocol.idempotence.fold import ProducerId
from protocol.machine import Effect
from protocol.types import BrokerEpoch, Correlation, NodeId, Offset

if TYPE_CHECKING:
    from protocol.controller.records import Record


@attrs.frozen
class AppendRecords(Effect):
    """Append these records to the metadata log at `base_offset`, all of them or none."""

    base_offset: Offset
    records: tuple[Record, ...]


@attrs.frozen
class Reply(Effect):
    """Tell the sender of a command that it is done, and durably so."""

    correlation: Correlation
    value: object


@attrs.frozen
class Refuse(Effect):
    """Tell the sender of a command that nothing was done, and why."""

    correlation: Correlation
    error: ErrorCode
    message: str


@attrs.frozen
class Registered:
    """To `RegisterBroker`: the broker epoch to use from now on."""

    node: NodeId
    epoch: BrokerEpoch


@attrs.frozen
class HeartbeatAnswer:
    """To `Heartbeat`. A broker that wants to stop should wait for `may_stop`.

    `stranded` counts the partitions that it still leads because nobody else can; if it stops, they
    have no leader until it is back. Whether to wait for a follower to catch up is for it to decide.
    """

    fenced: bool
    may_stop: bool = False
    stranded: int = 0


@attrs.frozen
class ProducerIdBlock:
    """To `AllocateProducerIds`: so many producer ids from `first` on, which nobody else has."""

    first: ProducerId
    count: int


@attrs.frozen
class ItemResult:
    """What became of one topic or partition that a command named."""

    name: object
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    value: object = None


@attrs.frozen
class Results:
    """To a command that names several things: each one is done or refused on its own.

    `complete` is false when the bound on one command was reached: send it again for the rest.
    """

    items: tuple[ItemResult, ...]
    complete: bool = True


@attrs.frozen
class DecommissionProgress:
    """To `Decommission`: how many partitions have been set moving now, and how many are left."""

    node: NodeId
    started: int
    remaining: int
