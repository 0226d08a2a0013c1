"""Consumers' fetches: enough at once, more later, limits by KIP-74, and where else to go."""

from collections.abc import Sequence

import pytest

from net.broker.fetching import ConsumerFetches, ConsumerLimits
from net.broker.fetching.seams import Served
from net.driving import Timers
from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import FetchPartition, FetchRequest
from net.wire.topics import Topic
from protocol.errors import ErrorCode
from protocol.replication.events import (
    BecameFollower,
    Deleted,
    DeleteRecordsAsked,
    FetchAnswered,
    Resigned,
)
from protocol.replication.log import last_epoch
from storage.batch.build import build
from storage.batch.control import MarkerKind, marker
from storage.batch.header import split
from storage.batch.records import Record
from tests.net.broker.fetching.worlds import (
    TOPIC,
    TOPIC_ID,
    Asker,
    Clock,
    Heard,
    Node,
    settle,
)


class World:
    """A leader without followers: what is produced is committed at once."""

    def __init__(self, count: int = 1, max_parked: int = 10) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.leader = Node(1, self.timers, count)
        self.leader.lead(replicas=(1,))
        self.nearer: int | None = None
        self.fetches = ConsumerFetches(
            self.leader,
            self.timers,
            ConsumerLimits(max_parked=max_parked, max_wait_ms=5_000),
            choose_replica=self.choose,
            leader_of=lambda _topic, _index: CurrentLeader(3, 8),
            endpoints_of=self.endpoints,
        )

    def choose(self, _partition: Served, rack: str) -> int | None:
        return self.nearer if rack == "here" else None

    def endpoints(self, nodes: Sequence[int], _request: object) -> list[NodeEndpoint]:
        return [NodeEndpoint(node, "host", 9_000 + node) for node in nodes]

    def ask(
        self,
        *wanted: FetchPartition,
        version: int = 16,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation_level: int = 0,
        session: tuple[int, int] = (0, -1),
        rack_id: str = "",
    ) -> Asker:
        asker = Asker(version)
        topic: Topic = TOPIC_ID if version >= 13 else TOPIC
        self.fetches.handle(
            asker,
            FetchRequest(
                max_wait_ms,
                min_bytes,
                [(topic, list(wanted))] if wanted else [],
                max_bytes=max_bytes,
                isolation_level=isolation_level,
                session_id=session[0],
                session_epoch=session[1],
                rack_id=rack_id,
            ),
        )
        return asker

    def settle(self, after_ms: int = 0) -> None:
        self.clock.now_ms += after_ms
        settle(self.clock, self.timers)


def at(offset: int = 0, index: int = 0, *, epoch: int = -1, last: int = -1) -> FetchPartition:
    """A partition of a consumer's fetch."""
    return FetchPartition(index, offset, 1 << 20, epoch, last)


@pytest.mark.parametrize("version", range(4, 17))
def test_records_that_are_there_are_answered_at_once_in_every_version(version: int) -> None:
    world = World()
    world.leader.produce()
    world.leader.produce()
    asker = world.ask(at(), version=version)
    assert asker.offsets() == [0, 1]
    assert asker.partitions[0].high_watermark == 2
    assert asker.answer.session_id == 0


def test_a_consumer_sees_nothing_beyond_the_high_watermark() -> None:
    world = World()
    world.leader.lead(2, (1, 2))
    world.leader.produce()
    asker = world.ask(at(), max_wait_ms=0)
    assert asker.offsets() == []
    assert asker.partitions[0].high_watermark == 0


def test_a_consumer_waits_for_records_and_gets_them_as_they_come() -> None:
    world = World(2)
    asker = world.ask(at(0, 0), at(0, 1))
    world.settle()
    assert not asker.is_answered
    world.leader.produce(1)
    world.settle()
    assert asker.offsets(0) == []
    assert asker.offsets(1) == [0]


def test_an_empty_answer_comes_when_the_time_is_over() -> None:
    world = World()
    asker = world.ask(at(), max_wait_ms=500)
    world.settle(499)
    assert not asker.is_answered
    world.settle(1)
    assert asker.offsets() == []
    assert not world.fetches.parked
    assert not world.leader.partitions[0]._watched


def test_records_of_several_partitions_count_together_towards_min_bytes() -> None:
    world = World(2)
    size = 101 + 12
    asker = world.ask(at(0, 0), at(0, 1), min_bytes=2 * size)
    world.leader.produce(0)
    world.settle()
    assert not asker.is_answered
    world.leader.produce(1)
    world.settle()
    assert (asker.offsets(0), asker.offsets(1)) == ([0], [0])


