"""Writes docs/tables/settings.md: every setting of a node and of a topic, as the code has it.

With `--check` nothing is written, and the exit status says whether the page is up to date.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from net.settings import broker_table, topic_table
from net.settings.setting import Setting

ROOT = Path(__file__).resolve().parent.parent
INTRODUCTION = """# Settings

Written by `scripts/setting_table.py`; do not edit. Names, types and defaults are Kafka's;
names that begin with `hwmark.` are our own. What is not here does nothing, and is refused.
"""


def code(text: str | None) -> str:
    """Write a value, or that there is none."""
    if text is None or text == "":
        return "-"
    return f"`{text}`"


def changed(setting: Setting) -> str:
    """Say whether a broker's setting can be changed while it runs."""
    return setting.dynamic.value


def node_rows() -> Iterator[str]:
    """Yield the table of a node's settings."""
    yield "| name | default | valid | changes | what it is |"
    yield "| --- | --- | --- | --- | --- |"
    for known in sorted(broker_table().values(), key=lambda each: each.name):
        default = "-" if known.default == -1 and known.low == 0 else code(known.default_text)
        yield f"| `{known.name}` | {default} | {known.valid} | {changed(known)} | {known.doc} |"


def topic_rows() -> Iterator[str]:
    """Yield the table of a topic's settings; each can be changed at any time."""
    yield "| name | default | valid | the node's setting | what it is |"
    yield "| --- | --- | --- | --- | --- |"
    for known in sorted(topic_table().values(), key=lambda each: each.name):
        source = ", ".join(f"`{each.name}`" for each in known.broker_names) or "-"
        default = code(known.default_text)
        yield f"| `{known.name}` | {default} | {known.valid} | {source} | {known.doc} |"


def render() -> str:
    """Write the page."""
    node, topic = "\n".join(node_rows()), "\n".join(topic_rows())
    return f"{INTRODUCTION}\n## Of a node\n\n{node}\n\n## Of a topic\n\n{topic}\n"


def main() -> int:
    """Rewrite the page, or only compare it."""
    parser = argparse.ArgumentParser(description="Write docs/tables/settings.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to look at")
    arguments = parser.parse_args()
    path = arguments.root / "docs" / "tables" / "settings.md"
    fresh = render()
    if arguments.check:
        current = path.exists() and path.read_text(encoding="utf-8") == fresh
        if not current:
            print("docs/tables/settings.md is not up to date", file=sys.stderr)
        return int(not current)
    path.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
