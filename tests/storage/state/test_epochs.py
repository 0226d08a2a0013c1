"""Where epochs begin: against the protocol's log, against a naive one, and as a file."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from protocol.errors import InvariantViolation
from protocol.replication.log import Log, advanced, appended, epoch_end, truncated
from storage.checkpoint import MAX_INT32, MAX_INT64
from storage.errors import DamagedFile
from storage.log.epochs import Epochs

FILE = "leader-epoch-checkpoint"
CONTENT = b"0\n3\n0 0\n3 17\n2147483647 9223372036854775807\n"
ENTRIES = ((0, 0), (3, 17), (MAX_INT32, MAX_INT64))


def epochs_of(*entries: tuple[int, int]) -> Epochs:
    return Epochs(entries)


def test_epochs_are_written_as_kafka_writes_them() -> None:
    assert Epochs(ENTRIES).encode() == CONTENT
    assert Epochs.decode(CONTENT, FILE).entries == ENTRIES
    assert Epochs().encode() == b"0\n0\n"
    assert Epochs.decode(b"0\n0\n", FILE).entries == ()


@given(
    st.lists(st.integers(0, MAX_INT32), unique=True, max_size=8),
    st.lists(st.integers(0, MAX_INT64), unique=True, min_size=8, max_size=8),
)
def test_epochs_come_back(epochs: list[int], starts: list[int]) -> None:
    entries = tuple(zip(sorted(epochs), sorted(starts), strict=False))
    found = Epochs.decode(Epochs(entries).encode(), FILE)
    assert found.entries == entries
    assert not found.dirty


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"1\n0\n", 1),
        (b"0\n2\n1 0\n", 2),
        (b"0\n1\n1\n", 3),
        (b"0\n1\n1 2 3\n", 3),
        (b"0\n1\n-1 0\n", 3),
        (b"0\n1\n2147483648 0\n", 3),
        (b"0\n1\n1 9223372036854775808\n", 3),
        (b"0\n2\n1 0\n1 5\n", 4),
        (b"0\n2\n2 0\n1 5\n", 4),
        (b"0\n2\n1 5\n2 5\n", 4),
        (b"0\n3\n1 5\n2 6\n3 4\n", 5),
        (b"0\n1\n1 0", 3),
    ],
)
def test_a_damaged_file_of_epochs_is_said_with_its_line(content: bytes, line: int) -> None:
    with pytest.raises(DamagedFile) as caught:
        Epochs.decode(content, FILE)
    assert (caught.value.file, caught.value.line) == (FILE, line)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_epochs_or_damaged(content: bytes) -> None:
    try:
        found = Epochs.decode(content, FILE)
    except DamagedFile:
        return
    assert found.encode() == content


def test_a_later_epoch_is_added_and_the_current_one_changes_nothing() -> None:
    epochs = epochs_of((1, 0))
    epochs.assign(1, 5)
    assert (epochs.entries, epochs.dirty) == (((1, 0),), False)
    epochs.assign(3, 8)
    epochs.assign(3, 9)
    assert epochs.entries == ((1, 0), (3, 8))
    assert epochs.dirty


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        (5, 20, ((1, 0), (2, 10), (5, 20))),
        (5, 15, ((1, 0), (2, 10), (5, 15))),
        (5, 10, ((1, 0), (5, 10))),
        (3, 30, ((1, 0), (2, 10), (3, 30))),
        (4, 19, ((1, 0), (2, 10), (4, 19))),
        (2, 30, ((1, 0), (2, 30))),
        (2, 5, ((1, 0), (2, 5))),
        (1, 30, ((1, 30),)),
        (0, 0, ((0, 0),)),
    ],
)
def test_what_cannot_stand_before_a_new_entry_is_removed(
    epoch: int, start: int, expected: tuple[tuple[int, int], ...]
) -> None:
    epochs = epochs_of((1, 0), (2, 10), (4, 20))
    epochs.assign(epoch, start)
    assert epochs.entries == expected


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1), (2**31, 0), (0, 2**63)])
def test_what_is_no_epoch_is_refused(epoch: int, start: int) -> None:
    epochs = epochs_of()
    with pytest.raises(InvariantViolation):
        epochs.assign(epoch, start)
    assert epochs.entries == ()


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (21, ((1, 0), (2, 10), (4, 20))),
        (20, ((1, 0), (2, 10))),
        (11, ((1, 0), (2, 10))),
        (10, ((1, 0),)),
        (0, ()),
    ],
)
def test_a_cut_end_takes_the_epochs_that_begin_there_or_later(
    end: int, expected: tuple[tuple[int, int], ...]
) -> None:
    epochs = epochs_of((1, 0), (2, 10), (4, 20))
    epochs.truncate_from_end(end)
    assert epochs.entries == expected
    assert epochs.dirty == (len(expected) < 3)
    epochs.assign(4, 30)
    assert epochs.entries == (expected if end == 21 else (*expected, (4, 30)))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, ((1, 0), (2, 10), (4, 20))),
        (9, ((1, 9), (2, 10), (4, 20))),
        (10, ((2, 10), (4, 20))),
        (11, ((2, 11), (4, 20))),
        (20, ((4, 20),)),
        (99, ((4, 99),)),
    ],
)
def test_a_moved_start_moves_the_epoch_that_covers_it(
    start: int, expected: tuple[tuple[int, int], ...]
) -> None:
    epochs = epochs_of((1, 0), (2, 10), (4, 20))
    epochs.truncate_from_start(start)
    assert epochs.entries == expected
    assert epochs.dirty == (start > 0)


def test_a_start_before_all_epochs_moves_none() -> None:
    epochs = epochs_of((2, 10))
    epochs.truncate_from_start(5)
    assert epochs.entries == ((2, 10),)
    assert not epochs.dirty


def test_what_changes_while_it_is_being_saved_remains_dirty() -> None:
    epochs = epochs_of()
    epochs.assign(1, 0)
    encoded = epochs.generation
    epochs.assign(2, 5)
    epochs.saved(encoded)
    assert epochs.dirty
    epochs.saved(epochs.generation)
    epochs.saved(encoded)
    assert not epochs.dirty


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(4, (4, 30)), (9, (4, 30)), (3, (2, 20)), (2, (2, 20)), (1, (1, 10)), (0, (0, 5))],
)
def test_an_epoch_ends_where_the_next_known_one_begins(
    epoch: int, expected: tuple[int, int]
) -> None:
    epochs = epochs_of((1, 5), (2, 10), (4, 20))
    assert epochs.end_offset_for(epoch, log_end=30, log_start=5) == expected


class Followed:
    """The protocol's log, an epoch for every offset, and what storage makes of the same story."""

    def __init__(self) -> None:
        self.log = Log()
        self.naive: list[int] = []
        self.epochs = Epochs()

    def append(self, epoch: int, count: int) -> None:
        start = self.log.end_offset
        for offset in range(start, start + count):
            self.epochs.assign(epoch, offset)
        self.naive += [epoch] * count
        self.log = appended(self.log, epoch, start + count)

    def truncate(self, end: int) -> None:
        end = min(max(end, self.log.start_offset), self.log.end_offset)
        self.epochs.truncate_from_end(end)
        del self.naive[end:]
        self.log = truncated(self.log, end)

    def advance(self, start: int) -> None:
        start = min(max(start, self.log.start_offset), self.log.end_offset)
        self.epochs.truncate_from_start(start)
        self.log = advanced(self.log, start)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("truncate"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("advance"), st.integers(0, 8), st.just(0)),
    ),
    max_size=20,
)


