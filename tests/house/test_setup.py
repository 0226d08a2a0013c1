"""`make setup` on machines that lack something, played by a PATH of small stand-ins.

The scripts are the real ones; python, pip, java, apt-get and id are fakes that write down how they
were called. What a real pip does with the real lock is seen by whoever runs `make test`: it starts
with that very set-up.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

TOOLS = (
    "sh",
    "cat",
    "dirname",
    "env",
    "flock",
    "mkdir",
    "mktemp",
    "rm",
    "sed",
    "setsid",
    "sha256sum",
    "cp",
)

FAKE_PYTHON = """#!/bin/sh
echo "python $*" >>"$LOG"
case "$*" in
    *version_info*sys.executable*) [ "${PYTHON_IS_OLD:-}" ] && exit 1; echo "$0" ;;
    *ensurepip*) [ -e "$STATE/venv" ] || [ -z "${NO_VENV:-}" ] ;;
    *-venv*) echo python3.11-venv ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *"pip install"*) [ -z "${PIP_FAILS:-}" ] ;;
    *"pip check"*) [ -z "${LOCK_LACKS:-}" ] || { echo "$LOCK_LACKS"; exit 1; } ;;
esac
"""

FAKE_APT = """#!/bin/sh
echo "apt-get $*" >>"$LOG"
case "$*" in
    *install*jre-headless*) [ -z "${APT_FAILS:-}" ] && cp "$STATE/java" "$BIN/java" ;;
    *install*venv*) : >"$STATE/venv" ;;
    *install*kcat*) cp "$STATE/java" "$BIN/kcat" ;;
