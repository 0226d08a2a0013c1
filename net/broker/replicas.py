"""All partitions of one broker: made, told of the metadata, and deleted as the metadata say.

It begins when the broker is registered and has read the metadata up to its own registration: by
older records a replica could lead that is no longer trusted to have its log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from uuid import UUID

import attrs

from net.broker.identity import read_topic_id, write_topic_id
from net.broker.partition import Outside, Partition
from net.broker.tracing import Write
from net.clock import wall_ms
from net.driving import Timers
from net.settings.broker import BrokerSettings
from net.settings.derived import log_config, replica_config, sequences_config
from net.settings.topic import said_by, topic_settings
from protocol.controller.state import Image, Key, Topic
from protocol.controller.state import Partition as Record
from protocol.errors import ErrorCode
from protocol.idempotence import Sequences
from protocol.replication import PartitionRecord, Replica, ReplicaConfig, event_for
from protocol.replication.events import Configured, Deleted, Resigned, StorageFailed
from protocol.types import BrokerEpoch, NodeId
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.store import LogStore

_log = logging.getLogger(__name__)

METADATA_TOPIC: Final = "__cluster_metadata"
_tuple: Final = tuple.__new__


class Replicas:
    """The partitions that this broker has replicas of."""

    def __init__(
        self,
        node: NodeId,
        store: LogStore,
        settings: BrokerSettings,
        timers: Timers,
        outside: Outside,
        wall: Callable[[], int] = wall_ms,
        trace: Write | None = None,
    ) -> None:
        self.node = node
        self.store = store
        self.settings = settings
        self.image = Image()
        self.partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self._timers = timers
        self._outside = outside
        self._wall = wall
        self._trace = trace
        self._broker_epoch: BrokerEpoch = 0
        self._busy: set[TopicPartition] = set()
        """Logs that are being made or deleted: what the metadata say of them is looked at after."""

    @property
    def has_begun(self) -> bool:
        """Whether replicas take part."""
        return self._broker_epoch > 0

    def begin(self, broker_epoch: BrokerEpoch, image: Image) -> None:
        """Take part as this incarnation, with metadata that know of it."""
        self._broker_epoch = broker_epoch
        self.image = image
        strays = [
            log.partition
            for folder in self.store.folders
            for log in folder.logs.values()
            if log.partition.topic != METADATA_TOPIC and not self._is_ours(log)
        ]
        for stray in strays:
            _log.warning("%s is no replica of this broker any more: deleted", stray.folder_name)
            self._delete_log(stray)
        self.changed(image, sorted(image.assigned.get(self.node, {})))

    def _is_ours(self, log: Log) -> bool:
        record = self.image.partitions.get(log.partition)
        if record is None or self.node not in record.replicas:
            return False
        known = read_topic_id(log)
        return known is None or known == self._topic_id(record.topic)

    def _topic_id(self, topic: str) -> UUID:
        return UUID(self.image.topics[topic].id)

    def changed(self, image: Image, keys: Iterable[Key]) -> None:
        """Hear of newer metadata, in which these partitions are other than before."""
        self.image = image
        if not self.has_begun:
            return
        wanted = []
        for key in keys:
            partition = TopicPartition(*key)
            record = image.partitions.get(key)
            if partition in self._busy:
                continue
            running = self.partitions.get(partition)
            if record is None or self.node not in record.replicas:
                if running is not None:
                    running.deliver(Deleted())
            elif running is None:
                wanted.append(partition)
            elif running.topic_id != self._topic_id(record.topic):
                # Deleted and made again under the same name: the old one first.
                running.deliver(Deleted())
            else:
                self._tell(running, record)
        if wanted:
            self._start(wanted)

    def _tell(self, partition: Partition, record: Record) -> None:
        told = PartitionRecord(
            record.leader,
            record.leader_epoch,
            record.version,
            record.isr,
            frozenset(record.replicas),
        )
        partition.deliver(event_for(partition.state, told))

    def _start(self, wanted: list[TopicPartition]) -> None:
        """Run the replicas whose logs are there, and make the logs of the others first."""
        missing = []
        for each in wanted:
            log = self.store.log(each)
            if log is not None:
                self._run(log)
            elif self.store.folder_of(each) is not None:
                _log.error("%s cannot be opened, so this replica stays offline", each.folder_name)
            else:
                missing.append(NewLog(each, self._log_config(each.topic)))
        if missing:
            self._busy.update(each.partition for each in missing)
            making = self.store.create(*missing)
            jobs.start(self.store.disk, making, partial(self._made, missing))

    def _made(self, wanted: list[NewLog], made: list[Log] | Exception) -> None:
        self._busy.difference_update(each.partition for each in wanted)
        if isinstance(made, Exception):
            _log.error("%d logs could not be made: %s", len(wanted), made)
            return
        for log in made:
            topic = self.image.topics.get(log.partition.topic)
            if topic is not None:
                write_topic_id(log, UUID(topic.id))
        # The metadata may have moved on meanwhile; a log that nobody wants any more goes again.
        for log in made:
            record = self.image.partitions.get(log.partition)
            if record is None or self.node not in record.replicas:
                self._delete_log(log.partition)
            else:
                self._run(log)

    def _run(self, log: Log) -> None:
        key = log.partition
        record = self.image.partitions[key]
        log.config = self._log_config(key.topic)
        replica = Replica.restarted(
            self.node,
            self._broker_epoch,
            log=log.as_protocol(),
            high_watermark=log.known_high_watermark,
            config=self._replica_config(key.topic),
        )
        folder = self.store.folder_of(key)
        if folder is None:
            raise LookupError(f"{key.folder_name} is in no folder")
        partition = Partition(
            key,
            self._topic_id(key.topic),
            replica,
            log,
            folder.flusher,
            self._timers,
            self._outside,
            Sequences.restarted(config=sequences_config(self.settings)),
            self._wall,
            self._trace,
        )
        self.partitions[key] = partition
        self._by_id[partition.topic_id, key.partition] = partition
        self._tell(partition, record)

    def _topic(self, name: str) -> Topic:
        return self.image.topics[name]

    def _log_config(self, topic: str) -> LogConfig:
        said = said_by(self._topic(topic).config)
        return log_config(topic_settings(said, self.settings), self.settings)

    def _replica_config(self, topic: str) -> ReplicaConfig:
        config = self._topic(topic).config
        derived = replica_config(topic_settings(said_by(config), self.settings), self.settings)
        return attrs.evolve(derived, min_isr=config.min_isr)

    def configured(self, topics: Iterable[str]) -> None:
        """Hear that settings of these topics, or what they follow from, have changed."""
        for topic in topics:
            known = self.image.topics.get(topic)
            for index in range(known.partitions if known else 0):
                running = self.partitions.get(TopicPartition(topic, index))
                if running is not None:
                    running.log.config = self._log_config(topic)
                    running.deliver(Configured(self._replica_config(topic)))

    def forget(self, partition: Partition) -> None:
        """A replica has ended for good: so do its files."""
        self.partitions.pop(partition.key, None)
        self._by_id.pop((partition.topic_id, partition.key.partition), None)
        partition.close()
        self._delete_log(partition.key)

    def _delete_log(self, key: TopicPartition) -> None:
        self._busy.add(key)
        self.store.delete(key, partial(self._deleted, key))

    def _deleted(self, key: TopicPartition, result: Exception | None) -> None:
        self._busy.discard(key)
        if result is not None:
            _log.error("%s could not be deleted: %s", key.folder_name, result)
        elif self.has_begun:
            self.changed(self.image, [key])

    def find(self, topic_id: UUID, index: int) -> Partition | ErrorCode:
        """Find a partition as newer clients name it."""
        found = self._by_id.get((topic_id, index))
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found

    def find_by_name(self, topic: str, index: int) -> Partition | ErrorCode:
        """Find a partition by its topic's name."""
        # For every batch: a named tuple's own constructor takes three times as long.
        found = self.partitions.get(_tuple(TopicPartition, (topic, index)))
        if found is not None:
            return found
        if (topic, index) in self.image.partitions:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def retained(self, key: TopicPartition, start_offset: int) -> None:
        """Hear from storage that a log begins later."""
        partition = self.partitions.get(key)
        if partition is not None:
            partition.retained(start_offset)

    def lost(self, key: TopicPartition, error: Exception) -> None:
        """Hear from storage that a log cannot be trusted any more."""
        partition = self.partitions.get(key)
        if partition is not None:
            partition.deliver(StorageFailed(str(error)))

    def resign(self) -> None:
        """Let go of everybody, because this broker is about to stop."""
        for partition in tuple(self.partitions.values()):
            partition.deliver(Resigned())
            partition.close()
