"""Fetches of followers: on one connection, in one session, told to the right replica."""

from itertools import pairwise

import pytest

from net.wire.fetch import FetchAnswer, FetchedPartition, encode_fetch_answer
from protocol.replication import ReplicaConfig
from protocol.replication.events import BecameFollower
from storage.log.cutting import advance_start
from storage.testing.numbered import batches_of, numbered
from tests.net.broker.fetching.worlds import TOPIC_ID
from tests.net.broker.following.wires import LEADER, World


def listed(world: World, number: int) -> list[int]:
    """Which partitions a request names."""
    return [each.partition for _, partitions in world.sent[number].topics for each in partitions]


def test_a_follower_copies_what_its_leader_has_and_learns_the_high_watermark() -> None:
    world = World()
    world.start()
    produced = world.leader.produce(records=3)
    world.settle()
    copied = world.follower.partitions[0]
    assert [bytes(batch.view) for batch in batches_of(copied.log)] == [
        bytes(numbered(0, records=3).view)
    ]
    # The producer is answered because the follower has asked for what follows, within no time.
    assert len(produced.answers) == 1
    assert copied.state.high_watermark == 3
    assert not world.follower.violations


def test_records_follow_one_after_the_other_without_waiting_for_the_long_poll() -> None:
    world = World()
    world.start()
    for number in range(20):
        world.leader.produce()
        world.settle()
        assert world.ends() == [number + 1]
        assert world.follower.partitions[0].state.high_watermark == number + 1


def test_the_first_request_is_full_and_the_next_ones_name_only_who_asks() -> None:
    world = World(3)
    world.start()
    first = world.sent[0]
    assert (first.session_id, first.session_epoch, first.max_wait_ms) == (0, 0, 0)
    assert (first.replica_id, first.replica_epoch) == (2, 20)
    assert listed(world, 0) == [0, 1, 2]
    assert listed(world, 1) == []
    assert world.sent[1].session_epoch == 1
    world.leader.produce(1)
    world.settle()
    assert all(listed(world, number) == [1] for number in range(2, len(world.sent)))
    assert world.ends() == [0, 1, 0]


def test_an_idle_session_costs_two_requests_a_second_whatever_it_has() -> None:
    world = World(50)
    world.start()
    before = len(world.sent)
    for _ in range(8):
        world.settle(500)
    assert len(world.sent) - before == 8
    assert all(not listed(world, number) for number in range(before, len(world.sent)))


def test_an_idle_follower_stays_in_sync_as_it_asks_again_in_time() -> None:
    world = World(2, ReplicaConfig(replica_lag_max_ms=3_000))
    world.start()
    for _ in range(20):
        world.settle(500)
    for index in range(2):
        world.leader.produce(index)
        role = world.leader.partitions[index].state.role
        assert role is not None
        assert world.leader.partitions[index].replica.machine.due(world.clock.now_ms) == ()
    world.settle()
    assert world.ends() == [1, 1]


def test_a_partition_asked_for_amid_a_long_poll_does_not_wait_for_its_end() -> None:
    world = World(2)
    world.leader.lead()
    world.follower.partitions[0].deliver(BecameFollower(LEADER, 1))
    world.settle()
    world.leader.produce(1)
    # The leader keeps a request that does not name this partition, for half a second.
    world.follower.partitions[1].deliver(BecameFollower(LEADER, 1))
    world.settle()
    assert world.ends() == [0, 1]
    assert world.most_in_flight == 2


def test_partitions_that_were_answered_together_ask_again_together() -> None:
    world = World(10)
    world.start()
    before = len(world.sent)
    for index in range(10):
        world.leader.produce(index)
    world.settle()
    assert world.ends() == [1] * 10
    # Once with the records that came, and once with the high watermark that followed.
    naming = [listed(world, number) for number in range(before, len(world.sent))]
    assert [len(each) for each in naming if each] == [10, 10]


def test_a_lost_connection_is_told_and_everything_goes_on_in_a_new_session() -> None:
    world = World(2)
    world.start()
    world.cut()
    world.settle()
    for partition in world.follower.partitions.values():
        assert partition.state.role.asked_until_ms is None  # type: ignore[union-attr]
    world.leader.produce(1)
    world.settle(1_000)
    assert world.ends() == [0, 1]
    assert len(world.wires) == 2
    assert world.wires[0].closed


