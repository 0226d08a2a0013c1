"""What a replica knows of its own log: where it begins, where it ends, and where its epochs begin.

Mirrors `spec/LogOps.tla`, which has the entries themselves; here the entries are in storage, and
the offsets at which an epoch begins say all that the protocol needs. Only epochs with entries are
listed, in ascending order.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.types import Epoch, Offset

EpochStart: TypeAlias = tuple[Epoch, Offset]


@attrs.frozen
class EpochEnd:
    """The largest epoch that a log knows up to one asked for (0: none), and where it ends."""

    epoch: Epoch
    offset: Offset


@attrs.frozen
class Log:
    """Mirrors `log[r]`: `EndOffset` is `end_offset`, and `epochs` says which entry has which."""

    start_offset: Offset = 0
    end_offset: Offset = 0
    epochs: tuple[EpochStart, ...] = ()


def last_epoch(log: Log) -> Epoch:
    """Tell the epoch of the last entry; 0, which no leader ever has, for an empty log."""
    return log.epochs[-1][0] if log.epochs else 0


def epoch_start(log: Log, epoch: Epoch) -> Offset:
    """Tell where an epoch begins in this log, or would begin: the end of all earlier ones."""
    for known, start in log.epochs:
        if known >= epoch:
            return start
    return log.end_offset


def epoch_end(log: Log, epoch: Epoch) -> EpochEnd:
    """KIP-101 and KIP-279: find the largest known epoch up to `epoch`, and its end.

    Of an epoch before a log start that was moved, all that is known is that it ended there or
    earlier. Only what is committed is deleted, so it is taken for known up to the log start.
    """
    found = epoch if log.start_offset > 0 else 0
    end = log.end_offset
    for known, start in reversed(log.epochs):
        if known <= epoch:
            found = known
            break
        end = start
    return EpochEnd(found, end)


def appended(log: Log, epoch: Epoch, end_offset: Offset) -> Log:
    """Give the log after entries of one epoch were appended to it."""
    epochs = log.epochs
    if not epochs or epochs[-1][0] != epoch:
        epochs = (*epochs, (epoch, log.end_offset))
    return Log(log.start_offset, end_offset, epochs)


def truncated(log: Log, end_offset: Offset) -> Log:
    """Give the log cut to `end_offset`; unchanged if it is shorter already."""
    if end_offset >= log.end_offset:
        return log
    epochs = tuple(entry for entry in log.epochs if entry[1] < end_offset)
    return Log(min(log.start_offset, end_offset), end_offset, epochs)


def advanced(log: Log, start_offset: Offset) -> Log:
    """Give the log without the entries before `start_offset`, which retention has deleted."""
    if start_offset <= log.start_offset:
        return log
    if start_offset >= log.end_offset:
        return Log(start_offset, start_offset, ())
    epochs = [
        (epoch, max(start, start_offset))
        for (epoch, start), end in zip(log.epochs, _ends(log), strict=True)
        if end > start_offset
    ]
    return Log(start_offset, log.end_offset, tuple(epochs))


def _ends(log: Log) -> list[Offset]:
    """List where each epoch ends, in their order."""
    return [*(start for _, start in log.epochs[1:]), log.end_offset]
