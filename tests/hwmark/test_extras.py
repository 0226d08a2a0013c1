"""Who installed one extra can use its commands, and is told what the others need."""

import subprocess
import sys


def without_storage(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `hwmark` as if the libraries of the `broker` extra were not there."""
    program = "import sys; sys.modules['crc32c'] = None; from hwmark.cli import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_specs_can_be_checked_without_what_a_broker_needs() -> None:
    listed = without_storage("check", "--list")
    assert listed.returncode == 0, listed.stderr
    assert "Replication/smoke" in listed.stdout


def test_a_command_whose_libraries_are_missing_says_what_to_install() -> None:
    refused = without_storage("log", "dump", "somewhere", "--json")
    assert refused.returncode == 2
    assert refused.stderr == "hwmark: crc32c is missing: pip install 'hwmark[broker]'\n"
