"""The driver of a controller: `protocol.controller.Controller` on a node of the metadata quorum.

When its node is elected the controller becomes active with the image of all that is committed, and
when it is deposed it resigns; then everybody who waits is told NOT_CONTROLLER. What the controller
decides is proposed to the quorum, and answered when it is committed. A command is a plain call with
a function that takes the answer; it is called once, on the loop, perhaps before the call returns.

A quorum may refuse what the controller has decided while its node goes on to lead: too large, or
too much. The controller cannot go on from such a decision, so it resigns, and becomes active again
with what is committed.

What a command is made from may be read from `deciding` in the same breath: nothing happens between.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from net.controller.proposals import Proposals, Proposer
from net.controller.waiting import Done, Waiting
from net.driving import Driver, Timers
from net.settings.broker import BrokerSettings
from net.settings.derived import controller_config
from net.transport.seam import Endpoint
from protocol.controller import (
    AlterPartition,
    AppendRecords,
    BecameActive,
    BrokerRecord,
    Command,
    Controller,
    ControllerConfig,
    ControllerRules,
    ControllerState,
    Image,
    Record,
    RecordsCommitted,
    Refuse,
    RemoveTopicRecord,
    Reply,
    Resigned,
    TopicRecord,
)
from protocol.controller.trace import ControllerTracer, Told
from protocol.errors import ErrorCode, InvariantViolation
from protocol.machine import Effect
from protocol.replication.trace import Line
from protocol.types import BrokerEpoch, Correlation, Epoch, NodeId, Offset

_log = logging.getLogger(__name__)

_NO_LONGER = "this controller has stopped; what was asked for may last or not"


class Quorum(Proposer, Protocol):
    """What a controller needs of `net.metadata.node.QuorumNode`."""

    @property
    def image(self) -> Image:
        """The metadata as far as committed and known here."""

    @property
    def applied(self) -> Offset:
        """The image is that of everything before this offset."""

    @property
    def leader(self) -> tuple[NodeId, Epoch]:
        """Who leads, as far as known."""

    @property
    def epoch_begins(self) -> tuple[Offset, Epoch]:
        """Where the last epoch's entries begin in the log, and the epoch of the entry before."""

    def add_listener(self, listener: ControllerNode) -> None:
        """Tell a listener what happens."""


