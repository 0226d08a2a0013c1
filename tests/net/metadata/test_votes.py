"""A vote is durable, is not forgotten, and without it nobody takes part."""

from pathlib import Path

import pytest

from net.metadata.log import METADATA
from net.metadata.quorum_state import QUORUM_STATE, Vote, decode_vote
from protocol.quorum import events as e
from storage.errors import DamagedFile
from tests.net.metadata.world import World, run


def vote_of(world: World, node: int) -> Vote:
    """The vote in a node's file."""
    path = world.path(node) / METADATA.folder_name / QUORUM_STATE
    return decode_vote(path.read_bytes(), str(path))


def test_a_vote_is_not_forgotten_over_a_restart(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        node = (await world.start(1)).node
        answers: list[object] = []
        node.receive(e.VoteRequested(answers.append, 2, 5, 0, 0))
        assert getattr(answers[0], "granted", None) is True
        assert vote_of(world, 1) == Vote(5, 2)
        world.kill(1)
        node = (await world.start(1)).node
        assert (node.state.epoch, node.state.voted) == (5, 2)
        node.receive(e.VoteRequested(answers.append, 3, 5, 0, 0))
        assert getattr(answers[1], "granted", None) is False
        node.receive(e.VoteRequested(answers.append, 2, 5, 0, 0))
        assert getattr(answers[2], "granted", None) is True

    run(body, tmp_path)


def test_a_vote_is_in_the_file_before_it_is_given(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        node = (await world.start(1)).node
        seen: list[Vote] = []
        node.receive(e.VoteRequested(lambda _: seen.append(vote_of(world, 1)), 3, 2, 0, 0))
        assert seen == [Vote(2, 3)]

    run(body, tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no JSON"),
        (b'{"leaderId":-1,"leaderEpoch":3,"vot', "no JSON"),
        (b"\x00" * 80, "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"leaderEpoch":3,"votedId":1}', "data_version None"),
        (b'{"leaderEpoch":3,"votedId":1,"data_version":2}', "data_version 2"),
        (b'{"leaderEpoch":-1,"votedId":1,"data_version":1}', "leaderEpoch is -1"),
        (b'{"leaderEpoch":true,"votedId":1,"data_version":1}', "leaderEpoch is True"),
        (b'{"leaderEpoch":3,"data_version":1}', "votedId is None"),
        (b'{"leaderEpoch":0,"votedId":-1,"data_version":1}', "epoch 0, although the log has"),
        (None, "missing, although the log has records"),
    ],
)
def test_a_damaged_vote_stops_the_start_with_a_clear_error(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    async def body(world: World) -> None:
        await world.start_all()
        await world.commit(await world.elected())
        world.kill(1)
        path = world.path(1) / METADATA.folder_name / QUORUM_STATE
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        with pytest.raises(DamagedFile, match=reason) as caught:
            await world.start(1)
        assert str(path) in str(caught.value)
        assert "let it join anew" in str(caught.value)

    run(body, tmp_path)
