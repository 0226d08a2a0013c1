"""`hwmark conform` and `hwmark replay` as their user meets them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spec.catalogue import SPEC_DIR

HWMARK = Path(sys.executable).with_name("hwmark")

pytestmark = pytest.mark.tlc


def hwmark(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HWMARK, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    shutil.copytree(SPEC_DIR, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


@pytest.mark.slow
def test_a_model_that_the_code_equals_is_told_in_a_table_and_as_json(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    done = hwmark("conform", "--model", "Replication/graph-three", "--json", "--markdown", table)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    assert told["equal"] is True
    assert told["states"] == 41_195
    assert [told[f"{kind}_{what}"] for kind in ("missing", "extra") for what in ("states", "edges")]
    assert told["missing_states"] == told["extra_states"] == told["unstable_states"] == 0
    assert told["missing_edges"] == told["extra_edges"] == 0
    assert "| Replication/graph-three | equal | 41,195 |" in table.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_spec_that_the_code_does_not_equal_is_told_by_the_path_to_the_difference(
    specs: Path,
) -> None:
    """The spec alone lets a leader take out whoever it likes: no property of this model minds."""
    rules = specs / "ReplicationRules.tla"
    text = rules.read_text(encoding="utf-8")
    right = "MayLeaveIsr(follower, endOffset) == follower.endOffset < endOffset"
    assert right in text
    rules.write_text(text.replace(right, "MayLeaveIsr(follower, endOffset) == FALSE"), "utf-8")
    done = hwmark("conform", "--model", "Replication/graph-three", "--specs", specs)
    assert done.returncode == 1, done.stderr
    assert "different" in done.stdout
    assert "the shortest path to a difference" in done.stderr
    assert "next steps of the code alone" in done.stdout
    assert "ShrinkIsr" in done.stdout


def test_a_mutant_is_caught_on_both_sides_and_its_scenario_replays(tmp_path: Path) -> None:
    scenario = tmp_path / "kip-101.txt"
    done = hwmark("conform", "--mutant", "KIP-101", "--save-scenario", scenario)
    assert done.returncode == 0, done.stderr
    assert "caught on both sides" in done.stdout
    assert "how the code breaks LeaderCandidateCompleteness" in done.stdout
    again = hwmark("replay", scenario)
    assert again.returncode == 0, again.stderr
    assert "the code takes every step of it" in again.stdout
    # With the right rules the last step is another one.
    right = hwmark("replay", scenario, "--model", "Replication/gate", "--json")
    assert right.returncode == 1
    told = json.loads(right.stdout)
    assert told["accepted"] is False
    assert told["parts_at"]["action"] == "BecomeFollower"


def test_a_counterexample_of_tlcs_replays_on_the_machines(tmp_path: Path) -> None:
    scenario = tmp_path / "kip-903.txt"
    found = hwmark("check", "--mutant", "KIP-903", "--save-scenario", scenario)
    assert found.returncode == 0, found.stderr
    done = hwmark("replay", scenario)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BrokerEpochIsCurrent swapped for AnyBrokerEpoch" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("conform", "Nonsense"), "there is no spec 'Nonsense'"),
        (("conform", "--model", "simulation"), "no whole state graph"),
        (("conform", "--mutant", "older-version"), "LeaderViewOfOlderVersion"),
        (("conform", "--mutants", "--mutant", "KIP-101"), "choose one of them"),
        (("conform", "Metadata"), "no model of Metadata is compared"),
        (("replay", "nowhere.txt"), "nowhere.txt"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(arguments: tuple[str, ...], message: str) -> None:
    done = hwmark(*arguments)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_scenario_that_does_not_say_what_it_comes_from_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "unknown.txt"
    scenario.write_text("(initial)\n----\nx = 1\n", encoding="utf-8")
    done = hwmark("replay", scenario)
    assert done.returncode == 2
    assert "--mutant or --model" in done.stderr.replace("\n", " ")
    other = hwmark("replay", scenario, "--model", "Replication/smoke")
    assert other.returncode == 1, other.stderr
