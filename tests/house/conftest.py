"""What the house tests look at: the checkout itself, and the files that belong to it."""

import subprocess
from pathlib import Path

import pytest

# Only for a copy without git; in a clone, .gitignore decides.
MADE_BY_TOOLS = {"build", "dist", "htmlcov", "runs", "states", "__pycache__"}


def belongs(path: Path) -> bool:
    """Whether a path below the root looks like a part of the project, not a product of it."""
    hidden = [part for part in path.parts[:-1] if part.startswith(".") and part != ".ci"]
    made = MADE_BY_TOOLS.intersection(path.parts) or path.parts[0].endswith(".egg-info")
    return not hidden and not made and path.name != ".setup.lock"


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repo_files(root: Path) -> list[Path]:
    """Every file that is, or is about to be, part of the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    # A copy inside another repository would list that one's files, none of which are here.
    names = listing.stdout.split("\0") if root.joinpath(".git").exists() else []
    files = [root / name for name in names if name and root.joinpath(name).is_file()]
    if not files:
        found = (path for path in root.rglob("*") if path.is_file())
        files = [path for path in found if belongs(path.relative_to(root))]
    return sorted(files)


@pytest.fixture(scope="session")
def python_files(repo_files: list[Path]) -> list[Path]:
    """Every Python file of the repository."""
    return [path for path in repo_files if path.suffix == ".py"]
