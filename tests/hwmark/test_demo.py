"""The demo shows a protocol that holds, code that equals it, bugs that are caught, and a log."""

import subprocess
import sys
from pathlib import Path

import pytest

HWMARK = Path(sys.executable).with_name("hwmark")


@pytest.mark.tlc
@pytest.mark.slow
def test_the_demo_ends_well_and_shows_a_counterexample() -> None:
    done = subprocess.run([HWMARK, "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Replication/smoke" in done.stdout
    assert "how it breaks, in 8 states" in done.stdout
    assert "how the code breaks LeaderCandidateCompleteness" in done.stdout
    assert "caught on both sides" in done.stdout
    assert "nothing lost" in done.stdout
    assert "The protocol holds, the code equals it, both catch the bug" in done.stdout