def test_a_leader_that_cannot_be_reached_is_asked_again_after_growing_pauses() -> None:
    world = World(config=ReplicaConfig(fetch_retry_ms=1))
    world.is_connected = False
    world.start()
    times = []
    for _ in range(4_000):
        before = len(world.sent)
        world.settle(1)
        if len(world.sent) > before:
            times.append(world.clock.now_ms)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] < 150
    assert all(pause <= 1_201 for pause in pauses)
    assert len(times) < 12
    world.is_connected = True
    world.leader.produce()
    world.settle(1_201)
    world.settle(1)
    assert world.ends() == [1]


def test_a_leader_whose_address_nobody_knows_is_no_disaster() -> None:
    world = World()
    world.is_known = False
    world.start()
    world.is_known = True
    world.leader.produce()
    world.settle(2_000)
    assert world.ends() == [1]


def test_a_session_that_the_leader_has_forgotten_is_begun_anew_and_nobody_is_refused() -> None:
    world = World(2)
    world.start()
    world.sessions.close()
    world.leader.produce(1)
    world.settle()
    assert world.ends() == [0, 1]
    assert len(world.wires) == 1


def test_a_partition_that_follows_no_longer_is_forgotten_at_the_leader() -> None:
    world = World(2)
    world.start()
    gone = world.follower.partitions[0]
    world.fetchers.forget(gone)
    world.leader.produce(0)
    world.leader.produce(1)
    world.settle()
    assert world.ends() == [0, 1]
    assert [list(each.forgotten) for each in world.sent if each.forgotten] == [[(TOPIC_ID, [0])]]


def test_a_leader_that_nobody_follows_is_let_go() -> None:
    world = World(2)
    world.start()
    for partition in world.follower.partitions.values():
        world.fetchers.forget(partition)
    assert len(world.fetchers) == 0
    assert world.wires[0].closed
    world.settle(600)
    assert len(world.wires) == 1


def test_closing_ends_everything_and_nobody_hears_of_it() -> None:
    world = World()
    world.start()
    asked = world.follower.partitions[0].state
    world.fetchers.close()
    assert world.wires[0].closed
    assert world.follower.partitions[0].state is asked
    sent = len(world.sent)
    world.settle(5_000)
    assert len(world.sent) == sent


@pytest.mark.parametrize("body", [b"", b"\xff" * 40])
def test_an_answer_that_is_none_ends_the_connection_and_refuses_all(body: bytes) -> None:
    world = World(2)
    world.start()
    world.tamper = lambda _: body
    world.leader.produce(0)
    world.settle()
    assert world.wires[0].closed
    for partition in world.follower.partitions.values():
        assert partition.state.role.asked_until_ms is None  # type: ignore[union-attr]
    world.tamper = lambda sound: sound
    world.settle(2_000)
    assert world.ends() == [1, 0]


def test_records_that_no_correct_leader_sends_end_the_connection() -> None:
    world = World()
    world.start()
    session_id = world.sent[1].session_id
    later = bytes(numbered(0, leader_epoch=9).view)
    told = FetchedPartition(0, 0, 0, 0, 0, records=(later,), records_bytes=len(later))
    forged = FetchAnswer([(TOPIC_ID, [told])], session_id)
    world.tamper = lambda _: b"".join(encode_fetch_answer(17, forged))
    world.settle(500)
    assert world.wires[0].closed
    assert world.ends() == [0]
    assert not world.follower.violations


def test_a_batch_with_a_wrong_checksum_is_refused_and_its_neighbour_is_not() -> None:
    world = World(2)
    world.start()
    damaged = b"0.0.0.0.0."

    def flip(body: bytes) -> bytes:
        return body.replace(damaged, b"0.0.0.0.1.", 1)

    world.tamper = flip
    world.leader.produce(0)
    world.leader.produce(1)
    world.settle()
    assert sorted(world.ends()) == [0, 1]
    assert len(world.wires) == 1
    world.tamper = lambda sound: sound
    world.settle(1_000)
    assert world.ends() == [1, 1]


def test_a_log_that_differs_is_cut_as_the_leader_says() -> None:
    world = World()
    # The follower led in epoch 1 and wrote what nobody else has; then the other one leads.
    world.follower.lead(1, (1, 2))
    world.follower.produce()
    world.follower.produce()
    world.leader.lead(2)
    world.leader.produce()
    world.follower.follow(LEADER, 2)
    world.settle()
    assert world.ends() == [1]
    (batch,) = batches_of(world.follower.partitions[0].log)
    assert batch.header.leader_epoch == 2


