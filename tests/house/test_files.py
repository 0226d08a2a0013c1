"""Files stay short, and none of them knows on which machine it was written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMITS = {".py": 450, ".tla": 350}
# In pieces, so that this file does not contain what it looks for.
FOLDERS = "|".join(["work", "root", "tmp", "home", "Users", "opt/wheels", "mnt"])
MACHINE = re.compile(rf"(?<![\w.~*}}/])/(?:{FOLDERS})(?=[/\s'\"`)]|$)", re.M)
HOSTS = "|".join([r"pypi\.or" + "g", r"pythonhosted\.or" + "g", "artifactor" + "y", "jfro" + "g"])
OPTIONS = "|".join(["--(?:extra-)?index-ur" + "l", "--find-link" + "s", "--trusted-hos" + "t"])
REGISTRY = re.compile(rf"(?:{HOSTS})|(?<!no-emit-)(?:{OPTIONS})[ =]")


def too_long(path: Path, text: str) -> bool:
    """Whether a file has grown beyond what one sitting can review."""
    return text.count("\n") > LIMITS.get(path.suffix, 10**9)


def traces_of_a_machine(text: str) -> Iterator[str]:
    """Yield every absolute path of somebody's machine and every package index named in a text."""
    for pattern in (MACHINE, REGISTRY):
        for match in pattern.finditer(text):
            yield f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}"


def texts(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield every file that is text."""
    for path in files:
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_files_are_short(root: Path, repo_files: list[Path]) -> None:
    long = [str(path.relative_to(root)) for path, text in texts(repo_files) if too_long(path, text)]
    assert long == []


def test_files_name_no_machine(root: Path, repo_files: list[Path]) -> None:
    assert [
        f"{path.relative_to(root)}: {line}"
        for path, text in texts(repo_files)
        for line in traces_of_a_machine(text)
    ] == []


def test_the_repository_is_looked_at(root: Path, repo_files: list[Path]) -> None:
    # The tests above would pass on an empty list.
    names = {str(path.relative_to(root)) for path in repo_files}
    assert {"Makefile", ".ci/run", "locks/dev.lock", "protocol/__init__.py"} <= names
    assert not [name for name in names if name.startswith((".venv/", ".git/"))]


@pytest.mark.parametrize(
    "folder", ["work/main", "root/x", "tmp/x", "home/me/x", "tmp", "opt/wheels"]
)
def test_an_absolute_path_is_seen(folder: str) -> None:
    assert list(traces_of_a_machine(f"cd '/{folder}'"))


@pytest.mark.parametrize("text", [HOSTS.split("|")[0].replace("\\", ""), "--find-link" + "s=x"])
def test_a_package_index_is_seen(text: str) -> None:
    assert list(traces_of_a_machine(f"see {text}"))


@pytest.mark.parametrize("text", ["net/work/x", "$folder/tmp/x", "a/root", "../work/x"])
def test_a_relative_path_is_left_alone(text: str) -> None:
    assert list(traces_of_a_machine(text)) == []


def test_a_long_file_is_seen() -> None:
    assert too_long(Path("x.py"), "\n" * 451)
    assert not too_long(Path("x.py"), "\n" * 450)
    assert too_long(Path("X.tla"), "\n" * 351)
