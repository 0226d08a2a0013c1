"""Keeps the list of modules in docs/architecture.md equal to what the modules say about themselves.

The paragraph of a module is the opening of its docstring (of its first comment, for TLA+), so it
is written once and cannot fall behind. With `--check` nothing is written, and the exit status says
whether the page is up to date. Diagrams and reasons on that page are written by hand, outside the
markers.
"""

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("protocol", "storage", "net", "jepsen_style", "spark_checkers", "spec", "hwmark")
BEGIN = "<!-- modules: written by `make docs`, do not edit -->"
END = "<!-- end of modules -->"


def is_prose(paragraph: str) -> bool:
    """Whether a paragraph is running text: not an example, a table, a list or what leads to one."""
    shaped = any(line[0] in " |-#>/" for line in paragraph.splitlines())
    return not shaped and not paragraph.endswith(":")


def opening(text: str) -> str:
    """Return the first paragraph, and the one after it where that is prose, one line each."""
    paragraphs = re.split(r"\n\s*\n", textwrap.dedent(text).strip())
    # A docstring's first line is its summary; what the module is not usually follows.
    kept = paragraphs[:1] + [each for each in paragraphs[1:2] if is_prose(each)]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in kept)


def python_prose(source: str) -> str:
    """Return the opening of a Python module's docstring."""
    return opening(ast.get_docstring(ast.parse(source)) or "")


def tla_prose(source: str) -> str:
    """Return the opening of a TLA+ module's first comment, written line by line."""
    bare: list[str] = []
    for line in map(str.strip, source.splitlines()):
        if line.startswith(("(*", "\\*")):
            bare.append(line[2:].removesuffix("*)").rstrip(" *").lstrip("*"))
        elif bare:
            break
    return opening("\n".join(bare))


def modules(root: Path) -> Iterator[tuple[str, str]]:
    """Yield name and prose of every module; private ones belong to their package."""
    for room in ROOMS:
        for path in sorted(root.joinpath(room).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(part for part in parts if part != "__init__")
            if not any(part.startswith("_") for part in name.split(".")):
                yield f"`{name}`", python_prose(path.read_text(encoding="utf-8"))
        for path in sorted(root.joinpath(room).glob("*.tla")):
            yield f"`{path.relative_to(root)}`", tla_prose(path.read_text(encoding="utf-8"))


def render(root: Path) -> str:
    """Write the section: one paragraph or two per module, in the order of the rooms."""
    silent = [name for name, prose in modules(root) if not prose]
    if silent:
        raise SystemExit(f"these modules do not say what they are for: {', '.join(silent)}")
    return "\n\n".join(f"**{name}** {prose}" for name, prose in modules(root))


def updated(page: str, section: str) -> str:
    """Return the page with the part between the markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit("docs/architecture.md has lost its markers")
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{after}"


def main() -> int:
    """Rewrite the page, or only compare it."""
    parser = argparse.ArgumentParser(description="Write the modules into docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to look at")
    arguments = parser.parse_args()
    path = arguments.root / "docs" / "architecture.md"
    page = path.read_text(encoding="utf-8")
    fresh = updated(page, render(arguments.root))
    if arguments.check:
        if page != fresh:
            print("docs/architecture.md is not up to date; run `make docs`", file=sys.stderr)
        return int(page != fresh)
    path.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
