"""A follower's fetch session at the leader (KIP-227 between brokers).

Each partition that a request names becomes one fetch of its replica, which keeps it until there is
something to say. What the replicas say is put together here, and leaves with the wire request that
waits, at most one: a request that comes while another waits has that answered first. So a session
in which nothing happens costs two small messages for each `max_wait_ms`, however many partitions it
has.

An answer for a partition ends its fetch. It is not fetched again until it is named again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final
from uuid import UUID

import attrs

from net.broker.fetching.reading import NO_ROOM, Budget, objection
from net.broker.fetching.seams import Asker, Finder, Key, Served
from net.driving import Timers
from net.wire.fetch import (
    DivergingEpoch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch_answer,
)
from protocol.errors import ErrorCode
from protocol.replication.actions.table import not_leading
from protocol.replication.effects import Refuse, SendDivergence, SendEntries
from protocol.replication.events import FetchReceived
from protocol.replication.state import Status
from protocol.types import BrokerEpoch, Epoch, NodeId, Offset

_LAST_SESSION_EPOCH: Final = 2**31 - 1
_LAG_PARTS: Final = 3
"""A follower that waits has to ask again well before it would be taken for one that lags."""


def next_session_epoch(epoch: int) -> int:
    """After the last one comes 1: 0 begins a session."""
    return epoch % _LAST_SESSION_EPOCH + 1


def refuse(request: Asker, error: ErrorCode) -> None:
    """Answer a whole request with an error."""
    request.reply(encode_fetch_answer(request.version, FetchAnswer([], 0, error)))


@attrs.define(eq=False)
class Fetch:
    """One fetch of one partition: what its replica knows the follower by."""

    session: Session
    key: Key
    name: str
    """What the follower calls it, too: for traces."""

    def answer(self, effect: SendEntries | SendDivergence | Refuse) -> None:
        """Hear what the replica says; called once."""
        self.session.answered(self, effect)

    def __str__(self) -> str:
        return self.name


@attrs.define(eq=False)
class Followed:
    """A partition of the session."""

    partition: Served
    leader_epoch: Epoch = 0
    told_high_watermark: Offset = 0
    fetch: Fetch | None = None


@attrs.define(eq=False)
class Ready:
    """What goes out for a partition; an error alone if it is not here."""

    effect: SendEntries | SendDivergence | Refuse | ErrorCode
    followed: Followed | None = None


@attrs.frozen
class Waiting:
    """The wire request that is not answered yet."""

    request: Asker
    max_bytes: int
    until_ms: int


class Session:
    """What one incarnation of a follower fetches here. A `Timed` of the node's timers."""

    def __init__(
        self,
        session_id: int,
        follower: NodeId,
        broker_epoch: BrokerEpoch,
        finder: Finder,
        timers: Timers,
        idle_ms: int,
        expired: Callable[[Session], None],
    ) -> None:
        self.session_id = session_id
        self.follower = follower
        self.broker_epoch = broker_epoch
        self.next_epoch = 1
        self.patience_ms: int | None = None
        """How long replicas may keep a fetch; `None`: as long as the follower does not lag."""
        self.armed_ms = math.inf
        self._finder = finder
        self._timers = timers
        self._idle_ms = idle_ms
        self._expired = expired
        self._partitions: dict[Key, Followed] = {}
        self._ready: dict[Key, Ready] = {}
        self._waiting: Waiting | None = None
        self._used_ms = timers.clock_ms()
        self._closed = False

    def __len__(self) -> int:
        """Count the partitions."""
        return len(self._partitions)

    @property
    def name(self) -> tuple[int, BrokerEpoch]:
        """What a request says that belongs to this session."""
        return self.session_id, self.broker_epoch

    def take(self, request: Asker, fetch: FetchRequest) -> None:
        """Hear the follower's next request; it is answered now or later."""
        if self._waiting is not None:
            self._reply()
        self._used_ms = self._timers.clock_ms()
        for topic, indexes in fetch.forgotten:
            for index in indexes:
                if isinstance(topic, UUID):
                    self._partitions.pop((topic, index), None)
                    self._ready.pop((topic, index), None)
        name = f"{self.follower}-{self.broker_epoch}-{request.correlation_id}"
        for topic, partitions in fetch.topics:
            if isinstance(topic, UUID):
                for each in partitions:
                    self._begin(topic, each, name)
        until_ms = self._used_ms + max(fetch.max_wait_ms, 0)
        self._waiting = Waiting(request, fetch.max_bytes, until_ms)
        self._timers.watch(self)

    def _begin(self, topic_id: UUID, asked: FetchPartition, name: str) -> None:
        key = (topic_id, asked.partition)
        # What was ready answers a fetch that the follower has given up.
        self._ready.pop(key, None)
        partition = self._finder.find(topic_id, asked.partition)
        if isinstance(partition, ErrorCode):
            self._partitions.pop(key, None)
            self._ready[key] = Ready(partition)
            return
        followed = self._partitions.get(key)
        if followed is None or followed.partition is not partition:
            followed = self._partitions[key] = Followed(partition)
        if partition.state.status is not Status.ONLINE:
            followed.fetch = None
            self._ready[key] = Ready(not_leading(partition.state), followed)
            return
        if followed.leader_epoch != asked.current_leader_epoch:
            followed.leader_epoch = asked.current_leader_epoch
            followed.told_high_watermark = 0
        fetch = followed.fetch = Fetch(self, key, name)
        partition.deliver(self._event(fetch, followed, asked))

    def _event(self, fetch: Fetch, followed: Followed, asked: FetchPartition) -> FetchReceived:
        partition, offset = followed.partition, asked.fetch_offset
        patience_ms = self.patience_ms
        if patience_ms is None:
            patience_ms = max(partition.state.config.replica_lag_max_ms // _LAG_PARTS, 1)
        return FetchReceived(
            fetch,
            self.follower,
            self.broker_epoch,
            asked.current_leader_epoch,
            offset,
            # Kafka's -1 and the protocol's 0 both say that there is no record.
            max(asked.last_fetched_epoch, 0),
            # It has taken over what it was told as far as its log goes, and that is the offset.
            min(followed.told_high_watermark, offset),
            asked.max_bytes,
            1,
            patience_ms,
            # It waits for one byte, so whether there is any is enough, and costs no look at a file.
            int(offset < partition.state.log.end_offset),
        )

    def answered(self, fetch: Fetch, effect: SendEntries | SendDivergence | Refuse) -> None:
        """Hear what a replica says to a fetch, and let it go with the next answer."""
        followed = self._partitions.get(fetch.key)
        if self._closed or followed is None or followed.fetch is not fetch:
            return
        followed.fetch = None
        self._ready[fetch.key] = Ready(effect, followed)
        if self._waiting is not None:
            self._timers.watch(self)

    def next_deadline(self) -> int | None:
        """Tell when to answer: once all that happens at this moment has happened, or in the end."""
        if self._closed:
            return None
        if self._waiting is None:
            return self._used_ms + self._idle_ms
        return self._used_ms if self._ready else self._waiting.until_ms

    def ring(self) -> None:
        """Answer what waits, or end a session that nobody uses."""
        due_ms = self.next_deadline()
        if due_ms is None or due_ms > self._timers.clock_ms():
            return
        if self._waiting is not None:
            self._reply()
        else:
            self._expired(self)

    def answer_now(self) -> None:
        """Answer what waits with what is ready, and end."""
        self._reply()
        self.close()

    def close(self) -> None:
        """End it; nothing that the replicas have said, or say later, leaves."""
        waiting, self._waiting = self._waiting, None
        self._closed = True
        if waiting is not None:
            refuse(waiting.request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._partitions.clear()
        self._ready.clear()

    def _reply(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        self._used_ms = self._timers.clock_ms()
        topics = self._fill(Budget(waiting.max_bytes))
        answer = FetchAnswer(list(topics.items()), self.session_id)
        waiting.request.reply(encode_fetch_answer(waiting.request.version, answer))

    def _fill(self, budget: Budget) -> dict[UUID | str, list[FetchedPartition]]:
        """Take what is ready, in the order in which it became so, as far as there is room."""
        topics: dict[UUID | str, list[FetchedPartition]] = {}
        later: dict[Key, Ready] = {}
        for key, ready in self._ready.items():
            topic_id, index = key
            told = _told(index, ready, budget)
            if told is None:
                later[key] = ready
            else:
                topics.setdefault(topic_id, []).append(told)
        self._ready = later
        return topics


def _told(index: int, ready: Ready, budget: Budget) -> FetchedPartition | None:
    """Put an answer into the words of the wire; `None` if its records have no room."""
    effect, followed = ready.effect, ready.followed
    if isinstance(effect, ErrorCode) or followed is None:
        return FetchedPartition(index, int(effect) if isinstance(effect, ErrorCode) else -1)
    if isinstance(effect, Refuse):
        return FetchedPartition(index, effect.error, log_start_offset=effect.log_start_offset)
    if isinstance(effect, SendDivergence):
        followed.told_high_watermark = 0
        return FetchedPartition(
            index,
            0,
            effect.high_watermark,
            log_start_offset=effect.log_start_offset,
            diverging=DivergingEpoch(effect.end.epoch, effect.end.offset),
        )
    return _entries(index, effect, followed, budget)


def _entries(
    index: int, effect: SendEntries, followed: Followed, budget: Budget
) -> FetchedPartition | None:
    partition = followed.partition
    error = objection(partition, effect)
    if error is not None:
        start_offset = partition.state.log.start_offset
        return FetchedPartition(index, error, log_start_offset=start_offset)
    region = budget.read(partition, effect.offset, effect.end_offset, effect.max_bytes)
    if isinstance(region, ErrorCode):
        return FetchedPartition(index, region, log_start_offset=effect.log_start_offset)
    if region is NO_ROOM:
        return None
    followed.told_high_watermark = effect.high_watermark
    size_bytes = 0 if region is None else len(region)
    partition.counters.replication_bytes_out += size_bytes
    return FetchedPartition(
        index,
        0,
        effect.high_watermark,
        effect.high_watermark,
        effect.log_start_offset,
        records=() if region is None else (region,),
        records_bytes=size_bytes,
    )