def test_what_counts_towards_min_bytes_is_no_more_than_a_partition_may_give() -> None:
    world = World()
    world.leader.produce(value_bytes=1_000)
    asker = world.ask(FetchPartition(0, 0, 100), min_bytes=500)
    world.settle()
    assert not asker.is_answered


@pytest.mark.parametrize("wanted", [(), (at(0, 9),)], ids=["nothing", "unknown"])
def test_what_cannot_get_better_by_waiting_is_answered_at_once(
    wanted: tuple[FetchPartition, ...],
) -> None:
    world = World()
    assert world.ask(*wanted).is_answered


def test_the_purgatory_is_bounded_and_who_does_not_fit_is_answered_at_once() -> None:
    world = World(max_parked=1)
    first, second = world.ask(at()), world.ask(at())
    assert not first.is_answered
    assert second.is_answered


def test_nobody_waits_longer_than_the_limit() -> None:
    world = World()
    asker = world.ask(at(), max_wait_ms=2**31 - 1)
    world.settle(5_000)
    assert asker.is_answered


def test_the_first_partition_gives_a_batch_whatever_its_size_and_the_others_what_fits() -> None:
    world = World(3)
    for index in range(2):
        world.leader.produce(index, value_bytes=3_000)
    world.leader.produce(2, value_bytes=10)
    asker = world.ask(at(0, 0), at(0, 1), at(0, 2), max_bytes=1_000)
    assert [asker.offsets(index) for index in range(3)] == [[0], [], []]
    asker = world.ask(at(0, 2), at(0, 1), at(0, 0), max_bytes=1_000)
    assert [asker.offsets(index) for index in range(3)] == [[], [], [0]]


