"""The driver of one node of the metadata quorum, voter or observer.

It runs `protocol.quorum.Quorum`: writes go to the `MetadataLog`, messages to the `QuorumPeers`, and
what others ask comes in as events whose correlation is the function that takes the answer (see
`net.metadata.apis`). What is committed it folds into an image and tells its listeners, in the order
of the log. It makes no choices of the protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from net.clock import wall_ms
from net.driving import Driver, Timers
from net.metadata.above import Above, Listener, WriteSnapshotOf
from net.metadata.batches import ProposalTooLarge, record_batch
from net.metadata.download import Download
from net.metadata.fetchers import Fetchers
from net.metadata.image import ImageLoader
from net.metadata.log import MetadataLog
from net.metadata.peers import QuorumPeers, SnapshotPart
from net.metadata.storing import QuorumStorage
from net.transport.seam import Endpoint
from protocol.controller.records import Record
from protocol.controller.state import Image
from protocol.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from protocol.machine import Effect, Event, Handled
from protocol.quorum import NOBODY, Leader, Quorum, QuorumConfig, QuorumState, Rules, SnapshotId
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.quorum.log import epoch_at
from protocol.quorum.trace import Line, Tracer
from protocol.types import Epoch, NodeId, Offset
from storage.errors import StorageError

__all__ = ["Listener", "NodeIdentity", "QuorumNode"]

_log = logging.getLogger(__name__)

SNAPSHOT_EVERY_BYTES: Final = 20 * 1024 * 1024
_WRITES: Final = (do.SaveVote, do.Append, do.Truncate, do.InstallSnapshot, do.DeleteBefore)
_SENT: Final = (do.SendVoteRequest, do.AnnounceLeader, do.EndEpoch, do.SendFetch)


@attrs.frozen
class NodeIdentity:
    """Who a node is: its id, the voters of its quorum, and the cluster that they are."""

    node: NodeId
    voters: frozenset[NodeId]
    cluster_id: str
    incarnation: int = 1
    """For the trace: how many times this node has started, this one included."""
    endpoints: Mapping[NodeId, Endpoint] = attrs.field(factory=dict)
    """Where the voters are, for those who ask."""


class QuorumNode:
    """A node of the quorum on its log. Make it, add listeners, `start` it."""

    def __init__(
        self,
        identity: NodeIdentity,
        log: MetadataLog,
        peers: QuorumPeers,
        timers: Timers,
        *,
        failed: Callable[[str], None],
        violated: Callable[[InvariantViolation], None],
        config: QuorumConfig | None = None,
        rules: Rules | None = None,
        snapshot_every_bytes: int = SNAPSHOT_EVERY_BYTES,
        trace: Callable[[Line], None] | None = None,
    ) -> None:
        """Prepare a node; `config.jitter_seed` should be drawn at random, anew at each start.

        `failed` is called once if the disk fails, `violated` if what must never happen did: the
        process should stop then, in either case. `snapshot_every_bytes` is Kafka's
        metadata.log.max.record.bytes.between.snapshots. `trace` gets the lines of
        `protocol.quorum.trace`, each before anything that follows from it is sent.
        """
        self.identity = identity
        self.log = log
        self.fetchers = Fetchers()
        self._peers = peers
        self._timers = timers
        self._violated = violated
        self._snapshot_every_bytes = snapshot_every_bytes
        self._trace = trace
        self._tracer = Tracer(identity.node, identity.incarnation)
        self._machine = Quorum.restarted(
            identity.node,
            identity.voters,
            epoch=log.vote.epoch,
            voted=log.vote.voted,
            log=log.as_protocol(),
            now_ms=timers.clock_ms(),
            config=config,
            rules=rules,
            trace=None if trace is None else self._traced,
        )
        self._driver: Driver[Quorum] | None = None
        self._storage = QuorumStorage(log, self._deliver, failed, timers.clock_ms)
        self._above = Above(log, self._deliver, self._storage.fail)
        self._download: Download | None = None
        self._downloads = 0

    def start(self) -> None:
        """Take part, from what the disk has kept."""
        if self._driver is not None:
            raise ValueError("a node is started once")
        if self._trace is not None:
            self._trace(self._tracer.started(self._machine.state))
        self._driver = Driver(self._machine, self._begin, self._timers, self._break)

    def add_listener(self, listener: Listener) -> None:
        """Tell somebody what happens from now on; before `start`, so that nothing is missed.

        What was known at that time, from a snapshot, is in `image` and `applied`.
        """
        self._above.listeners.append(listener)

    def propose(
        self,
        records: Sequence[Record],
        base_offset: Offset,
        epoch: Epoch,
        refused: Callable[[ErrorCode], None],
    ) -> None:
        """Append records, all or none, as the active controller of `epoch`.

        The first goes to `base_offset`, which is where all that was proposed before ends (at first
        `end_offset` of `elected`). That they are committed is told to the listeners. `refused` is
        called if they were not even begun; then the controller has to resign.
        """

        def answer(effect: Effect) -> None:
            if isinstance(effect, do.Refuse):
                refused(effect.error)

        try:
            batch = record_batch(records, base_offset, epoch, wall_ms())
        except ProposalTooLarge as error:
            _log.error("a proposal is refused: %s", error)
            refused(ErrorCode.MESSAGE_TOO_LARGE)
            return
        if self.is_closed:
            refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self._deliver(e.RecordsProposed(answer, epoch, base_offset, len(records), [batch]))

    def receive(self, event: Event) -> None:
        """Handle what somebody sent; `event.correlation` takes the effect that answers it.

        `RemoteProtocolError` for what no correct peer sends. A node that is stopped refuses.
        """
        if self.is_closed:
            self._refuse(event)
        else:
            self._deliver(event)

    def _refuse(self, waiting: object) -> None:
        """Send away somebody who waits for an answer, if it is somebody."""
        correlation = getattr(waiting, "correlation", None)
        if callable(correlation):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            correlation(do.Refuse(correlation, error, self.state.epoch, NOBODY))

    def stop(self) -> None:
        """Take no part any more; a leader tells the voters, so that they need not find out.

        Who waits is sent away. Listeners hear nothing: whoever stops the node stops them too.
        """
        state, was_closed = self.state, self.is_closed
        self._close()
        if was_closed:
            return
        for waiting in (*state.parked, *state.deferred):
            self._refuse(waiting)
        if isinstance(state.role, Leader):
            for voter in sorted(state.voters - {state.node}):
                self._peers.send(do.EndEpoch(voter, state.epoch), _ignore)

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.close()
        self._above.close()
        if self._download is not None:
            self._download.cancel()

    @property
    def is_closed(self) -> bool:
        """Whether it takes no part: stopped, broken, or not started."""
        return self._driver is None or self._driver.closed

    @property
    def state(self) -> QuorumState:
        """What the quorum's machine knows."""
        return self._machine.state

    @property
    def leader(self) -> tuple[NodeId, Epoch]:
        """Who leads, as far as known, and in which epoch; -1 if nobody is known to."""
        return self.state.leader, self.state.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, active or about to be."""
        return isinstance(self.state.role, Leader)

    @property
    def high_watermark(self) -> Offset:
        """Everything before this is known to be committed; 0 if nothing is known yet."""
        return self.state.high_watermark

    @property
    def applied(self) -> Offset:
        """The image is that of everything before this offset."""
        return self._above.images.offset

    @property
    def image(self) -> Image:
        """The metadata as it was at `applied`."""
        return self._above.images.image

    @property
    def images(self) -> ImageLoader:
        """Whoever wants to hear of changes of the image subscribes here."""
        return self._above.images

    @property
    def epoch_begins(self) -> tuple[Offset, Epoch]:
        """Where the last epoch's entries begin in the log, and the epoch of the entry before."""
        log = self.state.log
        if not log.epochs:
            return log.end_offset, 0
        start = log.epochs[-1][1]
        return start, log.epochs[-2][0] if len(log.epochs) > 1 else 0

    @property
    def caught_up(self) -> bool:
        """Whether a leader is known, and the image has all that it said to be committed."""
        state = self.state
        return state.leader != NOBODY and 0 < state.high_watermark <= self.applied

    def clock_ms(self) -> int:
        """Tell the time by which the machine goes."""
        return self._timers.clock_ms()

    def read(self, offset: Offset, end_offset: Offset, max_bytes: int) -> bytes | None:
        """Read whole batches of the log, at least one if there is one; `None` if that failed."""
        try:
            return self.log.read(offset, end_offset, max_bytes)
        except (OSError, StorageError) as error:
            self._storage.fail(error)
            return None

    def read_snapshot(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> SnapshotPart | None:
        """Read a part of a snapshot, empty beyond its end; `None` if there is none of that name."""
        path, disk = self.log.snapshot_path(snapshot), self.log.disk
        try:
            size_bytes = disk.size(path)
            content = disk.read(path, position, max_bytes) if 0 <= position < size_bytes else b""
        except FileNotFoundError:
            return None
        except OSError as error:
            self._storage.fail(error)
            return None
        return SnapshotPart(snapshot, size_bytes, position, bytes(content))

    def _deliver(self, event: Event) -> None:
        if self._driver is not None:
            self._driver.deliver(event)

    def _told(self, event: Event) -> None:
        """Hear what came of something that was sent."""
        try:
            self._deliver(event)
        except RemoteProtocolError as error:
            _log.warning("node %d heard nonsense: %s", self.identity.node, error)
            if isinstance(event, e.FetchAnswered):
                self._deliver(e.FetchRefused())

    def _break(self, violation: InvariantViolation) -> None:
        self._close()
        self._violated(violation)

    def _traced(self, told: Handled[QuorumState]) -> None:
        line = self._tracer.line(told)
        if line is not None and self._trace is not None:
            self._trace(line)

    def _begin(self, effect: Effect) -> None:
        if isinstance(effect, _WRITES):
            self._storage.carry_out(effect)
        elif isinstance(effect, _SENT):
            self._peers.send(effect, self._told)
        elif isinstance(effect, do.AskForLeader):
            self._peers.send(effect, self._heard_of_leader)
        elif isinstance(effect, do.Committed | do.Elected | do.Deposed):
            self._above.put(effect)
            self._want_snapshot(effect)
        elif isinstance(effect, do.WriteSnapshot):
            epoch = epoch_at(self.state.log, effect.end_offset - 1)
            self._above.put(WriteSnapshotOf(SnapshotId(effect.end_offset, epoch)))
        elif isinstance(effect, do.FetchSnapshot):
            self._fetch_snapshot(effect)
        else:
            answer: Callable[[Effect], None] = _correlation(effect)
            answer(effect)

    def _heard_of_leader(self, event: Event) -> None:
        """Take what a voter says; whom it names as leader of this epoch is asked at once.

        A leader is only believed when it says so itself, and the next voter that the core would
        ask might not be the one.
        """
        self._told(event)
        state = self.state
        if not isinstance(event, e.EpochLearned) or self.is_closed or state.leader != NOBODY:
            return
        named = event.leader in state.voters and event.leader != event.source
        if named and event.epoch == state.epoch:
            self._peers.send(do.AskForLeader(event.leader), self._told)

    def _want_snapshot(self, effect: Effect) -> None:
        if not isinstance(effect, do.Committed) or self._above.is_writing_snapshot:
            return
        start = self.log.loaded.snapshot.end_offset
        grown_bytes = self.log.log.bytes_between(start, effect.end_offset)
        if grown_bytes >= self._snapshot_every_bytes:
            self._deliver(e.SnapshotWanted())

    def _fetch_snapshot(self, effect: do.FetchSnapshot) -> None:
        if self._download is not None:
            self._download.cancel()
        self._downloads += 1
        self._download = Download(
            effect, self._downloads, self.log, self._peers, self._told, self._storage.fail
        )
        self._download.start()


def _correlation(effect: Effect) -> Any:
    """Give the function that takes an answer: whoever asked is behind it."""
    correlation = getattr(effect, "correlation", None)
    if not callable(correlation):
        raise InvariantViolation("DriverKnowsItsEffects", effect, "nobody is there to take it")
    return correlation


def _ignore(event: Event) -> None:
    """Nobody waits for what comes of it."""
