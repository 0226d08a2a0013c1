"""All partitions of a broker: made, told and deleted as the metadata say."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from net.broker.identity import write_topic_id
from net.broker.partition import Partition
from net.broker.replicas import Replicas
from net.driving import Timers
from protocol.controller.records import Record
from protocol.controller.state import Image
from protocol.errors import ErrorCode, InvariantViolation
from protocol.replication import Status
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.faults import Faults, fail_always
from storage.disk.simulated import SimulatedDisk
from storage.folder import NewLog
from storage.log.config import LogConfig
from storage.store import LogStore
from tests.net.broker.fetching.worlds import Clock, settle
from tests.net.broker.images import image, topic
from tests.net.broker.worlds import Produced, batch
from tests.net.settings.nodes import node

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Outside:
    """What partitions need of a broker; it deletes what is to be deleted."""

    replicas: Replicas

    def __init__(self) -> None:
        self.fetches: list[str] = []
        self.violations: list[InvariantViolation] = []

    def send_fetch(self, partition: Partition, wanted: Any) -> None:
        del wanted
        self.fetches.append(partition.key.folder_name)

    def role_changed(self, partition: Partition) -> None:
        pass

    def send_proposal(self, partition: Partition, wanted: Any) -> None:
        pass

    def forget_log(self, partition: Partition) -> None:
        self.replicas.forget(partition)

    def violated(self, partition: Partition, violation: InvariantViolation) -> None:
        del partition
        self.violations.append(violation)

    def disk_failed(self, partition: Partition, error: Exception) -> None:
        self.replicas.store.fail(partition.key, error)


class World:
    """Broker 1, which has just opened its logs."""

    def __init__(self, disk: SimulatedDisk | None = None, begun: bool = True) -> None:
        self.disk = disk or SimulatedDisk(1)
        self.outside = Outside()
        self.lost: list[TopicPartition] = []
        self.store = LogStore(
            self.disk, ("data",), offline=lambda key, error: self.replicas.lost(key, error)
        )
        jobs.run(self.store.open(lambda _: LogConfig()))
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.lines: list[dict[str, Any]] = []
        self.replicas = Replicas(
            1,
            self.store,
            node(),
            self.timers,
            self.outside,
            wall=lambda: 5,
            trace=self.lines.append,
        )
        self.outside.replicas = self.replicas
        if begun:
            self.replicas.begin(10, image())

    def __getitem__(self, key: TopicPartition) -> Partition:
        return self.replicas.partitions[key]

    @property
    def running(self) -> set[TopicPartition]:
        return set(self.replicas.partitions)

    def tell(self, *records: Record) -> None:
        """Let the metadata be these, and no others."""
        after = image(*records)
        keys = {*self.replicas.image.partitions, *after.partitions}
        self.replicas.changed(after, sorted(keys))

    def write(self, key: TopicPartition, count: int = 1) -> None:
        for _ in range(count):
            self[key].produce(Produced(batch(), acks=1))

    def restarted(self, after: Image | None = None) -> World:
        """The broker as it is after it was killed and started again."""
        world = World(self.disk.kill(), begun=False)
        if after is not None:
            world.replicas.begin(11, after)
        return world


def test_replicas_of_this_broker_run_and_others_do_not() -> None:
    world = World()
    world.tell(*topic((1, 2), (2,), (2, 1)))
    assert world.running == {FIRST, TopicPartition("t", 2)}
    assert world[FIRST].leads
    assert not world[TopicPartition("t", 2)].leads
    settle(world.clock, world.timers)
    assert world.outside.fetches == ["t-2"]
    find = world.replicas.find_by_name
    assert find("t", 0) is world[FIRST]
    assert find("t", 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert find("t", 3) == find("u", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.replicas.find(UUID(int=7), 0) is world[FIRST]
    assert world.replicas.find(UUID(int=8), 0) == ErrorCode.UNKNOWN_TOPIC_ID


def test_nothing_is_told_before_the_broker_is_registered() -> None:
    """Older records could make a replica lead that is no longer trusted to have its log."""
    world = World(begun=False)
    world.tell(*topic((1, 2)))
    assert not world.replicas.has_begun
    assert world.running == set()
    assert world.store.log(FIRST) is None
    world.replicas.begin(10, image(*topic((1, 2), epoch=4)))
    assert world[FIRST].state.view.epoch == 4
    assert world[FIRST].state.broker_epoch == 10


def test_a_replica_keeps_its_log_over_a_restart() -> None:
    world = World()
    world.tell(*topic((1,)))
    world.write(FIRST, 3)
    after = world.restarted(image(*topic((1,), epoch=2)))
    assert after[FIRST].state.log.end_offset == 3
    assert after[FIRST].state.view.epoch == 2


def test_a_topic_made_again_under_its_name_begins_with_an_empty_log() -> None:
    world = World()
    world.tell(*topic((1,)))
    world.write(FIRST, 3)
    before = world[FIRST]
    world.tell(*topic((1,), number=8, epoch=2))
    assert world[FIRST] is not before
    assert world[FIRST].topic_id == UUID(int=8)
    assert (world[FIRST].state.log.end_offset, world[FIRST].leads) == (0, True)
    assert world.replicas.find(UUID(int=7), 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.replicas.find(UUID(int=8), 0) is world[FIRST]


def test_a_topic_made_again_while_the_broker_was_down_begins_with_an_empty_log() -> None:
    world = World()
    world.tell(*topic((1,)))
    world.write(FIRST, 3)
    after = world.restarted(image(*topic((1,), number=8, epoch=2)))
    assert after[FIRST].state.log.end_offset == 0
    assert after[FIRST].topic_id == UUID(int=8)


def assert_kept(world: World, number: int = 8) -> None:
    """The one log that there is takes records, and has them after a restart."""
    assert world.store.log(FIRST) is world[FIRST].log
    world.disk.faults = Faults()
    world.write(FIRST)
    after = world.restarted(image(*topic((1,), number=number, epoch=9)))
    assert after[FIRST].state.log.end_offset == 1


def test_a_topic_deleted_and_made_again_while_its_log_is_being_made() -> None:
    world = World()
    world.disk.faults = Faults(deferred=True)
    world.tell(*topic((1,)))
    assert world.running == set()
    world.tell()
    world.tell(*topic((1,), number=8, epoch=2))
    world.disk.run_all()
    assert world[FIRST].topic_id == UUID(int=8)
    assert world[FIRST].state.view.epoch == 2
    assert_kept(world)


def test_what_changes_while_a_log_is_being_made_is_heard_by_the_one_replica(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.disk.faults = Faults(deferred=True)
    for epoch in range(1, 4):
        world.tell(*topic((1,), epoch=epoch))
    world.disk.run_all()
    assert world[FIRST].state.view.epoch == 3
    # Two replicas on one log would both write to it.
    assert [line["action"] for line in world.lines].count("Restart") == 1
    assert caplog.messages == []
    assert_kept(world, number=7)


def test_a_log_that_nobody_wants_any_more_when_it_is_made_goes_again() -> None:
    world = World()
    world.disk.faults = Faults(deferred=True)
    world.tell(*topic((1,)))
    world.tell()
    world.disk.run_all()
    assert world.running == set()
    assert world.store.log(FIRST) is None


def test_a_topic_made_again_while_the_old_log_is_being_deleted_waits_for_that() -> None:
    world = World()
    world.tell(*topic((1,)))
    world.write(FIRST)
    world.disk.faults = Faults(deferred=True)
    world.tell()
    world.tell(*topic((1,), number=8, epoch=2))
    assert world.running == set()
    world.disk.run_all()
    assert (world[FIRST].topic_id, world[FIRST].state.log.end_offset) == (UUID(int=8), 0)
    assert_kept(world)


@pytest.mark.parametrize("records", [[], topic((2,)), topic((1,), number=8)])
def test_what_is_no_replica_any_more_is_deleted_at_the_start(records: list[Record]) -> None:
    world = World()
    world.tell(*topic((1,)))
    world.write(FIRST)
    after = world.restarted(image(*records))
    log = after.store.log(FIRST)
    assert log is None or log.end_offset == 0
    assert (log is None) == (FIRST not in after.running)


def test_a_log_that_does_not_say_whose_it_is_is_kept() -> None:
    """The file may not have survived a crash; the records have."""
    world = World(begun=False)
    (log,) = jobs.run(world.store.create(NewLog(FIRST, LogConfig())))
    world.replicas.begin(10, image(*topic((1,))))
    assert world[FIRST].log is log


def test_a_log_of_another_topic_of_this_name_is_not() -> None:
    world = World(begun=False)
    (log,) = jobs.run(world.store.create(NewLog(FIRST, LogConfig())))
    write_topic_id(log, UUID(int=99))
    world.replicas.begin(10, image(*topic((1,))))
    assert world[FIRST].log is not log


def test_a_replica_that_moves_away_takes_its_files_along() -> None:
    world = World()
    world.tell(*topic((1, 2)))
    folder = world[FIRST].log.folder
    world.tell(*topic((2,), epoch=2))
    assert world.running == set()
    assert not any(path.startswith(folder + "/") for path in world.disk.files())


def test_a_log_that_cannot_be_opened_stays_offline_and_others_serve() -> None:
    world = World()
    world.tell(*topic((1,), (1,)))
    world.write(FIRST, 2)
    world.write(SECOND, 2)
    world.store.close(10, lambda _result: None)
    damaged = world.disk.kill()
    path = next(path for path in damaged.files() if "t-0/" in path and path.endswith(".log"))
    damaged.truncate(path, damaged.size(path) // 2)
    after = World(damaged, begun=False)
    after.replicas.begin(11, image(*topic((1,), (1,), epoch=2)))
    assert after.running == {SECOND}
    assert after[SECOND].state.log.end_offset == 2
    assert after.replicas.find_by_name("t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert after.store.log(FIRST) is None


def test_a_disk_without_room_for_new_logs_keeps_serving_the_old_ones() -> None:
    world = World()
    world.tell(*topic((1,)))
    world.disk.faults = Faults(fail=fail_always("make_folder", prefix="data/u", code=28))
    world.tell(*topic((1,)), *topic((1,), name="u", number=9))
    assert world.running == {FIRST}
    world.disk.faults = Faults()
    world.tell(*topic((1,)), *topic((1,), name="u", number=9, epoch=2))
    assert world.running == {FIRST, TopicPartition("u", 0)}


def test_settings_reach_the_log_and_the_replica() -> None:
    world = World()
    world.tell(*topic((1,), min_isr=2, max_message_bytes="500"))
    assert world[FIRST].log.config.max_batch_bytes == 500
    assert world[FIRST].state.config.min_isr == 2
    world.tell(*topic((1,), min_isr=1, max_message_bytes="600"))
    world.replicas.configured(["t", "nobody's"])
    assert world[FIRST].log.config.max_batch_bytes == 600
    assert world[FIRST].state.config.min_isr == 1
    world.replicas.settings = node(replica_lag_time_max_ms="12345")
    world.replicas.configured(["t"])
    assert world[FIRST].state.config.replica_lag_max_ms == 12345


def test_a_log_that_is_lost_takes_its_replica_offline() -> None:
    world = World()
    world.tell(*topic((1,), (1,)))
    world.replicas.lost(FIRST, OSError("gone"))
    assert world[FIRST].state.status is Status.OFFLINE
    assert world[SECOND].state.status is Status.ONLINE
    world.replicas.retained(SECOND, 0)
    world.replicas.retained(TopicPartition("u", 0), 5)
    world.replicas.lost(TopicPartition("u", 0), OSError("gone"))


def test_who_resigns_lets_go_of_producers_and_takes_no_more() -> None:
    world = World()
    world.tell(*topic((1, 2)))
    asked = Produced(batch())
    world[FIRST].produce(asked)
    world.replicas.resign()
    assert asked.only.error == ErrorCode.REQUEST_TIMED_OUT
    end = world[FIRST].log.end_offset
    world.write(FIRST)
    assert world[FIRST].log.end_offset == end
