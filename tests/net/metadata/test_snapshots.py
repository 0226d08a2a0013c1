"""Snapshots: when they are written, what they replace, and who gets along with them alone."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from net.metadata import snapshots
from net.metadata.log import METADATA
from net.metadata.wire_peers import PeerConfig
from protocol.quorum import SnapshotId
from protocol.quorum import events as e
from storage.disk.posix import PosixDisk
from storage.errors import DamagedFile
from storage.log.config import LogConfig
from tests.net.metadata.world import Running, World, run

SMALL: dict[str, Any] = {
    "snapshot_every_bytes": 20_000,
    "log_config": LogConfig(segment_bytes=8_192),
}


def folder_of(world: World, node: int) -> Path:
    return world.path(node) / METADATA.folder_name


def snapshots_of(world: World, node: int) -> list[SnapshotId]:
    """The snapshots in a node's folder."""
    disk = PosixDisk()
    found = snapshots.found_in(disk, str(folder_of(world, node)))
    disk.close()
    return found


async def grown(world: World, leader: Running, rounds: int = 12) -> int:
    """Let the log grow so far that there are snapshots."""
    end = 0
    for _ in range(rounds):
        end = await world.commit(leader, 5, padding=500)
    await world.all_have(end)
    return end


def test_a_log_that_has_grown_begins_with_a_snapshot_and_its_old_segments_go(
    tmp_path: Path,
) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        await grown(world, await world.elected(), 40)
        for number, each in world.running.items():
            (snapshot,) = snapshots_of(world, number)
            assert each.node.state.log.start_offset == snapshot.end_offset > 0
            assert each.log.loaded.snapshot == snapshot
            assert each.log.log.start_offset == snapshot.end_offset
            # 40 rounds are 100 kB; what is kept is what came since, and a segment.
            assert each.log.log.size_bytes < 40_000
            names = [path.name for path in folder_of(world, number).iterdir()]
            assert not [name for name in names if name.endswith((".tmp", ".part"))]

    run(body, tmp_path, **SMALL)


