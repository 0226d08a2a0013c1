"""Whether a broker that did not stop in good order can have lost anything: a note for its restart.

A process that is killed takes nothing along that it had written: the page cache is the system's,
and keeps it. Only a system that went down may have lost what was not flushed. So a running broker
notes, in each of its log folders, its epoch and which boot of the system it runs in. If the same
boot still runs at the next start, the logs are as complete as after a clean stop, and the broker
says so to the controller: it need not leave the ISR. Kafka takes any kill for a loss.

A folder that was restored or moved has another boot's note, or an older epoch's, which the
controller does not take.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from protocol.types import BrokerEpoch
from storage import checkpoint
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import DamagedFile

FILE_NAME: Final = ".hwmark_running"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Name this boot of the system; empty where there is no such name, and then nothing is said."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def note_running(disk: Disk, folders: Sequence[str], epoch: BrokerEpoch, boot: str) -> Job[None]:
    """Note in each folder that a broker of this epoch writes to it."""
    content = json.dumps({"version": 1, "broker_epoch": epoch, "boot": boot}).encode()
    for folder in folders:
        yield from checkpoint.replace(disk, f"{folder}/{FILE_NAME}", content)


def epoch_that_lost_nothing(disk: Disk, folders: Sequence[str], boot: str) -> BrokerEpoch:
    """Tell the epoch of the broker that was killed in this boot; 0 if nobody can tell."""
    found = {_read(disk, f"{folder}/{FILE_NAME}", boot) for folder in folders}
    return found.pop() if boot and len(found) == 1 else 0


def _read(disk: Disk, path: str, boot: str) -> BrokerEpoch:
    if not disk.exists(path):
        return 0
    try:
        said = json.loads(checkpoint.read_whole(disk, path))
        epoch = said["broker_epoch"]
    except (ValueError, TypeError, KeyError, DamagedFile):
        return 0
    is_same = said.get("version") == 1 and said.get("boot") == boot and type(epoch) is int
    return epoch if is_same and epoch > 0 else 0
