"""Much goes wrong at once: nobody hears another history, and TLC accepts what the nodes did."""

import json
from pathlib import Path
from random import Random

import pytest

from net.metadata.codec import encode_record
from protocol.quorum.trace import first_line
from protocol.types import NodeId, Offset
from spec.conformance.quorum.tracing import validate
from storage.log.config import LogConfig
from tests.net.metadata.world import World, run


class History:
    """What was committed, as anybody has ever heard it."""

    def __init__(self) -> None:
        self.committed: dict[Offset, bytes] = {}

    def check(self, world: World) -> None:
        for each in world.running.values():
            for offset, record in each.heard.records:
                content = encode_record(record)
                assert self.committed.setdefault(offset, content) == content
        world.check()


async def storm(world: World, seed: int, steps: int, observers: tuple[NodeId, ...]) -> History:
    """Kill, cut off, heal, start again and propose, by chance; then let all come to rest."""
    chance, history = Random(seed), History()
    nodes = sorted({*world.voters, *observers})
    for _ in range(steps):
        node = chance.choice(nodes)
        act = chance.choices(
            ["kill", "start", "cut", "heal", "propose", "wait"], [2, 5, 2, 3, 9, 6]
        )
        match act[0]:
            case "kill" if node in world.running:
                history.check(world)
                world.kill(node)
            case "start" if node not in world.running:
                await world.start(node)
            case "cut":
                world.cut = {node}
            case "heal":
                world.cut.clear()
            case "propose":
                for each in world.running.values():
                    state = each.node.state
                    if each.is_active and state.saving is None and not state.deferred:
                        world.propose(each, chance.randint(1, 3), padding=chance.randint(0, 300))
        await world.sleep(chance.random() * chance.choice([0.01, 0.5, 3]))
        history.check(world)
    world.cut.clear()
    await world.start_all(*observers)
    leader = await world.elected(within_s=30)
    end = await world.commit(leader, 1)
    await world.all_have(end, within_s=30)
    history.check(world)
    return history


@pytest.mark.parametrize("seed", range(4))
def test_nobody_ever_hears_another_history(tmp_path: Path, seed: int) -> None:
    async def body(world: World) -> None:
        await world.start_all(8, 9)
        history = await storm(world, seed, 45, (8, 9))
        assert len(history.committed) > 20
        images = [each.node.image for each in world.running.values()]
        assert all(image == images[0] for image in images)

    run(
        body,
        tmp_path,
        3 if seed % 2 else 5,
        snapshot_every_bytes=3_000,
        log_config=LogConfig(segment_bytes=2_048),
    )


@pytest.mark.tlc
@pytest.mark.slow
def test_the_trace_of_a_storm_is_accepted_by_tlc(tmp_path: Path) -> None:
    lines = []

    async def body(world: World) -> None:
        await world.start_all(9)
        await storm(world, 4, 40, (9,))
        lines.extend(world.lines)

    nodes = tmp_path / "nodes"
    nodes.mkdir()
    run(body, nodes, snapshot_every_bytes=2_000)
    trace = tmp_path / "trace.ndjson"
    head = first_line([1, 2, 3], [9])
    trace.write_text("".join(json.dumps(line) + "\n" for line in [head, *lines]), encoding="utf-8")
    found = validate(trace)
    assert found.accepted, found.rejected
    states = [line["state"] for line in lines]
    assert max(state["epoch"] for state in states) > 2
    assert any(state["start"] for state in states)
    assert sum(line["action"] == "Restart" for line in lines) > 5