esac
"""


class Machine:
    """A copy of what set-up needs, on a computer that has only the commands put there."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.house = folder / "house"
        self.bin = folder / "bin"
        self.state = folder / "state"
        self.log = folder / "log"
        shutil.copytree(root / "scripts", self.house / "scripts")
        shutil.copytree(root / "locks", self.house / "locks")
        shutil.copy(root / "pyproject.toml", self.house)
        self.bin.mkdir()
        self.state.mkdir()
        self.log.touch()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, f"these tests need {tool}"
            self.bin.joinpath(tool).symlink_to(found)
        self.put("id", "#!/bin/sh\necho 1000\n")
        self.put("python3", FAKE_PYTHON)
        self.put_java("17.0.15")
        self.put("kcat", "#!/bin/sh\n")

    def put(self, name: str, text: str) -> None:
        """Install a command."""
        self.bin.joinpath(name).write_text(text, encoding="utf-8")
        self.bin.joinpath(name).chmod(0o755)

    def put_java(self, version: str) -> None:
        """Install a Java of some version."""
        self.put("java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")

    def become_root(self) -> None:
        """Be run by root, on Debian."""
        self.put("id", "#!/bin/sh\necho 0\n")
        self.put("apt-get", FAKE_APT)
        # What Debian's package will bring.
        self.put("java17", "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
        self.bin.joinpath("java17").rename(self.state / "java")

    def start(self, **environment: str) -> subprocess.Popen[str]:
        """Start set-up."""
        known = {"PATH": self.bin, "LOG": self.log, "STATE": self.state, "BIN": self.bin}
        return subprocess.Popen(
            [self.house / "scripts" / "setup"],
            env={name: str(value) for name, value in known.items()} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def setup(self, **environment: str) -> tuple[int, list[str]]:
        """Run set-up to its end; return its status and the lines it printed."""
        process = self.start(**environment)
        out, err = process.communicate()
        return process.returncode, [*out.splitlines(), *err.splitlines()]

    def calls(self, text: str) -> int:
        """Count the commands so far that contain a text."""
        return sum(text in line for line in self.log.read_text(encoding="utf-8").splitlines())


@pytest.fixture
def machine(root: Path, tmp_path: Path) -> Machine:
    """A machine with Python and Java, used by somebody who is not root."""
    return Machine(root, tmp_path)


def test_without_java_and_root_one_line_says_what_to_install(machine: Machine) -> None:
    machine.bin.joinpath("java").unlink()
    status, lines = machine.setup()
    assert status == 1
    (line,) = lines
    assert "Java 17" in line
    assert "apt-get install openjdk-17-jre-headless" in line


def test_an_old_java_is_as_good_as_none(machine: Machine) -> None:
    machine.put_java("11.0.20")
    status, lines = machine.setup()
    assert status == 1
    assert "Java 17" in lines[0]


def test_root_without_java_gets_it_from_debian(machine: Machine) -> None:
    machine.bin.joinpath("java").unlink()
    machine.become_root()
    status, _ = machine.setup()
    assert status == 0
    assert machine.calls("apt-get update") == 1
    assert machine.calls("--no-install-recommends openjdk-17-jre-headless") == 1


def test_root_whose_apt_fails_gets_the_line_too(machine: Machine) -> None:
    machine.bin.joinpath("java").unlink()
    machine.become_root()
    status, lines = machine.setup(APT_FAILS="1")
    assert status == 1
    assert "Java 17 or newer is needed" in lines[-1]


def test_without_python_one_line_says_so(machine: Machine) -> None:
    status, lines = machine.setup(PYTHON_IS_OLD="1")
    assert status == 1
    (line,) = lines
    assert "Python 3.11 or newer" in line


def test_a_broken_newer_python_is_passed_over(machine: Machine) -> None:
    machine.put("python3.13", "#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    status, _ = machine.setup()
    assert status == 0


def test_without_venv_and_root_one_line_says_so(machine: Machine) -> None:
    status, lines = machine.setup(NO_VENV="1")
    assert status == 1
    (line,) = lines
    assert "apt-get install python3.11-venv" in line


def test_root_without_venv_gets_it_from_debian(machine: Machine) -> None:
    machine.become_root()
    status, _ = machine.setup(NO_VENV="1")
    assert status == 0
    assert machine.calls("python3.11-venv") == 1


def test_the_second_run_installs_nothing(machine: Machine) -> None:
    assert machine.setup()[0] == 0
    assert machine.calls("--require-hashes -r locks/dev.lock") == 1
    assert machine.calls("--editable .") == 1
    assert machine.setup() == (0, [])
    assert machine.calls("pip install") == 2


def test_nothing_is_resolved_so_that_a_new_release_cannot_matter(machine: Machine) -> None:
    machine.setup()
    assert machine.calls("--no-deps --require-hashes") == 1


def test_a_lock_that_leaves_something_out_is_named_and_counts_for_nothing(machine: Machine) -> None:
    status, lines = machine.setup(LOCK_LACKS="a requires b, which is not installed.")
    assert status == 1
    assert lines[-1] == (
        "hwmark: locks/dev.lock is not complete: a requires b, which is not installed."
    )
    assert machine.setup()[0] == 0
    assert machine.calls("--require-hashes") == 2


def test_a_changed_lock_rebuilds_and_a_changed_project_reinstalls(machine: Machine) -> None:
    machine.setup()
    with machine.house.joinpath("pyproject.toml").open("a") as file:
        file.write("# changed\n")
    machine.setup()
    assert machine.calls("-m venv") == 1
    assert machine.calls("--editable .") == 2
    with machine.house.joinpath("locks", "dev.lock").open("a") as file:
        file.write("# changed\n")
    machine.setup()
    assert machine.calls("-m venv") == 2
    assert machine.calls("--require-hashes") == 2


def test_a_set_up_that_failed_is_begun_again(machine: Machine) -> None:
    assert machine.setup(PIP_FAILS="1")[0] != 0
    assert machine.house.joinpath(".venv").exists()
    assert machine.setup()[0] == 0
    assert machine.calls("-m venv") == 2


def test_a_moved_folder_is_set_up_again(machine: Machine) -> None:
    machine.setup()
    machine.house = machine.house.rename(machine.house.with_name("moved"))
    machine.setup()
    assert machine.calls("-m venv") == 2


def test_two_at_once_install_once(machine: Machine) -> None:
    both = [machine.start(), machine.start()]
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    assert machine.calls("-m venv") == 1


def test_an_interrupt_takes_the_installer_down(machine: Machine) -> None:
    # This pip has a child that says who it is, through a pipe, and would then wait for ever.
    waiting = 'sh -c \'echo $$ >"$STATE/pid"; exec cat "$STATE/never"\'; exit'
    waiting = f'case "$*" in *"pip install"*) {waiting} ;; esac'
    machine.put("python3", FAKE_PYTHON + waiting)
    os.mkfifo(machine.state / "pid")
    os.mkfifo(machine.state / "never")
    with machine.start() as process:
        pid = int(machine.state.joinpath("pid").read_text(encoding="utf-8"))
        alive = Path(f"/proc/{pid}/exe")
        process.terminate()
        try:
            # Ends only when nobody is left who could still write.
            process.communicate(timeout=60)
            assert not alive.exists()
        finally:
            if alive.exists():
                os.kill(pid, signal.SIGKILL)
            process.kill()
    assert process.returncode == 130
    assert not machine.house.joinpath(".venv", ".packages").exists()


def test_root_without_kcat_gets_it_from_debian(machine: Machine) -> None:
    machine.become_root()
    machine.bin.joinpath("kcat").unlink()
    status, lines = machine.setup()
    assert status == 0
    assert any("installing kcat" in line for line in lines)
    assert machine.bin.joinpath("kcat").exists()


def test_without_kcat_and_root_set_up_goes_on_and_says_once_what_is_skipped(
    machine: Machine,
) -> None:
    machine.bin.joinpath("kcat").unlink()
    told = [machine.setup() for _ in range(3)]
    assert [status for status, _ in told] == [0, 0, 0]
    said = sum("kcat was not found" in line for _, lines in told for line in lines)
    assert 1 <= said <= 2
    assert not any("kcat" in line for line in told[-1][1])
