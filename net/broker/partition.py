"""One partition at one broker: its replica, its producers' sequences and its log, put together.

Requests become events of the two machines, their effects become writes and answers. A request is
known to the machines by its correlation, an object with `answer(effect)`, which is called once with
the effect that ends it. What an answer looks like on the wire is not known here, nor where fetches
and proposals go: `Outside` takes those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

import attrs

from net.broker.remembered import snapshot_of
from net.broker.tracing import ReplicaTrace, Write
from net.clock import wall_ms
from net.driving import Driver, Timers
from net.metrics.counters import PartitionCounters
from net.transport.seam import FileRegion
from protocol.errors import ErrorCode, InvariantViolation
from protocol.idempotence import Sequences
from protocol.idempotence import effects as sequence_effects
from protocol.idempotence import events as sequence_events
from protocol.machine import Effect, Event
from protocol.replication import Leader, Replica, ReplicaState
from protocol.replication.effects import (
    Append,
    DeleteBefore,
    FindOffset,
    ForgetLog,
    ProduceDone,
    Refuse,
    Reset,
    SendFetch,
    SendProposal,
    Truncate,
)
from protocol.replication.events import (
    Appended,
    AppendsRefused,
    ProduceReceived,
    RetentionDeleted,
)
from protocol.types import BrokerEpoch, NodeId
from storage.batch.header import LENGTH_FROM, Batch, Header
from storage.checkpoint import TopicPartition
from storage.flusher import Flusher
from storage.log.log import Log
from storage.replica_log import ReplicaLog


class Answerable(Protocol):
    """A correlation: somebody who waits for one effect."""

    def answer(self, effect: Any) -> None:
        """Hear what came of it; called exactly once."""


class Produce(Answerable, Protocol):
    """A producer's batch. Its bytes are needed only until `produce` returns."""

    header: Header
    batch: Batch
    acks: int
    timeout_ms: int


class Outside(Protocol):
    """What a partition needs of the broker around it."""

    def send_fetch(self, partition: Partition, wanted: SendFetch) -> None:
        """Ask another broker."""

    def role_changed(self, partition: Partition) -> None:
        """It leads, or follows somebody else."""

    def send_proposal(self, partition: Partition, wanted: SendProposal) -> None:
        """Ask the controller."""

    def forget_log(self, partition: Partition) -> None:
        """Delete the files."""

    def violated(self, partition: Partition, violation: InvariantViolation) -> None:
        """Stop the broker."""

    def disk_failed(self, partition: Partition, error: Exception) -> None:
        """Take the partition's folder offline."""


@attrs.frozen
class Duplicate:
    """Effect for a producer: its batch was in the log already."""

    base_offset: int
    log_start_offset: int


@attrs.define(eq=False)
class Watch:
    """Somebody who wants to know when there may be more to read."""

    call: Callable[[], None]
    watched: dict[Watch, None]

    def cancel(self) -> None:
        """Want to know no more."""
        self.watched.pop(self, None)


