"""What a log remembers of its producers, for the machine that decides about their next batches.

Storage keeps it while it appends and reads it back at a start; here it only changes its form.
"""

from __future__ import annotations

from immutables import Map

from protocol.idempotence.fold import Entry, Snapshot, packed
from storage.log.log import Log


def snapshot_of(log: Log, now_ms: int) -> Snapshot:
    """Give what the whole log says of its producers.

    Their last writes carry the time of day, and the machine goes by the loop's clock: so everyone
    is taken to have written just now, and is remembered longer than need be, never shorter.
    """
    entries = {
        entry.producer_id: Entry(
            entry.epoch,
            b"".join(
                packed(batch.base_sequence, batch.last_sequence, batch.base_offset)
                for batch in entry.recent
            ),
            now_ms,
        )
        for entry in log.producers.entries.values()
    }
    return Snapshot(log.end_offset, Map(entries))
