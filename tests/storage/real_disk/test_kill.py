"""A process that is killed without warning, on real files, again and again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import attrs
import pytest

from storage.disk import jobs
from storage.disk.posix import PosixDisk
from storage.log.log import Log
from storage.store import LogStore
from storage.testing.numbered import batches_of, numbered
from tests.storage.real_disk.appender import CONFIGS, KEYED, KEYS, PLAIN

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("appender.py")


@attrs.define
class Promised:
    """What the killed processes said was done."""

    plain_end: int = 0
    keyed_end: int = 0
    start: int = 0

    def hear(self, line: str) -> None:
        """Take one line of its output."""
        fact, number = line.split()
        offset = int(number)
        match fact:
            case "log":
                self.plain_end = max(self.plain_end, offset)
            case "cut":
                self.plain_end = min(self.plain_end, offset)
            case "keys":
                self.keyed_end = max(self.keyed_end, offset)
            case "start":
                self.start = max(self.start, offset)
            case "open":
                assert offset >= self.plain_end


def run_until_killed(folder: Path, policy: str, lines: int, promised: Promised) -> None:
    """Let a process append, kill it after so many lines, and hear all that it had said."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), policy],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for _ in range(lines):
            line = process.stdout.readline()
            if not line:
                break
            promised.hear(line)
        process.kill()
        for line in process.stdout:
            promised.hear(line)
        errors = process.stderr.read()
    assert process.returncode == -signal.SIGKILL, errors


def check_plain(log: Log, promised: Promised) -> None:
    """Everything is there from the start on, each batch as its offset wants it."""
    assert log.end_offset >= promised.plain_end
    assert promised.start <= log.start_offset <= log.end_offset
    found = batches_of(log)
    assert [batch.header.base_offset for batch in found] == [
        *range(log.start_offset, log.end_offset)
    ]
    for batch in found:
        assert bytes(batch.view) == bytes(numbered(batch.header.base_offset).view)


def check_keyed(log: Log, promised: Promised) -> None:
    """The last record of each key is there, and none that was not appended."""
    assert log.end_offset >= promised.keyed_end
    full = [batch for batch in batches_of(log) if batch.header.record_count]
    for batch in full:
        assert bytes(batch.view) == bytes(numbered(batch.header.base_offset, keys=KEYS).view)
    kept = [batch.header.base_offset for batch in full]
    assert kept == sorted(set(kept))
    last = {offset % KEYS: offset for offset in kept}
    assert last == {offset % KEYS: offset for offset in range(log.end_offset)}


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_after_kill(tmp_path: Path) -> None:
    random = Random(20)
    folder = tmp_path / "data"
    promised = Promised()
    segments = 0
    for round_number in range(10):
        policy = ("always", "never")[round_number % 2]
        lines = random.randint(1, 900 if policy == "never" else 400)
        run_until_killed(folder, policy, lines, promised)
        disk = PosixDisk(max_open_files=8)
        store = LogStore(disk, [str(folder)])
        jobs.run(store.open(CONFIGS.__getitem__))
        assert store.folders[0].failure is None
        assert store.folders[0].closed == {}
        plain, keyed = store.log(PLAIN), store.log(KEYED)
        if plain is not None:
            check_plain(plain, promised)
            plain.append([numbered(plain.end_offset)])
            promised.plain_end = plain.end_offset
            segments = max(segments, len(plain.segments))
        if keyed is not None:
            check_keyed(keyed, promised)
        assert (plain is not None and keyed is not None) or not promised.plain_end
        if round_number % 3 == 0:
            store.close(1, lambda _: None)
        disk.close()
    # All that is in the mix has happened: rolls, retention, cuts (which lower the end), compaction.
    assert promised.plain_end > 500
    assert segments > 3
    assert promised.start > 0
