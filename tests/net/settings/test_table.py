"""The table in the docs is what the code has."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "setting_table.py"


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Compare the page of a checkout with the code."""
    command = [sys.executable, str(SCRIPT), "--check", "--root", str(root)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_page_is_up_to_date() -> None:
    assert check(ROOT).returncode == 0


def test_a_stale_page_is_seen(tmp_path: Path) -> None:
    (tmp_path / "docs" / "tables").mkdir(parents=True)
    assert check(tmp_path).returncode == 1
    page = (ROOT / "docs" / "tables" / "settings.md").read_text(encoding="utf-8")
    stale = tmp_path / "docs" / "tables" / "settings.md"
    stale.write_text(page.replace("30000", "30001"), encoding="utf-8")
    assert check(tmp_path).returncode == 1
