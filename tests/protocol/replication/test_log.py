"""The log that a replica knows, against a naive one that has an epoch for every offset (LogOps)."""

from __future__ import annotations

import attrs
import hypothesis.strategies as st
from hypothesis import given, settings

from protocol.replication import EpochEnd, Log
from protocol.replication.log import (
    advanced,
    appended,
    epoch_end,
    epoch_start,
    last_epoch,
    truncated,
)

EPOCHS = range(8)


@attrs.frozen
class Naive:
    """What LogOps.tla has: the epoch of each entry, here from a log start on."""

    start: int = 0
    epochs: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + len(self.epochs)

    def appended(self, epoch: int, count: int) -> Naive:
        return attrs.evolve(self, epochs=self.epochs + (epoch,) * count)

    def truncated(self, end: int) -> Naive:
        return Naive(min(self.start, end), self.epochs[: max(0, end - self.start)])

    def advanced(self, start: int) -> Naive:
        if start <= self.start:
            return self
        return Naive(start, self.epochs[start - self.start :])

    def last_epoch(self) -> int:
        return self.epochs[-1] if self.epochs else 0

    def epoch_start(self, epoch: int) -> int:
        return self.start + sum(each < epoch for each in self.epochs)

    def epoch_end(self, epoch: int) -> EpochEnd:
        # Of what was deleted, all that is known is that it was committed.
        deleted = epoch if self.start > 0 else 0
        known = [each for each in self.epochs if each <= epoch]
        return EpochEnd(max(known, default=deleted), self.start + len(known))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Log, Naive]:
    """Draw a log that was appended to, cut and deleted from, and the naive one."""
    log, naive = Log(), Naive()
    for _ in range(draw(st.integers(0, 12))):
        what = draw(st.sampled_from(["append", "append", "truncate", "advance"]))
        if what == "append":
            epoch = naive.last_epoch() + draw(st.integers(0, 2)) or 1
            count = draw(st.integers(1, 4))
            log = appended(log, epoch, log.end_offset + count)
            naive = naive.appended(epoch, count)
        elif what == "truncate":
            end = draw(st.integers(0, naive.end + 1))
            log = truncated(log, end)
            naive = naive.truncated(end) if end < naive.end else naive
        else:
            start = draw(st.integers(0, naive.end + 2))
            log, naive = advanced(log, start), naive.advanced(start)
    return log, naive


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_a_log_knows_what_the_spec_reads_off_its_entries(pair: tuple[Log, Naive]) -> None:
    log, naive = pair
    assert (log.start_offset, log.end_offset) == (naive.start, naive.end)
    assert last_epoch(log) == naive.last_epoch()
    for epoch in (*EPOCHS, naive.last_epoch() + 1):
        assert epoch_start(log, epoch) == naive.epoch_start(epoch)
        assert epoch_end(log, epoch) == naive.epoch_end(epoch)


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_a_log_lists_the_epochs_that_have_entries_in_ascending_order(
    pair: tuple[Log, Naive],
) -> None:
    log, naive = pair
    listed = [epoch for epoch, _ in log.epochs]
    assert listed == sorted(set(naive.epochs))
    assert all(log.start_offset <= start < log.end_offset for _, start in log.epochs)


@given(pairs(), st.integers(0, 40))
def test_what_changes_nothing_gives_the_very_same_log(pair: tuple[Log, Naive], more: int) -> None:
    log, _ = pair
    assert truncated(log, log.end_offset + more) is log
    assert advanced(log, max(0, log.start_offset - more)) is log
