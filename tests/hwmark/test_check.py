"""`hwmark check` as its user meets it: what it prints, and the status it ends with."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hwmark.check import exit_status
from spec.catalogue import SPEC_DIR
from spec.runner import Verdict, read_scenario

HWMARK = Path(sys.executable).with_name("hwmark")

# A small spec of its own, so that each way in which a check can end takes a second.
COUNTER = """---- MODULE Counter ----
EXTENDS Naturals
CONSTANT Top
VARIABLE x
(* GUARD. *)
May(n) == n < Top
Up == May(x) /\\ x' = x + 1
Spec == x = 0 /\\ [][Up]_x
Small == x <= 3
====
"""
MUTANTS = """---- MODULE CounterMutants ----
EXTENDS Counter
Always(n) == TRUE
Never(n) == FALSE
====
"""
MODEL = """\\* Counts to three.
\\* module: Counter.tla
\\* suite: smoke
\\* states: 4
SPECIFICATION Spec
CONSTANT Top = 3
INVARIANT Small
"""
MUTANT = """\\* Counts on for ever.
\\* module: CounterMutants.tla
\\* model: Counter/small
CONSTANT May <- Always
INVARIANT Small
"""


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    (folder / "models" / "Counter").mkdir(parents=True)
    (folder / "mutants").mkdir()
    (folder / "Counter.tla").write_text(COUNTER)
    (folder / "models" / "Counter" / "small.cfg").write_text(MODEL)
    (folder / "mutants" / "CounterMutants.tla").write_text(MUTANTS)
    (folder / "mutants" / "endless.cfg").write_text(MUTANT)
    return folder


def hwmark(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the installed command, away from any terminal and wide enough not to fold its tables."""
    return subprocess.run(
        [HWMARK, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "160"},
        timeout=300,
    )


@pytest.mark.tlc
def test_what_holds_is_told_in_a_table_and_by_status_0(specs: Path) -> None:
    done = hwmark("check", "--specs", specs)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "Counter/small" in line)
    assert row.split()[:4] == ["Counter/small", "holds", "4", "4"]


@pytest.mark.tlc
def test_a_violation_is_shown_state_by_state_and_by_status_1(specs: Path, tmp_path: Path) -> None:
    config = specs / "models" / "Counter" / "small.cfg"
    config.write_text(MODEL.replace("Top = 3", "Top = 5"))
    done = hwmark("check", "--specs", specs, "--save-scenario", tmp_path / "story.txt")
    assert done.returncode == 1
    assert "violated: Small" in done.stdout
    assert "x  3 -> 4" in done.stdout
    saved = read_scenario(tmp_path / "story.txt")
    assert [step.state["x"] for step in saved.steps] == [0, 1, 2, 3, 4]


@pytest.mark.tlc
def test_a_size_that_changed_is_told(specs: Path) -> None:
    config = specs / "models" / "Counter" / "small.cfg"
    config.write_text(MODEL.replace("states: 4", "states: 7"))
    done = hwmark("check", "--specs", specs)
    assert done.returncode == 0
    assert "4 (was 7)" in done.stdout


@pytest.mark.tlc
def test_a_mutant_that_is_caught_is_good(specs: Path) -> None:
    done = hwmark("check", "--specs", specs, "--mutants")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "endless" in line)
    assert row.split()[:5] == ["endless", "May", "caught", "Small", "5"]


@pytest.mark.tlc
def test_a_mutant_that_survives_is_a_failure(specs: Path) -> None:
    (specs / "mutants" / "endless.cfg").write_text(MUTANT.replace("Always", "Never"))
    done = hwmark("check", "--specs", specs, "--mutants")
    assert done.returncode == 1
    assert "SURVIVED" in done.stdout
    assert "endless: expected Small to break, but TLC found nothing wrong" in done.stderr


@pytest.mark.tlc
def test_an_unknown_or_an_error_is_neither_good_nor_bad(specs: Path) -> None:
    (specs / "Counter.tla").write_text(COUNTER.replace("x = 0", "x \\in Nat"))
    done = hwmark("check", "--specs", specs, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)[0]["verdict"] == "error"
    (specs / "Counter.tla").write_text(COUNTER.replace("x' =", "x' = = "))
    done = hwmark("check", "--specs", specs)
    assert done.returncode == 2
    assert "Counter.tla" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.tlc
def test_a_time_limit_gives_unknown(specs: Path) -> None:
    (specs / "models" / "Counter" / "small.cfg").write_text(
        MODEL.replace("Top = 3", "Top = 1000000000").replace("INVARIANT Small\n", "")
    )
    done = hwmark("check", "--specs", specs, "--time-limit", "4")
    assert done.returncode == 2
    assert "unknown" in done.stdout
    assert "time limit" in done.stderr


