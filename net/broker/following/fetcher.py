"""One broker's fetches from one leader: one connection, and a fetch session on it (KIP-227).

What a replica asks goes out once, with the next request, and then stays with the leader until there
is something to say: an answer for a partition ends its fetch, and only being asked again begins
another. So a request mostly names few partitions or none: it is what answers come back on.

The leader keeps a request for up to `wait_ms`. A partition that is asked for meanwhile does not
wait for that: a second request follows at once, on the same connection, and makes the leader answer
the first. There are never more than two. After an answer, the next request waits for the replicas
that got one, but not for long: mostly they have written it a moment later, and ask again together.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import attrs

from net.broker.following.answers import event_for
from net.broker.following.seams import FetcherConfig, Follower, Key, Line
from net.broker.following.throttle import Throttle
from net.driving import Timers
from net.errors import MalformedRequest, RequestTimedOut
from net.transport.seam import Buffer
from net.wire.apis import Api
from net.wire.fetch import (
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch_answer,
)
from protocol.errors import ErrorCode, RemoteProtocolError
from protocol.replication.effects import SendFetch
from protocol.replication.events import FetchAnswered, FetchRefused
from protocol.types import BrokerEpoch, NodeId

_log = logging.getLogger(__name__)

VERSION: Final = 17
_SESSION_LOST: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)
_LAST_SESSION_EPOCH: Final = 2**31 - 1
_MOST_IN_FLIGHT: Final = 2


@attrs.frozen
class Asked:
    """A replica and what it asks for."""

    partition: Follower
    wanted: SendFetch


@attrs.define(eq=False)
class Flight:
    """A request that the leader has not answered; it belongs to one session."""

    session: int
    is_first: bool
    is_over: bool = False


class Fetcher:
    """All fetches of this broker from one leader. A `Timed` of the node's timers."""

    def __init__(
        self,
        leader: NodeId,
        config: FetcherConfig,
        dial: Callable[[NodeId], Line | None],
        timers: Timers,
        throttle: Throttle[Follower],
        chance: random.Random,
        named: Callable[[Follower, str], None] | None = None,
    ) -> None:
        self.leader = leader
        self.armed_ms = math.inf
        self.members: set[Key] = set()
        """Who asked and was not forgotten."""
        self._config = config
        self._dial = dial
        self._timers = timers
        self._throttle = throttle
        self._chance = chance
        self._named = named
        self._line: Line | None = None
        self._pending: dict[Key, Asked] = {}
        """They go with the next request."""
        self._again: dict[Key, Asked] = {}
        """They ask again for what the leader has not answered yet."""
        self._held: dict[Key, Asked] = {}
        """They are throttled."""
        self._sent: dict[Key, Asked] = {}
        """The leader has them."""
        self._awaited: set[Key] = set()
        """They got an answer and will ask again soon."""
        self._listed: set[Key] = set()
        self._forgotten: set[Key] = set()
        self._flights = 0
        self._sessions = 0
        self._session_id = 0
        self._session_epoch = 0
        self._broker_epoch: BrokerEpoch = 0
        self._linger_ms = 0
        self._failures = 0
        self._not_before_ms = 0
        self._closed = False

    def ask(self, partition: Follower, wanted: SendFetch) -> None:
        """Put a replica's question on its way."""
        key = (partition.topic_id, partition.key.partition)
        self.members.add(key)
        self._forgotten.discard(key)
        self._awaited.discard(key)
        self._held.pop(key, None)
        asked = Asked(partition, wanted)
        if wanted.broker_epoch != self._broker_epoch:
            self._broker_epoch = wanted.broker_epoch
            self._begin_session()
        if key in self._sent:
            # Not before all that is under way has been answered: else nobody could tell which
            # of the two fetches an answer belongs to.
            self._again[key] = asked
        else:
            self._pending[key] = asked
        self._timers.watch(self)

    def forget(self, key: Key) -> None:
        """This partition does not follow that leader any more."""
        self.members.discard(key)
        self._awaited.discard(key)
        for asked in (self._pending, self._again, self._held, self._sent):
            asked.pop(key, None)
        if key in self._listed:
            self._listed.discard(key)
            self._forgotten.add(key)
        self._timers.watch(self)

    def close(self) -> None:
        """Ask nobody any more; nobody hears anything."""
        self._closed = True
        self._drop_line()

    def next_deadline(self) -> int | None:
        """Tell when a request is to be sent."""
        if self._closed:
            return None
        times = []
        if self._may_send():
            soon_ms = self._linger_ms if self._awaited and not self._flights else 0
            times.append(max(soon_ms, self._not_before_ms))
        if self._held:
            times.append(max(self._throttle.ready_ms(), self._not_before_ms))
        return min(times, default=None)

    def _may_send(self) -> bool:
        """Whether there is something to say, or something that the leader may have to say."""
        if not self._flights:
            return bool(self._pending or self._again or self._sent)
        # The second request names the session, so the answer to the first of it has to be here.
        return bool(self._pending) and self._flights < _MOST_IN_FLIGHT and self._session_id > 0

    def ring(self) -> None:
        """Send the next request, if it is time."""
        now_ms = self._timers.clock_ms()
        if self._held and self._throttle.ready_ms() <= now_ms:
            self._pending.update(self._held)
            self._held.clear()
        due_ms = self.next_deadline()
        if due_ms is not None and due_ms <= now_ms:
            self._send()

    def _send(self) -> None:
        if not self._flights:
            self._pending.update(self._again)
            self._again.clear()
        self._hold_back()
        if not self._may_send():
            return
        if self._line is None:
            self._line = self._dial(self.leader)
        if self._line is None:
            self._fail(ErrorCode.BROKER_NOT_AVAILABLE, f"nobody knows where {self.leader} is")
            return
        going, self._pending = self._pending, {}
        self._sent.update(going)
        flight = Flight(self._sessions, self._session_id == 0)
        parts = self._request(going)
        self._listed.update(going)
        self._forgotten = set()
        self._flights += 1
        if self._session_id:
            self._session_epoch = self._session_epoch % _LAST_SESSION_EPOCH + 1
        self._awaited.clear()
        correlation_id = self._line.request(
            Api.FETCH,
            VERSION,
            parts,
            lambda body: self._answered(flight, body),
            lambda error: self._failed(flight, error),
            self._config.wait_ms + self._config.timeout_ms,
        )
        if self._named is not None:
            name = f"{self._config.node}-{self._broker_epoch}-{correlation_id}"
            for key, asked in going.items():
                if self._sent.get(key) is asked:
                    self._named(asked.partition, name)

    def _hold_back(self) -> None:
        throttle = self._throttle
        if throttle.ready_ms() <= self._timers.clock_ms():
            return
        for key, asked in list(self._pending.items()):
            if throttle.holds(asked.partition):
                self._held[key] = self._pending.pop(key)

    def _request(self, going: dict[Key, Asked]) -> Sequence[Buffer]:
        config = self._config
        topics: dict[str | UUID, list[FetchPartition]] = {}
        for (topic_id, index), asked in going.items():
            topics.setdefault(topic_id, []).append(_wire(index, asked.wanted))
        forgotten: dict[str | UUID, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        request = FetchRequest(
            replica_id=config.node,
            replica_epoch=self._broker_epoch,
            # To begin a session takes no longer than need be: no second request can follow yet.
            max_wait_ms=config.wait_ms if self._session_id else 0,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.items()),
            forgotten=list(forgotten.items()),
        )
        return [encode_fetch(VERSION, request)]

    def _answered(self, flight: Flight, body: memoryview) -> None:
        """Take an answer. What is not an answer at all ends the connection (`MalformedRequest`)."""
        answer = parse_fetch_answer(VERSION, body)
        flight.is_over = True
        self._flights -= 1
        self._failures = 0
        if self._closed:
            return
        if flight.session == self._sessions:
            self._take(flight, answer)
        self._timers.watch(self)

    def _take(self, flight: Flight, answer: FetchAnswer) -> None:
        if answer.error_code in _SESSION_LOST:
            _log.info("leader %d knows no session %d", self.leader, self._session_id)
            self._begin_session()
            return
        if answer.error_code:
            self._fail(answer.error_code, f"error {answer.error_code}")
            return
        if flight.is_first:
            if answer.session_id <= 0:
                raise MalformedRequest(f"a fetch session with the id {answer.session_id}")
            self._session_id, self._session_epoch = answer.session_id, 1
        answered = [
            (asked, each)
            for topic, partitions in answer.topics
            if isinstance(topic, UUID)
            for each in partitions
            if (asked := self._sent.pop((topic, each.partition), None)) is not None
        ]
        self._linger_ms = self._timers.clock_ms() + self._config.linger_ms
        self._tell(answered)

    def _tell(self, answered: list[tuple[Asked, FetchedPartition]]) -> None:
        wrong: RemoteProtocolError | None = None
        for asked, answer in answered:
            partition, wanted = asked.partition, asked.wanted
            key = (partition.topic_id, partition.key.partition)
            repeated = self._again.pop(key, None)
            if repeated is not None and repeated.wanted != wanted:
                self._pending[key] = repeated
            event = event_for(wanted, answer, str(partition.key))
            if isinstance(event, FetchAnswered):
                self._throttle.spent(partition, event.size_bytes)
                if key not in self._pending:
                    self._awaited.add(key)
            try:
                partition.deliver(event)
            except RemoteProtocolError as error:
                wrong = error
                self._refuse(asked, ErrorCode.CORRUPT_MESSAGE)
        if wrong is not None:
            raise MalformedRequest(str(wrong)) from wrong

    def _failed(self, flight: Flight, error: Exception) -> None:
        if not flight.is_over:
            flight.is_over = True
            self._flights -= 1
        if self._closed or flight.session != self._sessions:
            return
        late = isinstance(error, RequestTimedOut)
        self._fail(ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.NETWORK_EXCEPTION, str(error))

    def _fail(self, error: int, reason: str) -> None:
        """Give up the connection, and let everybody know whose fetch went with it."""
        if not self._failures:
            _log.warning("no fetches from leader %d: %s", self.leader, reason)
        config = self._config
        pause_ms = min(config.max_backoff_ms, config.backoff_ms << min(self._failures, 16))
        self._failures += 1
        self._not_before_ms = self._timers.clock_ms() + round(
            pause_ms * self._chance.uniform(0.8, 1.2)
        )
        lost = [*self._sent.values()]
        if self._line is None:
            lost += self._pending.values()
            self._pending = {}
        self._sent = {}
        self._begin_session()
        self._drop_line()
        for asked in lost:
            self._refuse(asked, error)
        self._timers.watch(self)

    def _begin_session(self) -> None:
        """Let the next request be the first of a session, with all that the leader had."""
        self._sessions += 1
        self._session_id = self._session_epoch = 0
        self._pending = {**self._sent, **self._pending, **self._again}
        self._sent, self._again = {}, {}
        self._awaited.clear()
        self._listed, self._forgotten = set(), set()

    def _drop_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _refuse(self, asked: Asked, error: int) -> None:
        self._awaited.discard((asked.partition.topic_id, asked.partition.key.partition))
        asked.partition.deliver(FetchRefused(asked.wanted.leader_epoch, error))


def _wire(index: int, wanted: SendFetch) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=wanted.leader_epoch,
        fetch_offset=wanted.offset,
        # Kafka's -1 and the protocol's 0 both say that there is no record.
        last_fetched_epoch=wanted.last_epoch or -1,
        max_bytes=wanted.max_bytes,
    )
