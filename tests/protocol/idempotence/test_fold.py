"""The one fold: what is remembered of a producer, whoever folds, and from wherever they begin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.idempotence import Batch, Entry, LogBatch, LogMarker, Snapshot, fold, replay
from protocol.idempotence.fold import NO_SNAPSHOT, packed, remember
from storage.batch.control import MarkerKind
from storage.batch.header import CONTROL, Header
from storage.log.producers import Producers


def batch(producer: int, epoch: int, sequence: int, offset: int, count: int = 1) -> LogBatch:
    last = (sequence + count - 1) % 2**31
    return LogBatch(producer, epoch, sequence, last, offset, timestamp_ms=1_000 + offset)


def test_the_last_five_batches_of_the_last_epoch_are_remembered() -> None:
    log = [batch(7, 0, number, number) for number in range(7)]
    entry = fold(log)[7]
    assert entry.batches == tuple(Batch(number, number, number) for number in range(2, 7))
    assert (entry.epoch, entry.last_sequence, entry.timestamp_ms) == (0, 6, 1_006)
    entry = fold([*log, batch(7, 3, 0, 7, count=10)])[7]
    assert (entry.epoch, entry.batches) == (3, (Batch(0, 9, 7),))


def test_a_batch_is_found_by_both_of_its_sequences() -> None:
    entry = fold([batch(7, 0, 0, 10, count=3), batch(7, 0, 3, 13)])[7]
    assert entry.find(0, 2) == 10
    assert entry.find(3, 3) == 13
    assert entry.find(0, 1) is None
    assert entry.find(1, 2) is None


def test_sequences_and_offsets_of_any_size_fit() -> None:
    largest = LogBatch(2**63 - 1, 2**15 - 1, 2**31 - 1, 2**31 - 1, 2**63 - 1, 2**62)
    entry = fold([largest])[2**63 - 1]
    assert entry.batches == (Batch(2**31 - 1, 2**31 - 1, 2**63 - 1),)
    assert entry == Entry(2**15 - 1, packed(2**31 - 1, 2**31 - 1, 2**63 - 1), 2**62)


def test_a_marker_raises_the_epoch_and_in_the_same_epoch_changes_nothing_else() -> None:
    log: list[LogBatch | LogMarker] = [batch(7, 0, 0, 0), LogMarker(7, 0, 1, 2_000)]
    entry = fold(log)[7]
    assert (entry.epoch, entry.batches, entry.timestamp_ms) == (0, (Batch(0, 0, 0),), 2_000)
    entry = fold([*log, LogMarker(7, 1, 2, 3_000)])[7]
    assert (entry.epoch, entry.batches, entry.last_sequence) == (1, (), -1)
    assert fold([LogMarker(9, 4, 0)])[9].epoch == 4


def test_a_batch_without_a_producer_leaves_nothing() -> None:
    assert not fold([batch(-1, -1, -1, 0)])


def test_remembering_is_the_same_for_batches_in_any_form() -> None:
    assert remember(0, (1, 2), 0, (3,), 2) == (2, 3)
    assert remember(0, (1, 2), 1, (3,), 2) == (3,)
    assert remember(0, b"aabb", 0, b"cc", 2) == b"bbcc"
    assert remember(-1, b"", 0, b"cc", 5) == b"cc"


steps = st.lists(
    st.tuples(
        st.sampled_from(["data", "data", "data", "marker"]),
        st.integers(1, 3),
        st.integers(0, 2),
        st.integers(0, 9),
        st.integers(1, 4),
    ),
    max_size=40,
)


def logged(story: list[tuple[str, int, int, int, int]]) -> list[LogBatch | LogMarker]:
    log: list[LogBatch | LogMarker] = []
    offset = 0
    for kind, producer, epoch, sequence, count in story:
        if kind == "data":
            log.append(batch(producer, epoch, sequence, offset, count))
        else:
            log.append(LogMarker(producer, epoch, offset, 1_000 + offset))
        offset += count if kind == "data" else 1
    return log


@given(steps, st.integers(0, 40))
def test_a_snapshot_and_the_rest_of_a_log_are_as_good_as_all_of_it(
    story: list[tuple[str, int, int, int, int]], cut: int
) -> None:
    log = logged(story)
    cut = min(cut, len(log))
    offset = log[cut].base_offset if cut < len(log) else 10**6
    snapshot = Snapshot(offset, replay(NO_SNAPSHOT, log[:cut]))
    assert replay(snapshot, log) == fold(log)
    assert replay(snapshot, log[cut:]) == fold(log)


def header_of(each: LogBatch | LogMarker) -> Header:
    """Give the header that storage would read of it."""
    control = isinstance(each, LogMarker)
    sequence = each.first_sequence if isinstance(each, LogBatch) else -1
    count = each.last_sequence - sequence + 1 if isinstance(each, LogBatch) else 1
    return Header(
        base_offset=each.base_offset,
        length=100,
        leader_epoch=1,
        magic=2,
        crc=0,
        attributes=CONTROL * control,
        last_offset_delta=count - 1,
        first_timestamp_ms=each.timestamp_ms,
        max_timestamp_ms=each.timestamp_ms,
        producer_id=each.producer_id,
        producer_epoch=each.epoch,
        base_sequence=sequence,
        record_count=count,
    )


@given(steps)
def test_storage_remembers_the_same(story: list[tuple[str, int, int, int, int]]) -> None:
    producers = Producers()
    log = logged(story)
    for each in log:
        if isinstance(each, LogMarker):
            producers.observe_marker(header_of(each), MarkerKind.COMMIT, 0)
        else:
            producers.observe(header_of(each))
    folded = fold(log)
    assert set(producers.entries) == set(folded)
    for producer_id, entry in producers.entries.items():
        recent = tuple((each[0], each[1], each[2]) for each in entry.recent)
        assert (entry.epoch, recent) == (folded[producer_id].epoch, folded[producer_id].batches)
