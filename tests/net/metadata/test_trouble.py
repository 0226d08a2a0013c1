"""What a node does about proposals, answers, records and disks that are not as they should be."""

from pathlib import Path

from net.wire.fetch import encode_fetch_answer, parse_fetch_answer
from protocol.controller.records import TopicRecord
from protocol.controller.state import TopicConfig
from protocol.errors import ErrorCode
from protocol.quorum import NOBODY
from protocol.quorum import events as e
from storage.batch.build import build
from storage.batch.header import split
from storage.batch.records import Record
from tests.net.metadata.world import World, run


def _ignore(_effect: object) -> None:
    pass


def test_proposals_that_cannot_be_are_refused(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        state = leader.node.state
        end: int = state.role.reserved_end  # type: ignore[union-attr]
        record = TopicRecord("t", "id", TopicConfig())
        refusals: list[ErrorCode] = []
        leader.node.propose([record], end + 1, state.epoch, refusals.append)
        leader.node.propose([record], end, state.epoch - 1, refusals.append)
        large = TopicRecord("t", "id" * (1 << 26), TopicConfig())
        leader.node.propose([large], end, state.epoch, refusals.append)
        follower = next(each for each in world.running.values() if each is not leader)
        follower.node.propose([record], end, state.epoch, refusals.append)
        assert refusals == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ]
        leader.node.stop()
        leader.node.propose([record], end, state.epoch, refusals.append)
        assert refusals[4:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(body, tmp_path)


def test_answers_that_no_leader_gives_are_dropped_and_asked_for_again(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        end = await world.commit(leader, 3)
        await world.all_have(end)
        spoilt = 0

        def spoil(api: int, answer: bytes) -> bytes:
            nonlocal spoilt
            found = parse_fetch_answer(17, answer) if api == 1 else None
            if found is None or not found.topics[0][1][0].records or spoilt == 4:
                return answer
            spoilt += 1
            ((topic, (partition,)),) = found.topics
            records = bytearray(b"".join(partition.records))
            if spoilt % 2:
                # An epoch that is still to come; no checksum covers it.
                records[12:16] = (1_000).to_bytes(4, "big")
            else:
                records[7] += 1
            changed = partition._replace(records=[records])
            parts = encode_fetch_answer(17, found._replace(topics=[(topic, [changed])]))
            return b"".join(map(bytes, parts))

        world.spoil = spoil
        observer = await world.start(9)
        # Each time after a tenth of a second, not after the two that a silent leader gets.
        await world.until(lambda: observer.node.applied >= end, within_s=1.5)
        assert spoilt == 4

    run(body, tmp_path)


def test_a_disk_that_fails_is_told_once_and_the_node_takes_no_part(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        await world.all_have(await world.commit(leader))

        def broken(path: str) -> None:
            raise OSError(5, "I/O error", path)

        leader.disk.fsync = broken  # type: ignore[method-assign]
        number = leader.node.identity.node
        world.propose(leader)
        await world.until(lambda: leader.node.state.failed)
        assert len(leader.failures) == 1
        assert "I/O error" in leader.failures[0]
        assert leader.heard.depositions
        await world.elected(other_than=number)
        assert len(leader.failures) == 1
        world.kill(number)

    run(body, tmp_path)


def test_what_must_never_happen_stops_the_node(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        number = leader.node.identity.node
        await world.all_have(await world.commit(leader))
        follower = next(each for each in world.running.values() if each is not leader)
        third = next(iter(world.voters - {number, follower.node.identity.node}))
        # Two leaders in one epoch.
        follower.node.receive(e.EpochLearned(third, leader.node.state.epoch, third))
        assert [each.name for each in follower.violations] == ["OneLeaderPerEpoch"]
        assert follower.node.is_closed
        follower.violations.clear()

    run(body, tmp_path)


def test_a_committed_record_that_nobody_knows_stops_the_node_and_is_named(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        node = await world.start(1)
        await world.elected()
        state = node.node.state
        base: int = state.role.reserved_end  # type: ignore[union-attr]
        stored = [Record(base, 0, None, b'{"type":"from-the-future","version":0}')]
        (batch,) = split(build(stored, base_offset=base, leader_epoch=state.epoch))
        node.node.receive(e.RecordsProposed(_ignore, state.epoch, base, 1, [batch]))
        await world.until(lambda: node.node.state.failed)
        assert len(node.failures) == 1
        assert f"offset {base}" in node.failures[0]
        assert "from-the-future" in node.failures[0]
        node.failures.clear()

    run(body, tmp_path, voters=1)


def test_a_node_that_stops_sends_everybody_away(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        leader = await world.elected()
        await world.all_have(await world.commit(leader))
        await world.sleep(1)
        assert len(leader.node.state.parked) == 3
        answers: list[object] = []
        state = leader.node.state
        asked = e.FetchReceived(
            answers.append,
            8,
            state.epoch,
            state.log.end_offset,
            state.epoch,
            10**6,
            max_wait_ms=500,
        )
        leader.node.receive(asked)
        assert not answers
        leader.node.stop()
        leader.node.stop()
        leader.node.receive(asked)
        errors = [getattr(answer, "error", None) for answer in answers]
        assert errors == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
        assert leader.node.is_closed

    run(body, tmp_path)


def test_nodes_of_another_cluster_are_not_heard(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        end = await world.commit(leader)
        stranger = await world.start(9, cluster_id="another")
        await world.sleep(10)
        assert stranger.node.applied == 0
        assert stranger.node.leader[0] == NOBODY
        assert leader.node.applied == end

    run(body, tmp_path)