def test_a_follower_begins_anew_where_a_log_begins_amid_a_batch() -> None:
    world = World()
    world.leader.lead(replicas=(1,))
    world.leader.produce(records=10)
    world.leader.produce(records=2)
    leader = world.leader.partitions[0]
    leader.retained(4)
    leader.log.turns.put(advance_start(leader.log, 4), lambda _: None)
    world.start(2)
    copied = world.follower.partitions[0]
    assert copied.log.start_offset == 4
    assert copied.log.end_offset == 12
    first, second = batches_of(copied.log)
    assert (first.header.base_offset, first.header.record_count) == (4, 6)
    assert bytes(second.view)[16:] == bytes(numbered(10, records=2).view)[16:]


def test_a_fetch_has_the_same_name_at_both_ends_and_each_is_named_once() -> None:
    world = World()
    world.start()
    (parked,) = world.leader.partitions[0].state.parked
    assert world.names[-1] == (0, str(parked.correlation))
    assert len({name for _, name in world.names}) == len(world.names)


def test_asking_again_for_what_the_leader_has_makes_no_second_answer() -> None:
    world = World(config=ReplicaConfig(fetch_timeout_ms=700))
    world.start()
    world.settle(500)
    world.settle(200)
    assert len(world.follower.asked) == 2
    # A request is under way, whose answer might be to the first fetch: the second waits for it.
    assert listed(world, -1) == []
    world.settle(300)
    assert listed(world, -1) == [0]
    (_, parked) = world.leader.partitions[0].state.parked
    assert world.names[-1] == (0, str(parked.correlation))
    world.leader.produce()
    world.settle()
    assert world.ends() == [1]
    assert not world.follower.violations


def test_asking_again_for_what_is_answered_meanwhile_asks_for_nothing_old() -> None:
    world = World(config=ReplicaConfig(fetch_timeout_ms=700))
    world.start()
    world.settle(500)
    world.settle(200)
    assert len(world.follower.asked) == 2
    world.leader.produce()
    world.settle()
    offsets = [
        each.fetch_offset
        for sent in world.sent
        for _, partitions in sent.topics
        for each in partitions
    ]
    assert offsets == [0, 1, 1]


def test_two_requests_that_are_lost_together_are_one_failure() -> None:
    world = World(2, ReplicaConfig(fetch_retry_ms=1))
    world.leader.lead()
    world.follower.partitions[0].deliver(BecameFollower(LEADER, 1))
    world.settle()
    world.follower.partitions[1].deliver(BecameFollower(LEADER, 1))
    for _ in range(3):
        world.timers.ring_due()
    assert len(world.wires[0].open) == 2
    world.arriving.clear()
    world.cut()
    world.leader.produce(1)
    # The first pause, which is 50 ms and a fifth at most.
    world.settle(2)
    world.settle(58)
    assert world.ends() == [0, 1]


def test_a_late_answer_of_another_epoch_changes_nothing() -> None:
    world = World()
    world.start()
    world.leader.produce()
    # The records are on their way when the follower learns of a new epoch, of the same leader.
    world.follower.follow(LEADER, 2)
    world.settle()
    assert world.ends() == [0]
    world.leader.lead(2)
    world.settle(1_000)
    assert world.ends() == [1]


def test_a_throttled_partition_waits_for_tokens_and_others_do_not() -> None:
    world = World(2)
    world.throttled, world.rate = {0}, 1_000
    world.start()
    world.settle(1_000)
    for index in range(2):
        world.leader.produce(index, value_bytes=10_000)
    world.settle()
    assert world.ends() == [1, 1]
    world.leader.produce(0)
    world.leader.produce(1)
    world.settle()
    world.leader.produce(1)
    world.settle()
    assert world.ends() == [1, 3]
    # Ten thousand bytes at a thousand a second, of which one second was saved.
    world.settle(8_900)
    assert world.ends() == [1, 3]
    world.settle(1_000)
    assert world.ends() == [2, 3]


def test_without_a_rate_nothing_is_throttled() -> None:
    world = World()
    world.throttled = {0}
    world.start()
    for number in range(5):
        world.leader.produce(value_bytes=100_000)
        world.settle()
        assert world.ends() == [number + 1]


def test_a_refused_fetch_is_asked_again_later() -> None:
    world = World()
    # The leader does not know yet that it leads in this epoch.
    world.leader.lead(1)
    world.follower.follow(LEADER, 2)
    world.settle()
    world.leader.lead(2)
    world.leader.produce()
    world.settle()
    assert world.ends() == [0]
    world.settle(1_000)
    assert world.ends() == [1]
