"""Whatever a log has been through, what the next start can deal with is no damage to `verify`."""

from typing import Any

import pytest

from storage.batch.control import MarkerKind
from storage.checkpoint import CLEAN_SHUTDOWN, RECOVERY_POINTS, encode_clean_shutdown, replace
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.inspect import place
from storage.inspect.verify import verify
from storage.log import flushing
from storage.testing.broker import FOLDER
from storage.testing.crashes import CrashRun
from tests.storage.compaction.world import PARTITION, World


def check(disk: SimulatedDisk) -> None:
    # A broker writes it when it starts, so it is missing only in the midst of the very first one.
    if not disk.exists(f"{FOLDER}/{RECOVERY_POINTS}"):
        return
    report = verify(disk, place.find(disk, FOLDER), decode=True)
    assert report.sound, report.all_findings


class VerifiedRun(CrashRun):
    """A run that is verified before every start, and told of a clean stop as a broker is."""

    def _start_after(self, disk: SimulatedDisk, *, clean: bool, **more: Any) -> None:
        left = disk.kill()
        if clean:
            marker = f"{FOLDER}/{CLEAN_SHUTDOWN}"
            jobs.run(replace(left, marker, encode_clean_shutdown(1)))
        check(left)
        super()._start_after(disk, clean=clean, **more)


@pytest.mark.parametrize("seed", range(60))
def test_what_a_crash_or_a_stop_leaves_is_no_damage(seed: int) -> None:
    run = VerifiedRun(seed, None, None)
    run.create_logs()
    for _ in range(4):
        run.round()


@pytest.mark.parametrize("seed", range(20))
def test_a_compacted_log_is_no_damaged_one(seed: int) -> None:
    world = World(seed)
    for turn in range(40):
        number = (turn * (seed + 3)) % 7
        world.put((b"key %d" % number, b"value" * number))
        world.put((b"key %d" % (number // 2), None), producer=2, transactional=True)
        if turn % 5 == seed % 5:
            world.end(2, MarkerKind(turn % 2))
        if turn % 9 == 8:
            world.settle()
            world.now_ms += 700
            world.compact()
            world.flush()
            check(world.disk)
    jobs.run(flushing.close(world.log))
    jobs.run(world.marks.save())
    jobs.run(replace(world.disk, f"data/{CLEAN_SHUTDOWN}", encode_clean_shutdown(1)))
    check(world.disk)
    assert world.marks.cleaned.values[PARTITION] > 0
