"""What a log remembers of its producers, and up to where it is stable."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from protocol.errors import InvariantViolation
from storage.batch.control import MarkerKind
from storage.batch.header import Header
from storage.log.aborted import AbortedTransaction
from storage.log.producer_snapshot import ProducerEntry, RecentBatch
from storage.log.producers import Producers

HeaderOf = Callable[..., Header]
ABORT, COMMIT = MarkerKind.ABORT, MarkerKind.COMMIT


def test_batches_without_a_producer_leave_nothing(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.observe(header_of(0, 10))
    assert producers.observe_marker(header_of(10, control=True), ABORT, 1) is None
    assert producers.entries == {}


def test_the_last_five_batches_of_a_producer_are_remembered(header_of: HeaderOf) -> None:
    producers = Producers()
    for number in range(7):
        producers.observe(
            header_of(
                100 + 2 * number, 2, producer=5, epoch=3, sequence=2 * number, at_ms=50 + number
            )
        )
    entry = producers.entries[5]
    assert entry == ProducerEntry(
        5,
        epoch=3,
        coordinator_epoch=-1,
        timestamp_ms=56,
        transaction_first_offset=None,
        recent=tuple(
            RecentBatch(2 * n, 2 * n + 1, 100 + 2 * n, 101 + 2 * n, 50 + n) for n in range(2, 7)
        ),
    )
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (13, 113, 1)


def test_a_new_epoch_begins_anew_with_its_sequences(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.observe(header_of(0, 3, producer=5, epoch=0, sequence=7))
    producers.observe(header_of(3, 2, producer=5, epoch=1, sequence=0))
    assert producers.entries[5].recent == (RecentBatch(0, 1, 3, 4, 1_000),)
    producers.observe_marker(header_of(5, producer=5, epoch=2, control=True), COMMIT, 9)
    entry = producers.entries[5]
    assert (entry.epoch, entry.recent, entry.last_sequence, entry.last_offset) == (2, (), -1, -1)
    assert entry.coordinator_epoch == 9


def test_sequences_wrap_around_and_may_be_missing(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.observe(header_of(0, 3, producer=5, sequence=2**31 - 2))
    producers.observe(header_of(3, 3, producer=6, sequence=-1))
    assert producers.entries[5].recent[-1][:2] == (2**31 - 2, 0)
    assert producers.entries[6].recent[-1][:2] == (-1, -1)


def test_a_marker_of_the_same_epoch_keeps_the_sequences(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.observe(header_of(0, 3, producer=5, transactional=True))
    producers.observe_marker(header_of(3, producer=5, control=True, at_ms=2_000), COMMIT, 4)
    entry = producers.entries[5]
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (2, 2, 2)
    assert (entry.timestamp_ms, entry.coordinator_epoch) == (2_000, 4)
    assert entry.transaction_first_offset is None


def test_a_marker_is_not_told_as_data(header_of: HeaderOf) -> None:
    with pytest.raises(InvariantViolation):
        Producers().observe(header_of(0, producer=5, control=True))


def test_transactions_that_begin_out_of_order_are_refused(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.observe(header_of(9, producer=5, transactional=True))
    with pytest.raises(InvariantViolation, match="offset 9 after one at 9"):
        producers.observe(header_of(9, producer=6, transactional=True))


def test_an_aborted_transaction_says_what_was_stable_then(header_of: HeaderOf) -> None:
    """The first is the example of Kafka's index: another transaction began before the abort."""
    producers = Producers()
    producers.observe(header_of(10, 3, producer=1, transactional=True))
    producers.observe(header_of(13, 2, producer=2, transactional=True))
    producers.observe(header_of(15, 1, producer=1, sequence=3, transactional=True))
    first = producers.observe_marker(header_of(16, producer=1, control=True), ABORT, 0)
    second = producers.observe_marker(header_of(17, producer=2, control=True), ABORT, 0)
    assert first == AbortedTransaction(1, 10, 16, last_stable_offset=13)
    assert second == AbortedTransaction(2, 13, 17, last_stable_offset=18)


