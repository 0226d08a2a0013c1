"""One consumer's fetch, from its request to its answer.

Each partition is asked what it has; if that is not enough (KIP-74's `min_bytes`) the fetch waits
and hears of every change, and those partitions are asked again. The answer leaves when there is
enough, when there is something to say that cannot wait (an error, a log that diverges, a nearer
replica), or when the time is over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from net.broker.fetching.reading import NO_ROOM, Budget, objection
from net.broker.fetching.seams import Asker, Served, Watch
from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch_answer,
)
from net.wire.topics import Topic
from protocol.errors import ErrorCode
from protocol.replication import EpochEnd, Leader
from protocol.replication.actions.table import not_leading
from protocol.replication.effects import Refuse, SendEntries
from protocol.replication.events import ConsumerFetchReceived
from protocol.replication.log import epoch_end
from protocol.replication.state import Status
from protocol.types import NO_LEADER, NodeId
from storage.errors import StorageError

if TYPE_CHECKING:
    from net.broker.fetching.consumers import ConsumerFetches

_READ_COMMITTED: Final = 1
_RACKS_FROM: Final = 11
_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
Told: TypeAlias = SendEntries | EpochEnd | ErrorCode


class Part:
    """One partition of a fetch: what its replica knows the consumer by."""

    __slots__ = ("_fetch", "asked", "is_asked", "nearer", "partition", "told", "topic")

    def __init__(
        self,
        fetch: ConsumerFetch,
        topic: Topic,
        asked: FetchPartition,
        partition: Served | ErrorCode,
    ) -> None:
        self._fetch = fetch
        self.topic = topic
        self.asked = asked
        self.partition = None if isinstance(partition, ErrorCode) else partition
        self.told: Told | None = partition if isinstance(partition, ErrorCode) else None
        self.nearer: NodeId | None = None
        self.is_asked = False

    def ask(self) -> None:
        """Ask the replica what there is now; it answers at once, or when it is free."""
        partition, asked = self.partition, self.asked
        if partition is None or self.is_asked:
            return
        if partition.state.status is not Status.ONLINE:
            self.told = not_leading(partition.state)
            return
        self.is_asked = True
        partition.deliver(
            ConsumerFetchReceived(
                self,
                asked.fetch_offset,
                None if asked.current_leader_epoch < 0 else asked.current_leader_epoch,
                asked.max_bytes,
            )
        )

    def answer(self, effect: SendEntries | Refuse) -> None:
        """Hear what the replica says."""
        self.is_asked = False
        self.told = self._diverging(effect)
        if self.told is None:
            self.told = effect.error if isinstance(effect, Refuse) else effect
        self._fetch.answered()

    def _diverging(self, effect: SendEntries | Refuse) -> EpochEnd | None:
        """KIP-320: a consumer may have read what was cut off later."""
        partition, asked = self.partition, self.asked
        if partition is None or asked.last_fetched_epoch <= 0:
            return None
        leads = isinstance(partition.state.role, Leader)
        if isinstance(effect, Refuse) and not (
            leads and effect.error == ErrorCode.OFFSET_OUT_OF_RANGE
        ):
            return None
        if asked.fetch_offset < partition.state.log.start_offset:
            return None
        end = epoch_end(partition.state.log, asked.last_fetched_epoch)
        differs = end.epoch < asked.last_fetched_epoch or end.offset < asked.fetch_offset
        return end if differs else None

    def limit(self, isolation_level: int) -> int:
        """Tell up to where there is something to read; the fetch offset if there is nothing."""
        told, partition = self.told, self.partition
        if not isinstance(told, SendEntries) or partition is None:
            return self.asked.fetch_offset
        if isolation_level != _READ_COMMITTED:
            return told.end_offset
        stable = partition.log.producers.last_stable_offset(told.high_watermark)
        return max(min(told.end_offset, stable), self.asked.fetch_offset)

    def available(self, isolation_level: int, wanted_bytes: int) -> int:
        """Tell how much there is to read; no more than whether there is any, if that is enough."""
        offset, limit = self.asked.fetch_offset, self.limit(isolation_level)
        if limit <= offset or self.partition is None:
            return 0
        if wanted_bytes <= 1:
            return 1
        try:
            found = self.partition.log.bytes_between(offset, limit)
        except (StorageError, OSError):
            # To read it will fail as well, and the consumer hears of that at once.
            return wanted_bytes
        return max(min(found, self.asked.max_bytes), 0)


class ConsumerFetch:
    """A fetch that is being served. A `Timed` of the node's timers while it waits."""

    def __init__(self, owner: ConsumerFetches, request: Asker, fetch: FetchRequest) -> None:
        self.armed_ms = math.inf
        self._owner = owner
        self._request = request
        self._fetch = fetch
        self._parts: list[Part] = []
        self._watches: list[Watch] = []
        self._changed: dict[Part, None] = {}
        self._parked = False
        self._done = False
        self._now_ms = owner.timers.clock_ms()
        wait_ms = min(max(fetch.max_wait_ms, 0), owner.limits.max_wait_ms)
        self._until_ms = self._now_ms + wait_ms

    def begin(self) -> None:
        """Ask all partitions, and answer or wait."""
        finder, fetch = self._owner.finder, self._fetch
        for topic, partitions in fetch.topics:
            for asked in partitions:
                if isinstance(topic, UUID):
                    found = finder.find(topic, asked.partition)
                else:
                    found = finder.find_by_name(topic, asked.partition)
                part = Part(self, topic, asked, found)
                self._parts.append(part)
                part.ask()
                self._choose_replica(part)
        if any(part.is_asked for part in self._parts):
            # A replica that is amid something else answers in a moment.
            self._park()
        elif self._is_enough() or self._until_ms <= self._now_ms or not self._owner.has_room():
            self.finish()
        else:
            self._park()

    def _choose_replica(self, part: Part) -> None:
        partition, rack = part.partition, self._fetch.rack_id
        if partition is None or not rack or self._request.version < _RACKS_FROM:
            return
        if isinstance(part.told, SendEntries) and isinstance(partition.state.role, Leader):
            nearer = self._owner.choose_replica(partition, rack)
            part.nearer = None if nearer == partition.state.node else nearer

    def _is_enough(self) -> bool:
        fetch, parts = self._fetch, self._parts
        if not parts:
            return True
        missing = fetch.min_bytes
        for part in parts:
            if part.nearer is not None or isinstance(part.told, ErrorCode | EpochEnd):
                return True
            missing -= part.available(fetch.isolation_level, fetch.min_bytes)
        return missing <= 0

    def _park(self) -> None:
        self._parked = True
        self._owner.parked.add(self)
        for part in self._parts:
            if part.partition is not None:
                self._watches.append(part.partition.watch(_Notice(self, part)))
        self._owner.timers.watch(self)

    def changed(self, part: Part) -> None:
        """Hear that a partition may have more or less now; it is asked a little later.

        Then everything has happened that happens at this moment, and one answer has it all.
        """
        self._changed[part] = None
        self._owner.timers.watch(self)

    def answered(self) -> None:
        """A replica that was busy before has answered."""
        if self._parked and not self._done and self._is_enough():
            self.finish()

    def next_deadline(self) -> int | None:
        """Tell when to ask again, or to answer in any case."""
        if self._done or not self._parked:
            return None
        return self._now_ms if self._changed else self._until_ms

    def ring(self) -> None:
        """Ask again what has changed, and answer if that is enough or the time is over."""
        changed, self._changed = self._changed, {}
        for part in changed:
            part.ask()
        if self._done:
            return
        if self._is_enough() or self._owner.timers.clock_ms() >= self._until_ms:
            self.finish()

    def finish(self) -> None:
        """Answer with what there is."""
        if self._done:
            return
        self._done = True
        self._owner.parked.discard(self)
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()
        budget = Budget(min(self._fetch.max_bytes, self._owner.limits.max_bytes))
        topics: list[tuple[Topic, list[FetchedPartition]]] = []
        for part in self._parts:
            if not topics or topics[-1][0] != part.topic:
                topics.append((part.topic, []))
            topics[-1][1].append(self._fetched(part, budget))
        answer = FetchAnswer(topics, node_endpoints=self._endpoints(topics))
        self._request.reply(encode_fetch_answer(self._request.version, answer))

    def _endpoints(
        self, topics: list[tuple[Topic, list[FetchedPartition]]]
    ) -> Sequence[NodeEndpoint]:
        leaders = {
            each.current_leader.leader_id
            for _, partitions in topics
            for each in partitions
            if each.current_leader is not None
        }
        if not leaders:
            return ()
        return self._owner.endpoints_of(sorted(leaders), self._request)

    def _fetched(self, part: Part, budget: Budget) -> FetchedPartition:
        told, partition = part.told, part.partition
        if told is None:
            told = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(told, SendEntries) and partition is not None:
            told = objection(partition, told) or told
        if isinstance(told, ErrorCode) or partition is None:
            return self._error(part, told if isinstance(told, ErrorCode) else ErrorCode.NONE)
        if isinstance(told, EpochEnd):
            state = partition.state
            return FetchedPartition(
                part.asked.partition,
                0,
                state.high_watermark,
                log_start_offset=state.log.start_offset,
                diverging=DivergingEpoch(told.epoch, told.offset),
            )
        return self._entries(part, partition, told, budget)

    def _entries(
        self, part: Part, partition: Served, told: SendEntries, budget: Budget
    ) -> FetchedPartition:
        limit = part.limit(self._fetch.isolation_level)
        if part.nearer is not None:
            limit = told.offset
        region = budget.read(partition, told.offset, limit, told.max_bytes)
        if isinstance(region, ErrorCode):
            return self._error(part, region)
        records = () if region is None or region is NO_ROOM else (region,)
        partition.counters.fetches += 1
        partition.counters.bytes_out += sum(map(len, records))
        aborted: Sequence[AbortedTransaction] | None = None
        if self._fetch.isolation_level == _READ_COMMITTED:
            aborted = _aborted(partition, told, limit) if records else ()
        return FetchedPartition(
            part.asked.partition,
            0,
            told.high_watermark,
            partition.log.producers.last_stable_offset(told.high_watermark),
            told.log_start_offset,
            aborted,
            -1 if part.nearer is None else part.nearer,
            records=records,
            records_bytes=sum(map(len, records)),
        )

    def _error(self, part: Part, error: ErrorCode) -> FetchedPartition:
        partition = part.partition
        leader = self._leader(part) if error in _MOVED else None
        start_offset = -1 if partition is None else partition.state.log.start_offset
        return FetchedPartition(
            part.asked.partition, error, log_start_offset=start_offset, current_leader=leader
        )

    def _leader(self, part: Part) -> CurrentLeader | None:
        """KIP-951: tell the consumer where to go instead."""
        if part.partition is not None and part.partition.state.status is Status.ONLINE:
            view = part.partition.state.view
            return None if view.leader == NO_LEADER else CurrentLeader(view.leader, view.epoch)
        return self._owner.leader_of(part.topic, part.asked.partition)


class _Notice:
    """Tells a fetch which of its partitions has changed."""

    __slots__ = ("_fetch", "_part")

    def __init__(self, fetch: ConsumerFetch, part: Part) -> None:
        self._fetch = fetch
        self._part = part

    def __call__(self) -> None:
        self._fetch.changed(self._part)


def _aborted(partition: Served, told: SendEntries, limit: int) -> tuple[AbortedTransaction, ...]:
    """List the transactions to skip in what was read, which ends in its segment at the latest."""
    log = partition.log
    segment = log.segment_of(told.offset)
    if segment.find(told.offset) is not None:
        limit = min(limit, segment.end_offset)
    return tuple(
        AbortedTransaction(each.producer_id, each.first_offset)
        for each in log.aborted_between(told.offset, limit)
    )