def test_a_partition_gives_no_more_than_it_may() -> None:
    world = World()
    for _ in range(5):
        world.leader.produce(value_bytes=1_000)
    asker = world.ask(FetchPartition(0, 0, 2_500))
    assert asker.offsets() == [0, 1]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (at(7), ErrorCode.OFFSET_OUT_OF_RANGE),
        (at(epoch=9), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (at(epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (at(0, 9), ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_errors_are_told_partition_by_partition(wanted: FetchPartition, error: ErrorCode) -> None:
    world = World(2)
    world.leader.produce(1)
    asker = world.ask(wanted, at(0, 1))
    assert asker.partitions[wanted.partition].error_code == error
    assert asker.offsets(1) == [0]


def test_a_waiting_consumer_hears_at_once_that_its_partition_is_gone() -> None:
    for event in (Resigned(), Deleted()):
        world = World()
        asker = world.ask(at())
        world.leader.partitions[0].deliver(event)
        world.settle()
        assert asker.partitions[0].error_code != 0


def test_a_waiting_consumer_hears_at_once_that_what_it_wants_was_deleted() -> None:
    world = World()
    world.leader.produce()
    world.leader.produce()
    asker = world.ask(at(0), min_bytes=10_000)
    assert not asker.is_answered
    world.leader.partitions[0].deliver(DeleteRecordsAsked(Heard(), 1))
    world.settle()
    told = asker.partitions[0]
    assert (told.error_code, told.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)


def test_a_closed_partition_is_refused_and_does_not_hang() -> None:
    world = World()
    partition = world.leader.partitions[0]
    partition.deliver(Resigned())
    partition.close()
    assert world.ask(at()).partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_that_is_fenced_is_told_who_leads_and_where() -> None:
    world = World()
    world.leader.partitions[0].deliver(BecameFollower(2, 2))
    asker = world.ask(at(epoch=1), version=16)
    told = asker.partitions[0]
    assert told.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert told.current_leader == CurrentLeader(2, 2)
    assert asker.answer.node_endpoints == [NodeEndpoint(2, "host", 9_002)]
    assert world.ask(at(epoch=1), version=12).partitions[0].current_leader == (2, 2)
    assert world.ask(at(epoch=1), version=11).partitions[0].current_leader is None


def test_of_a_partition_that_is_not_here_the_metadata_say_who_leads() -> None:
    world = World()
    partition = world.leader.partitions[0]
    partition.deliver(Resigned())
    told = world.ask(at(), version=16).partitions[0]
    assert told.current_leader == CurrentLeader(3, 8)


def test_a_consumer_is_sent_to_a_replica_in_its_rack() -> None:
    world = World()
    world.leader.produce()
    world.nearer = 2
    asker = world.ask(at(), rack_id="here", version=11)
    assert asker.partitions[0].preferred_read_replica == 2
    assert asker.offsets() == []
    assert world.ask(at(), rack_id="here", version=10).offsets() == [0]
    assert world.ask(at(), rack_id="elsewhere").offsets() == [0]
    world.nearer = 1
    assert world.ask(at(), rack_id="here").offsets() == [0]


def test_a_consumer_that_has_read_what_was_cut_off_is_told_where_the_logs_differ() -> None:
    world = World()
    world.leader.produce()
    world.leader.lead(3, (1,))
    world.leader.produce()
    # In epoch 2 it has read up to offset 4: this log has epoch 1 up to offset 1, and no epoch 2.
    for offset in (2, 4):
        told = world.ask(at(offset, epoch=3, last=2)).partitions[0]
        assert (told.error_code, told.diverging) == (0, (1, 1))
    told = world.ask(at(4, epoch=3, last=3)).partitions[0]
    assert told.diverging == (3, 2)
    assert world.ask(at(1, epoch=3, last=1)).offsets() == [1]


def test_a_session_that_a_consumer_would_go_on_with_is_not_known() -> None:
    world = World()
    assert world.ask(at(), session=(5, 1)).answer.error_code == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert world.ask(at(), session=(0, 0), max_wait_ms=0).answer.error_code == 0


def transaction(offset: int, producer_id: int) -> bytearray:
    """A batch of an open transaction."""
    return build(
        [Record(offset, 0, None, b"value")],
        base_offset=offset,
        leader_epoch=2,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def replicate(world: World, *batches: bytearray) -> None:
    """Let the first partition, a follower in epoch 2, get these from its leader, all committed."""
    partition = world.leader.partitions[0]
    payload = [batch for each in batches for batch in split(each)]
    log = partition.state.log
    partition.deliver(
        FetchAnswered(
            2,
            log.end_offset,
            last_epoch(log),
            None,
            log.end_offset + len(payload),
            0,
            ((2, len(payload)),),
            payload,
        )
    )


def test_read_committed_stops_at_the_first_open_transaction_and_lists_the_aborted() -> None:
    world = World()
    world.leader.produce()
    world.leader.follow(2, 2)
    replicate(world, transaction(1, 50), transaction(2, 60))
    committed = world.ask(at(), isolation_level=1)
    told = committed.partitions[0]
    assert committed.offsets() == [0]
    assert (told.last_stable_offset, told.high_watermark) == (1, 3)
    assert told.aborted == []
    everything = world.ask(at())
    assert everything.offsets() == [0, 1, 2]
    assert everything.partitions[0].aborted is None
    waiting = world.ask(at(1), isolation_level=1)
    assert not waiting.is_answered
    replicate(world, marker(MarkerKind.ABORT, 50, 0, 0, 0, base_offset=3, leader_epoch=2))
    world.settle()
    assert waiting.offsets() == [1]
    assert waiting.partitions[0].aborted == [(50, 1)]


def test_a_disk_that_cannot_be_read_fails_its_partition_alone() -> None:
    world = World(2)
    for index in range(2):
        world.leader.produce(index)
    world.leader.disk.delete(world.leader.partitions[0].log.active.path())
    for min_bytes in (1, 1_000):
        asker = world.ask(at(0, 0), at(0, 1), min_bytes=min_bytes)
        assert asker.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert asker.offsets(1) == [0]


def test_a_consumer_gets_no_error_while_too_many_files_are_being_sent_from() -> None:
    world = World()
    world.leader.produce()
    world.leader.disk.is_crowded = True
    told = world.ask(at()).partitions[0]
    assert (told.error_code, told.records_bytes) == (0, 0)


def test_what_became_wrong_before_it_left_is_an_error() -> None:
    world = World()
    world.leader.produce()
    asker = world.ask(at(), min_bytes=10_000)
    world.leader.partitions[0].deliver(BecameFollower(2, 2))
    world.fetches.close()
    assert asker.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert asker.offsets() == []


def test_closing_answers_all_who_wait() -> None:
    world = World()
    asker = world.ask(at())
    world.fetches.close()
    assert asker.is_answered
    world.leader.produce()
    world.settle()
