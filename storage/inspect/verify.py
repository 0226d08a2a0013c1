"""Read everything that a log folder has and say what is wrong; it changes nothing.

Whatever was durable must be there: what is not is damage. What came after the recovery point may be
torn by a crash, which is no damage: the next start cuts it. Without a recovery point the two cannot
be told apart, and it counts as damage. Files beside the batches are judged as far as the next start
would trust them; what it makes anew anyway is not worth a word.

Not seen are: an offset or an epoch of a log's very last batch that leaps ahead after a crash, a
checkpoint that reads well and says something else that could be, and an index or a snapshot that
has gone or has lost whole entries at its end.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.disk.seam import Disk
from storage.inspect import place
from storage.inspect.findings import Finding, FolderReport, Level
from storage.inspect.partition_check import PartitionCheck
from storage.inspect.place import Known, Place
from storage.log.segment import LOG

OnBytes = Callable[[int], None]
"""Called with how many bytes were read since the last call."""


def size_bytes(disk: Disk, where: Place) -> int:
    """How many bytes `verify` will read of the batches of these partitions."""
    return sum(
        disk.size(f"{where.folder_of(each)}/{name}")
        for each in where.partitions
        for name in disk.list(where.folder_of(each))
        if name.endswith(LOG)
    )


def verify(
    disk: Disk, where: Place, on_bytes: OnBytes = lambda _: None, *, decode: bool = False
) -> FolderReport:
    """Verify these partitions; `decode`: look at every record, too."""
    report = FolderReport(where.log_folder)
    known = place.recall(disk, where.log_folder, report)
    for partition in where.partitions:
        check = PartitionCheck(disk, where.folder_of(partition), partition, known, decode=decode)
        report.partitions.append(check.run(on_bytes))
    _note_absent(disk, where, known, report)
    return report


def _note_absent(disk: Disk, where: Place, known: Known, report: FolderReport) -> None:
    """A deleted topic may be remembered for a while; so may one that somebody lost."""
    remembered = {each for offsets in known.offsets.values() for each in offsets}
    for partition in sorted(remembered):
        if not disk.is_folder(where.folder_of(partition)):
            reason = "the folder remembers this partition, which is not there"
            advice = "nothing, if its topic was deleted"
            report.findings.append(Finding(Level.NOTE, where.folder_of(partition), reason, advice))
