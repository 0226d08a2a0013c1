"""Several nodes of a quorum on real files: elections, replication, and what survives what."""

import shutil
from pathlib import Path

import pytest
import trio

from net.metadata.log import METADATA
from protocol.controller.records import TopicRecord
from protocol.quorum import Follower, QuorumConfig
from storage.batch.header import headers
from tests.net.metadata.world import World, run

# By the virtual clock: a follower waits 2 s for its leader, then at most 2 s for an election.
NEW_LEADER_S = 5


def log_bytes(world: World, node: int) -> bytes:
    """All batches of a node's log, as they lie in its files."""
    folder = world.path(node) / METADATA.folder_name
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_one_is_elected_and_all_follow_it(tmp_path: Path, voters: int) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected(within_s=NEW_LEADER_S)
        end = await world.commit(leader, 5)
        await world.all_have(end)
        assert {each.node.leader for each in world.running.values()} == {leader.node.leader}
        assert all(each.node.caught_up for each in world.running.values())
        assert len(leader.node.image.topics) == 5

    run(body, tmp_path, voters)


def test_listeners_hear_every_record_once_and_in_order(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(4)
        leader = await world.elected()
        for count in (1, 3, 2):
            end = await world.commit(leader, count)
        await world.all_have(end)
        names = [f"t{number}" for number in range(1, 7)]
        for each in world.running.values():
            found = [record for _, record in each.heard.records]
            assert [record.name for record in found if isinstance(record, TopicRecord)] == names
            offsets = [offset for offset, _ in each.heard.records]
            assert offsets == list(range(end - 6, end))
        # The first record of an epoch is none of the controller's, but has an offset.
        assert leader.heard.elections == [(leader.node.state.epoch, end - 6)]

    run(body, tmp_path)


def test_nobody_hears_of_what_is_not_committed_yet(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        leader = await world.elected()
        await world.all_have(await world.commit(leader))
        for _ in range(6):
            end = world.propose(leader)
        ahead = 0
        while not all(each.node.applied >= end for each in world.running.values()):
            for each in world.running.values():
                assert each.node.applied <= each.node.high_watermark
                ahead += each.log.end_offset > each.node.high_watermark
            await world.sleep(0.0005)
        assert ahead > 10

    # A batch at a time, so that the logs are ahead of what is committed.
    run(body, tmp_path, config=QuorumConfig(fetch_max_bytes=1))


def test_a_killed_leader_is_replaced_in_time_and_nothing_committed_is_lost(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        for _ in range(3):
            leader = await world.elected()
            end = await world.commit(leader, 3)
            gone = leader.node.identity.node
            before, epoch = leader.node.image, leader.node.state.epoch
            world.kill(gone)
            after = await world.elected(other_than=gone, within_s=NEW_LEADER_S)
            assert after.node.state.epoch > epoch
            assert after.node.image == before
            await world.start(gone)
            await world.commit(after, 1)
            await world.all_have(end + 2)

    run(body, tmp_path)


def test_what_is_committed_lies_in_the_files_of_a_majority(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        end = world.propose(leader, 1)
        # At the very moment at which it is committed, not a while later.
        while leader.node.high_watermark < end:
            await trio.lowlevel.checkpoint()
            await world.sleep(0.0001)
        for node in tuple(world.running):
            world.kill(node)
        holders = [node for node in world.voters if b'"name":"t1"' in log_bytes(world, node)]
        assert len(holders) >= 2

    run(body, tmp_path)


def test_a_restart_of_all_keeps_everything(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(7)
        end = await world.commit(await world.elected(), 20)
        await world.all_have(end)
        image = world.running[1].node.image
        for node in tuple(world.running):
            world.kill(node)
        await world.start_all(7)
        leader = await world.elected()
        await world.all_have(end + 1)
        assert leader.node.image == image
        assert world.running[7].node.image == image

    run(body, tmp_path)


def test_a_leader_that_stops_in_good_order_is_replaced_without_a_time_out(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        await world.commit(leader)
        gone = leader.node.identity.node
        await world.stop(gone)
        # Less than the 2 s after which a follower takes a silent leader for gone.
        await world.elected(other_than=gone, within_s=1.9)

    run(body, tmp_path, config=QuorumConfig(election_jitter_ms=500))


def test_a_leader_that_is_cut_off_resigns_and_its_tail_is_cut_when_it_is_back(
    tmp_path: Path,
) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        old = await world.elected()
        await world.all_have(await world.commit(old, 2))
        number = old.node.identity.node
        world.cut.add(number)
        lost = world.propose(old, 4)
        await world.until(lambda: old.log.end_offset == lost)
        assert b'"name":"t6"' in log_bytes(world, number)
        new = await world.elected(other_than=number, within_s=10)
        await world.until(lambda: not old.node.is_leader)
        assert old.heard.depositions == [old.heard.elections[0][0]]
        assert old.node.high_watermark < lost
        end = await world.commit(new, 1)
        world.cut.clear()
        await world.all_have(end)
        assert b'"name":"t6"' not in log_bytes(world, number)
        assert log_bytes(world, number) == log_bytes(world, new.node.identity.node)
        assert sorted(old.node.image.topics) == ["t1", "t2", "t7"]

    run(body, tmp_path)


def test_an_observer_catches_up_and_follows_but_neither_votes_nor_counts(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        end = await world.commit(leader, 30)
        observer = await world.start(9)
        await world.until(lambda: observer.node.applied >= end, within_s=3)
        assert observer.node.image == leader.node.image
        assert not observer.node.is_leader
        # With one voter of three and an observer there is no majority.
        for number in sorted(world.voters - {leader.node.identity.node}):
            world.kill(number)
        lost = world.propose(leader)
        await world.sleep(2)
        assert leader.node.high_watermark < lost

    run(body, tmp_path)


def test_an_observer_finds_the_new_leader(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        leader = await world.elected()
        await world.all_have(await world.commit(leader))
        gone = leader.node.identity.node
        world.kill(gone)
        after = await world.elected(other_than=gone)
        end = await world.commit(after)
        await world.until(lambda: world.running[9].node.applied >= end, within_s=10)

    run(body, tmp_path)


def test_an_observer_that_restarts_in_its_epoch_follows_within_half_a_second(
    tmp_path: Path,
) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        end = await world.commit(await world.elected())
        for number in (9, 10, 11):
            # Each begins with another voter, so two of them do not ask the leader first.
            observer = await world.start(number)
            await world.until(lambda observer=observer: observer.node.applied >= end)  # type: ignore[misc]
            world.kill(number)
            observer = await world.start(number)
            await world.until(lambda observer=observer: observer.node.caught_up, within_s=0.5)  # type: ignore[misc]

    run(body, tmp_path)


def test_a_wiped_observer_replicates_everything_again(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        end = await world.commit(await world.elected(), 10)
        await world.all_have(end)
        image = world.running[9].node.image
        world.kill(9)
        shutil.rmtree(world.path(9))
        observer = await world.start(9)
        assert observer.node.applied == 0
        await world.until(lambda: observer.node.applied >= end)
        assert observer.node.image == image

    run(body, tmp_path)


def test_many_records_at_once_are_one_batch_and_arrive(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        leader = await world.elected()
        # More than is decoded on the loop, and than one fetch asks for.
        end = await world.commit(leader, 3_000, padding=400)
        await world.all_have(end)
        assert len(world.running[9].node.image.topics) == 3_000
        # All or none also after a crash: the disk and the others get them as one.
        content = log_bytes(world, 9)
        assert [header.record_count for _, header in headers(content)] == [1, 3_000]

    run(body, tmp_path)


def test_a_long_log_is_replayed_in_pieces_and_whole(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        for _ in range(40):
            end = await world.commit(leader, 5, padding=2_500)
        await world.all_have(end)
        for node in tuple(world.running):
            world.kill(node)
        await world.start_all(9)
        await world.elected()
        await world.all_have(end + 1)
        observer = world.running[9]
        assert len(observer.heard.records) == len(observer.node.image.topics) == 200

    run(body, tmp_path)


def test_an_idle_quorum_sends_few_messages(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        await world.commit(await world.elected())
        await world.sleep(5)
        world.sent.clear()
        await world.sleep(10)
        # Three that fetch, each waiting half a second at the leader; nothing else.
        assert set(world.sent) == {1}
        assert 50 <= world.sent[1] <= 66

    run(body, tmp_path)


def test_news_reach_followers_without_waiting(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        leader = await world.elected()
        await world.all_have(await world.commit(leader))
        await world.sleep(3)
        begun = world.now_s()
        await world.all_have(await world.commit(leader))
        # Two round trips: the record, and that it is committed; not the half second of a fetch.
        assert world.now_s() - begun < 0.1

    run(body, tmp_path)


def test_the_trace_begins_with_what_the_disk_kept_and_is_numbered(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        await world.all_have(await world.commit(await world.elected(), 2))
        world.kill(1)
        await world.start(1)
        await world.until(lambda: isinstance(world.running[1].node.state.role, Follower))
        mine = [line for line in world.lines if line["node"] == 1]
        starts = [line for line in mine if line["action"] == "Restart"]
        assert [line["seq"] for line in starts] == [0, 0]
        assert len({line["incarnation"] for line in starts}) == 2
        assert starts[1]["state"]["end"] == 3
        for start in starts:
            of_one = [each for each in mine if each["incarnation"] == start["incarnation"]]
            assert [each["seq"] for each in of_one] == list(range(len(of_one)))

    run(body, tmp_path)
