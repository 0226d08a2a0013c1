"""The client's half, told as stories: sequences, what is sent again and when, epochs, failures."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, InvariantViolation
from protocol.idempotence import ClientConfig, ProducerClient, Standing
from protocol.idempotence.client_events import (
    AnswerReceived,
    AskForEpoch,
    BatchReady,
    Delivered,
    DeliveryExpired,
    EpochGranted,
    Failed,
    NotYet,
    RequestLost,
    RetryDue,
    SendBatch,
)
from protocol.machine import Effects, Event

OK = ErrorCode.NONE
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
LAST = 2**31 - 1


class Client:
    """A client with producer id 7, in epoch 0, that sends again at once."""

    def __init__(self, config: ClientConfig | None = None) -> None:
        self.machine = ProducerClient.started(7, config=config or ClientConfig(retry_backoff_ms=0))

    def handle(self, event: Event, now_ms: int = 0) -> Effects:
        effects = self.machine.handle(event, now_ms)
        if RetryDue() in self.machine.due(now_ms):
            effects += self.machine.handle(RetryDue(), now_ms)
        return effects

    def ready(self, *batches: str, count: int = 1) -> Effects:
        return tuple(e for batch in batches for e in self.handle(BatchReady(batch, count)))

    def answer(self, batch: str, error: ErrorCode = OK, offset: int = -1) -> Effects:
        return self.handle(AnswerReceived(batch, error, offset))

    def lose(self, batch: str) -> Effects:
        return self.handle(RequestLost(batch))

    def in_flight(self) -> list[tuple[object, Standing]]:
        return [(each.batch, each.standing) for each in self.machine.state.in_flight]


def sent(batch: str, first: int, last: int | None = None, epoch: int = 0) -> SendBatch:
    return SendBatch(batch, 7, epoch, first, first if last is None else last)


def test_batches_are_numbered_by_their_records() -> None:
    client = Client()
    assert client.ready("a", count=10) == (sent("a", 0, 9),)
    assert client.ready("b") == (sent("b", 10),)
    assert client.ready("c", count=3) == (sent("c", 11, 13),)
    assert client.answer("a", offset=50) == (Delivered("a", 50),)
    assert client.answer("c", offset=61) == (Delivered("c", 61),)
    assert client.answer("b", offset=60) == (Delivered("b", 60),)


def test_sequences_go_round() -> None:
    client = Client()
    client.ready("a", count=LAST - 1)
    assert client.ready("b", count=5) == (sent("b", LAST - 1, 2),)
    assert client.ready("c") == (sent("c", 3),)


def test_the_first_sequence_number_is_alone_in_flight() -> None:
    """A leader that has forgotten the producer would take it for a start."""
    client = Client()
    client.ready("a", count=LAST)
    client.ready("b")
    assert client.machine.state.next_sequence == 0
    client.answer("a")
    assert client.ready("c") == (NotYet("c"),)
    client.answer("b")
    assert client.ready("c") == (sent("c", 0),)


def test_five_are_in_flight_counted_from_the_first() -> None:
    """Otherwise the leader could have forgotten the first when it comes again."""
    client = Client()
    client.ready("a", "b", "c", "d", "e")
    assert client.ready("f") == (NotYet("f"),)
    client.answer("c")
    client.answer("e")
    assert client.ready("f") == (NotYet("f"),)
    client.answer("a")
    assert client.machine.may_send
    assert client.ready("f") == (sent("f", 5),)
    assert client.ready("g") == (NotYet("g"),)


def test_a_lost_request_is_sent_again_with_the_same_sequence() -> None:
    client = Client()
    client.ready("a", "b")
    assert client.lose("a") == (sent("a", 0),)
    assert client.lose("b") == ()
    assert client.ready("c") == (NotYet("c"),)
    assert client.answer("a", offset=4) == (Delivered("a", 4), sent("b", 1))
    assert client.answer("b", offset=5) == (Delivered("b", 5),)


def test_a_gap_is_waited_for_unless_the_batch_was_the_first_in_flight() -> None:
    client = Client()
    client.ready("a", "b")
    assert client.answer("b", GAP) == ()
    assert client.answer("a", offset=0) == (Delivered("a", 0), sent("b", 1))
    assert client.machine.state.epoch == 0
    assert client.answer("b", GAP) == (AskForEpoch(7, 0),)


@pytest.mark.parametrize("error", [GAP, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_after_a_gap_that_nothing_fills_a_new_epoch_begins(error: ErrorCode) -> None:
    """KIP-360. What was refused goes over into it, and is numbered anew."""
    client = Client()
    client.ready("z")
    client.answer("z")
    client.ready("a", count=3)
    client.ready("b", count=2)
    assert client.answer("a", error) == ()
    assert client.ready("c") == (NotYet("c"),)
    assert client.answer("b", error) == (AskForEpoch(7, 0),)
    granted = client.handle(EpochGranted(7, 1))
    assert granted == (sent("a", 0, 2, epoch=1),)
    assert client.answer("a", offset=9) == (Delivered("a", 9), sent("b", 3, 4, epoch=1))
    assert client.answer("b", offset=12) == (Delivered("b", 12),)
    assert client.ready("c") == (sent("c", 5, epoch=1),)


def test_what_may_be_in_the_log_does_not_go_over_into_a_new_epoch() -> None:
    client = Client()
    client.ready("lost", "moved", "refused")
    client.lose("lost")
    client.answer("moved", NOT_LEADER)
    client.answer("refused", GAP)
    assert client.answer("lost", GAP) == (AskForEpoch(7, 0),)
    assert client.handle(EpochGranted(7, 1)) == (
        Failed("lost", GAP, unknown=True),
        Failed("moved", GAP, unknown=True),
        sent("refused", 0, epoch=1),
    )


def test_the_epoch_waits_for_every_answer_that_is_under_way() -> None:
    client = Client()
    client.ready("a", "b")
    assert client.answer("a", GAP) == ()
    assert client.handle(EpochGranted(7, 1)) == ()
    assert client.machine.state.epoch == 0
    assert client.answer("b", offset=3) == (Delivered("b", 3), AskForEpoch(7, 0))


def test_an_epoch_that_nobody_asked_for_changes_nothing() -> None:
    client = Client()
    client.ready("a")
    before = client.machine.state
    assert client.handle(EpochGranted(7, 1)) == ()
    assert client.machine.state is before


def test_after_the_last_epoch_comes_another_producer_id() -> None:
    client = Client()
    client.ready("a")
    client.answer("a", GAP)
    assert client.handle(EpochGranted(8, 0)) == (SendBatch("a", 8, 0, 0, 0),)


@pytest.mark.parametrize(
    "error",
    [
        NOT_LEADER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ],
)
def test_after_an_error_of_a_moment_the_batch_is_sent_again(error: ErrorCode) -> None:
    client = Client()
    client.ready("a")
    assert client.answer("a", error) == (sent("a", 0),)
    assert client.answer("a", offset=0) == (Delivered("a", 0),)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUIRED_ACKS,
    ],
)
def test_any_other_error_is_the_application_s(error: ErrorCode) -> None:
    client = Client()
    client.ready("a", "b")
    assert client.answer("a", error) == (Failed("a", error, unknown=False),)
    assert client.in_flight() == [("b", Standing.WAITS)]


def test_the_gap_that_a_failed_batch_leaves_is_closed_by_a_new_epoch() -> None:
    client = Client()
    client.ready("big", "b")
    client.answer("b", GAP)
    assert client.answer("big", ErrorCode.MESSAGE_TOO_LARGE) == (
        Failed("big", ErrorCode.MESSAGE_TOO_LARGE, unknown=False),
        sent("b", 1),
    )
    client.answer("b", GAP)
    assert client.handle(EpochGranted(7, 1)) == (sent("b", 0, epoch=1),)


def test_a_batch_that_failed_after_it_may_have_been_written_says_so() -> None:
    client = Client()
    client.ready("a")
    client.answer("a", NOT_LEADER)
    failed = client.answer("a", ErrorCode.MESSAGE_TOO_LARGE)
    assert failed == (Failed("a", ErrorCode.MESSAGE_TOO_LARGE, unknown=True),)


def test_a_duplicate_that_the_leader_cannot_place_is_delivered_all_the_same() -> None:
    client = Client()
    client.ready("a")
    delivered = client.answer("a", ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert delivered == (Delivered("a", -1),)


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    client = Client()
    client.ready("a", "b")
    client.answer("b", GAP)
    before = client.machine.state
    assert client.answer("b", offset=1) == ()
    assert client.answer("x") == ()
    assert client.lose("x") == ()
    assert client.machine.state is before


def test_a_batch_waits_before_it_is_sent_again() -> None:
    client = ProducerClient.started(7)
    client.handle(BatchReady("a", 1), 0)
    assert client.next_deadline() == 120_000
    assert client.handle(RequestLost("a"), 50) == ()
    assert client.next_deadline() == 150
    assert client.due(149) == ()
    assert client.handle(RetryDue(), 149) == ()
    assert client.due(150) == (RetryDue(),)
    assert client.handle(RetryDue(), 150) == (sent("a", 0),)
    assert client.handle(RetryDue(), 150) == ()
    assert client.next_deadline() == 120_000


def test_a_batch_is_given_up_after_two_minutes() -> None:
    client = ProducerClient.started(7)
    client.handle(BatchReady("a", 1), 0)
    client.handle(BatchReady("b", 1), 10)
    client.handle(RequestLost("b"), 20)
    assert client.handle(DeliveryExpired(), 119_999) == ()
    assert client.due(120_000) == (DeliveryExpired(),)
    given_up = client.handle(DeliveryExpired(), 120_000)
    assert given_up == (Failed("a", ErrorCode.REQUEST_TIMED_OUT, unknown=True),)
    assert client.next_deadline() == 120_010
    assert client.handle(DeliveryExpired(), 120_010) == (
        Failed("b", ErrorCode.REQUEST_TIMED_OUT, unknown=True),
    )
    assert client.next_deadline() is None
    assert client.handle(DeliveryExpired(), 130_000) == ()


def test_a_batch_that_was_surely_refused_and_given_up_is_not_in_the_log() -> None:
    client = Client()
    client.ready("a", "b")
    client.answer("b", GAP)
    client.handle(DeliveryExpired(), 120_000)
    client.answer("b", GAP)
    given_up = client.handle(DeliveryExpired(), 130_000)
    assert Failed("b", ErrorCode.REQUEST_TIMED_OUT, unknown=False) in given_up


@pytest.mark.parametrize("count", [0, -1, 2**31])
def test_a_batch_has_some_records_and_not_a_whole_round_of_them(count: int) -> None:
    with pytest.raises(ValueError, match="records"):
        Client().ready("a", count=count)


def test_an_epoch_that_goes_back_stops_the_client() -> None:
    client = ProducerClient.started(7, epoch=3)
    client.handle(BatchReady("a", 1), 0)
    client.handle(AnswerReceived("a", GAP), 0)
    with pytest.raises(InvariantViolation, match="NoZombieWrite"):
        client.handle(EpochGranted(7, 2), 0)
