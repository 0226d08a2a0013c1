"""What the spec promises, asked of the world with real constants."""

from __future__ import annotations

from protocol.idempotence import Entry, LogBatch, fold
from tests.protocol.idempotence.world import BrokenError, World


def check(world: World) -> None:
    """Raise what does not hold of the log, and of what is remembered of it."""
    names = [(each.batch.producer_id, each.name) for each in world.log]
    if len(set(names)) < len(names):
        raise BrokenError(f"NoDuplicate: {names}")
    expected: dict[tuple[int, int], int] = {}
    last: dict[int, tuple[int, int]] = {}
    for each in world.log:
        batch = each.batch
        key = (batch.producer_id, batch.epoch)
        if batch.first_sequence != expected.get(key, 0) and not _starts_anew(world, batch):
            raise BrokenError(f"SeqContiguous: {batch}")
        expected[key] = (batch.last_sequence + 1) % 2**31
        if (batch.epoch, each.name) < last.get(batch.producer_id, (0, 0)):
            raise BrokenError(f"InOrder, NoZombieWrite: {batch}")
        last[batch.producer_id] = (batch.epoch, each.name)
    whole = fold(each.batch for each in world.log)
    for number, sender in world.senders.items():
        entry, said = world.leader.state.entries.get(number), whole.get(number)
        if number not in world.forgotten and not _is_fold(world, entry, said):
            raise BrokenError(f"ProducerStateIsFold: {entry}, and the log says {said}")
        present = {name for producer, name in names if producer == number}
        for name, unknown in sender.failed.items():
            if not unknown and name in present:
                raise BrokenError(f"{name} of {number} was said not to be in the log")
        lost = [name for name in sender.delivered if name not in present]
        if lost:
            raise BrokenError(f"AckedNotLost: {lost}")


def _is_fold(world: World, entry: Entry | None, said: Entry | None) -> bool:
    """Whether a leader remembers what its log says, but for what a snapshot may leave out."""
    if entry is None or said is None:
        return entry is said
    lacking = len(said.batches) - len(entry.batches)
    if lacking and entry.batches[0].base_offset >= world.snapshot.offset:
        return False
    return (entry.epoch, entry.batches) == (said.epoch, said.batches[lacking:])


def _starts_anew(world: World, batch: LogBatch) -> bool:
    """Whether a gap is that of batches which were given up, before the first sequence of a round.

    A leader that has forgotten the producer takes that one for a start. The models of the spec have
    no client that gives up and comes round.
    """
    given_up = world.senders[batch.producer_id].failed
    return batch.first_sequence == 0 and batch.producer_id in world.forgotten and bool(given_up)
