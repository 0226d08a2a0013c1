"""A replica's core on a real log: the loop between the two, as small as it can be."""

from collections import deque
from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.machine import Effect, Event
from protocol.replication import Replica, ReplicaConfig
from protocol.replication.effects import (
    Append,
    DeleteBefore,
    ProduceDone,
    Refuse,
    Reset,
    Truncate,
)
from protocol.replication.events import ACKS_ALL, BecameFollower, BecameLeader, ProduceReceived
from storage.batch.header import Batch
from storage.checkpoint import TopicPartition
from storage.log.log import Log
from storage.replica_log import ReplicaLog
from storage.store import LogStore
from storage.testing.numbered import numbered

STORAGE = (Append, Truncate, Reset, DeleteBefore)


class Driver:
    """One replica of one partition, whose effects for storage are carried out by its log."""

    def __init__(self, store: LogStore, partition: TopicPartition) -> None:
        log, folder = store.log(partition), store.folder_of(partition)
        assert log is not None
        assert folder is not None
        self.log: Log = log
        self.inbox: deque[Event] = deque()
        self.handled: list[Event] = []
        self.effects: list[Effect] = []
        self.now_ms = 1_000
        self.replica = Replica.restarted(
            1,
            1,
            log=log.as_protocol(),
            high_watermark=log.known_high_watermark,
            config=ReplicaConfig(fetch_retry_ms=100),
        )
        self.storage = ReplicaLog(
            log, folder.flusher, self.inbox.append, lambda error: store.fail(partition, error)
        )

    def lead(self, epoch: int = 1) -> None:
        """Become the only replica in sync."""
        self.happen(BecameLeader(epoch, epoch, frozenset({1}), frozenset({1})))

    def follow(self, leader: int = 2, epoch: int = 1) -> None:
        """Follow another replica."""
        self.happen(BecameFollower(leader, epoch))

    def produce(self, client: object, count: int = 1, value_bytes: int = 40) -> None:
        """Send so many batches of one record in one request, for whichever offsets they get."""
        leader = self.replica.state.role
        base = getattr(leader, "reserved_end", 0)
        batches = [numbered(base + each, value_bytes=value_bytes) for each in range(count)]
        self.happen(produced(client, batches))

    def happen(self, *events: Event) -> None:
        """Let these happen one after the other, and all that follows at once."""
        self.inbox.extend(events)
        self.go_on()

    def go_on(self) -> None:
        """Handle what storage has said."""
        while self.inbox:
            event = self.inbox.popleft()
            self.handled.append(event)
            for effect in self.replica.handle(event, self.now_ms):
                if isinstance(effect, STORAGE):
                    self.storage.carry_out(effect, self.now_ms)
                else:
                    self.effects.append(effect)
            due = self.replica.due(self.now_ms)
            self.inbox.extend(each for each in due if each not in self.inbox)

    @property
    def acknowledged(self) -> dict[object, int]:
        """The producers that were told that their records are kept, and where."""
        done = [each for each in self.effects if isinstance(each, ProduceDone)]
        return {each.correlation: each.base_offset for each in done}

    @property
    def refused(self) -> dict[object, ErrorCode]:
        """The producers that were told that they are not."""
        return {each.correlation: each.error for each in self.effects if isinstance(each, Refuse)}


def produced(client: object, batches: Sequence[Batch]) -> ProduceReceived:
    """A producer's request with these batches."""
    size_bytes = sum(len(batch.view) for batch in batches)
    return ProduceReceived(client, ACKS_ALL, batches, len(batches), size_bytes)