class Partition:
    """A replica that runs."""

    def __init__(
        self,
        key: TopicPartition,
        topic_id: UUID,
        replica: Replica,
        log: Log,
        flusher: Flusher,
        timers: Timers,
        outside: Outside,
        sequences: Sequences | None = None,
        wall: Callable[[], int] = wall_ms,
        trace: Write | None = None,
    ) -> None:
        """`trace` takes the lines of `hwmark validate`, if they are wanted."""
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.counters = PartitionCounters()
        self.outside = outside
        self._timers = timers
        self._wall = wall
        self._storage = ReplicaLog(log, flusher, self._stored, self._failed)
        self._appending: deque[tuple[int, int]] = deque()
        """Producer id and base offset of each batch that storage has not answered."""
        self._watched: dict[Watch, None] = {}
        self._seen = replica.state
        self.trace: ReplicaTrace | None = None
        if trace is not None:
            self.trace = ReplicaTrace(key, replica.state, trace)
            replica.trace = self.trace.told
        self.replica = Driver(replica, self._begin, timers, self._violated, self._settled)
        self.sequences = Driver(
            sequences or Sequences.restarted(), self._begin_sequence, timers, self._violated
        )

    @property
    def state(self) -> ReplicaState:
        """What the replica knows."""
        return self.replica.machine.state

    @property
    def leads(self) -> bool:
        """Whether this replica leads."""
        return isinstance(self.replica.machine.state.role, Leader)

    def deliver(self, event: Event) -> None:
        """Let the replica handle an event."""
        self.replica.deliver(event)

    def produce(self, asked: Produce) -> None:
        """Append a batch that has been checked, unless its sequence says otherwise."""
        header = asked.header
        if header.producer_id < 0:
            self._append(asked)
            return
        state = self.state
        if self.sequences.machine.state.high_watermark < state.high_watermark:
            self.sequences.deliver(sequence_events.HighWatermarkAdvanced(state.high_watermark))
        if not isinstance(state.role, Leader):
            self._append(asked)
            return
        self.sequences.deliver(
            sequence_events.BatchArrived(
                asked,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
                asked.acks < 0,
                asked.timeout_ms,
            )
        )

    def _append(self, asked: Produce) -> None:
        header = asked.header
        # Who wants no answer is refused like the others here, so that its sequences are too.
        acks = asked.acks or 1
        self.replica.deliver(
            ProduceReceived(
                asked,
                acks,
                (asked.batch,),
                header.last_offset_delta + 1,
                header.length + LENGTH_FROM,
                asked.timeout_ms,
            )
        )

    def read(self, offset: int, end_offset: int, max_bytes: int) -> FileRegion | None:
        """Find whole batches and keep their file until they are sent; `None` if there are none."""
        found = self.log.read(offset, end_offset, max_bytes)
        if found is None:
            return None
        return FileRegion(self.log.disk.pin(found.path), found.position, found.length)

    def available_bytes(self, offset: int) -> int:
        """Tell how much there is from this offset on, as far as is easy to tell."""
        log = self.log
        if offset >= log.end_offset:
            return 0
        return log.bytes_between(offset, log.end_offset)

    def watch(self, call: Callable[[], None]) -> Watch:
        """Let somebody know whenever there may be more to read, or less."""
        watch = Watch(call, self._watched)
        self._watched[watch] = None
        return watch

    def broker_epochs(self) -> dict[NodeId, BrokerEpoch]:
        """Tell the incarnations that a leader knows: its own and those that have fetched."""
        state = self.state
        known = {state.node: state.broker_epoch}
        if isinstance(state.role, Leader):
            known |= {each.node: each.broker_epoch or -1 for each in state.role.followers}
        return known

    def proposal_sent(self, name: str | None) -> None:
        """Hear under which name the last proposal went to the controller; `None`: it did not."""
        if self.trace is not None:
            self.trace.proposal_sent(name)

    def fetch_sent(self, name: str | None) -> None:
        """Hear under which name the last fetch went to the leader; `None`: it never will."""
        if self.trace is not None:
            self.trace.fetch_sent(name)

    def retained(self, start_offset: int) -> None:
        """Hear that storage has deleted what was old."""
        self.deliver(RetentionDeleted(start_offset))

    def close(self) -> None:
        """Use the machines no more."""
        self.replica.close()
        self.sequences.close()
        if self.trace is not None:
            self.trace.close()

    def _begin(self, effect: Effect) -> None:
        match effect:
            case Append():
                if effect.epoch:
                    batch: Batch = effect.payload[0]  # type: ignore[index]
                    self._appending.append((batch.header.producer_id, effect.base_offset))
                else:
                    fetched: Sequence[Batch] = effect.payload  # type: ignore[assignment]
                    size_bytes = sum(each.header.size_bytes for each in fetched)
                    self.counters.replication_bytes_in += size_bytes
                self._storage.carry_out(effect, self._wall())
            case ProduceDone():
                effect.correlation.answer(effect)  # type: ignore[attr-defined]
            case Truncate() | Reset() | DeleteBefore():
                self._storage.carry_out(effect, self._wall())
            case SendFetch():
                self.outside.send_fetch(self, effect)
            case SendProposal():
                self.outside.send_proposal(self, effect)
            case ForgetLog():
                self.outside.forget_log(self)
            case FindOffset():
                self._find_offset(effect)
            case Refuse():
                self._refuse(effect)
            case _:
                effect.correlation.answer(effect)  # type: ignore[attr-defined]

    def _refuse(self, effect: Refuse) -> None:
        asked: Any = effect.correlation
        header: Header | None = getattr(asked, "header", None)
        if header is not None:
            self.counters.rejected += 1
        if header is not None and header.producer_id >= 0:
            # Of a batch that was written already, the sequences take no notice.
            refused = sequence_events.BatchRefused(header.producer_id, asked)
            self.sequences.deliver(refused)
        asked.answer(effect)

    def _find_offset(self, effect: FindOffset) -> None:
        found = self.log.find_time(effect.timestamp_ms, effect.end_offset)
        effect.correlation.answer(found)  # type: ignore[attr-defined]

    def _begin_sequence(self, effect: Effect) -> None:
        match effect:
            case sequence_effects.Accept(asked):
                self._append(asked)  # type: ignore[arg-type]
            case sequence_effects.AlreadyAppended(asked, base_offset):
                start = self.state.log.start_offset
                asked.answer(Duplicate(base_offset, start))  # type: ignore[attr-defined]
            case sequence_effects.Refuse(asked, error):
                self.counters.rejected += 1
                if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    # It waited for a batch in the log, and must not hear that nothing was written.
                    error = ErrorCode.REQUEST_TIMED_OUT
                asked.answer(Refuse(asked, error))  # type: ignore[attr-defined]
            case _:
                # A snapshot that tells of what was cut off: storage has dropped it by itself.
                pass

    def _stored(self, event: Event) -> None:
        """Hear from storage. The sequences are told first, so that they know what is answered."""
        if isinstance(event, Appended):
            if self._appending:
                producer_id, base_offset = self._appending.popleft()
                if producer_id >= 0:
                    self.sequences.deliver(sequence_events.BatchAppended(producer_id, base_offset))
        elif isinstance(event, AppendsRefused):
            self._appending.clear()
            self.sequences.deliver(sequence_events.AppendsRefused())
        self.replica.deliver(event)

    def _settled(self) -> None:
        """Tell those who depend on the replica what has changed."""
        before, after = self._seen, self.replica.machine.state
        if after is before:
            return
        self._seen = after
        if before.view.epoch != after.view.epoch or type(before.role) is not type(after.role):
            self._role_changed(after)
        committed = after.high_watermark
        if committed != before.high_watermark:
            self.log.committed(committed)
            sequences = self.sequences
            if sequences.machine.state.parked:
                sequences.deliver(sequence_events.HighWatermarkAdvanced(committed))
        elif (
            before.log.start_offset == after.log.start_offset
            and before.view.epoch == after.view.epoch
            and before.status is after.status
        ):
            return
        if self._watched:
            for watch in tuple(self._watched):
                watch.call()

    def _role_changed(self, state: ReplicaState) -> None:
        self._appending.clear()
        self.outside.role_changed(self)
        if not isinstance(state.role, Leader):
            self.sequences.deliver(sequence_events.LeadershipEnded())
            return
        end_offset, committed = state.log.end_offset, state.high_watermark
        snapshot = snapshot_of(self.log, self._timers.clock_ms())
        self.sequences.deliver(sequence_events.LeadershipBegun(snapshot, (), end_offset, committed))

    def _violated(self, violation: InvariantViolation) -> None:
        self.close()
        self.outside.violated(self, violation)

    def _failed(self, error: Exception) -> None:
        self.outside.disk_failed(self, error)
