"""Asks brokers for records: one request to each at a time, for all its partitions that want more.

A partition is asked for again when all that it brought is read, so what is held is bounded by
`max_bytes` for each broker. Fetch sessions are not used.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import attrs

from net.channel import Channel
from net.client.cluster import Cluster
from net.client.consuming.fetched import Fetched
from net.client.consuming.positions import Position
from net.client.errors import KafkaError, NoOffset
from net.client.topology import NO_ID
from net.client.versions import choose
from net.clock import now_ms
from net.errors import MalformedRequest
from net.wire.apis import Api
from net.wire.fetch import (
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch_answer,
)
from protocol.errors import ErrorCode
from protocol.idempotence.rules import RETRIABLE

_INCONSISTENT_TOPIC_ID: Final = 103
_PASSING: Final = RETRIABLE | {
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    _INCONSISTENT_TOPIC_ID,
}
_BY_NAME: Final = 12
"""The newest version in which topics are named; later ones have their ids."""


@attrs.frozen
class FetchConfig:
    """How much to ask for, and how long a broker may wait for it."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_partition_bytes: int = 1024 * 1024
    committed: bool = False
    rack: str = ""
    reset_ms: int | None = -1
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    preferred_for_ms: int = 300_000


class _Asked(NamedTuple):
    """What was asked for one partition."""

    position: Position
    generation: int
    offset: int
    leader_epoch: int

    @property
    def is_current(self) -> bool:
        """Whether the position is still where it was."""
        return self.position.generation == self.generation


class Fetcher:
    """Sends fetches; `woken` is called when something has changed for the reader."""

    def __init__(
        self,
        cluster: Cluster,
        config: FetchConfig,
        woken: Callable[[], None],
        open_channel: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._woken = woken
        self._open_channel = open_channel
        self._busy: set[int] = set()

    def fetch(self, positions: Iterable[Position]) -> None:
        """Ask for all that is wanted, of brokers that have nothing to answer."""
        now = now_ms()
        by_broker: dict[int, list[Position]] = {}
        for position in positions:
            if not position.may_fetch(now):
                continue
            broker_id = self._source(position, now)
            if broker_id is not None and broker_id not in self._busy:
                by_broker.setdefault(broker_id, []).append(position)
        for broker_id, wanted in by_broker.items():
            channel = self._cluster.channel(broker_id)
            if channel is None or channel.versions is None:
                self._open_channel(broker_id)
            else:
                self._send(broker_id, channel, wanted)

    def _source(self, position: Position, now: int) -> int | None:
        """Who is to be read from: the replica that the leader named, for a while, or the leader."""
        leader = self._cluster.leader(position.topic, position.partition)
        if leader is None:
            self._cluster.expire()
            return None
        if position.preferred in self._cluster.brokers and now < position.preferred_until_ms:
            return position.preferred
        position.preferred = -1
        return leader.leader

    def _send(self, broker_id: int, channel: Channel, wanted: list[Position]) -> None:
        topics = self._cluster.info.topics
        ids = {topic: topics[topic].id for topic in {each.topic for each in wanted}}
        newest = _BY_NAME if NO_ID in ids.values() else None
        version = choose(channel.versions or {}, Api.FETCH, newest)
        by_topic: dict[str, list[FetchPartition]] = {}
        asked: dict[tuple[str, int], _Asked] = {}
        for position in wanted:
            if position.offset is None:
                raise RuntimeError(f"{position.topic}-{position.partition} has no position")
            leader = self._cluster.leader(position.topic, position.partition)
            epoch = -1 if leader is None else leader.leader_epoch
            by_topic.setdefault(position.topic, []).append(
                FetchPartition(
                    position.partition,
                    position.offset,
                    self._config.max_partition_bytes,
                    epoch,
                )
            )
            place = (position.topic, position.partition)
            asked[place] = _Asked(position, position.generation, position.offset, epoch)
            position.fetching = True
        config = self._config
        request = FetchRequest(
            config.max_wait_ms,
            config.min_bytes,
            [
                (ids[topic] if version > _BY_NAME else topic, partitions)
                for topic, partitions in by_topic.items()
            ],
            max_bytes=config.max_bytes,
            isolation_level=int(config.committed),
            rack_id=config.rack,
        )
        names = {each: name for name, each in ids.items()}

        def on_answer(body: memoryview) -> None:
            found = _by_place(parse_fetch_answer(version, body), names)
            self._busy.discard(broker_id)
            for place, each in asked.items():
                if each.is_current:
                    each.position.fetching = False
                    self._take(each, broker_id, found.get(place))
            self._woken()

        def on_failure(error: Exception) -> None:
            del error
            self._busy.discard(broker_id)
            self._cluster.expire()
            for each in asked.values():
                if each.is_current:
                    each.position.fetching = False
                    self._rest(each.position)
            self._woken()

        self._busy.add(broker_id)
        timeout_ms = config.max_wait_ms + config.request_timeout_ms
        body = encode_fetch(version, request)
        channel.request(Api.FETCH, version, [body], on_answer, on_failure, timeout_ms)

    def _take(self, asked: _Asked, broker_id: int, found: FetchedPartition | None) -> None:
        position = asked.position
        if found is None:
            self._rest(position)
            return
        code = found.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(position, broker_id, asked.offset)
        elif code in _PASSING:
            self._cluster.expire()
            self._rest(position)
        elif code != ErrorCode.NONE:
            position.error = KafkaError(code, f"{position.topic}-{position.partition}")
        else:
            self._keep(asked, found)

    def _keep(self, asked: _Asked, found: FetchedPartition) -> None:
        position = asked.position
        # Only who leads in that epoch, or follows it, has answered.
        position.validated_epoch = asked.leader_epoch
        position.high_watermark = found.high_watermark
        if found.preferred_read_replica >= 0:
            position.preferred = found.preferred_read_replica
            position.preferred_until_ms = now_ms() + self._config.preferred_for_ms
        if found.records_bytes:
            # The answer's bytes are the channel's again when this returns.
            data = b"".join(found.records)
            aborted = found.aborted if self._config.committed else None
            position.fetched = Fetched(
                position.topic, position.partition, asked.offset, data, aborted
            )

    def _out_of_range(self, position: Position, broker_id: int, offset: int) -> None:
        if position.preferred == broker_id:
            # A follower may lag behind; only its leader knows.
            position.preferred = -1
        elif self._config.reset_ms is None:
            position.error = NoOffset(
                f"{position.topic}-{position.partition} has no offset {offset}"
            )
        else:
            position.jump(None, self._config.reset_ms)

    def _rest(self, position: Position) -> None:
        position.preferred = -1
        position.retry_ms = now_ms() + self._config.retry_backoff_ms


def _by_place(
    answer: FetchAnswer, names: Mapping[uuid.UUID, str]
) -> dict[tuple[str, int], FetchedPartition]:
    if answer.error_code:
        raise MalformedRequest(f"a fetch without a session was answered with {answer.error_code}")
    return {
        (topic if isinstance(topic, str) else names.get(topic, ""), each.partition): each
        for topic, partitions in answer.topics
        for each in partitions
    }
