"""The trace of a replica: its lines are in order, though a fetch gets its name when it leaves."""

from typing import Any

from protocol.errors import ErrorCode
from protocol.replication.events import FetchAnswered, ProposalRefused
from tests.net.broker.worlds import World, batch


def follower() -> tuple[World, list[dict[str, Any]]]:
    """A replica that follows and has asked its leader; nobody has sent that yet."""
    lines: list[dict[str, Any]] = []
    world = World(trace=lines.append)
    world.follow()
    world.pass_ms(0)
    assert len(world.fetches) == 1
    return world, lines


def steps(lines: list[dict[str, Any]]) -> list[str]:
    return [step["name"] for line in lines for step in line["steps"]]


def sent(lines: list[dict[str, Any]]) -> list[str]:
    return [name for line in lines for name in line.get("sent", ())]


def numbers(lines: list[dict[str, Any]]) -> list[int]:
    return [line["seq"] for line in lines]


def test_the_first_line_says_what_the_disk_has_kept() -> None:
    lines: list[dict[str, Any]] = []
    World(trace=lines.append)
    assert steps(lines) == ["Restart"]


def test_a_line_with_a_fetch_waits_for_its_name_and_all_after_it_wait_too() -> None:
    world, lines = follower()
    before = len(lines)
    world.lead(epoch=3, isr=(1,))
    world.produce(batch())
    assert len(lines) == before
    world.partition.fetch_sent("1-10-5")
    assert sent(lines)[0] == "1-10-5"
    assert len(lines) > before + 1
    assert numbers(lines) == sorted(numbers(lines))
    assert steps(lines)[:2] == ["Restart", "BecomeFollower"]


def test_a_fetch_that_another_one_replaced_was_never_sent() -> None:
    world, lines = follower()
    world.follow(epoch=3)
    world.pass_ms(0)
    assert len(world.fetches) == 2
    world.partition.fetch_sent("1-10-6")
    unsent, name = sent(lines)
    assert unsent.startswith("unsent-1-")
    assert name == "1-10-6"


def test_what_waits_at_the_end_is_written_and_was_never_sent() -> None:
    world, lines = follower()
    before = len(lines)
    world.partition.close()
    assert len(lines) > before
    assert sent(lines)[-1].startswith("unsent-1-")
    assert len(set(sent(lines))) == len(sent(lines))


def test_an_answer_goes_by_the_name_of_what_it_answers() -> None:
    world, lines = follower()
    world.partition.fetch_sent("1-10-5")
    world.partition.deliver(FetchAnswered(2, 0, 0, high_watermark=0))
    world.pass_ms(0)
    world.partition.fetch_sent("1-10-6")
    assert [line["received"] for line in lines if "received" in line] == ["1-10-5"]
    assert sent(lines) == ["1-10-5", "1-10-6"]


def test_a_proposal_has_a_name_too_and_its_refusal_goes_by_it() -> None:
    lines: list[dict[str, Any]] = []
    world = World(trace=lines.append)
    world.lead()
    world.produce(batch(), acks=1)
    before = len(lines)
    world.pass_ms(40_000)
    (proposal,) = world.proposals
    world.produce(batch(), acks=1)
    assert len(lines) == before
    world.partition.proposal_sent("p1-10-3")
    assert sent(lines) == ["p1-10-3"]
    world.partition.deliver(ProposalRefused(proposal.version, ErrorCode.INELIGIBLE_REPLICA))
    (received,) = (line for line in lines if "received" in line)
    assert received["received"] == "p1-10-3"
    assert steps([received]) == ["RejectIsr"]


def test_a_proposal_that_could_not_be_sent_was_not() -> None:
    lines: list[dict[str, Any]] = []
    world = World(trace=lines.append)
    world.lead()
    world.produce(batch(), acks=1)
    world.pass_ms(40_000)
    world.partition.proposal_sent(None)
    (name,) = sent(lines)
    assert name.startswith("unsent-1-10-")
