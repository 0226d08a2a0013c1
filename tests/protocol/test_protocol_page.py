"""docs/protocol.md keeps up: its table with the machines, its prose with rules and files."""

import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from protocol import idempotence, quorum, replication
from protocol.controller import ControllerRules

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "protocol.md"
SCRIPT = ROOT / "scripts" / "action_table.py"
SPECS = ("Replication", "Idempotence", "Quorum")
PATH = r"(replication|controller|idempotence|quorum)/"


def prose() -> str:
    """Return what is written by hand."""
    return PAGE.read_text(encoding="utf-8").partition("<!-- actions:")[0]


def named() -> set[str]:
    """Return everything that the prose names."""
    return set(re.findall(r"`([^`]+)`", prose()))


def spec_actions(spec: str) -> set[str]:
    """Return the actions of a spec: the disjuncts of its Next."""
    text = ROOT.joinpath("spec", f"{spec}.tla").read_text(encoding="utf-8")
    _, _, rest = text.partition("\nNext ==\n")
    return set(re.findall(r"\\/ (\w+)(?=\(|\n)", rest.partition("\n\n")[0]))


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Compare the table of a page with the machines."""
    command = [sys.executable, str(SCRIPT), "--root", str(root), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_is_what_the_machines_have_registered() -> None:
    result = check(ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("| `Appended` | `FinishAppend` |", "| `Appended` | `Append` |", "not up to date"),
        ("<!-- end of actions -->", "", "lost its markers"),
    ],
)
def test_a_table_that_has_fallen_behind_is_seen(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert old in text
    tmp_path.joinpath("docs").mkdir()
    tmp_path.joinpath("docs", "protocol.md").write_text(text.replace(old, new), encoding="utf-8")
    result = check(tmp_path)
    assert result.returncode != 0
    assert complaint in result.stderr


@pytest.mark.parametrize("spec", SPECS)
def test_the_prose_names_every_action_of_the_spec(spec: str) -> None:
    assert len(spec_actions(spec)) > 12
    assert spec_actions(spec) - named() == set()


@pytest.mark.parametrize(
    "rules", [replication.Rules, ControllerRules, idempotence.Rules, quorum.Rules]
)
def test_the_prose_names_every_rule(rules: type[attrs.AttrsInstance]) -> None:
    spelled = {re.sub("(?!^)([A-Z])", r"_\1", name).lower() for name in named()}
    assert {field.name for field in attrs.fields(rules)} - spelled == set()


def test_the_paragraphs_are_numbered_without_a_gap() -> None:
    numbers = [int(number) for number in re.findall(r"^(\d+)\. \*\*", prose(), re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 20


def test_every_paragraph_names_the_code_or_what_it_is_called_there() -> None:
    paragraphs = re.findall(r"^\d+\. .*?(?=^\d+\. |^## )", prose(), re.M | re.S)
    silent = [each for each in paragraphs if not re.search(rf"`{PATH}|Config`", each)]
    assert silent == []


def test_the_files_that_the_prose_names_exist() -> None:
    paths = {name for name in named() if re.match(PATH, name)}
    assert len(paths) > 10
    assert {path for path in paths if not ROOT.joinpath("protocol", path).exists()} == set()