class ControllerNode:
    """A controller on its node of the quorum. Make it before the quorum's node is started."""

    def __init__(
        self,
        quorum: Quorum,
        timers: Timers,
        settings: BrokerSettings,
        cluster_id: str,
        *,
        random: Random,
        violated: Callable[[InvariantViolation], None],
        config: ControllerConfig | None = None,
        rules: ControllerRules | None = None,
        trace: Callable[[Line], None] | None = None,
    ) -> None:
        """Prepare a controller; topics get their ids from `random`.

        `violated` is called if what must never happen did: the process should stop then. `trace`
        gets the lines of `protocol.controller.trace`, each before anything follows from it.
        """
        self.settings = settings
        self.cluster_id = cluster_id
        self.config = controller_config(settings) if config is None else config
        self._quorum = quorum
        self._random = random
        self._violated = violated
        self._timers = timers
        self._waiting = Waiting(timers)
        self._resuming: tuple[Epoch, Offset] | None = None
        self._must_look = False
        self.armed_ms = math.inf
        self._proposals: Proposals | None = None
        self._topics: dict[str, str] = {}
        self._topic_ids: dict[str, str] = {}
        self._registered_at: dict[NodeId, tuple[BrokerEpoch, Offset]] = {}
        self._tracer = ControllerTracer()
        self._said: Line = {}
        """What every line of this activation says."""
        self._write_line = trace
        self._proposal_ids: dict[Correlation, str] = {}
        machine = Controller(
            ControllerState(config=self.config),
            ControllerRules() if rules is None else rules,
            None if trace is None else self._traced,
        )
        self._driver: Driver[Controller] = Driver(machine, self._begin, timers, self._stopped)
        quorum.add_listener(self)

    # What others may ask.

    @property
    def is_active(self) -> bool:
        """Whether commands are decided here."""
        return self._driver.machine.state.active and not self._driver.closed

    @property
    def deciding(self) -> Image:
        """The image that the next command is decided by; some of it may not be durable yet."""
        return self._driver.machine.state.image

    @property
    def committed_image(self) -> Image:
        """The image of what is durable, as far as known here."""
        return self._quorum.image

    @property
    def active_node(self) -> NodeId:
        """Who is the active controller, as far as known; -1 if nobody is."""
        return self._quorum.leader[0]

    @property
    def voters(self) -> dict[NodeId, Endpoint]:
        """Where the controllers are."""
        return dict(self.settings.voters)

    @property
    def waiting(self) -> int:
        """How many commands have no answer yet."""
        return len(self._waiting)

    def topic_of(self, topic_id: uuid.UUID) -> str | None:
        """Return the name of the topic that has this id."""
        return self._topics.get(str(topic_id))

    def registered_at(self, node: NodeId, epoch: BrokerEpoch) -> Offset | None:
        """Return an offset at which a broker's registration is in the log, or was before."""
        known = self._registered_at.get(node)
        return known[1] if known is not None and known[0] == epoch else None

    def new_topic_id(self) -> str:
        """Draw an id for a topic."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def command(
        self,
        make: Callable[[Correlation], Command],
        done: Done,
        *,
        timeout_ms: int | None = None,
        proposal_id: str | None = None,
    ) -> None:
        """Let a command be decided; `done` gets the reply once it is durable, or the refusal.

        `proposal_id` is what the trace calls an AlterPartition.
        """
        correlation = self._waiting.add(done, timeout_ms)
        if self._driver.closed:
            self._waiting.answer(Refuse(correlation, ErrorCode.NOT_CONTROLLER, _NO_LONGER))
            return
        if proposal_id is not None and self._write_line is not None:
            self._proposal_ids[correlation] = proposal_id
        self._driver.deliver(make(correlation))

    def close(self) -> None:
        """Decide nothing more, and tell everybody who waits."""
        self._driver.close()
        self._end_proposals()
        self._waiting.refuse_all(ErrorCode.NOT_CONTROLLER, _NO_LONGER)

    # What the quorum tells.

    def elected(self, epoch: Epoch, end_offset: Offset, image: Image) -> None:
        """Become active."""
        self._end_proposals()
        self._resuming = None
        self._proposals = Proposals(self._quorum, epoch, self._refused)
        self._topics = {topic.id: topic.name for topic in image.topics.values()}
        self._topic_ids = {topic.name: topic.id for topic in image.topics.values()}
        # When they registered is not known; who has all of this has seen it.
        self._registered_at = {
            broker.node: (broker.epoch, end_offset - 1) for broker in image.brokers.values()
        }
        if self._write_line is not None:
            self._tracer = ControllerTracer()
            self._said = {"incarnation": epoch, "begins": list(self._quorum.epoch_begins)}
        self._driver.deliver(BecameActive(image, end_offset))

    def deposed(self, epoch: Epoch) -> None:
        """Resign."""
        del epoch
        self._end_proposals()
        self._resuming = None
        self._driver.deliver(Resigned())

    def committed(
        self, end_offset: Offset, records: Sequence[tuple[Offset, Record]], image: Image
    ) -> None:
        """Answer who waited for this."""
        del records, image
        if self._proposals is not None:
            self._proposals.committed(end_offset)
            self._driver.deliver(RecordsCommitted(end_offset))
        self._resume()

    def _end_proposals(self) -> None:
        if self._proposals is not None:
            self._proposals.close()
            self._proposals = None

    def _refused(self, base_offset: Offset, error: ErrorCode) -> None:
        epoch = self._proposals.epoch if self._proposals is not None else 0
        self._end_proposals()
        if error == ErrorCode.INVALID_REQUEST:
            # Only what is not at the log's end is refused so.
            self._driver.close()
            self._stopped(
                InvariantViolation(
                    "ProposedAtTheEnd", self, f"the quorum does not end there: {base_offset}"
                )
            )
            return
        _log.warning("the quorum refuses what was decided: %s", error.name)
        self._driver.deliver(Resigned())
        if error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._resuming = (epoch, base_offset)
            self._must_look = True
            self._timers.watch(self)

    def _resume(self) -> None:
        """Become active again, as soon as all that was not refused is committed."""
        if self._resuming is None or self.is_active:
            return
        epoch, end_offset = self._resuming
        if self._quorum.applied >= end_offset:
            self.elected(epoch, end_offset, self._quorum.image)

    def next_deadline(self) -> int | None:
        """Look at once, but not from amid what is being done, whether to become active again."""
        return 0 if self._must_look else None

    def ring(self) -> None:
        """Become active again, if that is to be."""
        self._must_look = False
        self._resume()

    # What the controller wants done.

    def _begin(self, effect: Effect) -> None:
        if isinstance(effect, AppendRecords):
            self._note(effect)
            if self._proposals is not None:
                self._proposals.add(effect.base_offset, effect.records)
        elif isinstance(effect, Reply | Refuse):
            self._waiting.answer(effect)
        else:
            raise TypeError(f"a controller has no effect {type(effect).__name__}")

    def _note(self, append: AppendRecords) -> None:
        for offset, record in enumerate(append.records, append.base_offset):
            if isinstance(record, TopicRecord):
                self._topics[record.id] = record.name
                self._topic_ids[record.name] = record.id
            elif isinstance(record, RemoveTopicRecord):
                self._topics.pop(self._topic_ids.pop(record.name), None)
            elif isinstance(record, BrokerRecord):
                broker = record.registration
                if self.registered_at(broker.node, broker.epoch) is None:
                    self._registered_at[broker.node] = (broker.epoch, offset)

    def _stopped(self, violation: InvariantViolation) -> None:
        self._end_proposals()
        self._waiting.refuse_all(ErrorCode.NOT_CONTROLLER, _NO_LONGER)
        self._violated(violation)

    def _traced(self, told: Told) -> None:
        event = told.event
        received = None
        if isinstance(event, AlterPartition):
            received = self._proposal_ids.pop(event.correlation, None)
        if self._write_line is None or not told.after.active:
            return
        said = dict(self._said)
        for effect in told.effects:
            if isinstance(effect, AppendRecords):
                said["offset"] = effect.base_offset
        for line in self._tracer.lines(told, received):
            self._write_line(line | said)
