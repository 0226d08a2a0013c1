"""The documents keep up with the code: modules, dependencies, commands and links."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

KINDS = {"feature", "fix", "doc", "change", "removal"}


def architecture(root: Path, script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script that writes the module section, on a checkout or a copy of one."""
    command = [sys.executable, str(script), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def without_code(text: str) -> str:
    """Return Markdown text without its code, where brackets mean something else."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)


def broken_links(files: list[Path]) -> list[str]:
    """List the relative links of Markdown files that lead nowhere."""
    broken = []
    for path in files:
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text("utf-8"))):
            local = target.partition("#")[0]
            if "://" not in target and local and not path.parent.joinpath(local).exists():
                broken.append(f"{path.name}: {target}")
    return broken


def test_every_module_has_its_paragraph(root: Path) -> None:
    result = architecture(root, root / "scripts" / "architecture.py", "--check")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("protocol/fresh.py", '"""Something new."""\n', "not up to date"),
        ("protocol/fresh.py", "x = 1\n", "do not say what they are for: `protocol.fresh`"),
        ("spec/Fresh.tla", "(* New. *)\n", "not up to date"),
        ("spec/Fresh.tla", "---- MODULE Fresh ----\n", "`spec/Fresh.tla`"),
    ],
)
def test_a_module_without_paragraph_is_seen(
    root: Path, tmp_path: Path, module: str, text: str, complaint: str
) -> None:
    for name in ("protocol", "spec", "docs"):
        shutil.copytree(root / name, tmp_path / name)
    script = root / "scripts" / "architecture.py"
    architecture(tmp_path, script)
    assert architecture(tmp_path, script, "--check").returncode == 0
    tmp_path.joinpath(module).write_text(text, encoding="utf-8")
    result = architecture(tmp_path, script, "--check")
    assert result.returncode != 0
    assert complaint in result.stderr


def test_every_dependency_has_a_decision_and_the_other_way_round(root: Path) -> None:
    table = tomllib.loads(root.joinpath("pyproject.toml").read_text(encoding="utf-8"))
    project = table["project"]
    lines = [*project["dependencies"], *table["build-system"]["requires"]]
    lines += [line for extra in project["optional-dependencies"].values() for line in extra]
    depended = {Requirement(line).name for line in lines} - {"hwmark"}
    decided = {
        name
        for path in root.joinpath("docs", "decisions").glob("*.md")
        for line in re.findall(r"^Dependencies: (.*)$", path.read_text("utf-8"), re.M)
        for name in re.findall(r"`([^`]+)`", line)
    }
    assert decided == depended


def test_decisions_are_numbered_titled_and_short(root: Path) -> None:
    files = sorted(root.joinpath("docs", "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in files] == list(range(1, len(files) + 1))
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        assert len(text.splitlines()) <= 40, path.name


def test_newsfragments_have_a_known_kind(root: Path) -> None:
    for path in root.joinpath("docs", "newsfragments").glob("*"):
        if path.name not in {"README.md", ".gitignore"}:
            assert path.suffix == ".md", path.name
            assert KINDS.intersection(path.name.split(".")[1:-1]), path.name


def test_the_readme_names_both_commands_and_every_room(root: Path) -> None:
    readme = root.joinpath("README.md").read_text(encoding="utf-8")
    rooms = ("protocol", "storage", "net", "jepsen_style", "spark_checkers", "spec", "hwmark")
    for expected in ("`make demo`", "`make test`", *(f"`{room}/`" for room in rooms)):
        assert expected in readme


def test_ci_runs_make_test_and_nothing_more(root: Path) -> None:
    script = root / ".ci" / "run"
    lines = [line for line in script.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines == ['cd "$(dirname "${BASH_SOURCE[0]}")/.." && exec make test']
    assert os.access(script, os.X_OK)


def test_relative_links_lead_somewhere(repo_files: list[Path]) -> None:
    assert broken_links([path for path in repo_files if path.suffix == ".md"]) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[here](page.md#x) [gone](gone.md) `[code](x.md)`", encoding="utf-8")
    assert broken_links([page]) == ["page.md: gone.md"]