@given(steps)
def test_storage_and_protocol_know_the_same_epochs(story: list[tuple[str, int, int]]) -> None:
    both = Followed()
    epoch = 1
    for kind, number, count in story:
        if kind == "append":
            epoch += number
            both.append(epoch, count)
        elif kind == "truncate":
            both.truncate(both.log.end_offset - number)
        else:
            both.advance(both.log.start_offset + number)
        log = both.log
        assert both.epochs.as_log(log.start_offset, log.end_offset) == log
        kept = both.naive[log.start_offset :]
        for asked in range(epoch + 2):
            ending = epoch_end(log, asked)
            found = both.epochs.end_offset_for(asked, log.end_offset, log.start_offset)
            assert found == (ending.epoch, ending.offset)
            assert found[1] == log.start_offset + sum(each <= asked for each in kept)
        reloaded = Epochs.decode(both.epochs.encode(), FILE)
        assert reloaded.entries == both.epochs.entries


@given(
    st.lists(st.integers(0, 9), unique=True, max_size=5).map(sorted),
    st.lists(st.integers(0, 20), unique=True, min_size=5, max_size=5).map(sorted),
    st.integers(0, 25),
    st.integers(0, 25),
)
def test_the_protocols_view_has_only_epochs_with_entries(
    epochs: list[int], starts: list[int], first: int, second: int
) -> None:
    """A file from before a crash may know more than the log that was found."""
    start, end = sorted((first, second))
    known = Epochs(tuple(zip(epochs, starts, strict=False)))
    log = known.as_log(start, end)
    covered = {
        max(epoch for epoch, begin in known.entries if begin <= offset)
        for offset in range(start, end)
        if any(begin <= offset for _, begin in known.entries)
    }
    assert {epoch for epoch, _ in log.epochs} == covered
    assert all(start <= begin < end for _, begin in log.epochs)
