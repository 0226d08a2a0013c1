"""ISR proposals: a few requests at a time, and who is refused is told."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from net.broker.proposals import Proposals
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode
from protocol.replication.effects import SendProposal
from protocol.replication.events import ProposalRefused
from storage.checkpoint import TopicPartition
from tests.net.broker.desk import Desk

UNDER_WAY = 8


class Leader:
    """A partition, as far as proposals look at it."""

    def __init__(self, proposals: Proposals, index: int) -> None:
        self.key = TopicPartition("t", index)
        self.topic_id = UUID(int=7)
        self.heard: list[Any] = []
        self.names: list[str | None] = []
        self.epochs = {1: 10, 2: 20}
        self.again: SendProposal | None = None
        self._proposals = proposals

    def broker_epochs(self) -> dict[int, int]:
        return dict(self.epochs)

    def proposal_sent(self, name: str | None) -> None:
        self.names.append(name)

    def deliver(self, event: Any) -> None:
        self.heard.append(event)
        if self.again is not None:
            wanted, self.again = self.again, None
            self.propose(wanted)

    def propose(self, wanted: SendProposal) -> None:
        self._proposals.propose(self, wanted)  # type: ignore[arg-type]


def wanted(version: int, isr: Sequence[int] = (1, 2)) -> SendProposal:
    return SendProposal(10, 3, version, frozenset(isr), 20)


def leaders(count: int) -> tuple[Desk, list[Leader]]:
    desk = Desk()
    proposals = Proposals(1, desk)
    return desk, [Leader(proposals, index) for index in range(count)]


def indexes(message: Message) -> list[int]:
    return [each["partition_index"] for topic in message["topics"] for each in topic["partitions"]]


def told(*errors: tuple[int, int]) -> list[Message]:
    partitions = [{"partition_index": index, "error_code": error} for index, error in errors]
    return [{"topic_id": UUID(int=7), "partitions": partitions}]


def test_a_proposal_says_all_that_the_controller_needs() -> None:
    desk, (leader,) = leaders(1)
    leader.propose(wanted(5, (1, 2, 3)))
    asked = desk.only()
    assert asked.api == Api.ALTER_PARTITION
    assert (asked.message["broker_id"], asked.message["broker_epoch"]) == (1, 10)
    ((partition,),) = (topic["partitions"] for topic in asked.message["topics"])
    assert (partition["leader_epoch"], partition["partition_epoch"]) == (3, 5)
    # Who has not fetched yet is in no incarnation that the leader knows.
    isr = partition["new_isr_with_epochs"]
    assert {each["broker_id"]: each["broker_epoch"] for each in isr} == {1: 10, 2: 20, 3: -1}
    assert leader.names == ["p1-10-1"]


def busy(count: int) -> tuple[Desk, list[Leader], list[Leader]]:
    """As many leaders whose proposals are under way as there may be, and some whose are not."""
    desk, found = leaders(UNDER_WAY + count)
    for leader in found[:UNDER_WAY]:
        leader.propose(wanted(1))
    assert [indexes(each.message) for each in desk.asked] == [[at] for at in range(UNDER_WAY)]
    return desk, found[:UNDER_WAY], found[UNDER_WAY:]


def test_what_is_proposed_meanwhile_goes_together_with_the_next_request() -> None:
    desk, (first, *_), (one, two) = busy(2)
    one.propose(wanted(1))
    two.propose(wanted(1))
    two.propose(wanted(2))
    assert len(desk.asked) == UNDER_WAY
    desk.next().answer(error_code=0, topics=told((0, 0)))
    assert len(desk.asked) == UNDER_WAY
    later = desk.asked[-1].message
    assert indexes(later) == [8, 9]
    assert later["topics"][0]["partitions"][1]["partition_epoch"] == 2
    assert first.heard == []
    assert one.names == two.names == ["p1-10-8"]


def test_who_joins_is_the_incarnation_that_the_leader_decided_about() -> None:
    """KIP-903: one that came back since has caught up with nothing."""
    desk, _, (late,) = busy(1)
    late.propose(wanted(1))
    late.epochs[2] = 21
    desk.next().answer(error_code=0, topics=told((0, 0)))
    ((partition,),) = (topic["partitions"] for topic in desk.asked[-1].message["topics"])
    assert partition["new_isr_with_epochs"][1] == {"broker_id": 2, "broker_epoch": 20}


def test_a_refusal_is_told_to_whom_it_is_for() -> None:
    desk, (first, second) = leaders(2)
    first.propose(wanted(4))
    second.propose(wanted(5))
    desk.next().answer(error_code=0, topics=told((0, ErrorCode.INVALID_UPDATE_VERSION)))
    assert first.heard == [ProposalRefused(4, ErrorCode.INVALID_UPDATE_VERSION)]
    assert second.heard == []
    desk.next().answer(error_code=0, topics=told((1, 0)))
    assert second.heard == []


def test_a_request_that_is_refused_whole_is_refused_to_all_in_it() -> None:
    desk, _, (one, two) = busy(2)
    one.propose(wanted(1))
    two.propose(wanted(2))
    desk.next().answer(error_code=0, topics=told((0, 0)))
    desk.asked.pop().answer(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])
    assert one.heard == [ProposalRefused(1, ErrorCode.STALE_BROKER_EPOCH)]
    assert two.heard == [ProposalRefused(2, ErrorCode.STALE_BROKER_EPOCH)]


def test_leaders_that_propose_again_when_refused_are_answered_again() -> None:
    desk, _, (one, two) = busy(2)
    one.propose(wanted(1))
    two.propose(wanted(1))
    one.again, two.again = wanted(2), wanted(2)
    desk.next().answer(error_code=0, topics=told((0, 0)))
    desk.asked.pop().answer(error_code=0, topics=told((8, 95), (9, 95)))
    seen = 0
    while any(8 in indexes(each.message) or 9 in indexes(each.message) for each in desk.asked):
        assert len(desk.asked) <= UNDER_WAY
        sent = desk.next()
        sent.answer(error_code=0, topics=told(*((at, 95) for at in indexes(sent.message))))
        seen += 1
    assert one.heard == two.heard == [ProposalRefused(1, 95), ProposalRefused(2, 95)]


def test_nobody_is_told_when_nothing_came_back_and_who_waits_goes_next() -> None:
    desk, (first, *_), (late,) = busy(1)
    late.propose(wanted(1))
    desk.next().fail()
    assert first.heard == []
    # What waited need not wait for somebody else's proposal.
    assert indexes(desk.asked[-1].message) == [8]


def test_without_a_controller_nothing_goes_round_in_circles_nor_is_counted() -> None:
    desk, (first, second) = leaders(2)
    desk.is_gone = True
    for _ in range(2 * UNDER_WAY):
        first.propose(wanted(1))
        second.propose(wanted(1))
    assert set(first.names) == {None}
    desk.is_gone = False
    first.propose(wanted(1))
    assert indexes(desk.only().message) == [0]
