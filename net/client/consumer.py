"""A consumer of partitions that it is told to read. Groups are not here.

    async with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([("topic", 0)])
        for record in await consumer.poll(timeout_ms=1000): ...

Fetching goes on between polls, one answer ahead for each partition. When a leader changes, the
position is compared with its log (KIP-320): if that was cut, reading goes on where it was cut, or,
without a reset policy, `LogTruncated` is raised.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import trio

from net.client.config import ConnectionConfig
from net.client.consuming.fetched import ConsumerRecord
from net.client.consuming.fetcher import FetchConfig, Fetcher
from net.client.consuming.positions import Position
from net.client.errors import (
    ClientError,
    ClientTimedOut,
    KafkaError,
    LogTruncated,
    NoOffset,
    UnsupportedApi,
)
from net.client.offsets import (
    EARLIEST,
    LATEST,
    EpochEnd,
    ListedOffset,
    Place,
    ask_epochs,
    ask_offsets,
    list_offsets,
)
from net.client.session import Session
from net.clock import now_ms
from net.errors import BadSetting, NetError
from net.transport.seam import Network
from protocol.errors import ErrorCode
from protocol.idempotence.rules import RETRIABLE

_log = logging.getLogger(__name__)

Reset = Literal["earliest", "latest", "none"]
_RESETS: Final[dict[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_ISOLATION: Final = {"read_uncommitted": False, "read_committed": True}


class Consumer(Session):
    """Reads partitions, each in order."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        auto_offset_reset: Reset = "latest",
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        client_rack: str = "",
        client_id: str = "hwmark-consumer",
        network: Network | None = None,
        chance: random.Random | None = None,
    ) -> None:
        if auto_offset_reset not in _RESETS:
            raise BadSetting(f"auto_offset_reset: {auto_offset_reset!r}")
        if isolation_level not in _ISOLATION:
            raise BadSetting(f"isolation_level: {isolation_level!r}")
        config = ConnectionConfig(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            auto_create_topics=False,
        )
        super().__init__(bootstrap, config, network, chance)
        self._reset_ms = _RESETS[auto_offset_reset]
        self._fetching = FetchConfig(
            max_wait_ms=fetch_max_wait_ms,
            min_bytes=fetch_min_bytes,
            max_bytes=fetch_max_bytes,
            max_partition_bytes=max_partition_fetch_bytes,
            committed=_ISOLATION[isolation_level],
            rack=client_rack,
            reset_ms=self._reset_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
        )
        self._positions: dict[Place, Position] = {}
        self._opening: set[int] = set()
        self._looking = False
        self._woken = trio.Event()

    def _start(self) -> None:
        self._fetcher = Fetcher(self.cluster, self._fetching, self._wake, self._open_channel)

    def _topology_changed(self) -> None:
        self._wake()

    def _wake(self) -> None:
        self._woken.set()

    @property
    def assignment(self) -> tuple[Place, ...]:
        """The partitions that are read."""
        return tuple(self._positions)

    def assign(self, places: Iterable[Place]) -> None:
        """Read these partitions and no others; those that were read already keep their place."""
        wanted = dict.fromkeys(places)
        for topic in {topic for topic, _ in wanted}:
            self.cluster.want(topic)
        old = self._positions
        self._positions = {
            place: old.get(place) or Position(*place, self._reset_ms) for place in wanted
        }

    def _position(self, topic: str, partition: int) -> Position:
        found = self._positions.get((topic, partition))
        if found is None:
            raise ClientError(f"{topic}-{partition} is not assigned")
        return found

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read on from this offset."""
        if offset < 0:
            raise ValueError(f"offset {offset}")
        self._position(topic, partition).jump(offset)
        self._wake()

    def seek_to_beginning(self, *places: Place) -> None:
        """Read on from the first record; of all partitions if none are named."""
        self._seek_to_end_of(places, EARLIEST)

    def seek_to_end(self, *places: Place) -> None:
        """Read on behind the last record; of all partitions if none are named."""
        self._seek_to_end_of(places, LATEST)

    def _seek_to_end_of(self, places: Iterable[Place], reset_ms: int) -> None:
        for place in tuple(places) or self.assignment:
            self._position(*place).jump(None, reset_ms)
        self._wake()

    def pause(self, *places: Place) -> None:
        """Give no records of these until they are resumed."""
        for place in places:
            self._position(*place).paused = True

    def resume(self, *places: Place) -> None:
        """Give records of these again."""
        for place in places:
            self._position(*place).paused = False
        self._wake()

    async def position(self, topic: str, partition: int, timeout_ms: int = 60_000) -> int:
        """Return the offset of the next record that `poll` will give; look it up if need be."""
        deadline_ms = now_ms() + timeout_ms
        while True:
            found = self._position(topic, partition)
            if found.offset is not None:
                return found.offset
            self._raise_errors()
            if now_ms() >= deadline_ms:
                raise ClientTimedOut(f"{topic}-{partition}: no offset was told")
            await self._progress(deadline_ms)

    async def offsets_for_times(
        self, times_ms: Mapping[Place, int], timeout_ms: int = 60_000
    ) -> dict[Place, ListedOffset | None]:
        """Find the first record at or after each time; None where there is no such record."""
        found = await list_offsets(
            self.cluster, times_ms, timeout_ms, committed=self._fetching.committed
        )
        return {place: each if each.offset >= 0 else None for place, each in found.items()}

    async def poll(self, max_records: int = 500, timeout_ms: int = 1000) -> list[ConsumerRecord]:
        """Return the next records, as soon as there are any; none if the time is over."""
        self._check_open()
        deadline_ms = now_ms() + timeout_ms
        while True:
            self._raise_errors()
            records = self._take(max_records)
            self._fetch()
            if records or now_ms() >= deadline_ms:
                await trio.lowlevel.checkpoint()
                return records
            await self._progress(deadline_ms)

    def _take(self, count: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for place, position in list(self._positions.items()):
            fetched = position.fetched
            if fetched is None or position.paused:
                continue
            if len(records) >= count:
                break
            try:
                taken = fetched.take(count - len(records))
            except ClientError as error:
                position.fetched, position.error = None, error
                continue
            records += taken
            position.offset = fetched.next_offset
            position.epoch = max(fetched.epoch, position.epoch)
            if len(records) < count:
                position.fetched = None
            # Who was served goes to the end, here and in the next request.
            self._positions[place] = self._positions.pop(place)
        return records

    def _raise_errors(self) -> None:
        for position in self._positions.values():
            if position.offset is None and position.reset_ms is None and position.error is None:
                position.error = NoOffset(f"{position.topic}-{position.partition} has no position")
            if position.error is not None:
                error, position.error = position.error, None
                raise error

    async def _progress(self, deadline_ms: int) -> None:
        """Begin what can be begun, and wait until something has changed."""
        self._woken = trio.Event()
        self._fetch()
        now = now_ms()
        retries = [each.retry_ms for each in self._positions.values() if each.retry_ms > now]
        wait_ms = max(0, min([deadline_ms, *retries]) - now)
        with trio.move_on_after(wait_ms / 1000):
            await self._woken.wait()

    def _fetch(self) -> None:
        """Ask for all that is wanted, where the position is known to be good."""
        self._look_up()
        sure = (each for each in self._positions.values() if not self._is_doubtful(each))
        self._fetcher.fetch(sure)

    def _look_up(self) -> None:
        """Find offsets for who has none, and check who has a new leader, in one task at a time."""
        if self._looking:
            return
        times_ms = {
            place: each.reset_ms
            for place, each in self._positions.items()
            if each.offset is None and each.reset_ms is not None and each.retry_ms <= now_ms()
        }
        doubtful = [each for each in self._positions.values() if self._is_doubtful(each)]
        if times_ms or doubtful:
            self._looking = True
            self.nursery.start_soon(self._look, times_ms, doubtful)

    def _is_doubtful(self, position: Position) -> bool:
        leader = self.cluster.leader(position.topic, position.partition)
        if leader is None or position.offset is None or position.epoch < 0:
            return False
        return leader.leader_epoch > position.validated_epoch

    async def _look(self, times_ms: dict[Place, int], doubtful: list[Position]) -> None:
        timeout_ms = self._fetching.request_timeout_ms
        generations = {place: self._positions[place].generation for place in times_ms}
        try:
            if times_ms:
                found = await ask_offsets(
                    self.cluster, times_ms, timeout_ms, self._fetching.committed
                )
                for place, answer in found.items():
                    position = self._positions.get(place)
                    if position is not None and position.generation == generations[place]:
                        self._settle(position, answer)
            if doubtful:
                await self._validate(doubtful, timeout_ms)
        except UnsupportedApi as error:
            for place in times_ms:
                if place in self._positions:
                    self._positions[place].error = error
        finally:
            self._looking = False
            self._wake()

    def _settle(self, position: Position, answer: ListedOffset | int) -> None:
        if isinstance(answer, ListedOffset):
            position.jump(answer.offset)
        elif answer in RETRIABLE or answer in (
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.OFFSET_NOT_AVAILABLE,
        ):
            self.cluster.expire()
            position.retry_ms = now_ms() + self._fetching.retry_backoff_ms
        else:
            position.error = KafkaError(answer, f"{position.topic}-{position.partition}")

    async def _validate(self, doubtful: list[Position], timeout_ms: int) -> None:
        asked = {(each.topic, each.partition): each for each in doubtful}
        generations = {each: each.generation for each in doubtful}
        current = {
            place: leader.leader_epoch
            for place in asked
            if (leader := self.cluster.leader(*place)) is not None
        }
        epochs = {place: each.epoch for place, each in asked.items()}
        try:
            found = await ask_epochs(self.cluster, epochs, timeout_ms)
        except UnsupportedApi:
            # An old broker: what was cut cannot be found out.
            found = {place: EpochEnd(epochs[place], 2**63 - 1) for place in asked}
        for place, answer in found.items():
            position = asked[place]
            if position.generation != generations[position] or isinstance(answer, int):
                continue
            self._compare(position, answer, current.get(place, -1))

    def _compare(self, position: Position, end: EpochEnd, leader_epoch: int) -> None:
        if position.offset is None or position.offset <= end.end_offset:
            position.validated_epoch = leader_epoch
            return
        # An end of -1: the leader's log has nothing of that epoch, or of an older one.
        cut = LogTruncated(position.topic, position.partition, position.offset, end.end_offset)
        if self._reset_ms is None:
            position.error = cut
            return
        _log.warning("%s", cut)
        if end.end_offset >= 0:
            position.jump(end.end_offset, epoch=end.epoch)
        else:
            position.jump(None, self._reset_ms)

    def _open_channel(self, broker_id: int) -> None:
        if broker_id not in self._opening:
            self._opening.add(broker_id)
            self.nursery.start_soon(self._negotiate, broker_id)

    async def _negotiate(self, broker_id: int) -> None:
        try:
            channel = self.cluster.channel(broker_id)
            if channel is not None:
                await channel.negotiated(self._fetching.request_timeout_ms)
        except NetError:
            self.cluster.expire()
            await trio.sleep(self._fetching.retry_backoff_ms / 1000)
        finally:
            self._opening.discard(broker_id)
            self._wake()