def test_only_an_abort_of_something_is_worth_an_entry(header_of: HeaderOf) -> None:
    producers = Producers()
    assert producers.observe_marker(header_of(0, producer=1, control=True), ABORT, 0) is None
    producers.observe(header_of(1, producer=1, transactional=True))
    assert producers.observe_marker(header_of(2, producer=1, control=True), COMMIT, 0) is None
    assert producers.observe_marker(header_of(3, producer=1, control=True), ABORT, 0) is None
    assert list(producers.entries) == [1]


def test_a_decided_transaction_is_unstable_until_its_marker_is_replicated(
    header_of: HeaderOf,
) -> None:
    producers = Producers()
    assert producers.last_stable_offset(4) == 4
    producers.observe(header_of(5, producer=1, transactional=True))
    assert producers.first_unstable_offset == 5
    assert producers.last_stable_offset(4) == 4
    assert producers.last_stable_offset(6) == 5
    producers.observe_marker(header_of(6, producer=1, control=True), COMMIT, 0)
    assert producers.first_undecided_offset is None
    assert producers.last_stable_offset(6) == 5
    assert producers.last_stable_offset(7) == 7
    producers.on_high_watermark(6)
    assert producers.first_unstable_offset == 5
    producers.on_high_watermark(7)
    assert producers.first_unstable_offset is None


def test_an_older_high_watermark_takes_nothing_back(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.on_high_watermark(7)
    producers.on_high_watermark(3)
    producers.observe(header_of(5, producer=1, transactional=True))
    producers.observe_marker(header_of(6, producer=1, control=True), COMMIT, 0)
    assert producers.first_unstable_offset is None


def test_a_high_watermark_told_first_keeps_a_replay_small(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.on_high_watermark(1_000)
    for offset in range(0, 1_000, 2):
        producers.observe(header_of(offset, producer=1, transactional=True))
        producers.observe_marker(header_of(offset + 1, producer=1, control=True), COMMIT, 0)
    assert producers.first_unstable_offset is None
    assert len(producers._completed) == 0


def test_long_transactions_hide_the_short_ones_within(header_of: HeaderOf) -> None:
    """However many are decided above the high watermark, only those are kept that can matter."""
    producers = Producers()
    producers.observe(header_of(0, producer=1, transactional=True))
    for offset in range(1, 1_000, 2):
        producers.observe(header_of(offset, producer=2, transactional=True))
        producers.observe_marker(header_of(offset + 1, producer=2, control=True), ABORT, 0)
    producers.observe_marker(header_of(1_001, producer=1, control=True), COMMIT, 0)
    assert len(producers._completed) == 1
    assert producers.last_stable_offset(1_001) == 0
    assert producers.last_stable_offset(1_002) == 1_002


def test_idle_producers_expire_and_open_transactions_do_not(header_of: HeaderOf) -> None:
    producers = Producers()
    producers.observe(header_of(0, producer=1, at_ms=100))
    producers.observe(header_of(1, producer=2, at_ms=101))
    producers.observe(header_of(2, producer=3, at_ms=100, transactional=True))
    assert producers.expire(now_ms=149, expiry_ms=50) == 0
    assert producers.expire(now_ms=150, expiry_ms=50) == 1
    assert list(producers.entries) == [2, 3]
    assert producers.first_unstable_offset == 2
    producers.observe_marker(header_of(3, producer=3, control=True, at_ms=102), COMMIT, 0)
    assert producers.expire(now_ms=1_000, expiry_ms=50) == 2
    assert producers.entries == {}


def test_beyond_the_bound_the_longest_silent_producer_is_forgotten(header_of: HeaderOf) -> None:
    producers = Producers(max_producers=3)
    for offset, producer in enumerate([1, 2, 3, 1]):
        producers.observe(header_of(offset, producer=producer))
    producers.observe(header_of(4, producer=4))
    assert sorted(producers.entries) == [1, 3, 4]
    producers.observe_marker(header_of(5, producer=3, control=True), COMMIT, 0)
    producers.observe_marker(header_of(6, producer=5, control=True), COMMIT, 0)
    assert sorted(producers.entries) == [3, 4, 5]


def test_who_has_an_open_transaction_is_not_forgotten(header_of: HeaderOf) -> None:
    producers = Producers(max_producers=2)
    for offset in range(4):
        producers.observe(header_of(offset, producer=offset, transactional=True))
    assert sorted(producers.entries) == [0, 1, 2, 3]
    producers.observe(header_of(4, producer=9))
    assert sorted(producers.entries) == [0, 1, 2, 3]
    producers.observe_marker(header_of(5, producer=1, control=True), ABORT, 0)
    assert sorted(producers.entries) == [0, 2, 3]
    assert producers.first_undecided_offset == 0


def test_many_producers_cost_a_bounded_memory(header_of: HeaderOf) -> None:
    producers = Producers(max_producers=100)
    headers = [header_of(offset, producer=offset) for offset in range(2_000)]
    for header in headers[:200]:
        producers.observe(header)
    tracemalloc.start()
    for header in headers[200:]:
        producers.observe(header)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(producers.entries) == 100
    assert grown < 100_000


@attrs.frozen
class Step:
    """A batch of a producer, a marker, or a move of the high watermark."""

    kind: str
    producer: int
    count: int


@attrs.define
class Naive:
    """Every batch and marker of a log, looked at from the beginning each time."""

    log: list[tuple[int, int, str]] = attrs.Factory(list)
    """First offset, producer, and `data`, `ABORT` or `COMMIT`."""

    def transactions(self) -> list[tuple[int, int, int | None]]:
        """List producer, first offset and marker of each, by first offset."""
        found: list[tuple[int, int, int | None]] = []
        open_ones: dict[int, int] = {}
        for offset, producer, kind in self.log:
            if kind == "data":
                open_ones.setdefault(producer, offset)
            elif producer in open_ones:
                found.append((producer, open_ones.pop(producer), offset))
        found += [(producer, first, None) for producer, first in open_ones.items()]
        return sorted(found, key=lambda each: each[1])

    def first_unstable(self, high_watermark: int) -> int | None:
        return next(
            (
                first
                for _, first, marker in self.transactions()
                if marker is None or marker >= high_watermark
            ),
            None,
        )


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["data", "data", "plain", "ABORT", "COMMIT", "watermark"]),
        st.integers(0, 4),
        st.integers(1, 3),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=300)
