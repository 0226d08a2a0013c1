"""Batches as clients, coordinators and leaders send them, drawn at random.

Sequences and transactions follow from what the log has: after a cut, producers go on from what is
left, as they would with a new leader.
"""

from __future__ import annotations

from random import Random
from typing import Final

from storage.batch.build import build
from storage.batch.codecs import GZIP, NONE
from storage.batch.control import MarkerKind, marker
from storage.batch.header import Batch, assign, split, stamp
from storage.batch.records import Record
from storage.testing.model import Kept, PartitionModel
from storage.testing.naive import ProducerState, replay

_IDEMPOTENT: Final = (11, 12)
_TRANSACTIONAL: Final = (21, 22, 23)
_NEW: Final = ProducerState(0, -1, -1, None, -1)
_LARGEST_SEQUENCE: Final = 2**31 - 1


class BatchSource:
    """Makes the next batches of one partition."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._leader_epoch = 0
        self._now_ms = 1_000_000

    def draw(self, model: PartitionModel, count: int, end_offset: int) -> list[tuple[Batch, Kept]]:
        """Make batches that follow the log, each also as the model keeps it."""
        states = replay(model.batches)
        drawn: list[tuple[Batch, Kept]] = []
        for _ in range(count):
            # A leader whose log was compacted sends batches with gaps between them.
            gap = self._random.randint(1, 5) if self._random.random() < 0.05 else 0
            made = self._batch(states, end_offset + gap)
            drawn.append(made)
            end_offset = made[1].end_offset
            states |= replay([*model.batches, *(kept for _, kept in drawn)])
        return drawn

    def _batch(self, states: dict[int, ProducerState], base_offset: int) -> tuple[Batch, Kept]:
        random = self._random
        self._now_ms += random.choice((0, 1, 7, 50, 400))
        if random.random() < 0.08:
            self._leader_epoch += random.randint(1, 3)
        kind = random.random()
        if kind < 0.2:
            return self._marker(states, base_offset)
        times = [self._now_ms - random.choice((0, 0, 3, 90, 900)) for _ in range(self._count())]
        records = [
            Record(number, time_ms, b"k%d" % number, self._value(), ())
            for number, time_ms in enumerate(times)
        ]
        codec = GZIP if random.random() < 0.1 else NONE
        if kind < 0.45:
            data = build(records, codec=codec)
        else:
            ids = _IDEMPOTENT if kind < 0.65 else _TRANSACTIONAL
            producer_id = random.choice(ids)
            state = states.get(producer_id, _NEW)
            bump = random.random() < 0.05 and state.transaction_first_offset is None
            data = build(
                records,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=state.epoch + bump,
                base_sequence=0 if bump else self._sequence(state),
                transactional=ids is _TRANSACTIONAL,
            )
        (batch,) = split(data)
        if random.random() < 0.1:
            batch = stamp(batch, self._now_ms)
            times = [self._now_ms] * len(times)
        return self._kept(assign(batch, base_offset, self._leader_epoch), times, None)

    def _marker(self, states: dict[int, ProducerState], base_offset: int) -> tuple[Batch, Kept]:
        random = self._random
        # Mostly for an open transaction; a marker without one is allowed and decides nothing.
        opened = [
            each
            for each in _TRANSACTIONAL
            if states.get(each, _NEW).transaction_first_offset is not None
        ]
        producer_id = random.choice(opened or _TRANSACTIONAL)
        commits = random.random() < 0.5
        kind = MarkerKind.COMMIT if commits else MarkerKind.ABORT
        # A coordinator that ends a transaction by itself raises the producer's epoch.
        epoch = states.get(producer_id, _NEW).epoch + (random.random() < 0.1)
        data = marker(kind, producer_id, epoch, 1, self._now_ms)
        (batch,) = split(data)
        return self._kept(assign(batch, base_offset, self._leader_epoch), [self._now_ms], commits)

    def _kept(self, batch: Batch, times: list[int], commits: bool | None) -> tuple[Batch, Kept]:
        base = batch.header.base_offset
        numbered = tuple((base + number, time_ms) for number, time_ms in enumerate(times))
        return batch, Kept(batch.header, bytes(batch.view), numbered, commits)

    def _sequence(self, state: ProducerState) -> int:
        if state.last_sequence < 0 and self._random.random() < 0.2:
            return _LARGEST_SEQUENCE
        return (state.last_sequence + 1) & _LARGEST_SEQUENCE

    def _count(self) -> int:
        return self._random.choice((1, 1, 2, 3, 6))

    def _value(self) -> bytes:
        random = self._random
        size = random.choice((0, 9, 30, 30, 60, 150, random.randint(200, 900)))
        return random.randbytes(size)
