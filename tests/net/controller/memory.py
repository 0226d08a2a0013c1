"""A quorum in memory that commits and refuses when it is told to, for what a real one rarely does.

It has the part of `QuorumNode` that a controller uses, and checks what it is asked for as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from net.controller import ControllerNode
from net.driving import Timers
from net.settings.broker import BrokerSettings
from protocol.controller import ControllerConfig, Image, Record, Refuse, Reply, replay
from protocol.errors import ErrorCode, InvariantViolation
from protocol.replication.trace import Line
from protocol.types import Epoch, NodeId, Offset
from tests.net.controller.world import CLUSTER_ID, GIVEN, NODE


class MemoryQuorum:
    """A log in memory; nothing is committed before `commit`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.proposals: list[int] = []
        self.applied: Offset = 0
        self.epoch: Epoch = 0
        self.leads = False
        self.refusal: ErrorCode | None = None
        self.listeners: list[Any] = []

    @property
    def image(self) -> Image:
        return replay(self.records[: self.applied])

    @property
    def epoch_begins(self) -> tuple[Offset, Epoch]:
        return 0, 0

    @property
    def leader(self) -> tuple[NodeId, Epoch]:
        return (NODE if self.leads else -1), self.epoch

    def add_listener(self, listener: object) -> None:
        self.listeners.append(listener)

    def propose(
        self,
        records: Sequence[Record],
        base_offset: Offset,
        epoch: Epoch,
        refused: Callable[[ErrorCode], None],
    ) -> None:
        if self.refusal is not None:
            refused(self.refusal)
        elif not self.leads or epoch != self.epoch:
            refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif base_offset != len(self.records) or not records:
            refused(ErrorCode.INVALID_REQUEST)
        else:
            self.records.extend(records)
            self.proposals.append(len(records))

    def elect(self) -> None:
        """Let this node lead; all that is in the log is committed then."""
        self.epoch += 1
        self.leads = True
        self.applied = len(self.records)
        for listener in self.listeners:
            listener.elected(self.epoch, self.applied, self.image)

    def depose(self, lost: int = 0) -> None:
        """Let another node lead, which does not have the last few records."""
        self.leads = False
        del self.records[len(self.records) - lost :]
        for listener in self.listeners:
            listener.deposed(self.epoch)

    def commit(self, end_offset: Offset | None = None) -> None:
        """Let all before an offset be committed."""
        start = self.applied
        self.applied = len(self.records) if end_offset is None else end_offset
        new = list(enumerate(self.records))[start : self.applied]
        for listener in self.listeners:
            listener.committed(self.applied, new, self.image)


class Alone:
    """A controller on such a quorum, on a clock that only a test moves."""

    def __init__(self, config: ControllerConfig | None = None) -> None:
        self.now_ms = 1_000
        self.quorum = MemoryQuorum()
        self.timers = Timers(lambda: self.now_ms)
        self.violations: list[InvariantViolation] = []
        self.lines: list[Line] = []
        self.node = ControllerNode(
            self.quorum,
            self.timers,
            BrokerSettings.from_mapping(GIVEN),
            CLUSTER_ID,
            random=Random(1),
            violated=self.violations.append,
            config=config,
            trace=self.lines.append,
        )

    def command(self, make: Callable[[Any], Any], **more: Any) -> list[Reply | Refuse]:
        """Send a command; the list gets its answer."""
        answers: list[Reply | Refuse] = []
        self.node.command(make, answers.append, **more)
        return answers