def test_stability_is_what_a_look_at_the_whole_log_says(
    header_of: HeaderOf, story: list[Step]
) -> None:
    producers, naive = Producers(), Naive()
    end = high_watermark = 0
    for step in story:
        if step.kind == "watermark":
            high_watermark = min(end, high_watermark + step.count)
            producers.on_high_watermark(high_watermark)
        elif step.kind == "data":
            producers.observe(
                header_of(end, step.count, producer=step.producer, transactional=True)
            )
            naive.log.append((end, step.producer, "data"))
            end += step.count
        elif step.kind == "plain":
            # Producers of another range: within a transaction all batches belong to it.
            producers.observe(header_of(end, step.count, producer=10 + step.producer))
            end += step.count
        else:
            header = header_of(end, producer=step.producer, transactional=True, control=True)
            undecided = [each for each in naive.transactions() if each[2] is None]
            aborted = producers.observe_marker(header, MarkerKind[step.kind], 0)
            naive.log.append((end, step.producer, step.kind))
            mine = [first for producer, first, _ in undecided if producer == step.producer]
            others = [first for producer, first, _ in undecided if producer != step.producer]
            if mine and step.kind == "ABORT":
                stable = min(others, default=end + 1)
                assert aborted == (step.producer, mine[0], end, stable)
            else:
                assert aborted is None
            end += 1
        assert producers.first_unstable_offset == naive.first_unstable(high_watermark)
        for watermark in range(high_watermark, end + 1):
            unstable = naive.first_unstable(watermark)
            expected = watermark if unstable is None else min(unstable, watermark)
            assert producers.last_stable_offset(watermark) == expected
