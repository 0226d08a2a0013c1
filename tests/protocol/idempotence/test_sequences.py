"""The leader's half, told as stories: what is let through, answered again, refused, forgotten."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from protocol.idempotence import Batch, LogBatch, Sequences, SequencesConfig, Snapshot, fold
from protocol.idempotence.effects import Accept, AlreadyAppended, DropSnapshot, Refuse
from protocol.idempotence.events import (
    AppendsRefused,
    BatchAppended,
    BatchArrived,
    BatchRefused,
    HighWatermarkAdvanced,
    LeadershipBegun,
    LeadershipEnded,
    MarkerAppended,
    ParkedExpired,
    ProducerIdle,
    RequestAbandoned,
    SweepDone,
)
from protocol.idempotence.fold import thin
from protocol.machine import Effects, Event

DAY_MS = 86_400_000
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
DUPLICATE = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
LAST = 2**31 - 1


class Leader:
    """A leader, and a log that only counts."""

    def __init__(self, config: SequencesConfig | None = None) -> None:
        self.machine = Sequences.restarted(config=config)
        self.end_offset = 0

    def handle(self, event: Event, now_ms: int = 0) -> Effects:
        return self.machine.handle(event, now_ms)

    def arrive(
        self,
        first: int,
        last: int | None = None,
        *,
        name: str = "b",
        producer: int = 7,
        epoch: int = 0,
        acks_all: bool = True,
    ) -> Effects:
        last = first if last is None else last
        return self.handle(BatchArrived(name, producer, epoch, first, last, acks_all))

    def append(
        self,
        first: int,
        last: int | None = None,
        *,
        producer: int = 7,
        epoch: int = 0,
        now_ms: int = 0,
    ) -> int:
        """Let a batch arrive and be written; give its offset."""
        last = first if last is None else last
        assert self.handle(BatchArrived("b", producer, epoch, first, last)) == (Accept("b"),)
        base = self.end_offset
        assert self.handle(BatchAppended(producer, base), now_ms) == ()
        self.end_offset += (last - first) % 2**31 + 1
        return base

    def commit(self) -> Effects:
        return self.handle(HighWatermarkAdvanced(self.end_offset))

    def batches(self, producer: int = 7) -> tuple[Batch, ...]:
        return self.machine.state.entries[producer].batches


def refused(error: ErrorCode, name: str = "b") -> Effects:
    return (Refuse(name, error),)


def test_batches_are_let_through_in_order() -> None:
    leader = Leader()
    assert [leader.append(0, 9), leader.append(10), leader.append(11, 14)] == [0, 10, 11]
    assert leader.batches() == (Batch(0, 9, 0), Batch(10, 10, 10), Batch(11, 14, 11))


@pytest.mark.parametrize("first", [9, 11, 12, 500])
def test_a_gap_or_an_overlap_is_refused(first: int) -> None:
    leader = Leader()
    leader.append(0, 9)
    before = leader.machine.state
    assert leader.arrive(first, first + 3) == refused(OUT_OF_ORDER)
    assert leader.machine.state is before


def test_an_unknown_producer_starts_at_the_first_sequence() -> None:
    """Kafka takes any: then the second of two batches overtakes the first."""
    leader = Leader()
    assert leader.arrive(1) == refused(ErrorCode.UNKNOWN_PRODUCER_ID)
    leader.append(0)
    leader.append(1)


def test_a_new_epoch_starts_at_the_first_sequence_and_fences_the_old_one() -> None:
    leader = Leader()
    leader.append(0)
    assert leader.arrive(1, epoch=1) == refused(OUT_OF_ORDER)
    leader.append(0, epoch=1)
    assert leader.arrive(1, epoch=0) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert leader.arrive(0, epoch=0) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    leader.append(1, epoch=1)


def test_sequences_go_round_within_a_batch_and_between_two() -> None:
    leader = Leader()
    leader.append(0, LAST - 5)
    leader.append(LAST - 4, 2)
    leader.append(3, LAST)
    assert leader.arrive(1) == refused(OUT_OF_ORDER)
    leader.append(0)
    leader.append(1)
    assert leader.end_offset == 2 * 2**31 + 2


def test_the_last_five_are_known_again_and_of_the_sixth_only_that_it_came() -> None:
    leader = Leader()
    for number in range(6):
        leader.append(2 * number, 2 * number + 1)
    leader.commit()
    for number in range(1, 6):
        again = leader.arrive(2 * number, 2 * number + 1)
        assert again == (AlreadyAppended("b", 2 * number),)
    assert leader.arrive(0, 1) == refused(DUPLICATE)
    assert leader.arrive(2, 2) == refused(DUPLICATE), "cut in another way, but in the log"
    assert leader.arrive(11, 12) == refused(OUT_OF_ORDER), "partly in the log"
    assert leader.arrive(13) == refused(OUT_OF_ORDER)
    assert leader.arrive(0, 1, epoch=1) == (Accept("b"),), "another epoch begins anew"


def test_half_of_the_round_is_behind_and_half_ahead() -> None:
    leader = Leader()
    leader.append(0, LAST - 1)
    leader.append(LAST)
    for sequence in range(6):
        leader.append(sequence)
    leader.commit()
    assert leader.arrive(LAST) == refused(DUPLICATE), "behind, across the end of the round"
    assert leader.arrive(5 - 2**30 + 1 + 2**31) == refused(DUPLICATE), "the first of that half"
    assert leader.arrive(5 - 2**30 + 2**31) == refused(OUT_OF_ORDER), "more than half behind"
    assert leader.arrive(LAST - 2**30, 4) == refused(OUT_OF_ORDER), "not all of it in that half"


def test_a_snapshot_has_one_batch_and_older_ones_are_known_when_what_follows_is_committed() -> None:
    leader = Leader()
    for sequence in range(3):
        leader.append(sequence)
    snapshot = Snapshot(3, thin(leader.machine.state.entries))
    leader.machine = Sequences.restarted(snapshot=snapshot, end_offset=3, high_watermark=1)
    assert leader.batches() == (Batch(2, 2, 2),)
    assert leader.arrive(1, name="older") == ()
    assert leader.arrive(1, name="hasty", acks_all=False) == refused(DUPLICATE, "hasty")
    assert leader.handle(HighWatermarkAdvanced(2)) == ()
    assert leader.commit() == refused(DUPLICATE, "older")


def test_an_older_batch_that_is_being_written_is_waited_for() -> None:
    leader = Leader(SequencesConfig(remembered=2))
    for sequence in range(4):
        leader.arrive(sequence, name=f"{sequence}")
    assert leader.arrive(0, name="again") == ()
    leader.handle(BatchAppended(7, 0))
    assert leader.handle(HighWatermarkAdvanced(1)) == (AlreadyAppended("again", 0),)


def test_a_repeated_batch_is_answered_when_the_first_is_committed() -> None:
    leader = Leader()
    leader.append(0, 4)
    leader.append(5)
    assert leader.arrive(0, 4, name="again") == ()
    assert leader.arrive(5, name="once more") == ()
    assert leader.handle(HighWatermarkAdvanced(4)) == ()
    assert leader.handle(HighWatermarkAdvanced(5)) == (AlreadyAppended("again", 0),)
    assert leader.handle(HighWatermarkAdvanced(5)) == ()
    assert leader.commit() == (AlreadyAppended("once more", 5),)
    assert leader.arrive(0, 4) == (AlreadyAppended("b", 0),)


def test_a_batch_is_committed_with_its_last_record() -> None:
    leader = Leader()
    leader.append(0, 4)
    leader.handle(HighWatermarkAdvanced(4))
    assert leader.arrive(0, 4, name="again") == ()
    assert leader.commit() == (AlreadyAppended("again", 0),)


def test_who_does_not_wait_for_the_others_is_answered_at_once() -> None:
    leader = Leader()
    leader.append(0)
    assert leader.arrive(0, acks_all=False) == (AlreadyAppended("b", 0),)


def test_a_batch_is_checked_against_those_that_are_not_written_yet() -> None:
    leader = Leader()
    assert leader.arrive(0, 1, name="first") == (Accept("first"),)
    assert leader.arrive(2, name="second") == (Accept("second"),)
    assert leader.arrive(4, name="gap") == refused(OUT_OF_ORDER, "gap")
    assert leader.arrive(0, 1, name="again") == ()
    leader.handle(BatchAppended(7, 30))
    assert leader.machine.state.entries[7].batches == (Batch(0, 1, 30),)
    leader.handle(BatchAppended(7, 32))
    assert leader.handle(HighWatermarkAdvanced(33)) == (AlreadyAppended("again", 30),)


def test_an_epoch_that_is_not_written_yet_fences_too() -> None:
    leader = Leader()
    leader.append(0)
    assert leader.arrive(0, name="new", epoch=1) == (Accept("new"),)
    assert leader.arrive(1) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    leader.handle(BatchRefused(7, "new"))
    leader.append(1)


def test_with_a_batch_that_falls_the_later_ones_fall() -> None:
    leader = Leader()
    leader.append(0)
    for number, name in enumerate(["one", "two", "three"], start=1):
        assert leader.arrive(number, name=name) == (Accept(name),)
    assert leader.arrive(3, name="again") == ()
    assert leader.handle(BatchRefused(7, "two")) == (
        Refuse("three", OUT_OF_ORDER),
        Refuse("again", OUT_OF_ORDER),
    )
    leader.handle(BatchAppended(7, 1))
    leader.end_offset = 2
    leader.append(2)
    assert leader.handle(BatchRefused(7, "nobody")) == ()


def test_without_room_everything_in_flight_falls() -> None:
    leader = Leader()
    leader.append(0)
    leader.arrive(1)
    leader.arrive(1, name="again")
    leader.arrive(0, producer=8)
    full = leader.handle(AppendsRefused())
    assert full == refused(ErrorCode.KAFKA_STORAGE_ERROR, "again")
    assert leader.handle(AppendsRefused()) == ()
    leader.append(1)
    leader.append(0, producer=8)


def test_nothing_is_written_that_was_not_let_through() -> None:
    with pytest.raises(ValueError, match="producer 7"):
        Leader().handle(BatchAppended(7, 0))


def test_a_new_leader_believes_its_log_and_no_snapshot_from_beyond_it() -> None:
    """KAFKA-12153."""
    leader = Leader()
    leader.append(0)
    leader.append(1)
    leader.arrive(1, name="waits")
    leader.arrive(2, name="written")
    leader.arrive(2, name="again")
    snapshot = Snapshot(2, leader.machine.state.entries)
    left = (LogBatch(7, 0, 0, 0, 0),)
    effects = leader.handle(LeadershipBegun(snapshot, left, 1, 0))
    assert effects == (
        DropSnapshot(2),
        Refuse("again", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse("waits", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )
    leader.end_offset = 1
    assert leader.arrive(2) == refused(OUT_OF_ORDER)
    leader.append(1)


def test_a_new_leader_uses_a_snapshot_that_its_log_covers() -> None:
    leader = Leader()
    snapshot = Snapshot(1, fold([LogBatch(7, 0, 0, 0, 0)]))
    later = (LogBatch(7, 0, 1, 3, 1),)
    assert leader.handle(LeadershipBegun(snapshot, later, 4, 4)) == ()
    leader.end_offset = 4
    assert leader.batches() == (Batch(0, 0, 0), Batch(1, 3, 1))
    assert leader.arrive(0) == (AlreadyAppended("b", 0),)
    leader.append(4)


def test_who_leads_no_more_lets_go_of_everybody() -> None:
    leader = Leader()
    leader.append(0)
    leader.arrive(0, name="waits")
    assert leader.handle(LeadershipEnded()) == refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "waits")
    assert leader.handle(LeadershipEnded()) == ()
    assert leader.commit() == ()


def test_a_restart_remembers_the_snapshot_and_what_came_after_it() -> None:
    snapshot = Snapshot(10, fold([LogBatch(7, 0, 0, 9, 0), LogBatch(8, 2, 0, 0, 5)]))
    machine = Sequences.restarted(
        snapshot=snapshot,
        written=[LogBatch(7, 0, 0, 9, 0), LogBatch(7, 0, 10, 10, 10)],
        end_offset=11,
        high_watermark=11,
    )
    entries = machine.state.entries
    assert entries[7].batches == (Batch(0, 9, 0), Batch(10, 10, 10))
    assert entries[8].epoch == 2
    assert machine.next_deadline() == 600_000


def test_who_has_gone_is_not_waited_for() -> None:
    leader = Leader()
    leader.append(0)
    leader.arrive(0, name="gone")
    leader.arrive(0, name="here")
    leader.arrive(1, name="written")
    leader.arrive(1, name="gone too")
    leader.handle(RequestAbandoned("gone"))
    leader.handle(RequestAbandoned("gone too"))
    before = leader.machine.state
    leader.handle(RequestAbandoned("nobody"))
    assert leader.machine.state is before
    leader.handle(BatchAppended(7, 1))
    assert leader.handle(HighWatermarkAdvanced(2)) == (AlreadyAppended("here", 0),)


def test_nobody_waits_longer_than_they_want_to() -> None:
    leader = Leader()
    leader.append(0)
    leader.handle(BatchArrived("again", 7, 0, 0, 0, timeout_ms=50), 100)
    assert leader.machine.next_deadline() == 150
    assert leader.machine.due(149) == ()
    assert leader.machine.due(150) == (ParkedExpired(),)
    assert leader.handle(ParkedExpired(), 149) == ()
    assert leader.handle(ParkedExpired(), 150) == refused(ErrorCode.REQUEST_TIMED_OUT, "again")


def test_a_producer_is_forgotten_after_a_day_and_not_before() -> None:
    leader = Leader()
    leader.append(0, now_ms=1_000)
    leader.append(0, producer=8, now_ms=5_000)
    due_ms = 1_000 + DAY_MS
    assert leader.machine.due(due_ms - 1) == (SweepDone(),)
    leader.handle(ProducerIdle(7), due_ms - 1)
    assert 7 in leader.machine.state.entries
    assert leader.machine.due(due_ms) == (ProducerIdle(7), SweepDone())
    for event in leader.machine.due(due_ms):
        leader.handle(event, due_ms)
    assert list(leader.machine.state.entries) == [8]
    assert leader.machine.next_deadline() == due_ms + 600_000
    assert leader.arrive(1) == refused(ErrorCode.UNKNOWN_PRODUCER_ID)
    leader.append(0)


def test_a_producer_that_is_just_being_written_is_not_forgotten() -> None:
    leader = Leader()
    leader.append(0)
    leader.arrive(1)
    leader.handle(ProducerIdle(7), 2 * DAY_MS)
    assert leader.batches() == (Batch(0, 0, 0),)


def test_the_last_sweep_ends_when_nobody_is_left() -> None:
    leader = Leader()
    assert leader.machine.next_deadline() is None
    leader.append(0)
    for event in leader.machine.due(DAY_MS):
        leader.handle(event, DAY_MS)
    assert leader.machine.next_deadline() is None
    assert leader.handle(SweepDone(), DAY_MS) == ()


def test_a_marker_raises_the_epoch() -> None:
    leader = Leader()
    leader.append(0)
    leader.handle(MarkerAppended(7, 1))
    assert leader.arrive(1) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert leader.arrive(1, epoch=1) == refused(OUT_OF_ORDER)
    leader.handle(MarkerAppended(8, 0))
    leader.append(0, epoch=1)


def test_producers_are_bounded() -> None:
    leader = Leader(SequencesConfig(max_producers=2))
    leader.append(0, producer=1)
    leader.append(0, producer=2)
    assert leader.arrive(0, producer=3) == refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    leader.append(1, producer=1)


def test_those_who_wait_are_bounded() -> None:
    leader = Leader(SequencesConfig(max_parked=2))
    leader.append(0)
    leader.arrive(1)
    assert leader.arrive(0) == leader.arrive(1) == ()
    assert leader.arrive(0) == refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert leader.arrive(1) == refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.mark.parametrize(
    "event",
    [
        BatchArrived("b", -1, 0, 0, 0),
        BatchArrived("b", 7, -1, 0, 0),
        BatchArrived("b", 7, 0, -1, 0),
        BatchArrived("b", 7, 0, 0, -1),
        BatchArrived("b", 7, 0, 2**31, 0),
        BatchArrived("b", 7, 0, 0, 2**31),
    ],
)
def test_what_no_producer_sends_ends_its_connection(event: BatchArrived) -> None:
    with pytest.raises(RemoteProtocolError):
        Leader().handle(event)


def test_a_log_that_goes_back_stops_the_leader() -> None:
    leader = Leader()
    leader.append(0, 9)
    leader.arrive(10)
    with pytest.raises(InvariantViolation, match="InOrder"):
        leader.handle(BatchAppended(7, 9))