@pytest.mark.tlc
def test_json_is_for_machines(specs: Path) -> None:
    done = hwmark("check", "--specs", specs, "--mutants", "--json")
    (result,) = json.loads(done.stdout)
    assert (result["mutant"], result["rule"], result["wrong"]) == ("endless", "May", "Always")
    assert (result["caught"], result["expected"], result["length"]) == (True, "Small", 5)
    assert [step["state"]["x"] for step in result["violation"]["trace"]["steps"]] == [0, 1, 2, 3, 4]
    assert done.stderr == ""


@pytest.mark.tlc
def test_a_table_can_be_written_as_markdown(specs: Path, tmp_path: Path) -> None:
    hwmark("check", "--specs", specs, "--markdown", tmp_path / "table.md")
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[0] == "| model | verdict | distinct states | depth | seconds |"
    assert lines[2].startswith("| Counter/small | holds | 4 | 4 | ")


@pytest.mark.tlc
def test_a_historic_bug_is_explained() -> None:
    done = hwmark("check", "--mutant", "kip-101", "--explain")
    assert done.returncode == 0, done.stderr
    for text in (
        "cuts its log to its own high watermark",
        "KeptOnBecomingFollower(log, highWatermark) == EndOffset(log)",
        "KeepToHighWatermark(entries, highWatermark) == highWatermark",
        "LeaderCandidateCompleteness ==",
        "how it breaks, in 8 states",
        "log[r2]         <<[epoch 1, id 1]>> -> <<>>",
    ):
        assert text in done.stdout


@pytest.mark.tlc
def test_a_resumed_check_runs_only_what_is_missing(specs: Path, tmp_path: Path) -> None:
    command = [str(HWMARK), "check", "--specs", str(specs), "--suite", "smoke", "--resume"]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Counter/small (1/1): holds" in first.stderr
    second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert second.stderr == ""
    assert "Counter/small" in second.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "gat"), "there is no model 'gat'"),
        (("Replicaton",), "there is no spec 'Replicaton'; there are "),
        (("--mutant", "KIP-0"), "there is no mutant 'KIP-0'"),
        (("--suite", "dep"), "there is no model in the suite 'dep'"),
        (("--mutants", "--vacuity"), "choose one of them"),
        (("--mutants", "--model", "gate"), "choose one of them"),
        (("--explain",), "name it by --mutant"),
        (("--resume", "--mutants"), "use it with --suite"),
        (("--specs", "nowhere"), "there are no models"),
        (("--markdown", "nowhere/table.md"), "nowhere/table.md cannot be written"),
    ],
)
def test_a_wrong_request_is_one_clear_line_and_status_2(
    arguments: tuple[str, ...], says: str
) -> None:
    done = hwmark("check", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_everything_there_is_can_be_listed() -> None:
    done = hwmark("check", "--list")
    names = {path.stem for path in SPEC_DIR.glob("mutants/*.cfg")}
    names |= {f"{path.parent.name}/{path.stem}" for path in SPEC_DIR.glob("models/*/*.cfg")}
    assert names <= set(done.stdout.split())


@pytest.mark.tlc
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(
    number: signal.Signals, status: int, specs: Path, tmp_path: Path
) -> None:
    endless = MODEL.replace("Top = 3", "Top = 1000000000").replace("INVARIANT Small\n", "")
    (specs / "models" / "Counter" / "small.cfg").write_text(endless)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [HWMARK, "check", "--specs", specs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        java = wait_for_child(process.pid)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.terminate()
    assert process.returncode == status, errors
    assert "Traceback" not in errors
    assert not Path(f"/proc/{java}").exists()
    assert list(temporary.iterdir()) == []


def wait_for_child(pid: int) -> int:
    """Wait until a process has started TLC, and give TLC's number."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while True:
        for child in children.read_text().split():
            # Java is asked for its version first, and may be gone by the time we look.
            with contextlib.suppress(OSError):
                if b"tlc2.TLC" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([], 0),
        ([Verdict.HOLDS], 0),
        ([Verdict.HOLDS, Verdict.UNKNOWN], 2),
        ([Verdict.ERROR, Verdict.VIOLATED], 1),
    ],
)
def test_a_violation_outweighs_what_is_not_known(verdicts: list[Verdict], status: int) -> None:
    assert exit_status(verdicts) == status


@pytest.mark.tlc
def test_a_guard_taken_out_of_a_copy_of_the_specs_is_caught(tmp_path: Path) -> None:
    """What a protocol designer does: copy the specs, change a rule, and look."""
    specs = tmp_path / "spec"
    shutil.copytree(SPEC_DIR, specs)
    rules = specs / "ReplicationRules.tla"
    text = rules.read_text()
    right = "HighWatermarkIsr(view) == view.isr \\cup view.pending"
    assert right in text
    rules.write_text(text.replace(right, "HighWatermarkIsr(view) == view.isr"))
    done = hwmark("check", "Replication", "--model", "Replication/smoke", "--specs", specs)
    assert done.returncode == 1
    assert "violated: " in done.stdout
    assert "CommitIsr" in done.stdout
