"""`make test` runs every stage, tells the truth at the end, and leaves no process behind."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

TABLE = """
[suites]
all = { stages = ["first", "second"], budget_s = 1000 }

[stages.first]
budget_s = 500
commands = ["sh -c 'echo first ran'"]

[stages.second]
budget_s = 500
commands = ["sh -c 'echo second ran'"]
"""

# Two branches, of which each stage takes one.
SAMPLE = """
def f(x):
    if x:
        return 1
    return 2
"""


def run(root: Path, table: Path, text: str, suite: str = "all") -> subprocess.CompletedProcess[str]:
    """Run a suite of a table written for the occasion."""
    table.write_text(text, encoding="utf-8")
    command = [sys.executable, str(root / "scripts" / "stages.py"), suite, "--table", str(table)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def side_by_side(entry: str | list[str]) -> list[str]:
    """Name the stages of one entry of a suite."""
    return [entry] if isinstance(entry, str) else entry


@pytest.fixture(scope="module")
def stages(root: Path) -> dict[str, Any]:
    """The table that `make test` uses."""
    return tomllib.loads(root.joinpath("scripts", "stages.toml").read_text(encoding="utf-8"))


def test_all_well(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path / "table", TABLE)
    assert result.returncode == 0
    assert result.stdout.rstrip().endswith("make all: ok")
    assert "WARNING" not in result.stdout


def test_a_failing_stage_fails_the_suite_but_not_the_others(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path / "table", TABLE.replace("echo first ran", "exit 3"))
    assert result.returncode == 1
    assert "second ran" in result.stdout
    assert "FAILED: first: sh -c 'exit 3' (exit status 3)" in result.stdout
    assert result.stdout.rstrip().endswith("make all: FAILED")


def test_a_missing_tool_is_a_failure(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path / "table", TABLE.replace("sh -c 'echo first ran'", "no-such-tool"))
    assert result.returncode == 1
    assert "second ran" in result.stdout


def test_over_budget_is_loud_but_does_not_fail(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path / "table", TABLE.replace("budget_s = 500", "budget_s = 0", 1))
    assert result.returncode == 0
    assert "WARNING: stage first is over its budget" in result.stdout
    assert "stage second is over" not in result.stdout


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process(root: Path, tmp_path: Path, sent: signal.Signals) -> None:
    # The stage's child is in a session of its own and ignores Ctrl-C, as the worst of tools do.
    # It reads a pipe that it also writes, so it never ends by itself.
    fifo, script, table = (tmp_path / name for name in ("fifo", "stage.sh", "table"))
    child = f"trap '' INT; mkfifo {fifo}; echo $$; exec cat <>{fifo}"
    script.write_text(f"setsid sh -c {shlex.quote(child)} & wait", encoding="utf-8")
    text = TABLE.replace("sh -c 'echo first ran'", f"sh {script}")
    table.write_text(text, encoding="utf-8")
    command = [sys.executable, str(root / "scripts" / "stages.py"), "all", "--table", str(table)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pid = int(next(line for line in process.stdout if line.strip().isdigit()))
        alive = Path(f"/proc/{pid}/exe")
        assert alive.exists()
        process.send_signal(sent)
        try:
            # Ends only when nobody is left who could still write.
            rest, _ = process.communicate(timeout=60)
            assert not alive.exists()
        finally:
            if alive.exists():
                os.kill(pid, signal.SIGKILL)
            process.kill()
    assert process.returncode == 130
    assert "second ran" not in rest


def test_coverage_is_measured_in_every_stage_and_reported_once(root: Path, tmp_path: Path) -> None:
    house = tmp_path / "house"
    shutil.copytree(root / "scripts", house / "scripts")
    shutil.copy(root / "pyproject.toml", house)
    house.joinpath("protocol").mkdir()
    house.joinpath("protocol", "__init__.py").touch()
    house.joinpath("protocol", "sample.py").write_text(SAMPLE)
    for number in (1, 2):
        test = f"from protocol.sample import f\ndef test_f(): assert f({number} == 1) == {number}\n"
        house.joinpath(f"test_{number}.py").write_text(test)
    table = TABLE.replace("1000 }", "1000, coverage = true }")
    table = table.replace("commands = [\"sh -c 'echo first ran'\"]", 'pytest = "test_1.py"')
    table = table.replace("commands = [\"sh -c 'echo second ran'\"]", 'pytest = "test_2.py"')
    result = run(house, tmp_path / "table", table)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("TOTAL") == 1
    assert "Branch" in result.stdout
    (total,) = [line for line in result.stdout.splitlines() if line.startswith("TOTAL")]
    assert total.split()[-1] == "100%"


def test_stages_in_a_list_of_their_own_run_side_by_side_and_print_when_they_end(
    root: Path, tmp_path: Path
) -> None:
    """Each waits for the other by a pipe, which one after the other could not."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    text = TABLE.replace('["first", "second"]', '[["first", "second"]]')
    text = text.replace("echo first ran", f"echo one; echo go >{fifo}; echo two")
    text = text.replace("echo second ran", f"read word <{fifo}; echo second $word")
    result = run(root, tmp_path / "table", text)
    assert result.returncode == 0
    first = result.stdout.index("==> first")
    assert result.stdout[first:].startswith("==> first (budget 500 s)\none\ntwo\n<== first: ok")
    assert "==> second (budget 500 s)\nsecond go\n<== second: ok" in result.stdout


def test_every_test_file_is_in_exactly_one_stage(root: Path, stages: dict[str, Any]) -> None:
    chosen: dict[Path, list[str]] = {path: [] for path in root.joinpath("tests").rglob("test_*.py")}
    for name in chain.from_iterable(map(side_by_side, stages["suites"]["test"]["stages"])):
        words = shlex.split(stages["stages"][name].get("pytest", ""))
        ignored = [root / word.removeprefix("--ignore=") for word in words if "--ignore=" in word]
        folders = [root / word for word in words if not word.startswith("-")]
        for path in chosen:
            inside = any(path.is_relative_to(folder) for folder in folders)
            if inside and not any(path.is_relative_to(folder) for folder in ignored):
                chosen[path].append(name)
    assert {str(path): names for path, names in chosen.items() if len(names) != 1} == {}


def test_the_budgets_fit_the_totals(stages: dict[str, Any]) -> None:
    limits = {"test": 1800, "quick": 300}
    for name, suite in stages["suites"].items():
        assert suite["budget_s"] <= limits.get(name, suite["budget_s"])
    for name in ("test", "bench"):
        suite = stages["suites"][name]
        budgets = [
            max(stages["stages"][each]["budget_s"] for each in side_by_side(entry))
            for entry in suite["stages"]
        ]
        assert sum(budgets) <= suite["budget_s"]


def test_make_alone_lists_every_command(root: Path) -> None:
    makefile = root.joinpath("Makefile").read_text(encoding="utf-8")
    (phony,) = [line for line in makefile.splitlines() if line.startswith(".PHONY:")]
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[1] for line in shown.splitlines()} == set(phony.split()[1:])