def test_a_node_restarts_from_its_snapshot_and_the_log_after_it(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        end = await grown(world, await world.elected(), 15)
        image = world.running[9].node.image
        for node in tuple(world.running):
            world.kill(node)
        observer = await world.start(9)
        assert 0 < observer.node.applied < end
        assert 0 < len(observer.node.image.topics) < len(image.topics)
        await world.start_all()
        await world.elected()
        await world.all_have(end + 1)
        assert observer.node.image == image
        # From the snapshot on, not from the beginning.
        assert len(observer.heard.records) < len(image.topics)

    run(body, tmp_path, **SMALL)


@pytest.mark.parametrize("part_bytes", [20, 1 << 20])
def test_who_lags_behind_catches_up_through_a_snapshot(tmp_path: Path, part_bytes: int) -> None:
    async def body(world: World) -> None:
        world.peer_config = PeerConfig(part_bytes=part_bytes)
        await world.start_all()
        leader = await world.elected()
        late = min(world.voters - {leader.node.identity.node})
        await world.all_have(await world.commit(leader))
        world.kill(late)
        end = await grown(world, leader)
        world.sent.clear()
        voter, observer = await world.start(late), await world.start(9)
        await world.all_have(end)
        assert world.sent[59] >= 2
        assert (world.sent[59] > 20) == (part_bytes == 20)
        for each in (voter, observer):
            assert each.node.image == leader.node.image
            assert each.node.state.log.start_offset > 0
        assert observer.heard.records[0][0] > 10
        # And goes on from there, also over a restart.
        world.kill(9)
        observer = await world.start(9)
        assert observer.node.applied == observer.node.state.log.start_offset
        await world.all_have(await world.commit(leader, 3))

    run(body, tmp_path, **SMALL)


def test_a_new_leader_that_has_a_snapshot_goes_on_from_it(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        end = await grown(world, leader)
        gone = leader.node.identity.node
        world.kill(gone)
        after = await world.elected(other_than=gone)
        await world.commit(after, 2)
        await world.start(gone)
        await world.all_have(end + 3)

    run(body, tmp_path, **SMALL)


def test_a_download_that_is_spoilt_is_not_believed_and_tried_again(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        end = await grown(world, leader)
        spoilt = 0

        def spoil(api: int, answer: bytes) -> bytes:
            nonlocal spoilt
            if api != 59 or spoilt == 3:
                return answer
            spoilt += 1
            at = answer.index(b"\x28\xb5\x2f\xfd") + 40
            return answer[:at] + bytes([answer[at] ^ 1]) + answer[at + 1 :]

        world.spoil = spoil
        observer = await world.start(9)
        await world.until(lambda: observer.node.applied >= end)
        assert spoilt == 3
        names = [path.name for path in folder_of(world, 9).iterdir()]
        assert not [name for name in names if name.endswith(".part")]

    run(body, tmp_path, **SMALL)


def test_a_download_goes_on_with_another_leader(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        world.peer_config = PeerConfig(part_bytes=50)
        await world.start_all()
        leader = await world.elected()
        end = await grown(world, leader)
        observer = await world.start(9)
        await world.until(lambda: world.sent.get(59, 0) > 5)
        assert observer.node.applied == 0
        world.kill(leader.node.identity.node)
        await world.until(lambda: observer.node.applied >= end)

    run(body, tmp_path, **SMALL)


def test_who_never_gets_a_part_asks_again_and_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        end = await grown(world, await world.elected())
        world.spoil = lambda api, answer: b"" if api == 59 else answer
        observer = await world.start(9)
        await world.sleep(5)
        assert observer.node.applied == 0
        assert 10 < world.sent[59] < 100
        world.spoil = lambda _api, answer: answer
        await world.until(lambda: observer.node.applied >= end, within_s=3)

    run(body, tmp_path, **SMALL)


def test_a_crash_between_snapshot_and_log_is_finished_at_the_start(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all(9)
        leader = await world.elected()
        await world.all_have(await world.commit(leader, 2))
        world.kill(9)
        end = await grown(world, leader)
        # The snapshot has its name, and the log is still the old one: a crash in between.
        snapshot = leader.log.loaded.snapshot
        source = folder_of(world, leader.node.identity.node) / snapshots.file_name(snapshot)
        (folder_of(world, 9) / source.name).write_bytes(source.read_bytes())
        vote = folder_of(world, leader.node.identity.node) / "quorum-state"
        (folder_of(world, 9) / "quorum-state").write_bytes(vote.read_bytes())
        observer = await world.start(9)
        assert observer.log.log.start_offset == observer.log.end_offset == snapshot.end_offset
        assert observer.node.applied == snapshot.end_offset
        await world.all_have(end)
        assert not world.sent.get(59)

    run(body, tmp_path, **SMALL)


def test_a_damaged_snapshot_of_what_the_log_has_is_done_without(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        end = await world.commit(await world.elected(), 3)
        await world.all_have(end)
        world.kill(1)
        bad = folder_of(world, 1) / snapshots.file_name(SnapshotId(2, 1))
        bad.write_bytes(b"nothing")
        assert (await world.start(1)).node.applied == 0
        await world.all_have(end)

    run(body, tmp_path)


def test_a_damaged_snapshot_of_what_is_gone_stops_the_start_with_a_clear_error(
    tmp_path: Path,
) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        await grown(world, await world.elected())
        world.kill(1)
        (snapshot,) = snapshots_of(world, 1)
        path = folder_of(world, 1) / snapshots.file_name(snapshot)
        content = bytearray(path.read_bytes())
        content[-100] ^= 1
        path.write_bytes(content)
        with pytest.raises(DamagedFile, match="no good snapshot of what is before") as caught:
            await world.start(1)
        assert path.name in str(caught.value)
        path.unlink()
        with pytest.raises(DamagedFile, match="there is none"):
            await world.start(1)

    run(body, tmp_path, **SMALL)


def test_every_byte_of_a_snapshot_is_checked(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        await world.commit(leader, 3)
        leader.node.receive(e.SnapshotWanted())
        await world.until(lambda: leader.log.loaded.snapshot.end_offset > 0)
        path = Path(leader.log.snapshot_path(leader.log.loaded.snapshot))
        content = path.read_bytes()
        disk = PosixDisk()
        assert snapshots.read(disk, str(path)) == leader.log.loaded.image
        copy = tmp_path / "copy"
        # The epoch of a batch is the one thing that no checksum covers, and nobody reads.
        epochs, at = set[int](), 0
        while at < len(content):
            epochs |= set(range(at + 12, at + 16))
            at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
        for place in range(len(content)):
            if place not in epochs:
                bad = bytearray(content)
                bad[place] ^= 0x10
                copy.write_bytes(bad)
                with pytest.raises(DamagedFile):
                    snapshots.read(disk, str(copy))
        for size in range(len(content)):
            copy.write_bytes(content[:size])
            disk.close()
            disk = PosixDisk()
            with pytest.raises(DamagedFile):
                snapshots.read(disk, str(copy))
        disk.close()

    run(body, tmp_path)


def test_a_full_disk_puts_a_snapshot_off(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        create = leader.disk.create

        def full(path: str) -> None:
            if ".checkpoint" in path and "log-start" not in path:
                raise OSError(28, "No space left on device", path)
            create(path)

        leader.disk.create = full  # type: ignore[method-assign]
        await grown(world, leader)
        assert leader.log.loaded.snapshot.end_offset == 0
        leader.disk.create = create  # type: ignore[method-assign]
        await grown(world, leader, 2)
        assert leader.log.loaded.snapshot.end_offset > 0

    run(body, tmp_path, **SMALL)


def test_snapshot_parts_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        leader = await world.elected()
        await grown(world, leader)
        follower = next(each for each in world.running.values() if each is not leader)
        snapshot = leader.log.loaded.snapshot
        peers, state = follower.node._peers, leader.node.state
        wrong = [
            (snapshot, 10**9),
            (snapshot, -1),
            (attrs.evolve(snapshot, end_offset=snapshot.end_offset - 1), 0),
        ]
        got: list[object] = []
        for wanted, position in wrong:
            peers.fetch_part(state.node, state.epoch, wanted, position, got.append)
        peers.fetch_part(state.node, state.epoch - 1, snapshot, 0, got.append)
        peers.fetch_part(77, state.epoch, snapshot, 0, got.append)
        await world.until(lambda: len(got) == 5)
        assert got == [None] * 5
        peers.fetch_part(state.node, state.epoch, snapshot, 3, got.append)
        await world.until(lambda: len(got) == 6)
        assert got[5] is not None

    run(body, tmp_path, **SMALL)
